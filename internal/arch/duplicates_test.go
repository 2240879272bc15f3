package arch

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"path"
	"strings"
	"testing"
)

// maxShared is how many lines of code two packages may share before the passage belongs
// into one of them, or into a third.
const maxShared = 11

// passage is a place in a file.
type passage struct {
	pkg, file string
	line      int
}

// TestNoSharedPassages: no hand-written passage of 12 lines or more stands in two
// packages. Comments, imports, empty lines and lone brackets do not count.
func TestNoSharedPassages(t *testing.T) {
	seed := maphash.MakeSeed()
	first := map[uint64]passage{} // where a window of lines was seen first
	reported := map[string]bool{}
	eachText(t, func(file, text string) {
		if path.Ext(file) != ".go" || generated(text) {
			return
		}
		lines, numbers := codeLines(text)
		for i := 0; i+maxShared < len(lines); i++ {
			window := strings.Join(lines[i:i+maxShared+1], "\n")
			key := maphash.String(seed, window)
			here := passage{path.Dir(file), file, numbers[i]}
			there, seen := first[key]
			switch {
			case !seen:
				first[key] = here
			case there.pkg != here.pkg:
				pair := there.file + " " + here.file
				if !reported[pair] {
					reported[pair] = true
					t.Errorf("%s:%d repeats %s:%d for more than %d lines: one package should hold it", here.file, here.line, there.file, there.line, maxShared)
				}
			}
		}
	})
}

// codeLines returns the lines of a Go file that count, without indentation, and their
// numbers.
func codeLines(text string) (lines []string, numbers []int) {
	imports := false
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		switch {
		case line == "import (":
			imports = true
			continue
		case imports:
			imports = line != ")"
			continue
		case strings.HasPrefix(line, "//") || strings.HasPrefix(line, "import ") || strings.Trim(line, "(){}[],") == "":
			continue
		}
		lines, numbers = append(lines, line), append(numbers, n)
	}
	return lines, numbers
}

// generated tells whether a Go file says that it was generated.
func generated(text string) bool {
	head, _, _ := strings.Cut(text, "\npackage ")
	return strings.Contains(head, "// Code generated ") && strings.Contains(head, " DO NOT EDIT.")
}

// TestCodeLines: what does not count is left out, and lines keep their numbers.
func TestCodeLines(t *testing.T) {
	lines, numbers := codeLines("package a\n\nimport (\n\t\"b\"\n)\n\n// c\nfunc d() {\n\te()\n}\n")
	if got := fmt.Sprint(lines, numbers); got != "[package a func d() { e()] [1 8 9]" {
		t.Error(got)
	}
}
