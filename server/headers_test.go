package server_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// headerProofs reads testdata/headers.txt: the tests of every header, by section
// and lower-case name.
func headerProofs(t *testing.T) map[string]map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/headers.txt")
	if err != nil {
		t.Fatal(err)
	}
	section, all := "", map[string]map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
			all[section] = map[string][]string{}
		} else if name, tests, ok := strings.Cut(line, " | "); ok && line[0] != '#' {
			all[section][strings.ToLower(name)] = strings.Fields(tests)
		}
	}
	return all
}

// headersInSource reads the package's files: the headers that they read and set, by section
// of the document and lower-case name, and the names of the tests.
func headersInSource(t *testing.T) (headers map[string]map[string]bool, tests map[string]bool) {
	t.Helper()
	// What the HTTP library does for us, and what is ignored on purpose.
	headers = map[string]map[string]bool{
		"Requests":  {"content-type": true, "content-length": true, "transfer-encoding": true, "expect": true, "connection": true},
		"Responses": {"content-type": true, "connection": true},
	}
	uses := map[string]*regexp.Regexp{
		"Requests":  regexp.MustCompile(`(?i:header|h)\.Peek\("([^"]+)"\)`),
		"Responses": regexp.MustCompile(`(?:(?i:header|h)\.Set(?:BytesV)?|\bset|setHeader)\("([A-Za-z-]+)"`),
	}
	tests = map[string]bool{}
	files, _ := filepath.Glob("*.go")
	below, _ := filepath.Glob("*/*.go")
	files = append(files, below...)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			addTests(t, tests, file, src)
			continue
		}
		for section, use := range uses {
			for _, m := range use.FindAllSubmatch(src, -1) {
				headers[section][strings.ToLower(string(m[1]))] = true
			}
		}
	}
	if len(headers["Requests"]) < 15 || len(headers["Responses"]) < 12 {
		t.Fatalf("the source was not understood: %v", headers)
	}
	return headers, tests
}

// addTests adds the functions of a test file.
func addTests(t *testing.T, tests map[string]bool, file string, src []byte) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			tests[fn.Name.Name] = true
		}
	}
}

// TestHeadersDocument: docs/interface/headers.md has every header that this
// package reads or sets, and testdata/headers.txt a test for each.
func TestHeadersDocument(t *testing.T) {
	doc, err := os.ReadFile("../docs/interface/headers.md")
	if err != nil {
		t.Fatal(err)
	}
	headers, tests := headersInSource(t)
	proofs := headerProofs(t)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\|$")
	for _, part := range strings.Split(string(doc), "\n## ")[1:] {
		section, text, _ := strings.Cut(part, "\n")
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			name := strings.ToLower(m[1])
			if !headers[section][name] {
				t.Errorf("%s: the package does not use %s", section, m[1])
			}
			if len(proofs[section][name]) == 0 {
				t.Errorf("testdata/headers.txt: %s: %s has no test", section, m[1])
			}
			for _, n := range proofs[section][name] {
				if !tests[n] {
					t.Errorf("testdata/headers.txt: %s: there is no %s", m[1], n)
				}
			}
			delete(headers[section], name)
			delete(proofs[section], name)
		}
		for name := range headers[section] {
			t.Errorf("%s: %s is not documented", section, name)
		}
		for name := range proofs[section] {
			t.Errorf("testdata/headers.txt: %s: the document has no %s", section, name)
		}
		delete(headers, section)
	}
	for section := range headers {
		t.Errorf("no section %s", section)
	}
}
