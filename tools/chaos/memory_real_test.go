package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// buildWeir builds the server for a test.
func buildWeir(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the highest memory of a process is read as Linux tells it")
	}
	readSources(t)
	weir := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.Command("go", "build", "-o", weir, "weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("building weir: %v\n%s", err, out)
	}
	return weir
}

// readSources lists the folders of the repository, so that go test sees that the result depends
// on them: it keeps the result of a test until a file or folder changes that the test has
// opened, and does not know of what a compiler opens for it.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() && name != ".." && (strings.HasPrefix(name, ".") || name == "build") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// limited is a server whose requests may hold so many MiB. Its steps take no time.
type limited struct {
	*server
	t     *testing.T
	bound int64 // bytes that it may hold as a whole
}

func startLimited(t *testing.T, weir string, mib int64) *limited {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{dir: t.TempDir(), ended: make(chan error, 1)}
	s.cmd = exec.CommandContext(ctx, weir, "serve", "--port", "0", "--data-dir", "", "--device", "sim",
		"--kv-cache-memory", "64MiB", "--memory-limit", fmt.Sprintf("%dMiB", mib))
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go s.watch(bufio.NewScanner(log), ready)
	t.Cleanup(func() {
		s.stop()
		cancel()
	})
	select {
	case <-ready:
	case err := <-s.ended:
		s.ended <- err
		t.Fatalf("the server ended: %v\n%s", err, s.tail())
	}
	// What requests may hold, and 128 MiB for the process itself, with a quarter of garbage;
	// the program, and the KV cache.
	const own, program, kv = 128, 96, 64
	return &limited{s, t, ((mib+own)*5/4 + program + kv) << 20}
}

// within checks that the server lives and has kept within its bound so far.
func (l *limited) within(what string) {
	l.t.Helper()
	most, _, err := l.memory()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", what, err, l.tail())
	}
	l.t.Logf("%s: at most %d MiB were resident, of %d", what, most>>20, l.bound>>20)
	if most > l.bound {
		l.t.Errorf("%s: %d MiB were resident, of %d", what, most>>20, l.bound>>20)
	}
}

// atOnce posts a body from so many clients at the same time and counts the statuses.
func (l *limited) atOnce(n int, path, body string) statuses {
	got := statuses{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			status, _, err := post(context.Background(), http.DefaultClient, "http://"+l.address+path, body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				got[err.Error()]++
			} else {
				got[fmt.Sprint(status)]++
			}
		})
	}
	all.Wait()
	return got
}

// only fails the test if a status is not among those that are allowed.
func (l *limited) only(what string, got statuses, allowed ...string) {
	l.t.Helper()
	rest := 0
	for status, n := range got {
		if !strings.Contains(strings.Join(allowed, " "), status) {
			rest += n
		}
	}
	if l.t.Logf("%s: %v", what, got); rest > 0 {
		l.t.Errorf("%s: %v, want only %v", what, got, allowed)
	}
	l.within(what)
}

// unreadBy opens connections that send a request and never read.
func (l *limited) unreadBy(n int, path, body string) (hangUp func()) {
	l.t.Helper()
	var open []net.Conn
	for range n {
		c, err := net.Dial("tcp", l.address)
		if err != nil {
			l.t.Fatal(err)
		}
		if _, err := io.WriteString(c, request(path, body)); err != nil {
			l.t.Fatal(err)
		}
		open = append(open, c)
	}
	return func() {
		for _, c := range open {
			_ = c.Close() // nothing is lost
		}
	}
}

const huge = `{"messages":[{"role":"user","content":"x"}],"max_tokens":%d,"n":%d,"logprobs":true,"top_logprobs":20,"ignore_eos":true,"stream":%t}`

// TestMemoryLimit makes the attacks on memory against servers with small limits. Whatever
// clients send, and whether they read or not, the resident memory of the process stays within
// what --memory-limit says, with the process's own part. It asserts no time.
func TestMemoryLimit(t *testing.T) {
	weir := buildWeir(t)
	piece := strings.Repeat("a", 31_000_000)
	t.Run("512 MiB", func(t *testing.T) {
		t.Parallel()
		s := startLimited(t, weir, 512)
		s.only("155 bytes that ask for 1.4 GB", s.atOnce(4, chat, fmt.Sprintf(huge, 4000, 128, false)), "400")
		s.only("31 MB in one piece to /tokenize", s.atOnce(2, "/tokenize", `{"prompt":"`+piece+`"}`), "200", "503")
		s.only("12 MB in one piece to be cut", s.atOnce(4, completions, `{"max_tokens":4,"truncate_prompt_tokens":16,"prompt":"`+piece[:12_000_000]+`"}`), "200", "503")
		s.only("8 MB of ids", s.atOnce(2, "/detokenize", `{"tokens":[`+strings.Repeat("3000,", 1_600_000)+`1]}`), "200", "503")
	})
	t.Run("128 MiB", func(t *testing.T) {
		t.Parallel()
		s := startLimited(t, weir, 128)
		s.only("31 MB that can never be prepared", s.atOnce(2, "/tokenize", `{"prompt":"`+piece+`"}`), "413")
		s.only("two answers of which one fits", s.atOnce(2, chat, fmt.Sprintf(huge, 2000, 16, false)), "200", "503")
		for _, stream := range []bool{true, false} {
			what := fmt.Sprintf("60 clients that do not read, streamed: %t", stream)
			hangUp := s.unreadBy(60, chat, fmt.Sprintf(huge, 1000, 4, stream))
			s.settle()
			s.within(what)
			hangUp()
		}
		hangUp := s.unreadBy(60, "/tokenize", `{"return_token_strs":true,"prompt":"`+piece[:3_000_000]+`"}`)
		s.settle()
		s.within("60 clients that do not read tokens")
		hangUp()
		s.only("an ordinary request afterwards", s.eventually(chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":4}`), "200")
	})
}

// settle waits until the server has computed nothing for a while, so that what clients leave
// unread is all that it holds.
func (l *limited) settle() {
	l.t.Helper()
	last, since := "", time.Now()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && time.Since(since) < 500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + l.address + "/metrics")
		if err != nil {
			l.t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read to its end
		if err != nil {
			l.t.Fatal(err)
		}
		now := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "vllm:generation_tokens_total") || strings.HasPrefix(line, "weir:memory_") {
				now += line
			}
		}
		if now != last {
			last, since = now, time.Now()
		}
	}
}

// eventually posts a body until it is not answered with 503.
func (l *limited) eventually(path, body string) statuses {
	for range 20 {
		if got := l.atOnce(1, path, body); got["503"] == 0 {
			return got
		}
		time.Sleep(100 * time.Millisecond)
	}
	return statuses{"503": 1}
}
