//go:build !linux

package cpu

import "runtime"

// yieldThread lets other goroutines have this processor, because the system call is not
// available.
func yieldThread() { runtime.Gosched() }
