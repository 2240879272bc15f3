//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errNoProc = errors.New("bench: this system has no /proc to measure a process with")

func processTime(int) (time.Duration, error) { return 0, errNoProc }

func residentMemory(int) (int64, error) { return 0, errNoProc }

func peakMemory(int) (int64, error) { return 0, errNoProc }

func nap(d time.Duration) { time.Sleep(d) }
