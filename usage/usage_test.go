package usage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// quiet returns a log and what is written to it.
func quiet() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func open(t *testing.T, dir string, change func(*Config)) *Ledger {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir = dir
	cfg.Log, _ = quiet()
	if change != nil {
		change(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func totalsOf(t *testing.T, l *Ledger) map[string]Counts {
	t.Helper()
	projects, since, err := l.Totals()
	if err != nil {
		t.Fatal(err)
	}
	if since <= 0 || since > time.Now().Unix() {
		t.Errorf("since %d", since)
	}
	if !slices.IsSortedFunc(projects, func(a, b Project) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("not sorted: %v", projects)
	}
	m := map[string]Counts{}
	for _, p := range projects {
		m[p.Name] = p.Counts
	}
	return m
}

func want(t *testing.T, l *Ledger, want map[string]Counts) {
	t.Helper()
	if got := totalsOf(t, l); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := open(t, dir, nil)
	l.Add("team/one", Counts{1, 10, 4, 5})
	l.Add("", Counts{Requests: 1})
	l.Add("team/one", Counts{1, 20, 0, 7})
	all := map[string]Counts{"team/one": {2, 30, 4, 12}, "": {Requests: 1}}
	want(t, l, all)
	_, since, _ := l.Totals()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, nil)
	want(t, l, all)
	l.Add("", Counts{2, 1, 1, 1})
	all[""] = Counts{3, 1, 1, 1}
	want(t, l, all)
	if _, again, _ := l.Totals(); again != since {
		t.Errorf("since %d, before the restart %d", again, since)
	}
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestInMemory(t *testing.T) {
	l := open(t, "", func(c *Config) { c.MaxProjects = 2 })
	for _, p := range []string{"a/a", "b/b", "a/a", "c/c", "d/d"} {
		l.Add(p, Counts{Requests: 1})
		totalsOf(t, l)
	}
	want(t, l, map[string]Counts{"a/a": {Requests: 2}, "b/b": {Requests: 1}, Other: {Requests: 2}})
}

// TestNamesAreBounded: clients choose names, and neither their number nor their bytes may do
// harm.
func TestNamesAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, func(c *Config) { c.MaxProjects = 10 })
	for i := range 100 {
		l.Add(fmt.Sprintf("team/%02d", i), Counts{Requests: 1})
		if i%7 == 0 {
			totalsOf(t, l)
		}
	}
	for _, bad := range []string{"a b/c", "a\nb/c", "é/a", "\x7f/x", "-", strings.Repeat("x", MaxName+1)} {
		l.Add(bad, Counts{Requests: 1})
	}
	got := totalsOf(t, l)
	if len(got) != 11 || got[Other].Requests != 96 {
		t.Errorf("%v", got)
	}
	l.Close()
	again := open(t, dir, func(c *Config) { c.MaxProjects = 10 })
	want(t, again, got)
}

// TestWritesWithinATenthOfASecond: what was added is in the file 100 ms later. When nothing
// is added nothing is written.
func TestWritesWithinATenthOfASecond(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, dir, nil)
		file := filepath.Join(dir, fileName)
		size := func() int {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return len(data)
		}
		time.Sleep(time.Minute) // long enough for the first write and sync
		synctest.Wait()
		empty := size()
		for range 1000 { // one group
			l.Add("team/one", Counts{Requests: 1})
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		data, _ := os.ReadFile(file)
		if !bytes.Contains(data, []byte("add 1000 0 0 0 team/one")) || bytes.Count(data, []byte("\n")) != 2 {
			t.Errorf("%s", data)
		}
		grown := size()
		time.Sleep(time.Hour)
		if size() != grown || grown == empty {
			t.Errorf("%d, %d, %d bytes", empty, grown, size())
		}
		l.Close()
	})
}

