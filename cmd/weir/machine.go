package main

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is how many bytes of memory this process may use: the least of what
// the machine has and what its control groups allow. 0 means unknown.
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
	for _, dir := range ownGroups("memory") {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} { // versions 2 and 1
			if v, err := os.ReadFile(dir + "/" + file); err == nil {
				consider(groupLimit(v))
			}
		}
	}
	return least
}

// memoryAvailable is how many bytes of the machine's memory are free now, or could
// be freed. 0 means unknown.
func memoryAvailable() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return memInfo(info, "MemAvailable:")
}

// memInfo reads a field of /proc/meminfo, in bytes; 0 if it is not there.
func memInfo(info []byte, name string) int64 {
	for line := range bytes.Lines(info) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == name && string(f[2]) == "kB" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// processors is how many processors Go found when the process began. An engine sets GOMAXPROCS
// to one more than it computes with, and that one is not there for other work.
var processors = runtime.GOMAXPROCS(0)

// processorLimit is how many processors' time the control groups of this process
// allow, rounded down to whole processors but at least 1. 0 means no limit. Go's own
// default for GOMAXPROCS rounds up and never goes below 2. That suits goroutines that
// wait now and then, but not threads that compute all the time.
func processorLimit() int {
	least := 0
	for _, dir := range ownGroups("cpu") {
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

// wholeProcessors reads a quota and a period as they stand in cpu.max. 0 means that
// there is no limit.
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

// ownGroups lists the directories of this process's control groups for a controller.
// Every group on the path from the process's own to the root may set a limit.
func ownGroups(controller string) []string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return groupDirs(string(own), controller)
}

// groupDirs lists the directories of control groups for a controller, given the
// text of /proc/self/cgroup. Inside a container the path in that file may not exist;
// then the container's own group is the root of the mounted file system, which is
// always in the list.
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

// groupLimit reads the number in a limit file. 0 means no limit, which the files
// express by "max" or by an absurdly large number.
func groupLimit(v []byte) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
