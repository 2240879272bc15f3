//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
)

// mountVar names a folder on which the server mounts a small file system of its own.
const mountVar = "TEST_AS_WEIR_TMPFS"

const (
	diskSize    = 224 << 20
	ballastSize = 64 << 20 // of a file that a test can remove to make space
)

func init() {
	beforeMain = func() {
		dir := os.Getenv(mountVar)
		if dir == "" {
			return
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
			fmt.Fprintln(os.Stderr, "url=no-mount msg=ready", err)
			select {}
		}
		if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, ballastSize), 0o600); err != nil {
			panic(err)
		}
	}
}

// mountFor makes a server mount its disk on a folder, where nobody else sees it.
func mountFor(cmd *exec.Cmd, dir string) {
	cmd.Env = append(cmd.Env, mountVar+"="+dir)
	testkit.MayMount(cmd)
}

// batchOf is a log request with one trajectory, whose text is random and does not
// become smaller by compression.
func batchOf(r *rand.Rand, n, size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[r.IntN(64)]
	}
	return fmt.Sprintf(`{"split":"s","trajectory_groups":[{"trajectories":[{"metadata":{"n":%d},"logs":[%q]}]}]}`, n, text)
}

// fullDisk is a server on a small disk, and what it has acknowledged.
type fullDisk struct {
	*testing.T
	*process
	items, batches int
}

// write posts a body and reports whether it was accepted. A refusal because the disk is
// full must say when to come again.
func (d *fullDisk) write(path, body string) bool {
	d.Helper()
	code, text, header := do(d.T, http.DefaultClient, "POST", d.url+path, body)
	if code == 503 && header.Get("Retry-After") == "" || code != 200 && code != 503 {
		d.Fatalf("%s: %d %s, Retry-After %q", path, code, text, header.Get("Retry-After"))
	}
	return code == 200
}

// fill writes until both databases refuse.
func (d *fullDisk) fill() {
	d.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for d.write("/v1/preview/models/agent/log", batchOf(r, 0, 4<<20)) {
		if d.batches++; d.batches > 60 {
			d.Fatal("the disk does not get full")
		}
	}
	for d.write("/feedback/create", numberedItem(d.items)) {
		if d.items++; d.items > 100_000 {
			d.Fatal("the disk does not get full")
		}
	}
	d.Logf("full after %d batches and %d items", d.batches, d.items)
}

// check reads everything back, and chats.
func (d *fullDisk) check(when string) {
	d.Helper()
	if _, text, _ := do(d.T, http.DefaultClient, "POST", d.url+"/feedback/query", `{"project_id":"acme/support","fields":["count(*)"]}`); !strings.Contains(text, fmt.Sprintf(`{"count(*)":%d}`, d.items)) {
		d.Errorf("%s: feedback: %s, want %d", when, text, d.items)
	}
	if code, text, _ := do(d.T, http.DefaultClient, "GET", d.url+"/v1/preview/models/agent/export", ""); code != 200 || strings.Count(text, "\n") != d.batches {
		d.Errorf("%s: trajectories: %d, %d lines, want %d", when, code, strings.Count(text, "\n"), d.batches)
	}
	if code, text := post(d.T, d.url, question); code != 200 {
		d.Errorf("%s: chat: %d %s", when, code, text)
	}
}

// deleteBatch deletes one batch.
func (d *fullDisk) deleteBatch() {
	d.Helper()
	var logs struct{ Data []struct{ ID string } }
	_, text, _ := do(d.T, http.DefaultClient, "GET", d.url+"/v1/preview/models/agent/logs?limit=1", "")
	if err := json.Unmarshal([]byte(text), &logs); err != nil || len(logs.Data) != 1 {
		d.Fatal(text)
	}
	if code, text, _ := do(d.T, http.DefaultClient, "DELETE", d.url+"/v1/preview/models/agent/logs/"+logs.Data[0].ID, ""); code != 200 {
		d.Errorf("deleting: %d %s", code, text)
	}
	d.batches--
}

// TestServeFullDisk: on a disk that is really full, writes are refused with 503 and when
// to come again, nothing that was acknowledged is lost, reads, deletions and chat go on,
// and writes succeed as soon as there is space again (docs/interface/feedback.md, section
// 11.2; docs/interface/trajectories.md, section 12.3).
func TestServeFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &fullDisk{T: t}
	d.process = startProcess(t, func(cmd *exec.Cmd) { mountFor(cmd, dir) }, "--data-dir", filepath.Join(dir, "data"), "--min-free-disk", "96MiB")
	defer d.kill()
	if d.url == "no-mount" {
		t.Skip("no file system can be mounted here")
	}
	// Both databases are open before the disk gets full.
	send(t, d.url+"/feedback/create", numberedItem(0))
	send(t, d.url+"/v1/preview/models/agent/log", `{"split":"s","trajectory_groups":[]}`)
	d.items = 1
	d.fill()
	d.check("full")
	d.deleteBatch()
	d.check("one batch deleted")
	if err := os.Remove(fmt.Sprintf("/proc/%d/root%s/ballast", d.cmd.Process.Pid, dir)); err != nil {
		t.Skip("the ballast cannot be reached: ", err)
	}
	for end := time.Now().Add(20 * time.Second); !d.write("/feedback/create", numberedItem(d.items)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("there is space, and nothing is written")
		}
	}
	d.items++
	if d.write("/v1/preview/models/agent/log", emptyTrajectory) {
		d.batches++
	} else {
		t.Error("there is space, and no trajectory is written")
	}
	d.check("space again")
}

