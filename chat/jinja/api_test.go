package jinja

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func render(t testing.TB, src string, vars *Dict) (string, error) {
	t.Helper()
	tpl, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return tpl.Render(vars, Options{Now: goldenClock})
}

// TestErrors checks kind, class, text and line of errors.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		src   string
		kind  error
		class string
		text  string
		line  int
	}{
		{"a\n{{ raise_exception('no ' ~ 1) }}", ErrRaised, "TemplateError", "no 1", 2},
		{"{{ raise_exception(none) }}", ErrRaised, "TemplateError", "", 1},
		{"\n\n{{ x.y }}", ErrRender, "UndefinedError", "'x' is undefined", 3},
		{"{% if true %}\n{{ 'a' + 1 }}\n{% endif %}", ErrRender, "TypeError", `can only concatenate str (not "int") to str`, 2},
		{"\n{{ 1 + }}", ErrSyntax, "TemplateSyntaxError", "unexpected 'end of print statement'", 2},
		{"{{ 1 | nope }}", ErrSyntax, "TemplateAssertionError", "No filter named 'nope'.", 1},
		{"\xff", ErrSyntax, "TemplateSyntaxError", "template is not valid UTF-8", 1},
		{"{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", ErrLimit, "RecursionError", "maximum recursion depth exceeded", 1},
		{"{{ 'a' * 10 ** 12 }}", ErrLimit, "ResourceError", "chat template exceeded its limit of memory", 1},
	} {
		tpl, err := Compile(c.src)
		if err == nil {
			_, err = tpl.Render(nil, Options{})
		}
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) || e.Class != c.class || e.Text != c.text || e.Line != c.line {
			t.Errorf("%q: %v (%T)", c.src, err, err)
		}
	}
}

// TestVariables compares with jinja2.meta.find_undeclared_variables.
func TestVariables(t *testing.T) {
	var want map[string][]string
	readJSON(t, "testdata/variables.json", &want)
	files, _ := filepath.Glob("testdata/templates/*.jinja")
	if len(files) != len(want) {
		t.Errorf("%d templates, %d expected", len(files), len(want))
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := Compile(string(src))
		if err != nil {
			t.Fatal(err)
		}
		got := tpl.Variables()
		slices.Sort(got)
		if !slices.Equal(got, want[filepath.Base(path)]) {
			t.Errorf("%s: got %v, want %v", path, got, want[filepath.Base(path)])
		}
	}
}

