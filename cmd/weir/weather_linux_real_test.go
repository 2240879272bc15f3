//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
)

// mountVar names a folder that is a small file system for this process alone.
const mountVar = "TEST_AS_WEIR_TMPFS"

func init() {
	beforeMain = func() {
		dir := os.Getenv(mountVar)
		if dir == "" {
			return
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=320m"); err != nil {
			fmt.Fprintln(os.Stderr, "url=no-mount msg=ready", err)
			select {}
		}
		if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 64<<20), 0o600); err != nil {
			panic(err)
		}
	}
}

// do sends a request and returns the status, the answer and Retry-After.
func do(t *testing.T, method, url, body string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header.Get("Retry-After")
}

func noted(n int, id string) string {
	return strings.Replace(fmt.Sprintf(crashItem, "1", "custom", fmt.Sprintf(`{"n":%d,"text":"needle%dneedle"}`, n, n), id, ""), `,"feedback_id":""`, "", 1)
}

// noise does not get smaller.
func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[r.IntN(64)]
	}
	return string(b)
}

// A disk that is really full: writes get 503 and when to come again, nothing that
// was acknowledged is lost, reads, deletions and chat go on, and so do writes when
// there is space again (spec feedback 11.2, trajectories 12.3).
func TestServeFullDisk(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, mountVar+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}, "--data-dir", filepath.Join(dir, "data"), "--min-free-disk", "96MiB")
	defer p.kill()
	if p.url == "no-mount" {
		t.Skip("no file system can be mounted here")
	}
	send(t, p.url+"/feedback/create", noted(0, ""))
	send(t, p.url+"/v1/preview/models/agent/log", `{"split":"s","trajectory_groups":[]}`) // opened
	items, batches := 1, 0
	r := rand.New(rand.NewPCG(1, 1))
	full := func(path, body string) bool {
		t.Helper()
		code, text, retry := do(t, "POST", p.url+path, body)
		if code == 503 && retry == "" || code != 200 && code != 503 {
			t.Fatalf("%s: %d %s, Retry-After %q", path, code, text, retry)
		}
		return code == 503
	}
	for !full("/v1/preview/models/agent/log", `{"split":"s","trajectory_groups":[{"trajectories":[{"logs":["`+noise(r, 4<<20)+`"]}]}]}`) {
		if batches++; batches > 60 {
			t.Fatal("the disk does not get full")
		}
	}
	for !full("/feedback/create", noted(items, "")) {
		if items++; items > 100_000 {
			t.Fatal("the disk does not get full")
		}
	}
	t.Logf("full after %d batches and %d items", batches, items)
	check := func(when string) {
		t.Helper()
		if _, text, _ := do(t, "POST", p.url+"/feedback/query", `{"project_id":"acme/support","fields":["count(*)"]}`); !strings.Contains(text, fmt.Sprintf(`{"count(*)":%d}`, items)) {
			t.Errorf("%s: feedback: %s, want %d", when, text, items)
		}
		if code, text, _ := do(t, "GET", p.url+"/v1/preview/models/agent/export", ""); code != 200 || strings.Count(text, "\n") != batches {
			t.Errorf("%s: trajectories: %d, %d lines, want %d", when, code, strings.Count(text, "\n"), batches)
		}
		if code, text := post(t, p.url, question); code != 200 {
			t.Errorf("%s: chat: %d %s", when, code, text)
		}
	}
	check("full")
	var logs struct {
		Data []struct{ ID string }
	}
	_, text, _ := do(t, "GET", p.url+"/v1/preview/models/agent/logs?limit=1", "")
	if err := json.Unmarshal([]byte(text), &logs); err != nil || len(logs.Data) != 1 {
		t.Fatal(text)
	}
	if code, text, _ := do(t, "DELETE", p.url+"/v1/preview/models/agent/logs/"+logs.Data[0].ID, ""); code != 200 {
		t.Errorf("deleting: %d %s", code, text)
	}
	batches--
	check("one deleted")
	if err := os.Remove(fmt.Sprintf("/proc/%d/root%s/ballast", p.cmd.Process.Pid, dir)); err != nil {
		t.Skip("the ballast cannot be reached: ", err)
	}
	for end := time.Now().Add(20 * time.Second); full("/feedback/create", noted(items, "")); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("there is space, and nothing is written")
		}
	}
	items++
	if full("/v1/preview/models/agent/log", `{"split":"s","trajectory_groups":[{"trajectories":[{}]}]}`) {
		t.Error("there is space, and no trajectory is written")
	} else {
		batches++
	}
	check("space again")
}

