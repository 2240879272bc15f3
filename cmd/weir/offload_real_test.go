package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit"
)

// longQuestion is a chat whose prompt begins like others and is some hundreds of tokens long.
func longQuestion(n int) string {
	system := strings.Repeat("You are a helpful assistant. Answer in one short sentence and be polite to everybody who asks. ", 4+n%3)
	return fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":"What is %d plus %d?"}],"temperature":0,"max_tokens":12,"logprobs":true,"top_logprobs":3}`, system, n, n/2)
}

// givenAnswer is what an answer says, with its log-probabilities, and how many tokens of the prompt were cached.
func givenAnswer(t *testing.T, text string) (said string, cached int) {
	t.Helper()
	var a transferred
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Error(err, text)
	}
	return string(a.Choices), a.Usage.Details.Cached
}

// copiesIn are the files of copies in a folder.
func copiesIn(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != dir {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKillOffload kills a whole server with SIGKILL while it answers chats and writes copies of its prefix cache, over and over, and turns bits of files
// between. Every answer, with all its log-probabilities, is what a server without copies answers, and prefixes are found after a crash.
func TestKillOffload(t *testing.T) {
	t.Parallel()
	const questions = 6
	plain := startProcess(t, nil, "--device", "cpu")
	var want [questions]string
	for i := range want {
		code, text := post(t, plain.url, longQuestion(i))
		if want[i], _ = givenAnswer(t, text); code != 200 {
			t.Fatal(code, text)
		}
	}
	plain.kill()
	k := offloadKill{t: t, dir: filepath.Join(t.TempDir(), "copies"), rand: rand.New(rand.NewPCG(3, 4)), want: want[:]}
	k.args = []string{"--device", "cpu", "--kv-offload-dir", k.dir, "--kv-offload-size", "64MiB"}
	for range testkit.CrashRounds(4) {
		k.round()
		k.damage()
	}
	k.check()
}

// offloadKill is a server that is killed while it keeps copies of its prefix cache, and what it has to answer.
type offloadKill struct {
	t    *testing.T
	dir  string
	args []string
	rand *rand.Rand
	want []string // by question
}

// round asks all questions at a time and kills the server while it answers them.
func (k *offloadKill) round() {
	p := startProcess(k.t, nil, k.args...)
	var asking sync.WaitGroup
	first := make(chan struct{}, len(k.want))
	for i := range k.want {
		asking.Go(func() { k.ask(p, i, first) })
		if i == 0 || i == len(k.want)-1 {
			<-first // after the first, so that the others may find its prefix; and then it is killed while some are answered
		}
	}
	time.Sleep(time.Duration(k.rand.IntN(30)) * time.Millisecond)
	p.kill()
	asking.Wait()
}

// ask asks a question of a server that may be killed before it has answered.
func (k *offloadKill) ask(p *process, i int, first chan<- struct{}) {
	resp, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(longQuestion(i)))
	first <- struct{}{}
	if err != nil {
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return
	}
	if said, _ := givenAnswer(k.t, string(text)); said != k.want[i] {
		k.t.Errorf("question %d was answered %s, not %s", i, said, k.want[i])
	}
}

// damage turns a bit of some files.
func (k *offloadKill) damage() {
	for _, path := range copiesIn(k.t, k.dir) {
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 || k.rand.IntN(6) > 0 {
			continue
		}
		b[k.rand.IntN(len(b))] ^= 1 << k.rand.IntN(8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			k.t.Fatal(err)
		}
	}
}

// check starts the server once more, which answers as ever and brings something back, and a second one on its folder, which does not start.
func (k *offloadKill) check() {
	t := k.t
	p := startProcess(t, nil, k.args...)
	second := startUnready(t, nil, k.args...)
	if err := <-second.ended; err == nil || !strings.Contains(second.log.String(), "another server uses this folder") {
		t.Errorf("a second server on the folder: %v\n%s", err, second.log)
	}
	for i := range k.want {
		code, text := post(t, p.url, longQuestion(i))
		if said, _ := givenAnswer(t, text); code != 200 || said != k.want[i] {
			t.Errorf("after all: question %d was answered %s, not %s", i, said, k.want[i])
		}
	}
	_, series, _ := do(t, http.DefaultClient, "GET", p.url+"/metrics", "")
	if !strings.Contains(series, "weir:kv_offload_disk_files ") || !strings.Contains(series, `weir:kv_offload_copies_total{`) {
		t.Error("there are no series of copies")
	}
	if strings.Contains(series, "vllm:external_prefix_cache_hits_total{engine=\"0\",model_name=\"weir-tiny\"} 0\n") || len(copiesIn(t, k.dir)) == 0 {
		t.Error("nothing was kept over a crash")
	}
	p.kill()
}

// TestResetOffload: what /reset_prefix_cache and an erasure remove is gone from the disk, too (docs/interface/chat-completions.md, section 14).
func TestResetOffload(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copies")
	p := startProcess(t, nil, "--device", "cpu", "--dev-mode", "--kv-offload-dir", dir, "--data-dir", filepath.Join(t.TempDir(), "data"), "--min-free-disk", "0")
	for _, c := range [][3]string{
		{"/reset_prefix_cache", "", `{"success":true}`},
		{"/feedback/erase", `{"project_id":"acme/support","confirm":"acme/support","before":"2100-01-01T00:00:00Z"}`, `"dry_run":false`},
	} {
		if code, text := post(t, p.url, longQuestion(1)); code != 200 {
			t.Fatal(text)
		}
		for end := time.Now().Add(time.Minute); len(copiesIn(t, dir)) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing was written")
			}
		}
		if code, text := whenOpen(t, "POST", p.url+c[0], c[1]); code != 200 || !strings.Contains(text, c[2]) {
			t.Errorf("%s: %d %s", c[0], code, text)
		}
		// What was being computed may be written afterwards, but nothing is.
		if left := copiesIn(t, dir); len(left) > 0 {
			t.Errorf("%s leaves %v", c[0], left)
		}
		_, text := post(t, p.url, longQuestion(1))
		if _, cached := givenAnswer(t, text); cached > 0 {
			t.Errorf("after %s %d tokens are cached", c[0], cached)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "secret")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	p.kill()
}

// TestOffloadOptions: copies that would be of no use are refused.
func TestOffloadOptions(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"--device sim --kv-offload-dir " + dir:                                 "the simulated device has no keys and values",
		"--device cpu --kv-offload-memory 1GiB":                                "raise --kv-cache-memory",
		"--device cpu --no-enable-prefix-caching --kv-offload-dir " + dir:      "--no-enable-prefix-caching turns off",
		"--device cpu --kv-offload-dir " + filepath.Join(os.Args[0], "folder"): "--kv-offload-dir: ",
	} {
		p := startUnready(t, nil, strings.Fields(args)...)
		if err := <-p.ended; err == nil || !strings.Contains(p.log.String(), want) {
			t.Errorf("%s: %v\n%s", args, err, p.log)
		}
	}
}