// TestIteratesContent follows the rules by which vLLM detects the format of content
// (docs/interface/chat-completions.md, section 3.6).
func TestIteratesContent(t *testing.T) {
	for _, c := range []struct {
		src  string
		want bool
	}{
		{`{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}`, true},
		{`{% for m in messages %}{% for c in m['content'] %}{% endfor %}{% endfor %}`, true},
		{`{% for m in messages[1:] %}{% for c in m.content | list %}{% endfor %}{% endfor %}`, true},
		{`{% for m in messages | reverse %}{% if x %}{% for c in m.content[1:] %}{% endfor %}{% endif %}{% endfor %}`, true},
		{`{% set rest = messages[1:] %}{% set rest2 = rest %}{% for m in rest2 %}{% for c in m.content %}{% endfor %}{% endfor %}`, true},
		{`{% set a = messages %}{% set messages = a %}{% for m in a %}{% for c in m.content %}{% endfor %}{% endfor %}`, true},
		{`{% macro f(m) %}{% for c in m.content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ f(m) }}{% endfor %}`, true},
		{`{% for m in messages %}{{ m.content }}{% endfor %}`, false},
		{`{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}`, false},
		{`{% for m in others %}{% for c in m.content %}{% endfor %}{% endfor %}`, false},
		{`{% for m in messages %}{% set content = m.content %}{% for c in content %}{% endfor %}{% endfor %}`, false},
		{`{% for c in messages[0].content %}{% endfor %}`, false},
		{`{% for m in messages %}{% for a, b in m.content %}{% endfor %}{% endfor %}`, false},
		{`{% for a, b in messages %}{% endfor %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}`, false},
		{`{% set a, b = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}`, false},
		{``, false},
	} {
		tpl, err := Compile(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if got := tpl.IteratesContent(); got != c.want {
			t.Errorf("%s: %v", c.src, got)
		}
	}
}

// TestFromJSON compares values, shown by their repr, and errors with those of json.loads.
func TestFromJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b": 1, "a": 1.0, "b": 2}`, `{'b': 2, 'a': 1.0}`},
		{`[1, -1, 1e3, 1E-7, 1.50, -0, -0.0, 9223372036854775807, 9223372036854775808, 1e999]`,
			`[1, -1, 1000.0, 1e-07, 1.5, 0, -0.0, 9223372036854775807, 9223372036854775808, inf]`},
		{`["\u00e9\n\/\"", "\ud83c\udf89", "\ud800", "\udf89x", "\ud800\u0041", ""]`, `['é\n/"', '🎉', '�', '�x', '�A', '']`},
		{" \t\r\n[ true , false , null ] ", `[True, False, None]`},
		{`{}`, `{}`}, {`[]`, `[]`}, {`"a"`, `'a'`}, {`{"": {"x": []}}`, `{'': {'x': []}}`},
		{strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500)},
	} {
		v, err := FromJSON([]byte(c.in))
		if err != nil {
			t.Errorf("%.80q: %v", c.in, err)
			continue
		}
		vars := NewDict(1)
		vars.Set("v", v)
		if got, err := render(t, `{{ [v] }}`, vars); err != nil || got != "["+c.want+"]" {
			t.Errorf("%.80q: %s, %v", c.in, got, err)
		}
	}
	for _, c := range []struct{ in, want string }{
		{``, "Expecting value: line 1 column 1 (char 0)"},
		{`{bad`, "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
		{"[1,\n é]", "Expecting value: line 2 column 2 (char 5)"},
		{`[1,]`, "Expecting value: line 1 column 4 (char 3)"},
		{`{"a" 1}`, "Expecting ':' delimiter: line 1 column 6 (char 5)"},
		{`{"a": 1 "b"}`, "Expecting ',' delimiter: line 1 column 9 (char 8)"},
		{`[1 2]`, "Expecting ',' delimiter: line 1 column 4 (char 3)"},
		{`1 2`, "Extra data: line 1 column 3 (char 2)"},
		{`"abc`, "Unterminated string starting at: line 1 column 1 (char 0)"},
		{`"\q"`, `Invalid \escape: line 1 column 2 (char 1)`},
		{`"\u12"`, `Invalid \uXXXX escape: line 1 column 3 (char 2)`},
		{"\"a\nb\"", "Invalid control character at: line 1 column 3 (char 2)"},
		{`NaN`, "Expecting value: line 1 column 1 (char 0)"},
		{`-`, "Expecting value: line 1 column 1 (char 0)"},
		{`01`, "Extra data: line 1 column 2 (char 1)"},
		{`1.`, "Extra data: line 1 column 2 (char 1)"},
		{strings.Repeat("[", 502), "nested too deeply: line 1 column 502 (char 501)"},
		{"[" + strings.Repeat("1,", 1<<20) + "1]", "too many values: line 1 column 2097152 (char 2097151)"},
		{strings.Repeat("1", 4301), "Exceeds the limit (4300 digits) for integer string conversion: line 1 column 1 (char 0)"},
	} {
		_, err := FromJSON([]byte(c.in))
		var e *JSONError
		if !errors.As(err, &e) || !errors.Is(err, ErrJSON) || e.Text != c.want {
			t.Errorf("%.80q: %v, want %s", c.in, err, c.want)
		}
	}
	if _, err := FromJSON([]byte("\"\xff\"")); !errors.Is(err, ErrJSON) {
		t.Errorf("invalid UTF-8: %v", err)
	}
}

// TestTooManyValues: values beyond the limit of FromJSON take no memory.
func TestTooManyValues(t *testing.T) {
	text := []byte("[" + strings.Repeat("1,", 8*maxJSONValues) + "1]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := FromJSON(text)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrJSON) {
		t.Errorf("error %v", err)
	}
	if total := after.TotalAlloc - before.TotalAlloc; total > 192<<20 {
		t.Errorf("%d MiB allocated", total>>20)
	}
}

// TestDict: order, lookup and overwriting, below and above the size from which a Dict keeps
// an index.
func TestDict(t *testing.T) {
	for _, n := range []int{0, 1, indexFrom - 1, indexFrom, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var keys []string
			want, d := map[string]Value{}, NewDict(0)
			for i := range n {
				key := fmt.Sprint("k", i)
				keys, want[key] = append(keys, key), int64(i)
				d.Set(key, int64(i))
			}
			if n > 0 {
				want["k0"] = "new"
				d.Set("k0", "new")
			}
			copied := NewDict(0)
			copied.Update(d)
			checkDict(t, d, keys, want)
			checkDict(t, copied, keys, want)
		})
	}
}

