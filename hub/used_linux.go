package hub

import (
	"io/fs"
	"syscall"
	"time"
)

// usedAt is when a file was read last, as far as the file system notes it, and at least when it
// was written.
func usedAt(info fs.FileInfo) time.Time {
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if read := time.Unix(s.Atim.Unix()); read.After(at) {
			at = read
		}
	}
	return at
}
