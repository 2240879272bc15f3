package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is how much memory this process may use, in bytes: the least of
// what the machine has and what its control groups allow. 0 is unknown.
func memoryLimit() int64 {
	least := int64(0)
	consider := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		consider(memInfo(info, "MemTotal:"))
	}
	// Version 2 nests: each level on the path of our own group may have a limit.
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for _, dir := range groupDirs(string(own), "memory") {
			for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
				if v, err := os.ReadFile(dir + "/" + file); err == nil {
					consider(groupLimit(v))
				}
			}
		}
	}
	return least
}

// memoryAvailable is how much of it is free now, or could be freed, on the
// machine; 0 is unknown.
func memoryAvailable() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return memInfo(info, "MemAvailable:")
}

// enough refuses weights that do not fit into what is free. The KV cache is
// taken bit by bit, so it may count on memory that comes free later.
func enough(weights, available, limit int64) error {
	if limit > 0 {
		available = min(available, limit)
	}
	if available > 0 && weights > available {
		return fmt.Errorf("the weights take %s in memory and %s are available: free some, or choose a smaller type with --quantization", inUnits(weights), inUnits(available))
	}
	return nil
}

// memInfo reads a field of /proc/meminfo.
func memInfo(info []byte, name string) int64 {
	for line := range bytes.Lines(info) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == name && string(f[2]) == "kB" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// processorLimit is how many processors' time the control groups of this
// process allow, rounded down but to 1 at least; 0 is no limit. Go's own default
// for GOMAXPROCS rounds up and stops at 2, which suits goroutines that wait now
// and then.
func processorLimit() int {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := 0
	for _, dir := range groupDirs(string(own), "cpu") {
		quota, err := os.ReadFile(dir + "/cpu.max")
		if err != nil { // version 1 has two files
			q, _ := os.ReadFile(dir + "/cpu.cfs_quota_us")
			p, _ := os.ReadFile(dir + "/cpu.cfs_period_us")
			quota = slices.Concat(q, []byte(" "), p)
		}
		if n := wholeProcessors(string(quota)); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// wholeProcessors reads a quota and a period, as cpu.max has them; 0 is none.
func wholeProcessors(s string) int {
	f := strings.Fields(s)
	if len(f) != 2 {
		return 0
	}
	quota, err1 := strconv.ParseInt(f[0], 10, 64)
	period, err2 := strconv.ParseInt(f[1], 10, 64)
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return int(max(1, quota/period))
}

// groupDirs lists the directories of our control groups for a controller, given
// /proc/self/cgroup. Inside a container the path in that file may not exist,
// and the container's own group is the mount itself.
func groupDirs(own, controller string) []string {
	var dirs []string
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "" && !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		root := "/sys/fs/cgroup"
		if f[1] != "" {
			root += "/" + controller
		}
		for path := f[2]; ; path = path[:strings.LastIndexByte(path, '/')] {
			path = strings.TrimRight(path, "/")
			dirs = append(dirs, root+path)
			if path == "" {
				break
			}
		}
	}
	return dirs
}

// groupLimit reads a limit file; "max" and absurdly large numbers are none.
func groupLimit(v []byte) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
