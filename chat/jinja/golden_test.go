package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The expected results in testdata were made by Jinja2 itself, by
// tools/golden/templates.py.

// goldenClock is the time that they, and the vectors, were made with.
func goldenClock() time.Time { return time.Date(2025, 7, 10, 12, 0, 0, 0, time.UTC) }

// result is what Jinja2 made of a template: Output, or Error as "Class: text".
type result struct {
	Output *string `json:"output"`
	Error  string  `json:"error"`
}

// check renders a template and compares the output, or the class and text of the error,
// with Jinja2's.
func check(t *testing.T, tpl *Template, compileErr error, vars *Dict, want result) {
	t.Helper()
	got, err := "", compileErr
	if err == nil {
		got, err = tpl.Render(vars, Options{Now: goldenClock})
	}
	switch {
	case want.Output != nil && err != nil:
		t.Errorf("error %v, want output %q", err, *want.Output)
	case want.Output != nil && got != *want.Output:
		t.Errorf("got  %q\nwant %q", got, *want.Output)
	case want.Output == nil && err == nil:
		t.Errorf("got output %q, want error %s", got, want.Error)
	case want.Output == nil:
		e := err.(*Error)
		if e.Class == internalError {
			t.Errorf("internal error: %v", err)
		}
		if msg := e.Class + ": " + e.Text; msg != want.Error {
			t.Errorf("error %q\nwant  %q", msg, want.Error)
		}
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func mustJSON(t testing.TB, text []byte) *Dict {
	t.Helper()
	v, err := FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v.(*Dict)
}

// caseFile is cases.json: the variables of each case, and those that all cases have.
type caseFile struct {
	Defaults json.RawMessage
	Cases    map[string]json.RawMessage
}

func (f *caseFile) vars(t testing.TB, name string) *Dict {
	t.Helper()
	vars := mustJSON(t, f.Defaults)
	vars.Update(mustJSON(t, f.Cases[name]))
	return vars
}

func TestGoldenTemplates(t *testing.T) {
	var cases caseFile
	readJSON(t, "testdata/cases.json", &cases)
	var expected map[string]map[string]result
	readJSON(t, "testdata/expected.json", &expected)
	files, _ := filepath.Glob("testdata/templates/*.jinja")
	if len(files) == 0 || len(files) != len(expected) {
		t.Fatalf("%d templates, %d of them expected", len(files), len(expected))
	}
	for _, path := range files {
		name := filepath.Base(path)
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := Compile(string(src))
		for c := range cases.Cases {
			t.Run(name+"/"+c, func(t *testing.T) {
				want, ok := expected[name][c]
				if !ok {
					t.Fatal("no expectation; run tools/golden/templates.py")
				}
				check(t, tpl, err, cases.vars(t, c), want)
			})
		}
	}
}

// unitCase is one case of testdata/unit; the format is described in
// tools/golden/templates.py.
type unitCase struct {
	name, template string
	vars           *Dict
	want           result
}

func readUnit(t testing.TB, path string) []unitCase {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []unitCase
	for _, block := range strings.Split(string(b), "### ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		c := unitCase{name: name, vars: NewDict(0)}
		lines := strings.Split(rest, "\n")
		if strings.HasPrefix(lines[0], "@ ") {
			c.vars = mustJSON(t, []byte(lines[0][2:]))
			lines = lines[1:]
		}
		end := 0
		for end < len(lines) && !strings.HasPrefix(lines[end], "=> ") && !strings.HasPrefix(lines[end], "=! ") {
			end++
		}
		if end == len(lines) {
			t.Fatalf("%s: %s has no result; run tools/golden/templates.py", path, name)
		}
		c.template = strings.Join(lines[:end], "\n")
		var text string
		if err := json.Unmarshal([]byte(lines[end][3:]), &text); err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		if lines[end][1] == '!' {
			c.want.Error = text
		} else {
			c.want.Output = &text
		}
		out = append(out, c)
	}
	return out
}

func TestGoldenUnit(t *testing.T) {
	files, _ := filepath.Glob("testdata/unit/*.txt")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, path := range files {
		group := strings.TrimSuffix(filepath.Base(path), ".txt")
		for _, c := range readUnit(t, path) {
			t.Run(group+"/"+c.name, func(t *testing.T) {
				tpl, err := Compile(c.template)
				check(t, tpl, err, c.vars, c.want)
			})
		}
	}
}
