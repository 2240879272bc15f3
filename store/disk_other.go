//go:build !unix

package store

import (
	"math"
	"os"
)

// On other systems the free space is unknown, and directories are not synced.

func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

func mapFile(path string) (b []byte, done func(), err error) {
	b, err = os.ReadFile(path)
	return b, func() {}, err
}

func syncDir(string) error { return nil }

func allocated(info os.FileInfo) int64 { return info.Size() }

// locksDir says that lockDir takes the lock. Here badger does.
const locksDir = false

func lockDir(string) (unlock func(), err error) { return func() {}, nil }
