//go:build unix

package transport

import (
	"math"

	"golang.org/x/sys/unix"
)

// openFiles returns how many files and sockets the process may have open. Go has raised the
// bound as far as the process may.
func openFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || uint64(l.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}
