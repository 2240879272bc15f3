// Command mutants breaks the kernels on purpose, one line of mutants.txt at a
// time, and expects the emulator's tests to notice: a test that passes over a
// planted bug proves nothing, and neither does one that fails without, so the
// sources as they are come first. It needs a C++ compiler (CXX, c++).
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A mutant replaces the one place in file that reads old. One without a file is
// the sources as they are.
type mutant struct{ what, test, file, old, now string }

// outcome is how the tests noticed a mutant, or nothing.
type outcome struct {
	how  string
	err  error
	took time.Duration
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "..", "folder of the kernels package")
	only := flag.String("only", "", "regular expression of mutants to run")
	jobs := flag.Int("jobs", min(2, runtime.NumCPU()), "mutants at a time")
	flag.Parse()
	list, err := read("mutants.txt")
	if err != nil {
		log.Fatal(err)
	}
	wanted := regexp.MustCompile(*only)
	list = slices.DeleteFunc(list, func(m mutant) bool { return !wanted.MatchString(m.test + " " + m.what) })
	var whole []mutant
	for _, m := range list {
		if w := (mutant{what: "no bug", test: m.test}); !slices.Contains(whole, w) {
			whole = append(whole, w)
		}
	}
	l, err := newLab(*dir)
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	broken, alive, stale := 0, 0, 0
	for i, o := range l.all(append(whole, list...), *jobs) {
		m := append(whole, list...)[i]
		word := "caught"
		switch {
		case o.err != nil:
			word, o.how = "STALE", o.err.Error()
			stale++
		case m.file == "" && o.how == "":
			word = "passes"
		case m.file == "":
			word = "BROKEN"
			broken++
		case o.how == "":
			word = "ALIVE"
			alive++
		}
		fmt.Printf("%-6s  %-6s  %4.1fs  %s: %s\n", word, m.test, o.took.Seconds(), m.what, o.how)
	}
	os.RemoveAll(l.tmp)
	fmt.Printf("%d mutants, %d caught, %d alive, %d that the sources have outgrown, %d tests that fail without one; %v\n",
		len(list), len(list)-alive-stale, alive, stale, broken, time.Since(began).Round(time.Second))
	if broken+alive+stale > 0 || len(list) == 0 {
		os.Exit(1)
	}
}

// read takes lines of five fields, separated by tabs; \n in a field is a line break.
func read(path string) (list []mutant, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if s.Text() == "" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		p := strings.Split(strings.ReplaceAll(s.Text(), `\n`, "\n"), "\t")
		if len(p) != 5 {
			return nil, fmt.Errorf("%s: not five fields: %s", path, s.Text())
		}
		if !strings.HasPrefix(p[2], "src/") {
			return nil, fmt.Errorf("%s: %s is none of the kernels' sources", path, p[2]) // lab compiles the emulator once
		}
		list = append(list, mutant{p[0], p[1], p[2], p[3], p[4]})
	}
	return list, nil
}

// lab is what mutants share: the emulator, compiled once, since none of them
// touches it.
type lab struct{ dir, tmp, cxx, golden string }

var flags = []string{"-std=c++17", "-O1", "-w", "-ffp-contract=off"}

func newLab(dir string) (*lab, error) {
	l := &lab{dir: dir, cxx: os.Getenv("CXX")}
	if l.cxx == "" {
		l.cxx = "c++"
	}
	var err error
	if l.golden, err = filepath.Abs(filepath.Join(dir, "testdata", "pick.bin")); err != nil {
		return nil, err
	}
	if l.tmp, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	return l, l.compile(filepath.Join(l.tmp, "emu.o"), "-c", filepath.Join(dir, "emu", "emu.cc"))
}

func (l *lab) compile(to string, args ...string) error {
	if out, err := exec.Command(l.cxx, slices.Concat(flags, args, []string{"-o", to})...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// all yields the outcomes in the order of list, each as soon as it is known.
func (l *lab) all(list []mutant, jobs int) func(yield func(int, outcome) bool) {
	return func(yield func(int, outcome) bool) {
		results := make([]chan outcome, len(list))
		for i := range results {
			results[i] = make(chan outcome, 1)
		}
		var next sync.Mutex
		at := 0
		for range jobs {
			go func() {
				for {
					next.Lock()
					i := at
					at++
					next.Unlock()
					if i >= len(list) {
						return
					}
					began := time.Now()
					how, err := l.run(list[i])
					results[i] <- outcome{how, err, time.Since(began)}
				}
			}()
		}
		for i, r := range results {
			if !yield(i, <-r) {
				return
			}
		}
	}
}

// run returns how the tests of m's family noticed it, or nothing.
func (l *lab) run(m mutant) (string, error) {
	tmp, err := os.MkdirTemp(l.tmp, "")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for _, sub := range []string{"src", "emu"} {
		if err := os.CopyFS(filepath.Join(tmp, sub), os.DirFS(filepath.Join(l.dir, sub))); err != nil {
			return "", err
		}
	}
	if m.file != "" {
		path := filepath.Join(tmp, m.file)
		src, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(src), m.old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times", m.file, m.old, n)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(src), m.old, m.now, 1)), 0o644); err != nil {
			return "", err
		}
	}
	bin := filepath.Join(tmp, "test")
	if err := l.compile(bin, filepath.Join(tmp, "emu", "test_"+m.test+".cc"), filepath.Join(l.tmp, "emu.o")); err != nil {
		return "", err
	}
	// A missing barrier shows in most orders of threads, not in all.
	for _, seed := range []string{"1", "2", "3"} {
		if how, err := l.test(bin, seed); how != "" || err != nil {
			return how, err
		}
	}
	return "", nil
}

// test runs a test until it finds something wrong. What does not end counts as
// noticed by the time of the processor that it took, which a machine that has
// other things to do does not lengthen.
func (l *lab) test(bin, seed string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `ulimit -t 60; exec "$0" "$1"`, bin, l.golden)
	cmd.Env = append(os.Environ(), "GK_EMU_SEED="+seed, "GK_EMU_STOP=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("seed %s: no end within 20 minutes", seed)
	}
	if err == nil {
		return "", nil
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return fmt.Sprintf("%s (seed %s, %v)", first, seed, err), nil
}
