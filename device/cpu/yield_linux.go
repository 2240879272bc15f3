package cpu

import "golang.org/x/sys/unix"

// yieldThread lets another thread have this processor if one waits for it.
func yieldThread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
