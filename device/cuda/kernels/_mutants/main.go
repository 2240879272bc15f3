// Command mutants breaks the kernels on purpose, one line of mutants.txt at a
// time, and expects the emulator's tests to notice: a test that passes over a
// planted bug proves nothing. It needs a C++ compiler (CXX, c++).
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
	"strings"
	"time"
)

// A mutant replaces the one place in file that reads old.
type mutant struct{ what, test, file, old, now string }

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "..", "folder of the kernels package")
	only := flag.String("only", "", "regular expression of mutants to run")
	flag.Parse()
	list, err := read("mutants.txt")
	if err != nil {
		log.Fatal(err)
	}
	wanted := regexp.MustCompile(*only)
	alive, stale, ran := 0, 0, 0
	for _, m := range list {
		if !wanted.MatchString(m.test + " " + m.what) {
			continue
		}
		ran++
		how, err := run(*dir, m)
		switch {
		case err != nil:
			stale++
			fmt.Printf("STALE   %-7s %s: %v\n", m.test, m.what, err)
		case how == "":
			alive++
			fmt.Printf("ALIVE   %-7s %s\n", m.test, m.what)
		default:
			fmt.Printf("caught  %-7s %s: %s\n", m.test, m.what, how)
		}
	}
	fmt.Printf("%d mutants, %d alive, %d that the sources have outgrown\n", ran, alive, stale)
	if alive+stale > 0 || ran == 0 {
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
		list = append(list, mutant{p[0], p[1], p[2], p[3], p[4]})
	}
	return list, nil
}

// run returns how the tests noticed m, or nothing.
func run(dir string, m mutant) (string, error) {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for _, sub := range []string{"src", "emu"} {
		if err := os.CopyFS(filepath.Join(tmp, sub), os.DirFS(filepath.Join(dir, sub))); err != nil {
			return "", err
		}
	}
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
	cxx := os.Getenv("CXX")
	if cxx == "" {
		cxx = "c++"
	}
	bin := filepath.Join(tmp, "test")
	if out, err := exec.Command(cxx, "-std=c++17", "-O1", "-w", "-ffp-contract=off", filepath.Join(tmp, "emu", "test_"+m.test+".cc"), filepath.Join(tmp, "emu", "emu.cc"), "-o", bin).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	golden, err := filepath.Abs(filepath.Join(dir, "testdata", "pick.bin"))
	if err != nil {
		return "", err
	}
	// A missing barrier shows in most orders of threads, not in all.
	for _, seed := range []string{"1", "2", "3"} {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		cmd := exec.CommandContext(ctx, bin, golden)
		cmd.Env = append(os.Environ(), "GK_EMU_SEED="+seed)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return lines[0] + " (" + err.Error() + ")", nil
		}
	}
	return "", nil
}
