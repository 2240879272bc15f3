//go:build !linux

package cpu

import "runtime"

// yield lets other goroutines have this processor.
func yield() { runtime.Gosched() }
