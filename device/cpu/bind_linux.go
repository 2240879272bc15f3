package cpu

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// machine is what the system reports of the processors that this process may use; it is
// empty if the system reports nothing.
func machine() topology {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return topology{}
	}
	var allowed []int
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			allowed = append(allowed, c)
		}
	}
	return readTopology(os.DirFS("/sys/devices/system"), allowed)
}

// bindThread ties the calling goroutine to its thread and the thread to the
// processors, if there are any. undo, called by the same goroutine, undoes both.
func bindThread(cpus []int) (undo func(), err error) {
	if cpus == nil {
		return func() {}, nil
	}
	runtime.LockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return runtime.UnlockOSThread, fmt.Errorf("cpu: read the processors of a thread: %w", err)
	}
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return runtime.UnlockOSThread, fmt.Errorf("cpu: bind a thread to processors %v: %w", cpus, err)
	}
	return func() {
		// A thread that cannot get its processors back stays locked, so that no other
		// goroutine runs on it.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
