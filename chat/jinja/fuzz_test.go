package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCompileRender: any template gives a text or one of the package's own errors, within
// the limits.
func FuzzCompileRender(f *testing.F) {
	files, _ := filepath.Glob("testdata/templates/*.jinja")
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	units, _ := filepath.Glob("testdata/unit/*.txt")
	for _, path := range units {
		for _, c := range readUnit(f, path) {
			f.Add(c.template)
		}
	}
	for _, h := range hostile {
		if len(h.template) < 2000 {
			f.Add(h.template)
		}
	}
	vars := mustJSON(f, []byte(`{"messages": [{"role": "user", "content": "Hi <b>\u00e9\ud83c\udf89"}, {"role": "assistant", "content": null,
		"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]}],
		"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}}}],
		"s": "a b,c", "n": 3, "f": 0.5, "big": 123456789012345678901234567890, "add_generation_prompt": true}`))
	limits := Limits{Steps: 20_000, Memory: 4 << 20, Output: 1 << 20, Depth: 50}
	f.Fuzz(func(t *testing.T, src string) {
		tpl, err := Compile(src)
		if err != nil {
			checkError(t, err, ErrSyntax)
			return
		}
		tpl.Variables()
		tpl.IteratesContent()
		out, err := tpl.Render(vars, Options{Limits: limits, Now: goldenClock})
		if err != nil {
			checkError(t, err, ErrRender, ErrLimit, ErrRaised)
			return
		}
		if len(out) > limits.Output {
			t.Errorf("%d bytes of output", len(out))
		}
		if !utf8.ValidString(out) {
			t.Errorf("invalid UTF-8: %q", out)
		}
		if again, err := tpl.Render(vars, Options{Limits: limits, Now: goldenClock}); err != nil || again != out {
			t.Errorf("a second time: %q, %v; first %q", again, err, out)
		}
	})
}

// checkError checks that err is an *Error with a line of the template that wraps one of
// the kinds.
func checkError(t *testing.T, err error, kinds ...error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Class == internalError {
		t.Fatalf("error %v", err)
	}
	if e.Line < 1 {
		t.Errorf("line %d in %v", e.Line, err)
	}
	for _, k := range kinds {
		if errors.Is(err, k) {
			return
		}
	}
	t.Fatalf("error %v is none of %v", err, kinds)
}

// FuzzFromJSON: FromJSON accepts the same texts as encoding/json, except for those with
// invalid UTF-8, deep nesting or too many digits, and tojson writes its values back.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{
		`null`, `{"a": [1, 1.0, -0, -0.0, 1e5, 1E-7, 12345678901234567890], "b": {"c": "\u00e9\ud83c\udf89\ud800\n\\\"\/"}}`,
		`[[[[[[]]]]]]`, `"\ud800\u0041"`, `{"a":1,"a":2}`, ` [ 1 , 2 ] `, `[1,]`, `{"a" 1}`, `{a:1}`, `01`, `1.`, `.5`, `-`, `+1`, `1e`, `"a`, `"\x"`, `"\u12"`,
		"\"\x01\"", `tru`, `nulll`, `[1 2]`, `NaN`, `Infinity`, `1e999`, strings.Repeat("[", 600), strings.Repeat("9", 4400), "\xff", `"` + "\xff" + `"`, ``, `{}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	tpl, err := Compile(`{{ v | tojson }}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := FromJSON(text)
		if err != nil {
			if !errors.Is(err, ErrJSON) {
				t.Fatalf("error %v", err)
			}
			if json.Valid(text) && utf8.Valid(text) && !excused(err) {
				t.Fatalf("refused %q: %v", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted %q", text)
		}
		vars := NewDict(1)
		vars.Set("v", v)
		written, err := tpl.Render(vars, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(written, "Infinity") { // 1e999, as in Python
			return
		}
		again, err := FromJSON([]byte(written))
		if err != nil {
			t.Fatalf("%q from %q: %v", written, text, err)
		}
		vars.Set("v", again)
		if twice, err := tpl.Render(vars, Options{}); err != nil || twice != written {
			t.Fatalf("%q, then %q: %v", written, twice, err)
		}
	})
}

func excused(err error) bool {
	for _, reason := range []string{"nested too deeply", "too many values", "Exceeds the limit"} {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}
	return false
}
