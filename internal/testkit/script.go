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

// Command is one line of a script: a verb and its arguments, each key=value or a
// key alone.
//
//	add id=1 prompt=40 priority
type Command struct {
	Verb string
	args map[string]string
	pos  string // file:line
	t    *testing.T
}

// Has reports whether the argument is given.
func (c Command) Has(key string) bool { _, ok := c.args[key]; return ok }

// Str is the value of the argument, or "" if it is not given.
func (c Command) Str(key string) string { return c.args[key] }

// Int is the value of the argument as a number, or def if it is not given.
func (c Command) Int(key string, def int) int {
	s, ok := c.args[key]
	if !ok {
		return def
	}
	return c.number(key, s)
}

// Ints is the value of the argument as a list of numbers, separated by commas.
func (c Command) Ints(key string) []int32 {
	var out []int32
	for _, f := range strings.FieldsFunc(c.args[key], func(r rune) bool { return r == ',' }) {
		out = append(out, int32(c.number(key, f)))
	}
	return out
}

func (c Command) number(key, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		c.t.Fatalf("%s: %s: %v", c.pos, key, err)
	}
	return n
}

// Scripts runs each file *.txt of the directory dir as a subtest. start is called
// once for each file and returns the function that runs a command and returns its
// output. A file is a list of cases, separated by empty lines:
//
//	# A comment.
//	add id=1 prompt=6
//	step
//	----
//	1: compute [0,6)
//
// The text after the line of dashes is the output that the commands of the case
// must give together. The state that start made lives on from case to case.
//
// The format is that of cockroachdb/datadriven.
func Scripts(t *testing.T, dir string, start func(t *testing.T) func(Command) string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no scripts (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file, start(t)) })
	}
}

// runScript runs a file case by case and, under -rewrite, writes it again with
// the output that it gave.
func runScript(t *testing.T, file string, run func(Command) string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rewritten bytes.Buffer
	lines := strings.Split(strings.TrimRight(string(src), "\n"), "\n")
	for at := 0; at < len(lines); {
		input, want, next := cutCase(lines, at)
		var got strings.Builder
		for i, line := range input {
			fmt.Fprintln(&rewritten, line)
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				got.WriteString(run(parseCommand(t, fmt.Sprintf("%s:%d", file, at+i+1), line)))
			}
		}
		if at+len(input) < len(lines) { // there is a line of dashes
			fmt.Fprintf(&rewritten, "----\n%s\n", got.String())
			if !*Rewrite && got.String() != want {
				t.Errorf("%s:%d:\n got:\n%swant:\n%s", file, at+1, got.String(), want)
			}
		} else if got.Len() > 0 {
			t.Fatalf("%s:%d: output without a line of dashes: %s", file, at+1, got.String())
		}
		at = next
	}
	if *Rewrite {
		text := strings.TrimRight(rewritten.String(), "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// cutCase splits the case that begins at lines[at]: its lines up to the dashes,
// and the output after them. next is the index of the line after the case. The
// lines after the last dashes of a file are a case without output.
func cutCase(lines []string, at int) (input []string, want string, next int) {
	dashes := at
	for dashes < len(lines) && lines[dashes] != "----" {
		dashes++
	}
	if dashes == len(lines) {
		return lines[at:], "", len(lines)
	}
	end := dashes + 1
	for ; end < len(lines) && lines[end] != ""; end++ {
		want += lines[end] + "\n"
	}
	return lines[at:dashes], want, end + 1
}

// parseCommand reads a line.
func parseCommand(t *testing.T, pos, line string) Command {
	fields := strings.Fields(line)
	c := Command{Verb: fields[0], args: map[string]string{}, pos: pos, t: t}
	for _, arg := range fields[1:] {
		key, value, _ := strings.Cut(arg, "=")
		c.args[key] = value
	}
	return c
}