// checkDict checks that the dict has these keys in this order, with these values.
func checkDict(t *testing.T, d *Dict, keys []string, want map[string]Value) {
	t.Helper()
	if d.Len() != len(keys) {
		t.Errorf("%d entries, want %d", d.Len(), len(keys))
	}
	var got []string
	for k, v := range d.All() {
		got = append(got, k)
		if found, ok := d.Get(k); !ok || found != v || v != want[k] {
			t.Errorf("%s is %v, by Get %v, %v; want %v", k, v, found, ok, want[k])
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("keys %v, want %v", got, keys)
	}
	for range d.All() {
		break // an iteration can end early
	}
	if _, ok := d.Get("none"); ok {
		t.Error("found a key that is not there")
	}
}

func TestList(t *testing.T) {
	l := NewList("a", nil)
	if l.Len() != 2 || l.At(0) != "a" || l.At(1) != nil {
		t.Errorf("list %v", l)
	}
}

// TestForeignValues: values of types that a caller should not pass are errors, not panics.
func TestForeignValues(t *testing.T) {
	vars := NewDict(0)
	vars.Set("x", []int{1})
	vars.Set("y", struct{ f func() }{})
	for _, src := range []string{`{{ x }}{{ x == x }}{{ x in [x, y] }}{{ [x] == [x] }}`, `{{ x.a }}`, `{{ x | tojson }}`, `{{ x < y }}`, `{{ {x: 1} }}`, `{{ x() }}`, `{{ x + y }}`} {
		if _, err := render(t, src, vars); err != nil {
			checkError(t, err, ErrRender)
		}
	}
}

// TestConcurrentRenders shares a template and its variables between goroutines, for the
// race detector.
func TestConcurrentRenders(t *testing.T) {
	var cases caseFile
	readJSON(t, "testdata/cases.json", &cases)
	files, _ := filepath.Glob("testdata/templates/*.jinja")
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := Compile(string(src))
		if err != nil {
			t.Fatal(err)
		}
		vars := cases.vars(t, "tools_parallel")
		want, wantErr := tpl.Render(vars, Options{Now: goldenClock})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					got, err := tpl.Render(vars, Options{Now: goldenClock})
					if got != want || (err == nil) != (wantErr == nil) {
						t.Errorf("%s: %q, %v", path, got, err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestNotSupported: the package documentation lists what a template cannot use.
func TestNotSupported(t *testing.T) {
	for src, want := range map[string]error{
		`{% autoescape true %}{% endautoescape %}`: ErrSyntax,
		`{{ '\N{DIGIT ONE}' }}`:                    ErrSyntax,
		`{{ [1] | random }}`:                       ErrRender,
		`{{ [1] | pprint }}`:                       ErrRender,
		`{{ 'a' | urlize }}`:                       ErrRender,
		`{{ 'a' | wordwrap }}`:                     ErrRender,
		`{{ lipsum() }}`:                           ErrRender,
		`{{ 'a'.encode() }}`:                       ErrRender,
		`{{ 'a'.translate({}) }}`:                  ErrRender,
		`{{ {}[1:, 2] }}`:                          ErrSyntax,
	} {
		tpl, err := Compile(src)
		if err == nil {
			_, err = tpl.Render(nil, Options{})
		}
		checkError(t, err, want)
	}
	tpl, err := Compile(`{{ lipsum }}`)
	if err != nil || len(tpl.Variables()) != 0 {
		t.Errorf("%v, %v", tpl.Variables(), err)
	}
}

// TestNewlines: all three kinds end a line, and one at the end of the template is
// removed.
func TestNewlines(t *testing.T) {
	got, err := render(t, "a\r\nb\rc{% if true %}\r\nd{% endif %}\r\n", nil)
	if err != nil || got != "a\nb\ncd" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestClock: strftime_now uses the clock of the options.
func TestClock(t *testing.T) {
	tpl, err := Compile(`{{ strftime_now('%Y-%m-%d %U %W %V %G %e %k %l %P %C %s %5d|%_m|%^a|%05Y') }}`)
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[time.Time]string{
		time.Date(2024, 12, 30, 0, 5, 6, 0, time.UTC): `2024-12-30 52 53 01 2025 30  0 12 am 20 1735517106 00030|12|MON|02024`,
		time.Date(2027, 1, 3, 13, 0, 0, 0, time.UTC):  `2027-01-03 01 00 53 2026  3 13  1 pm 20 1798981200 00003| 1|SUN|02027`,
	} {
		got, err := tpl.Render(nil, Options{Now: func() time.Time { return now }})
		if err != nil || got != want {
			t.Errorf("%v: %q, %v", now, got, err)
		}
	}
	before := time.Now().Year()
	if got, err := render(t, `{{ strftime_now is defined }}`, nil); err != nil || got != "True" {
		t.Errorf("%q, %v", got, err)
	}
	tpl, _ = Compile(`{{ strftime_now('%Y') }}`)
	if got, err := tpl.Render(nil, Options{}); err != nil || got < fmt.Sprint(before) {
		t.Errorf("%q, %v", got, err)
	}
}
