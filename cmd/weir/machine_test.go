package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestForcedTier: WEIR_CPU chooses the instructions. A tier that is not available is an
// error that names those that are.
func TestForcedTier(t *testing.T) {
	for wish, want := range map[string]struct {
		code int
		says string
	}{
		"generic":          {0, "instructions: generic (of "},
		"mmx":              {2, `environment variable WEIR_CPU: cpu: unusable: implementation "mmx" is not available here; there are `},
		"-generic,generic": {2, "leaves no implementation"},
	} {
		env := func(name string) string {
			if name == "WEIR_CPU" {
				return wish
			}
			return ""
		}
		var out bytes.Buffer
		if code := run([]string{"version"}, env, strings.NewReader(""), &out, &out); code != want.code || !strings.Contains(out.String(), want.says) {
			t.Errorf("WEIR_CPU=%s: exit %d: %s", wish, code, out.String())
		}
	}
}

// TestWholeProcessors: a quota of two and a half processors lets two threads compute
// all the time.
func TestWholeProcessors(t *testing.T) {
	for text, want := range map[string]int{"max 100000\n": 0, "250000 100000\n": 2, "50000 100000\n": 1, "-1\n 100000\n": 0, "": 0, "1 0": 0, "x y": 0, "400000\n 100000\n": 4} {
		if n := wholeProcessors(text); n != want {
			t.Errorf("%q: %d", text, n)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	if n := memInfo([]byte("MemFree:  1 kB\nMemTotal:       24576000 kB\n"), "MemTotal:"); n != 24576000<<10 {
		t.Errorf("MemTotal %d", n)
	}
	if n := memInfo(nil, "MemTotal:"); n != 0 {
		t.Errorf("without MemTotal: %d", n)
	}
	for text, want := range map[string]int64{"max\n": 0, "9223372036854771712\n": 0, "1073741824\n": 1 << 30, "": 0} {
		if n := groupLimit([]byte(text)); n != want {
			t.Errorf("%q: %d", text, n)
		}
	}
	got := strings.Join(groupDirs("0::/a/b\n5:memory:/c\n3:cpu:/x\nbroken\n", "memory"), " ")
	if want := "/sys/fs/cgroup/a/b /sys/fs/cgroup/a /sys/fs/cgroup /sys/fs/cgroup/memory/c /sys/fs/cgroup/memory"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = strings.Join(groupDirs("3:cpu,cpuacct:/x\n4:cpuset:/y\n", "cpu"), " ")
	if want := "/sys/fs/cgroup/cpu/x /sys/fs/cgroup/cpu"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if runtime.GOOS == "linux" && memoryLimit() < 1<<20 {
		t.Errorf("this machine has %d bytes", memoryLimit())
	}
}

// TestMemoryAvailable: what is available is a part of what there is.
func TestMemoryAvailable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("read from /proc")
	}
	if n := memoryAvailable(); n < 1<<20 || n > memInfoTotal(t) {
		t.Errorf("%d bytes are available", n)
	}
}

func memInfoTotal(t *testing.T) int64 {
	t.Helper()
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	return memInfo(info, "MemTotal:")
}