// TestDamage: a line that was cut or altered costs no other line, and is reported.
func TestDamage(t *testing.T) {
	line := func(i int) string {
		return string(appendCounts(nil, fmt.Sprintf("t/%d", i), Counts{Requests: uint64(i)}))
	}
	head := string(appendSince(nil, 1_700_000_000))
	altered := []byte(line(2))
	altered[12]++
	for name, c := range map[string]struct {
		file    string
		want    []int
		damaged bool
	}{
		"whole":            {head + line(1) + line(2), []int{1, 2}, false},
		"cut":              {head + line(1) + line(2)[:20], []int{1}, true},
		"cut at the end":   {head + line(1) + strings.TrimSuffix(line(2), "\n"), []int{1}, true},
		"cut, then others": {head + line(1) + line(2)[:20] + "\n" + line(3), []int{1, 3}, true},
		"cut in the head":  {head[:10], nil, true},
		"altered":          {head + line(1) + string(altered) + line(3), []int{1, 3}, true},
		"garbage":          {"\x00\xff\n\n" + head + strings.Repeat("x", 1<<20) + "\n" + line(3), []int{3}, true},
		"endless garbage":  {head + line(1) + strings.Repeat("x", 1<<20), []int{1}, true},
		"empty":            {"", nil, false},
		"blank lines":      {"\n\n" + head + "\n" + line(1) + "\n", []int{1}, false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		log, text := quiet()
		l := open(t, dir, func(cfg *Config) { cfg.Log = log })
		expect := map[string]Counts{}
		for _, i := range c.want {
			expect[fmt.Sprintf("t/%d", i)] = Counts{Requests: uint64(i)}
		}
		want(t, l, expect)
		l.Add("t/9", Counts{Requests: 9})
		expect["t/9"] = Counts{Requests: 9}
		want(t, l, expect)
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(text.String(), path) != c.damaged {
			t.Errorf("%s: the log says %q", name, text)
		}
		want(t, open(t, dir, nil), expect)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestReplacedBySums: a file with many additions is replaced by its sums. If lines of it were
// damaged it is kept.
func TestReplacedBySums(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	buf := appendSince(nil, 1_700_000_000)
	for range 5000 {
		buf = appendCounts(buf, "team/one", Counts{1, 2, 3, 4})
	}
	buf = append(buf, "damaged\n"...)
	if err := os.WriteFile(path, buf, 0o600); err != nil {
		t.Fatal(err)
	}
	l, sharer := open(t, dir, nil), open(t, dir, nil)
	all := map[string]Counts{"team/one": {5000, 10000, 15000, 20000}}
	want(t, sharer, all)
	want(t, l, all)
	data, err := os.ReadFile(path)
	if err != nil || len(data) > 200 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if kept, err := os.ReadFile(path + ".damaged"); err != nil || !bytes.Equal(kept, buf) {
		t.Errorf("the damaged file was not kept: %d bytes, %v", len(kept), err)
	}
	l.Add("team/one", Counts{Requests: 1})
	sharer.Add("team/one", Counts{Requests: 1})
	want(t, l, map[string]Counts{"team/one": {5001, 10000, 15000, 20000}})
	all["team/one"] = Counts{5002, 10000, 15000, 20000}
	want(t, sharer, all)
	want(t, l, all)
}

// compactAtNextWrite makes a ledger replace its file by its sums when it writes again.
func compactAtNextWrite(l *Ledger) {
	l.book.Lock()
	defer l.book.Unlock()
	l.book.file.compact = 1
}

// reference counts as ledgers that share a directory do, in one map.
type reference struct {
	counts map[string]Counts
	limit  int
	own    int // projects with counts of their own
}

func (r *reference) add(name string, c Counts) {
	if _, known := r.counts[name]; !known && r.own >= r.limit {
		name = Other
	} else if !known {
		r.own++
	}
	r.counts[name] = r.counts[name].plus(c)
}

// shared is a directory with several ledgers and what their sum has to be.
type shared struct {
	t       *testing.T
	rand    *rand.Rand
	dir     string
	ledgers []*Ledger
	want    reference
}

func (s *shared) start() *Ledger {
	return open(s.t, s.dir, func(c *Config) {
		c.MaxProjects = s.want.limit
		c.fsync = func(*os.File) error { return nil } // no machine loses power here
	})
}

// step does something with a random ledger.
func (s *shared) step() {
	i := s.rand.IntN(len(s.ledgers))
	l := s.ledgers[i]
	switch s.rand.IntN(12) {
	default:
		s.add(l)
	case 0, 1:
		want(s.t, l, s.want.counts)
	case 2:
		if err := l.Close(); err != nil {
			s.t.Fatal(err)
		}
		s.ledgers[i] = s.start()
	case 3:
		s.cutLine()
	case 4:
		compactAtNextWrite(l)
	}
}

func (s *shared) add(l *Ledger) {
	name := fmt.Sprintf("team/%d", s.rand.IntN(30))
	c := Counts{uint64(s.rand.IntN(3)), uint64(s.rand.IntN(1000)), uint64(s.rand.IntN(1000)), uint64(s.rand.IntN(1000))}
	l.Add(name, c)
	s.want.add(name, c)
	if err := l.flush(); err != nil { // the order of names decides which have counts of their own
		s.t.Fatal(err)
	}
}

// cutLine appends what a process leaves that dies while it writes.
func (s *shared) cutLine() {
	line := appendCounts(nil, "team/1", Counts{Requests: 1000})
	f, err := os.OpenFile(filepath.Join(s.dir, fileName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = f.Write(line[:1+s.rand.IntN(len(line)-2)])
	if err := errors.Join(err, f.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// TestSharedDirectory: ledgers that share a directory, with additions, restarts, processes
// that die while they write, and replacements of the file, have the counts of one map.
func TestSharedDirectory(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := &shared{t: t, rand: r, dir: t.TempDir(), want: reference{counts: map[string]Counts{}, limit: 3 + r.IntN(20)}}
		s.ledgers = []*Ledger{s.start(), s.start(), s.start()}
		for range 300 {
			if s.step(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for _, l := range append(s.ledgers, s.start()) {
			want(t, l, s.want.counts)
		}
	}
}

// TestConcurrent: of additions by many goroutines and ledgers at once nothing is lost and
// nothing counts twice.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	ledgers := []*Ledger{open(t, dir, nil), open(t, dir, nil)}
	var wg sync.WaitGroup
	for i, l := range ledgers {
		for g := range 4 {
			wg.Go(func() {
				for n := range 200 {
					l.Add(fmt.Sprintf("team/%d", g), Counts{1, 2, 0, uint64(i)})
					if n%50 == g {
						compactAtNextWrite(l)
						if _, _, err := l.Totals(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	for _, l := range ledgers {
		totalsOf(t, l)
	}
	all := map[string]Counts{}
	for g := range 4 {
		all[fmt.Sprintf("team/%d", g)] = Counts{400, 800, 0, 200}
	}
	for _, l := range ledgers {
		want(t, l, all)
	}
}

// TestUnwritable: while the file cannot be written counts stay in memory, and nothing is lost
// when it can be written again.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	log, text := quiet()
	l := open(t, dir, func(c *Config) { c.Log = log })
	l.Add("t/1", Counts{Requests: 1})
	totalsOf(t, l)
	l.book.Lock()
	good := l.book.file.file
	readOnly, err := os.Open(good.Name())
	if err != nil {
		t.Fatal(err)
	}
	l.book.file.file = readOnly
	l.book.Unlock()
	l.Add("t/1", Counts{Requests: 1})
	l.Add("t/2", Counts{Requests: 1})
	for range 2 {
		projects, _, err := l.Totals()
		if err == nil || len(projects) != 2 || projects[0].Requests != 2 || projects[1].Requests != 1 {
			t.Errorf("%v, %v", projects, err)
		}
	}
	l.book.Lock()
	l.book.file.file = good
	l.book.Unlock()
	readOnly.Close()
	all := map[string]Counts{"t/1": {Requests: 2}, "t/2": {Requests: 1}}
	want(t, l, all)
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "written again") {
		t.Errorf("%d lines of log: %s", n, text)
	}
	l.Close()
	want(t, open(t, dir, nil), all)
	if _, err := Open(Config{MaxProjects: 1, Dir: filepath.Join(dir, fileName)}); err == nil {
		t.Error("a file as the directory")
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("no projects at all")
	}
}

// FuzzParse: no line makes parse fail, and what was written is read back.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", " ", "00000000 ", "since 1", "6b0c6a2f since 1772900000", string(appendCounts(nil, "a/b", Counts{1, 2, 3, 4})), string(appendSince(nil, 5))} {
		f.Add([]byte(s), uint64(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		for _, line := range [][]byte{b, bytes.TrimSuffix(checked(nil, b), []byte{'\n'})} {
			if r, ok := parse(line); ok && r.since == 0 && !storable(r.project) {
				t.Errorf("%q: %+v", line, r)
			}
		}
		name := string(b)
		if !storable(name) {
			return
		}
		c := Counts{n, n / 2, n / 3, n * 7}
		line := appendCounts(nil, name, c)
		if len(line) > maxLine {
			t.Fatalf("%d bytes", len(line))
		}
		if r, ok := parse(line[:len(line)-1]); !ok || r.project != name || r.Counts != c {
			t.Errorf("%q reads as %+v, %v", line, r, ok)
		}
		for i := range len(line) - 1 {
			if _, ok := parse(line[:i]); ok {
				t.Errorf("%q is read although it is cut", line[:i])
			}
		}
	})
}
