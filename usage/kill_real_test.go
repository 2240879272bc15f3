package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func([]string){"count": count})
}

// count is a child with the argument directory. It prints what it is about to add, A and
// a number, and what has been written, W and a number, until it is killed.
func count(args []string) {
	cfg := DefaultConfig()
	cfg.Dir = args[0]
	l, err := Open(cfg)
	for i := 1; err == nil; i++ {
		fmt.Println("A", i)
		l.Add("team/killed", Counts{1, 10, 0, 100})
		if i%3 == 0 {
			if err = l.flush(); err == nil {
				fmt.Println("W", i)
			}
		}
		if i%1000 == 0 {
			compactAtNextWrite(l) // so that it dies in the middle of that, too
		}
	}
	fmt.Println("error", err)
}

// TestKill: kill -9 at any moment loses nothing that was written, and leaves a file that
// other processes can read and append to.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	written, added := 0, 0 // by all children; what the last one added after it wrote may or may not be there
	mine := 0
	for round := range testkit.CrashRounds(20) {
		w, a := 0, 0
		testkit.Crash{Role: "count", Args: []string{dir}, Lines: 400 + 731*round%3000}.Run(t, func(line string) {
			kind, number, _ := strings.Cut(line, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("the child says %q", line)
			}
			if kind == "W" {
				w = n
				return
			}
			if a = n; a%100 == 0 {
				l.Add("team/mine", Counts{Requests: 1})
				mine++
			}
		})
		added = written + a
		written += w
		got := totalsOf(t, l)
		c := got["team/killed"]
		if n := int(c.Requests); n < written || n > added || c.Prompt != 10*c.Requests || c.Completion != 100*c.Requests {
			t.Fatalf("round %d: %+v, want %d to %d requests", round, c, written, added)
		}
		if int(got["team/mine"].Requests) != mine {
			t.Fatalf("round %d: %+v, want %d", round, got["team/mine"], mine)
		}
		want(t, open(t, dir, nil), got)
		written = int(c.Requests)
	}
}

// TestStuckSharer: a process that holds the lock and does not go on delays others only as
// long as they are patient.
func TestStuckSharer(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, func(cfg *Config) { cfg.patience = 50 * time.Millisecond })
	l.Add("t/1", Counts{Requests: 1})
	want(t, l, map[string]Counts{"t/1": {Requests: 1}})
	stuck, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if err := lockFile(stuck, time.Second); err != nil {
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
