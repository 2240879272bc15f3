package ratelimit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
)

// A day is one of UTC. What was used is known to the next process, also if the one before was killed:
// nothing of the first limiter is closed here before the second one reads.
func TestTokensPerDay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "limits")
	for _, name := range []string{"2026-03-06", "2026-03-05", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, l := open(t, dir), auth.Limits{TokensPerDay: 1000}
	c.admit(l, 300).Done(Used{Prompt: 100, Completion: 200, Choices: 1})
	running := c.admit(l, 500)
	if after := c.refuse(l, 201, ErrDayTokens); after != 1 {
		t.Errorf("again after %v, although 500 may come back at once", after)
	}
	if after := c.refuse(l, 701, ErrDayTokens); after != 12*time.Hour {
		t.Errorf("again after %v", after)
	}
	if _, left := c.Left("k", &l); left != (Left{1000, 200, 12 * time.Hour}) {
		t.Errorf("left are %+v", left)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		file, err := os.ReadFile(filepath.Join(dir, "2026-03-07", "usage.log"))
		if err == nil && strings.Contains(string(file), "add 1 100 0 200 key/k\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the tokens are not written: %q, %v", file, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	next := open(t, dir)
	if _, left := next.Left("k", &l); left.Remaining != 700 {
		t.Errorf("after the end of the process %d are left", left.Remaining)
	}
	// The tokens of a request count for the day on which it ends, and folders of old days go.
	c.now = noon.Add(12 * time.Hour)
	running.Done(Used{Prompt: 400})
	if _, left := c.Left("k", &l); left != (Left{1000, 600, 24 * time.Hour}) {
		t.Errorf("on the next day, left are %+v", left)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 || entries[0].Name() != "2026-03-07" || entries[1].Name() != "2026-03-08" || entries[2].Name() != "notes" {
		t.Errorf("there are %v, %v", entries, err)
	}
	// The tighter one of the two limits of tokens is told.
	l.TokensPerMinute = 500
	if _, left := c.Left("k", &l); left.Limit != 500 {
		t.Errorf("left are %+v", left)
	}
	c.admit(l, 0).Done(Used{Prompt: 300})
	c.now = c.now.Add(time.Minute)
	if _, left := c.Left("k", &l); left.Limit != 1000 || left.Remaining != 300 {
		t.Errorf("left are %+v", left)
	}
}
