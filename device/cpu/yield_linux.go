package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// yield lets others have this processor: goroutines first, then threads. Without
// the second, a worker whose thread the system has taken off its processor
// waits for as long as somebody spins on another.
func yield() {
	runtime.Gosched()
	_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
