//go:build !linux

package hub

import (
	"io/fs"
	"time"
)

// usedAt is when a file was written: the time of its last use is not asked for here.
func usedAt(info fs.FileInfo) time.Time { return info.ModTime() }
