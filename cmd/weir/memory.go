package main

import (
	"bytes"
	"os"
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
		consider(memTotal(info))
	}
	// Version 2 nests: each level on the path of our own group may have a limit.
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for _, dir := range groupDirs(string(own)) {
			for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
				if v, err := os.ReadFile(dir + "/" + file); err == nil {
					consider(groupLimit(v))
				}
			}
		}
	}
	return least
}

// memTotal reads MemTotal out of /proc/meminfo.
func memTotal(info []byte) int64 {
	for line := range bytes.Lines(info) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "MemTotal:" && string(f[2]) == "kB" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// groupDirs lists the directories of our control groups, given
// /proc/self/cgroup. Inside a container the path in that file may not exist,
// and the container's own group is the mount itself.
func groupDirs(own string) []string {
	var dirs []string
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "memory" {
			continue
		}
		root := "/sys/fs/cgroup"
		if f[1] == "memory" {
			root += "/memory"
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