// flip changes a byte of the files that match: the first of text, or where that is ""
// one in the middle of what is not zero.
func flip(t *testing.T, pattern, text string) {
	t.Helper()
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, []byte(text))
		if text == "" {
			if at = len(bytes.TrimRight(b, "\x00")) / 2; at < 1000 {
				continue
			}
		}
		if at < 0 {
			continue
		}
		b[at] ^= 0x20
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in none of %v", text, names)
}

// A byte of a log goes bad: at the start it is reported, what it hit is gone or said to
// be damaged, and everything else is there.
func TestServeDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", dir, "--min-free-disk", "0"}
	p := startProcess(t, nil, args...)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 30 {
		send(t, p.url+"/feedback/create", noted(i, ""))
	}
	for i := range 5 {
		send(t, p.url+"/v1/preview/models/agent/log", fmt.Sprintf(`{"split":"s","trajectory_groups":[{"trajectories":[{"metadata":{"n":%d},"logs":[%q]}]}]}`, i, noise(r, 300_000)))
	}
	p.kill()
	flip(t, filepath.Join(dir, "feedback", "*.mem"), "needle15needle")
	flip(t, filepath.Join(dir, "trajectories", "*.vlog"), "")
	p = startProcess(t, nil, args...)
	defer p.kill()
	have := map[int]bool{}
	code, text := 503, ""
	for code == 503 {
		code, text, _ = do(t, "POST", p.url+"/feedback/export", `{"project_id":"acme/support","fields":["payload.n"]}`)
	}
	for _, m := range regexp.MustCompile(`\{"payload.n":(\d+)\}`).FindAllStringSubmatch(text, -1) {
		var n int
		fmt.Sscan(m[1], &n)
		have[n] = true
	}
	if len(have) != 29 || have[15] {
		t.Errorf("%d of 30 items, the damaged one among them: %v", len(have), have[15])
	}
	var list struct {
		Data []struct {
			Error      string
			Trajectory struct{ Metadata struct{ N int } }
		}
	}
	code, text = 503, ""
	for code == 503 {
		code, text, _ = do(t, "GET", p.url+"/v1/preview/models/agent/trajectories?include=raw", "")
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v %.200s", err, text)
	}
	whole, bad := 0, 0
	for _, e := range list.Data {
		if e.Error != "" {
			bad++
		} else {
			whole++
		}
	}
	if whole != 4 || whole+bad < 4 {
		t.Errorf("%d batches are whole, %d damaged", whole, bad)
	}
	for _, name := range []string{"feedback", "trajectories"} {
		if !regexp.MustCompile(`level=ERROR msg="a log of the store is damaged" dir=\S*` + name).MatchString(p.log.String()) {
			t.Errorf("the log of %s is not reported: %s", name, p.log)
		}
	}
	if code, out, errOut := storeTool("verify", "--data-dir", dir); code != 1 || strings.Count(out, "a log was damaged") != 2 {
		t.Errorf("verify: %d %s %s", code, out, errOut)
	}
	// What is whole can be written to.
	send(t, p.url+"/feedback/create", noted(30, ""))
	send(t, p.url+"/v1/preview/models/agent/log", `{"split":"s","trajectory_groups":[{"trajectories":[{}]}]}`)
}
