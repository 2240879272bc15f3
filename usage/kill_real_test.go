package usage

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const killEnv = "WEIR_TEST_USAGE_KILL"

// TestKilledChild is the process that TestKill kills: it says what it has added
// (A) and what was written (W), and goes on until it is killed.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		t.Skip("only as a child of TestKill")
	}
	cfg := DefaultConfig()
	cfg.Dir = dir
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; ; i++ {
		fmt.Printf("A %d\n", i)
		l.Add("team/killed", Counts{1, 10, 0, 100})
		if i%3 == 0 {
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("W %d\n", i)
		}
		if i%1000 == 0 {
			l.book.Lock()
			l.book.file.compact = 1 // dies in the middle of replacing, too
			l.book.Unlock()
		}
	}
}

// TestKill: kill -9 at any moment loses nothing that was written, and leaves a
// file that others read and go on with.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	written, added := 0, 0 // by all children; their last additions may or may not be there
	mine := 0
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		rounds = n
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		w, a, stop := 0, 0, 500+731*round%6000
		for lines.Scan() {
			kind, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				continue // the test framework's
			}
			if kind == "W" {
				w = n
			} else {
				a = n
			}
			if a == stop { // what it has said is read from the pipe to the end
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if a%100 == 0 && kind == "A" {
				l.Add("team/mine", Counts{Requests: 1})
				mine++
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // killed
		if a < stop {
			t.Fatalf("the child ended after %d additions", a)
		}
		written += w
		added += a
		got := totalsOf(t, l)
		c := got["team/killed"]
		if n := int(c.Requests); n < written || n > added || c.Prompt != 10*c.Requests || c.Completion != 100*c.Requests {
			t.Fatalf("round %d: %+v, want %d to %d requests", round, c, written, added)
		}
		if int(got["team/mine"].Requests) != mine {
			t.Fatalf("round %d: %+v, want %d", round, got["team/mine"], mine)
		}
		want(t, open(t, dir, nil), got)
		written, added = int(c.Requests), int(c.Requests)
	}
}

// Somebody who holds the lock and does not go on keeps nobody else.
func TestStuckSharer(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	l.Add("t/1", Counts{Requests: 1})
	want(t, l, map[string]Counts{"t/1": {Requests: 1}})
	stuck, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if err := lockFile(stuck); err != nil {
		t.Fatal(err)
	}
	l.Add("t/1", Counts{Requests: 1})
	if projects, _, err := l.Totals(); err == nil || len(projects) != 1 || projects[0].Requests != 2 {
		t.Errorf("%v, %v", projects, err)
	}
	if err := unlockFile(stuck); err != nil {
		t.Fatal(err)
	}
	want(t, l, map[string]Counts{"t/1": {Requests: 2}})
	want(t, open(t, dir, nil), map[string]Counts{"t/1": {Requests: 2}})
}
