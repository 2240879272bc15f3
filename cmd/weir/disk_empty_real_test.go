//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeNoSpace: with 0 bytes free on the disk, reads go on, and SIGTERM ends the server
// in order. Started again it reads, answers writes with 503, and writes as soon as there is
// space. Nothing that was acknowledged is lost (docs/interface/operations.md, section 10).
func TestServeNoSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &fullDisk{T: t}
	d.process = startProcess(t, func(cmd *exec.Cmd) { mountFor(cmd, dir) }, "--data-dir", filepath.Join(dir, "data"), "--min-free-disk", "48MiB")
	if d.url == "no-mount" {
		t.Skip("no file system can be mounted here")
	}
	// The open directory keeps the file system when the namespace of its mount is gone.
	disk, err := os.Open(fmt.Sprintf("/proc/%d/root%s", d.cmd.Process.Pid, dir))
	if err != nil {
		t.Skip("the disk cannot be reached: ", err)
	}
	defer disk.Close()
	for d.items < 200 && d.write("/feedback/create", numberedItem(d.items)) {
		d.items++
	}
	if !d.write("/v1/preview/models/agent/log", emptyTrajectory) || d.items != 200 {
		t.Fatal("the disk has space, and nothing is written")
	}
	d.batches++
	filler := filepath.Join(fmt.Sprintf("/proc/self/fd/%d", disk.Fd()), "filler")
	fillWith(t, filler)
	d.checkNoSpace("no space")
	d.terminate()

	inherit := func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{disk} } // number 3
	d.process = startProcess(t, inherit, "--data-dir", "/proc/self/fd/3/data", "--min-free-disk", "48MiB")
	whenOpen(t, "POST", d.url+"/feedback/query", `{"project_id":"acme/support","fields":["count(*)"]}`)
	whenOpen(t, "GET", d.url+"/v1/preview/models/agent/export", "")
	d.checkNoSpace("started without space")
	d.terminate()

	d.process = startProcess(t, inherit, "--data-dir", "/proc/self/fd/3/data", "--min-free-disk", "48MiB")
	whenOpen(t, "POST", d.url+"/feedback/query", `{"project_id":"acme/support","fields":["count(*)"]}`)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !d.write("/feedback/create", numberedItem(d.items)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("there is space, and nothing is written")
		}
	}
	d.items++
	whenOpen(t, "GET", d.url+"/v1/preview/models/agent/export", "")
	d.check("space again")
	d.terminate()
}

// fillWith writes a file until the disk has no byte left.
func fillWith(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &s); err != nil || s.Bavail != 0 {
		t.Fatalf("%d blocks are free, %v", s.Bavail, err)
	}
}

// checkNoSpace reads everything and tries to write.
func (d *fullDisk) checkNoSpace(when string) {
	d.Helper()
	d.check(when)
	for path, body := range map[string]string{"/feedback/create": numberedItem(1 << 20), "/v1/preview/models/agent/log": emptyTrajectory} {
		if d.write(path, body) {
			d.Errorf("%s: %s was accepted", when, path)
		}
	}
}

// terminate is SIGTERM, after which the server must end with status 0.
func (d *fullDisk) terminate() {
	d.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.Fatal(err)
	}
	select {
	case err := <-d.ended:
		if err != nil {
			d.Fatalf("after SIGTERM: %v\n%s", err, d.log)
		}
	case <-time.After(30 * time.Second):
		d.Fatal("SIGTERM does not end the server")
	}
	if text := fmt.Sprint(d.log); strings.Contains(text, "SIGBUS") || strings.Contains(text, "panic") {
		d.Error(text)
	}
}
