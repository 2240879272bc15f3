package jinja

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// TestDifferential compares with what tools/golden/jinja_fuzz.py has written
// to the file that WEIR_JINJA_CASES names.
func TestDifferential(t *testing.T) {
	path := os.Getenv("WEIR_JINJA_CASES")
	if path == "" {
		t.Skip("WEIR_JINJA_CASES is not set")
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
		if c.Context != nil { // the last line: the context of all
			context = mustJSON(t, c.Context)
			break
		}
		cases = append(cases, c)
	}
	if context == nil {
		t.Fatal("no context")
	}
	for _, c := range cases {
		t.Run("", func(t *testing.T) {
			tpl, err := Compile(c.Template)
			check(t, tpl, err, context, c.result)
			if t.Failed() {
				t.Logf("template %q", c.Template)
			}
		})
	}
	t.Logf("%d cases", len(cases))
}
