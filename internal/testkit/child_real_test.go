package testkit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main(m, map[string]func([]string){
		"count": func(args []string) {
			for i := 0; ; i++ {
				fmt.Println(args[0], i)
			}
		},
		"end":  func([]string) { fmt.Println("a\nb") },
		"fail": func([]string) { fmt.Println("a\nerror no disk"); time.Sleep(time.Hour) },
		"hang": func([]string) { fmt.Print("a\nb"); time.Sleep(time.Hour) },
	})
}

// fatal is a test that remembers why it was ended.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
}

// TestCrash: the test sees every line up to the kill, in order, and is ended if the child
// was not killed while it was working.
func TestCrash(t *testing.T) {
	var lines []string
	note := func(line string) { lines = append(lines, line) }
	Crash{Role: "count", Args: []string{"line"}, Lines: 50, After: time.Millisecond}.Run(t, note)
	if len(lines) < 50 {
		t.Errorf("%d lines", len(lines))
	}
	for i, line := range lines {
		if line != fmt.Sprint("line ", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	for _, c := range []struct {
		crash       Crash
		lines, said string
	}{
		{Crash{Role: "end", Lines: 3}, "[a b]", "ended after 2 lines of 3"},
		{Crash{Role: "end", Lines: 2, After: time.Minute}, "[a b]", "ended after 2 lines of 2"},
		{Crash{Role: "fail", Lines: 3}, "[a]", "error no disk"},
		{Crash{Role: "hang", Lines: 2, Within: 200 * time.Millisecond}, "[a]", "ended after 1 lines of 2"},
	} {
		lines = nil
		f := &fatal{TB: t}
		c.crash.Run(f, note)
		if fmt.Sprint(lines) != c.lines || !strings.Contains(f.said, c.said) {
			t.Errorf("%s: %q, %q", c.crash.Role, lines, f.said)
		}
	}
}
