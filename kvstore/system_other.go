//go:build !unix

package kvstore

import (
	"io/fs"
	"os"
)

// lockFile does nothing: of two servers that use a folder each may remove files that the other one finds missing then.
func lockFile(*os.File) error { return nil }

// freeBytes is not known: a full disk is an error of writing.
func freeBytes(string) (int64, error) { return -1, nil }

// exposed is not known from a mode.
func exposed(fs.FileMode) bool { return false }
