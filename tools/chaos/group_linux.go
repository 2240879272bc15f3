package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// memoryGroup is a directory of the memory controller, of version 1 or 2.
type memoryGroup struct{ dir string }

// newGroup makes a control group with a bound in bytes. Its error is that of the system, which
// allows this to root alone, and in containers to nobody.
func newGroup(limit int64) (group, error) {
	var err error
	for _, kind := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		if _, err = os.Stat(filepath.Join(kind.root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(kind.root, fmt.Sprintf("weir-chaos-%d", os.Getpid()))
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		if err = os.WriteFile(filepath.Join(dir, kind.limit), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
			_ = os.Remove(dir)
			continue
		}
		return &memoryGroup{dir}, nil
	}
	return nil, fmt.Errorf("no control group: %w", err)
}

func (g *memoryGroup) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

func (g *memoryGroup) remove() { _ = os.Remove(g.dir) }

// giveWay lowers the priority of this process.
func giveWay() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) }
