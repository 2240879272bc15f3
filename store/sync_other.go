//go:build !linux

package store

import (
	"errors"
	"os"
)

// syncsMaps says that a sync of a file also writes what was changed through a mapping.
// Only Linux promises that. Elsewhere badger syncs its mappings.
const syncsMaps = false

func datasync(*os.File) error { return nil }

func dataEnd(_ *os.File, size int64) int64 { return size }

func syncAccount(f *os.File) error { return f.Sync() }

func exchange(string, string) error { return errors.ErrUnsupported }
