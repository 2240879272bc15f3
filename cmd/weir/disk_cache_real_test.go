//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRepackCacheFullDisk: a server whose --repack-cache is on a disk with too little room serves
// without it, says so in the log, and leaves no file.
func TestRepackCacheFullDisk(t *testing.T) {
	t.Parallel()
	dir, disk := copyModel(t), t.TempDir()
	p := startProcess(t, func(cmd *exec.Cmd) { mountFor(cmd, disk) },
		"--device", "cpu", "--data-dir", "", "--quantization", "q4", "--repack-cache", filepath.Join(disk, "cache"), dir)
	defer p.kill()
	if p.url == "no-mount" {
		t.Skip("no file system can be mounted here")
	}
	if log := p.log.find(t, `(msg="packed weights are not kept for the next start" error="they take \d+ MiB, and \S+ has \d+ MiB free")`, p.ended); log == "" {
		t.Error(p.log)
	}
	if code, body := post(t, p.url, question); code != 200 || !strings.Contains(body, "Paris") {
		t.Errorf("%d %s", code, body)
	}
	// The disk is seen by the server alone, so it is looked at by way of its process.
	root := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "root", disk, "cache")
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
