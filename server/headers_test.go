package server

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

// TestHeadersDocument: docs/interface/headers.md has every header that this package reads
// or sets, and tests that exist.
func TestHeadersDocument(t *testing.T) {
	doc, err := os.ReadFile("../docs/interface/headers.md")
	if err != nil {
		t.Fatal(err)
	}
	// What the HTTP library does for us, and what is ignored on purpose.
	inSource := map[string]map[string]bool{
		"Requests":  {"content-type": true, "content-length": true, "transfer-encoding": true, "expect": true, "connection": true, "traceparent": true, "tracestate": true},
		"Responses": {"content-type": true, "connection": true},
	}
	tests := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					tests[fn.Name.Name] = true
				}
			}
			continue
		}
		for section, re := range map[string]string{"Requests": `(?i:header|h)\.Peek\("([^"]+)"\)`, "Responses": `(?i:header|h)\.Set(?:BytesV)?\("([^"]+)"`} {
			for _, m := range regexp.MustCompile(re).FindAllSubmatch(src, -1) {
				inSource[section][strings.ToLower(string(m[1]))] = true
			}
		}
	}
	if len(inSource["Requests"]) < 15 || len(inSource["Responses"]) < 12 {
		t.Fatalf("the source was not understood: %v", inSource)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")
	for _, part := range strings.Split(string(doc), "\n## ")[1:] {
		section, text, _ := strings.Cut(part, "\n")
		left := inSource[section]
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			name := strings.ToLower(m[1])
			if !left[name] {
				t.Errorf("%s: nobody uses %s", section, m[1])
			}
			delete(left, name)
			names := regexp.MustCompile(`\bTest\w+`).FindAllString(m[2], -1)
			if len(names) == 0 {
				t.Errorf("%s has no test", m[1])
			}
			for _, n := range names {
				if !tests[n] {
					t.Errorf("%s: there is no %s", m[1], n)
				}
			}
		}
		for name := range left {
			t.Errorf("%s: %s is not documented", section, name)
		}
		delete(inSource, section)
	}
	for section := range inSource {
		t.Errorf("no section %s", section)
	}
}
