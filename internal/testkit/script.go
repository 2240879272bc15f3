package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Command is one line of a script: a verb and key=value arguments.
//
//	add id=1 prompt=40 max=2
type Command struct {
	Verb string
	args map[string]string
	pos  string
	t    *testing.T
}

// Has reports whether the argument was given.
func (c Command) Has(key string) bool { _, ok := c.args[key]; return ok }

// Str is the argument, or "" if it was not given.
func (c Command) Str(key string) string { return c.args[key] }

// Int is the argument as a number, or def if it was not given.
func (c Command) Int(key string, def int) int {
	s, ok := c.args[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		c.t.Fatalf("%s: %s: %v", c.pos, key, err)
	}
	return n
}

// Ints is the argument as numbers separated by commas.
func (c Command) Ints(key string) []int32 {
	var out []int32
	for _, f := range strings.FieldsFunc(c.args[key], func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			c.t.Fatalf("%s: %s: %v", c.pos, key, err)
		}
		out = append(out, int32(n))
	}
	return out
}

// Scripts runs every file of dir as a test of its own. A file is a sequence of
// cases: commands, a line of dashes, the exact output that the commands of the
// case give together, an empty line. Lines that start with # before the
// commands are comments. -rewrite writes the output anew. start is called once
// per file and returns the interpreter.
//
// The shape is cockroachdb/datadriven's.
func Scripts(t *testing.T, dir string, start func(t *testing.T) func(Command) string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file, start(t)) })
	}
}

func runScript(t *testing.T, file string, run func(Command) string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := strings.Split(strings.TrimRight(string(src), "\n"), "\n")
	for i := 0; i < len(lines); {
		var got, want strings.Builder
		first := i
		for i < len(lines) && lines[i] != "----" {
			line := lines[i]
			fmt.Fprintln(&out, line)
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				got.WriteString(run(parse(t, fmt.Sprintf("%s:%d", file, i+1), line)))
			}
			i++
		}
		if i == len(lines) {
			if got.Len() > 0 {
				t.Fatalf("%s:%d: output without a line of dashes: %s", file, first+1, got.String())
			}
			break
		}
		for i++; i < len(lines) && lines[i] != ""; i++ {
			fmt.Fprintln(&want, lines[i])
		}
		i++ // the empty line
		fmt.Fprintf(&out, "----\n%s\n", got.String())
		if !*Rewrite && got.String() != want.String() {
			t.Errorf("%s:%d:\n got:\n%swant:\n%s", file, first+1, got.String(), want.String())
		}
	}
	if *Rewrite {
		text := strings.TrimRight(out.String(), "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t *testing.T, pos, line string) Command {
	f := strings.Fields(line)
	c := Command{Verb: f[0], args: map[string]string{}, pos: pos, t: t}
	for _, a := range f[1:] {
		k, v, _ := strings.Cut(a, "=")
		c.args[k] = v
	}
	return c
}