// flipBit changes one byte in the first file that matches and contains text. Without a
// text it changes a byte in the middle of the file's contents.
func flipBit(t *testing.T, pattern, text string) {
	t.Helper()
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, []byte(text))
		if text == "" {
			if at = writtenBytes(b) / 2; at < 1000 {
				continue
			}
		}
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[at] ^ 0x20}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in none of %v", text, names)
}

// writtenBytes is the length of b without the zeros at its end. Files of the databases
// are created with their largest size.
func writtenBytes(b []byte) int {
	zeros := make([]byte, 64<<10)
	for len(b) >= len(zeros) && bytes.Equal(b[len(b)-len(zeros):], zeros) {
		b = b[:len(b)-len(zeros)]
	}
	return len(bytes.TrimRight(b, "\x00"))
}

// TestServeDamage: a byte in a log of each database goes bad. Feedback, which has lost a
// record, is 503 with the reason, and so is /ready; /health and chat go on. After weir store
// repair everything else is there and can be added to. A list that needs a damaged value of a
// trajectory is 503 and names its batch; the others are there when that has been deleted.
func TestServeDamage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", dir, "--min-free-disk", "0"}
	p := startProcess(t, nil, args...)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 30 {
		send(t, p.url+"/feedback/create", numberedItem(i))
	}
	for i := range 5 {
		send(t, p.url+"/v1/preview/models/agent/log", batchOf(r, i, 300_000))
	}
	p.kill()
	flipBit(t, filepath.Join(dir, "feedback", "*.mem"), "needle15needle")
	flipBit(t, filepath.Join(dir, "trajectories", "*.vlog"), "")
	p = startProcess(t, nil, args...)
	checkDamagedTrajectories(t, p)
	checkRefused(t, p)
	p.kill()
	if code, out, errOut := runStore("repair", "--data-dir", dir); code != 0 || !strings.Contains(out, "feedback: repaired, ") || !strings.Contains(out, "may be lost") {
		t.Fatalf("repair: %d %s %s", code, out, errOut)
	}
	p = startProcess(t, nil, args...)
	defer p.kill()
	checkDamagedFeedback(t, p)
	send(t, p.url+"/feedback/create", numberedItem(30))
	send(t, p.url+"/v1/preview/models/agent/log", emptyTrajectory)
	if code, text, _ := do(t, http.DefaultClient, "GET", p.url+"/ready", ""); code != 200 {
		t.Errorf("/ready after the repair: %d %s", code, text)
	}
}

// checkRefused: the database of feedback is not opened, and everything that asks for it
// is told why.
func checkRefused(t *testing.T, p *process) {
	t.Helper()
	const reason = "missing or damaged"
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		code, text, _ := do(t, http.DefaultClient, "POST", p.url+"/feedback/export", `{"project_id":"acme/support"}`)
		if code == 503 && strings.Contains(text, reason) {
			break
		}
		if code == 200 || time.Now().After(end) {
			t.Fatalf("a query: %d %s", code, text)
		}
	}
	for path, want := range map[string]int{"/ready": 503, "/health": 200} {
		if code, text, _ := do(t, http.DefaultClient, "GET", p.url+path, ""); code != want || want == 503 && !strings.Contains(text, reason) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// checkDamagedFeedback: all of 30 items are there but number 15.
func checkDamagedFeedback(t *testing.T, p *process) {
	t.Helper()
	_, text := whenOpen(t, "POST", p.url+"/feedback/export", `{"project_id":"acme/support","fields":["payload.n"]}`)
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{"payload.n":(\d+)\}`).FindAllStringSubmatch(text, -1) {
		have[m[1]] = true
	}
	if len(have) != 29 || have["15"] {
		t.Errorf("%d of 30 items, the damaged one among them: %v", len(have), have["15"])
	}
}

// checkDamagedTrajectories: with a damaged batch among five, lists are 503 and name it. After
// it has been deleted, the other four are there.
func checkDamagedTrajectories(t *testing.T, p *process) {
	t.Helper()
	list := p.url + "/v1/preview/models/agent/trajectories" // without the texts, which would begin the answer
	code, text, _ := do(t, http.DefaultClient, "GET", list, "")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(text, "damaged") && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		code, text, _ = do(t, http.DefaultClient, "GET", list, "") // the store may not be open yet
	}
	id := regexp.MustCompile(`logs/([0-9a-f-]{36})`).FindStringSubmatch(text)
	if code != 503 || id == nil {
		t.Fatalf("a list with a damaged batch: %d %.200s", code, text)
	}
	if code, text, _ := do(t, http.DefaultClient, "DELETE", p.url+"/v1/preview/models/agent/logs/"+id[1], ""); code != 200 {
		t.Fatalf("deleting the damaged batch: %d %s", code, text)
	}
	code, text, _ = do(t, http.DefaultClient, "GET", list, "")
	var left struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &left); code != 200 || err != nil || len(left.Data) != 4 {
		t.Errorf("after deleting it: %d, %d batches, %v", code, len(left.Data), err)
	}
}
