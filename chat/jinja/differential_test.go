package jinja

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// TestDifferential compares renders of random templates with Jinja2's. They are in
// testdata/random.jsonl, or in the file by tools/golden/jinja_fuzz.py that
// WEIR_JINJA_CASES names.
func TestDifferential(t *testing.T) {
	path := os.Getenv("WEIR_JINJA_CASES")
	if path == "" {
		path = "testdata/random.jsonl"
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type diffCase struct {
		result
		Template string
		Context  json.RawMessage
	}
	var cases []diffCase
	var context *Dict
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c diffCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Template == "" { // the last line: the variables of all that have none
			context = mustJSON(t, c.Context)
			break
		}
		cases = append(cases, c)
	}
	if context == nil {
		t.Fatal("no variables")
	}
	for _, c := range cases {
		t.Run("", func(t *testing.T) {
			vars := context
			if c.Context != nil {
				vars = mustJSON(t, c.Context)
			}
			tpl, err := Compile(c.Template)
			check(t, tpl, err, vars, c.result)
			if t.Failed() {
				t.Logf("variables %s\ntemplate %q", c.Context, c.Template)
			}
		})
	}
	t.Logf("%d cases", len(cases))
}
