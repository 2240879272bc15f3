//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package usage

import (
	"os"
	"time"
)

// Without flock a directory is for one process: a second one could replace the file while
// the first one appends to it.

func lockFile(*os.File, time.Duration) error { return nil }
func unlockFile(*os.File) error              { return nil }
