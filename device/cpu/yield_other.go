//go:build !linux

package cpu

import "runtime"

// yieldThread lets other goroutines have this processor: the nearest thing
// where the system call is out of reach.
func yieldThread() { runtime.Gosched() }
