package arch

import (
	"bufio"
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var rowNumber = regexp.MustCompile(`C(\d+)`)

// TestEveryConformanceRow: each row of the interface's list has a test that
// names it, and no test names a row that does not exist.
func TestEveryConformanceRow(t *testing.T) {
	tests := map[string][]string{} // by row
	eachFile(t, func(room, path string, _ *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			for _, m := range rowNumber.FindAllString(fn.Name.Name, -1) {
				tests[m] = append(tests[m], room+"."+fn.Name.Name)
			}
		}
	})
	list, err := os.Open("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	last, open := 0, 0
	for lines := bufio.NewScanner(list); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		row, rest, _ := strings.Cut(line, " ")
		title, why, isOpen := strings.Cut(rest, "open:")
		n, err := strconv.Atoi(strings.TrimPrefix(row, "C"))
		if err != nil || n <= last || strings.TrimSpace(title) == "" || isOpen && strings.TrimSpace(why) == "" {
			t.Errorf("conformance.txt: %q: want a number greater than C%d, a title, and a reason if it is open", line, last)
		}
		last = n
		if isOpen {
			open++
		}
		if len(tests[row]) == 0 && !isOpen {
			t.Errorf("%s (%s) has no test", row, strings.TrimSpace(title))
		}
		delete(tests, row)
	}
	for row, names := range tests {
		t.Errorf("%v: conformance.txt has no %s", names, row)
	}
	t.Logf("%d rows are open", open)
}

// TestRecordRules: every rule of feedback and trajectories names tests that are there.
func TestRecordRules(t *testing.T) {
	tests := map[string]bool{}
	eachFile(t, func(room, path string, _ *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && strings.HasSuffix(path, "_test.go") {
				tests[room+"."+fn.Name.Name] = true
			}
		}
	})
	text, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) < 2 || seen[f[0]] {
			t.Errorf("%s has no test, or stands there twice", f[0])
		}
		seen[f[0]] = true
		for _, name := range f[1:] {
			if !tests[name] {
				t.Errorf("%s: there is no %s", f[0], name)
			}
		}
	}
	for list, n := range map[string]int{"F#": 24, "T#": 30} {
		for i := range n {
			if rule := list + strconv.Itoa(i+1); !seen[rule] {
				t.Errorf("%s is not there", rule)
			}
		}
	}
}
