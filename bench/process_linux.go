package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// userHZ is the number of clock ticks in a second, the unit of times in /proc. It is the
// same on every architecture that Go runs on (proc_pid_stat(5), sysconf(3)).
const userHZ = 100

// processTime is the processor time that a process has used so far: utime and stime, fields
// 14 and 15 of /proc/PID/stat.
func processTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(text)
}

func parseStat(text []byte) (time.Duration, error) {
	// The second field is the program's name in parentheses. The name may contain any
	// bytes, so the last parenthesis ends it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("bench: /proc/PID/stat has %d fields after the name", len(fields))
	}
	ticks := int64(0)
	for _, f := range fields[utime : stime+1] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("bench: /proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / userHZ), nil
}

// residentMemory is the resident memory of a process in bytes: the second field of
// /proc/PID/statm, which is in pages.
func residentMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, fmt.Errorf("bench: /proc/PID/statm: %w", err)
	}
	return resident * int64(os.Getpagesize()), nil
}

// nap sleeps for a time that may be shorter than time.Sleep allows: an idle Go program
// waits for its timers in epoll, in whole milliseconds.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early, which does no harm
}

// peakMemory is the largest resident memory that a process has had, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	var kib int64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, fmt.Errorf("bench: /proc/PID/status: %w", err)
	}
	return kib << 10, nil
}
