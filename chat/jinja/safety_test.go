package jinja

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are templates that can end a process which is not prepared for them: they use
// stack, time or memory without bound, or read what a template must not read.
var hostile = []struct {
	name, template string
	// want is the kind of the error, nil for a template that is harmless here.
	want error
}{
	{"a macro that calls itself", `{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`, ErrLimit},
	{"3M nested parentheses", `{{ ` + strings.Repeat("(", 3_000_000), ErrSyntax},
	{"nested parentheses within the size limit", `{{ ` + strings.Repeat("(", 200_000) + "1" + strings.Repeat(")", 200_000) + ` }}`, ErrSyntax},
	{"300k nested ifs", strings.Repeat("{% if 1 %}", 300_000), ErrSyntax},
	{"nested ifs within the size limit", strings.Repeat("{% if 1 %}", 50_000), ErrSyntax},
	{"a range of 10^9", `{% for i in range(1000000000) %}{% endfor %}`, ErrRender},
	{"10^5 times 10^5 rounds", `{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`, ErrLimit},
	{"2 GB of one letter", `{{ 'a' * 2000000000 }}`, ErrLimit},
	{"a text doubled 30 times", `{% set ns = namespace(s='a') %}{% for i in range(30) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`, ErrLimit},
	{"a file included", `{% include '/etc/hostname' %}`, ErrRender},

	{"a file imported", `{% from '/etc/hostname' import x %}`, ErrRender},
	{"a file extended", `{% extends '/etc/hostname' %}`, ErrRender},
	{"nested lists", `{{ ` + strings.Repeat("[", 200_000), ErrSyntax},
	{"nested dicts", `{{ ` + strings.Repeat("{1:", 100_000), ErrSyntax},
	{"nots without end", `{{ ` + strings.Repeat("not ", 100_000) + `1 }}`, ErrSyntax},
	{"signs without end", `{{ ` + strings.Repeat("-", 100_000) + `1 }}`, ErrSyntax},
	{"a sum without end", `{{ 1` + strings.Repeat("+1", 100_000) + ` }}`, ErrSyntax},
	{"a chain of ors", `{{ 0` + strings.Repeat(" or 0", 100_000) + ` }}`, ErrSyntax},
	{"a chain of filters", `{{ 1` + strings.Repeat("|int", 100_000) + ` }}`, ErrSyntax},
	{"a chain of attributes", `{{ a` + strings.Repeat(".b", 100_000) + ` }}`, ErrSyntax},
	{"a chain of calls", `{{ a` + strings.Repeat("()", 100_000) + ` }}`, ErrSyntax},
	{"a chain of conditions", `{{ 1` + strings.Repeat(" if 1", 80_000) + ` }}`, ErrSyntax},
	{"a chain of elses", `{{ 1` + strings.Repeat(" if 1 else 1", 40_000) + ` }}`, ErrSyntax},
	{"nested macros", strings.Repeat("{% macro a() %}", 30_000), ErrSyntax},
	{"nested loops", strings.Repeat("{% for a in b %}", 30_000), ErrSyntax},
	{"nested set blocks", strings.Repeat("{% set a %}", 30_000), ErrSyntax},
	{"nested targets", `{% for ` + strings.Repeat("(", 100_000), ErrSyntax},
	{"a filter block of many filters", `{% filter ` + strings.Repeat("upper|", 80_000) + `upper %}{% endfilter %}`, ErrSyntax},

	{"two macros that call each other", `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`, ErrLimit},
	{"macros that call each other by namespace", `{% set ns = namespace() %}{% macro a() %}{{ ns.b() }}{% endmacro %}{% set ns.b = a %}{{ a() }}`, ErrLimit},
	{"a call block in its own macro", `{% macro a() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{{ a() }}`, ErrLimit},
	{"a loop that calls itself", `{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`, ErrLimit},
	{"a block that calls itself", `{% block b %}{{ self.b() }}{% endblock %}`, ErrLimit},
	{"a macro whose default calls it", `{% macro a(x=a()) %}{% endmacro %}{{ a() }}`, ErrLimit},
	{"a namespace in itself, printed", `{% set ns = namespace() %}{% set ns.a = [ns, {1: ns}] %}{{ ns }}`, nil},
	{"a namespace in itself, as JSON", `{% set ns = namespace() %}{% set ns.a = ns %}{{ [ns] | tojson }}`, ErrRender},
	{"a namespace in itself, compared", `{% set a = namespace() %}{% set b = namespace() %}{% set a.x = [b] %}{% set b.x = [a] %}{{ a == b }}{{ [a] == [b] }}`, nil},
	{"a deep list, printed", deep(`[ns.x]`) + `{{ ns.x }}`, ErrLimit},
	{"a deep list, as JSON", deep(`[ns.x]`) + `{{ ns.x | tojson }}`, ErrLimit},
	{"a deep list, as indented JSON", deep(`[ns.x]`) + `{{ ns.x | tojson(indent=1) }}`, ErrLimit},
	{"a deep list, compared", deep(`[ns.x]`) + `{% set ns.y = ns.x %}{% set ns.x = 0 %}` + strings.TrimPrefix(deep(`[ns.x]`), nsStart) + `{{ ns.x == ns.y }}`, ErrLimit},
	{"a deep list, ordered", deep(`[ns.x]`) + `{% set ns.y = ns.x %}{% set ns.x = 0 %}` + strings.TrimPrefix(deep(`[ns.x]`), nsStart) + `{{ ns.x < ns.y }}`, ErrLimit},
	{"a deep tuple as a key", deep(`(ns.x,)`) + `{{ {ns.x: 1} }}`, ErrLimit},
	{"a deep tuple looked up", deep(`(ns.x,)`) + `{{ {}[ns.x] }}`, ErrLimit},
	{"a deep dict, printed", deep(`{1: ns.x}`) + `{{ ns.x | string }}`, ErrLimit},
	{"a deep list in an error's text", deep(`[ns.x]`) + `{{ {}[ns.x].y }}`, ErrRender},
	{"a wide list, printed: 2^60 items", wide + `{{ ns.x }}`, ErrLimit},
	{"a wide list, as JSON", wide + `{{ ns.x | tojson }}`, ErrLimit},
	{"a wide list, compared", wide + `{% set ns.y = ns.x %}{% set ns.x = [] %}` + strings.TrimPrefix(wide, nsStart) + `{{ ns.x == ns.y }}`, ErrLimit},
	{"a wide tuple as a key", strings.NewReplacer("[ns.x, ns.x]", "(ns.x, ns.x)", "x=[]", "x=()").Replace(wide) + `{{ {ns.x: 1} }}`, ErrLimit},
	{"2^(2^20)", `{% set ns = namespace(n=2) %}{% for i in range(20) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}`, ErrLimit},
	{"a power of powers", `{{ 9 ** (9 ** 9) }}`, ErrLimit},
	{"a huge negative shift of a power", `{{ 2 ** (2 ** 62) }}`, ErrLimit},
	{"a long int printed", `{{ 10 ** 5000 }}`, ErrRender},
	{"a long int rounded", `{{ 1 | round(-1000000000) }}`, nil},
	{"a wide field", `{{ '%1000000000d' % 1 }}`, ErrLimit},
	{"a wide field by format", `{{ '{:1000000000}'.format(1) }}`, ErrLimit},
	{"a wide field by star", `{{ '%*d' % (1000000000, 1) }}`, ErrLimit},
	{"a precise field", `{{ '%.1000000000f' % 1 }}`, ErrLimit},
	{"many fields", `{{ ('%1000000d' * 1000) % ((1,) * 1000) }}`, ErrLimit},
	{"fields in fields", `{{ '{:{:{:{}}}}'.format(1, 2, 3, 4) }}`, ErrRender},
	{"ljust", `{{ 'a'.ljust(2000000000) }}`, ErrLimit},
	{"center", `{{ 'a' | center(2000000000) }}`, ErrLimit},
	{"zfill", `{{ '1'.zfill(9000000000000000000) }}`, ErrLimit},
	{"expandtabs", `{{ '\t'.expandtabs(9000000000000000000) }}`, ErrLimit},
	{"indent", `{{ ('a\n' * 1000) | indent(100000000) }}`, ErrLimit},
	{"a JSON indent", `{{ [1] | tojson(indent=2000000000) }}`, ErrLimit},
	{"a strftime width", `{{ strftime_now('%1000000d') }}{{ strftime_now('%999999999999999999999d') }}`, nil},
	{"replace everywhere", `{{ ('a' * 1000000).replace('', 'b' * 1000000) }}`, ErrLimit},
	{"join by a long text", `{{ range(100000) | join('a' * 1000000) }}`, ErrLimit},
	{"a long list repeated", `{{ ([1] * 1000000) * 1000000 }}`, ErrLimit},
	{"a batch of few, filled to many", `{{ [1] | batch(2000000000, 'x') | list }}`, ErrLimit},
	{"many slices", `{{ [1] | slice(2000000000) | list }}`, ErrLimit},
	{"lists that grow", `{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [i] %}{% endfor %}`, ErrLimit},
	{"sorting again and again", `{% set l = range(100000) | list %}{% for i in range(1000) %}{% set x = l | sort(reverse=true) %}{% endfor %}`, ErrLimit},
	{"long texts searched again and again", `{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}`, ErrLimit},
	{"long texts cut again and again", `{% set s = 'é' * 5000000 %}{% for i in range(100000) %}{% set x = s[4000000] %}{% endfor %}`, ErrLimit},
	{"long texts in upper case", `{% set s = 'aé' * 5000000 %}{% for i in range(100000) %}{% set x = s | upper %}{% endfor %}`, ErrLimit},
	{"long texts compared again and again", `{% set s = 'a' * 10000000 %}{% set t = 'a' * 10000000 %}{% for i in range(100000) %}{% if s == t %}{% endif %}{% endfor %}`, ErrLimit},
	{"long texts ordered again and again", `{% set s = 'a' * 10000000 %}{% set t = 'a' * 10000000 %}{% for i in range(100000) %}{% if s < t %}{% endif %}{% endfor %}`, ErrLimit},
	{"long texts in lists compared", `{% set s = ['a' * 10000000] %}{% set t = ['a' * 10000000] %}{% for i in range(100000) %}{% if s == t %}{% endif %}{% endfor %}`, ErrLimit},
	{"long keys looked up", `{% set d = {'a' * 10000000: 1} %}{% set t = 'a' * 10000000 %}{% for i in range(100000) %}{% if d[t] %}{% endif %}{% endfor %}`, ErrLimit},
	{"a long name looked up", `{% set d = {} %}{% for i in range(100000) %}{% if d.` + strings.Repeat("a", 400_000) + ` %}{% endif %}{% endfor %}`, ErrLimit},
	{"a wide tuple looked up", strings.NewReplacer("[ns.x, ns.x]", "(ns.x, ns.x)", "x=[]", "x=()").Replace(wide) + `{{ {}[ns.x] }}`, ErrLimit},
	{"defaults of many nodes", `{% macro m(x=[` + strings.Repeat("1,", 200_000) + `]) %}{% endmacro %}{% for i in range(100000) %}{{ m() }}{% endfor %}`, ErrLimit},
	{"a long target", `{% set l = [1] * 50000 %}{% for i in range(100000) %}{% set ` + strings.Repeat("a,", 50_000)[:99_999] + ` = l %}{% endfor %}`, ErrLimit},
	{"many conversions of times", `{{ strftime_now('%c' * 20000000) }}`, ErrLimit},
	{"lines without end", `{% set x = ('\n' * 50000000).splitlines() %}`, ErrLimit},
	{"words without end", `{% set x = ('a ' * 50000000).split() %}`, ErrLimit},
	{"much output", `{% set s = 'a' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}`, ErrLimit},
	{"much output in a macro", `{% set s = 'a' * 1000000 %}{% macro m() %}{% for i in range(100) %}{{ s }}{% endfor %}{% endmacro %}{{ m() }}`, ErrLimit},
	{"many arguments", `{% macro m() %}{{ varargs | length }}{% endmacro %}{% for i in range(1000) %}{{ m(*range(100000)) }}{% endfor %}`, ErrLimit},
	{"a loop over its own loop", `{% for x in range(100000) %}{% for y, l in loop %}{% endfor %}{% endfor %}`, nil},
	{"a generator of generators", `{% set ns = namespace(g=[1]) %}{% for i in range(100000) %}{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}`, ErrLimit},
	{"text keys that collide", `{% set ns = namespace(d={}) %}{% for i in range(100000) %}{% set ns.d = dict(ns.d, **{'k' ~ i: i}) %}{% endfor %}`, ErrLimit},
	{"many namespaces", `{% set ns = namespace(x=0) %}{% for i in range(100000) %}{% set ns.x = namespace(y=ns.x) %}{% endfor %}{{ ns }}`, ErrLimit},
	{"internals", `{{ ''.__class__.__mro__[1].__subclasses__() }}`, ErrRender},
	{"internals by format", `{{ '{0.__class__.__init__.__globals__}'.format(range) }}`, ErrRender},
	{"internals by map", `{{ [''] | map(attribute='__class__.__base__') | list }}`, ErrRender},
	{"internals by attr", `{{ '' | attr('__class__') | attr('mro') }}`, ErrRender},
	{"a dict that changes while it is walked", `{% set d = {} %}{% for k in d %}{{ d.update({'x': 1}) }}{% endfor %}{{ d.setdefault('a', 1) }}`, ErrRender},
}

const nsStart = `{% set ns = namespace(x=[]) %}`

// deep nests 20,000 containers.
func deep(inner string) string {
	return nsStart + `{% for i in range(20000) %}{% set ns.x = ` + inner + ` %}{% endfor %}`
}

// wide makes a list that is 2^60 items long when it is written out.
const wide = nsStart + `{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}`

// TestHostileTemplates: an error or a harmless end, soon, and with bounded
// memory. A stack overflow or a lack of memory would end the test binary, a
// template that never ends its time limit. (go test -v shows how long each
// takes; a second at most on an idle machine.)
func TestHostileTemplates(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tpl, err := Compile(c.template)
			if err == nil {
				_, err = tpl.Render(nil, Options{Now: goldenClock})
			}
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			var e *Error
			if errors.As(err, &e) && (e.Class == internalError || len(e.Text) > 2000) {
				t.Errorf("error %.300v", err)
			}
			// The limit on memory is 256 MiB. Memory that is not counted at all would exceed
			// this bound by orders of magnitude.
			if total := after.TotalAlloc - before.TotalAlloc; total > 1<<30 {
				t.Errorf("%d MiB allocated", total>>20)
			}
		})
	}
}

// TestDoneStopsRender: a render stops within a slice of steps after its Options.Done was
// closed, and not otherwise.
func TestDoneStopsRender(t *testing.T) {
	tpl, err := Compile(`{{ strftime_now('') }}{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	now := func() time.Time { close(done); return goldenClock() }
	if _, err := tpl.Render(nil, Options{Now: now, Done: done, Limits: Limits{Steps: 1 << 40}}); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want ErrStopped", err)
	}
	if _, err := tpl.Render(nil, Options{Now: goldenClock, Done: make(chan struct{}), Limits: Limits{Steps: 1000}}); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
	small, _ := Compile(`{{ 1 }}`)
	if _, err := small.Render(nil, Options{Now: goldenClock, Done: done}); !errors.Is(err, ErrStopped) {
		t.Errorf("a render that nobody waits for from the start: %v", err)
	}
}

// TestLimits: every limit can be set, and a render fails exactly if it exceeds one.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		template string
		limits   Limits
		ok       bool
	}{
		{`{% for i in range(100) %}{% endfor %}`, Limits{Steps: 150}, true},
		{`{% for i in range(1000) %}{% endfor %}`, Limits{Steps: 150}, false},
		{`{{ 'a' * 1000 }}`, Limits{Memory: 5000}, true},
		{`{{ 'a' * 10000 }}`, Limits{Memory: 5000}, false},
		{`{% for i in range(30) %}{% set s = 'a' * 100 %}{% endfor %}`, Limits{Memory: 5000}, true},
		{`{% for i in range(60) %}{% set s = 'a' * 100 %}{% endfor %}`, Limits{Memory: 5000}, false},
		{`{{ [1] * 100 }}`, Limits{Memory: 5000}, true},
		{`{{ [1] * 1000 }}`, Limits{Memory: 5000}, false},
		{`{{ 'a' * 10 }}`, Limits{Output: 10}, true},
		{`{{ 'a' * 10 }}b`, Limits{Output: 10}, false},
		{`{% macro f(n) %}{{ f(n - 1) if n > 1 }}{% endmacro %}{{ f(10) }}`, Limits{Depth: 10}, true},
		{`{% macro f(n) %}{{ f(n - 1) if n > 1 }}{% endmacro %}{{ f(11) }}`, Limits{Depth: 10}, false},
		{`{% macro f(n) %}{{ f(n - 1) if n > 1 }}{% endmacro %}{{ f(120) }}`, Limits{}, true},
		{`{% macro f(n) %}{{ f(n - 1) if n > 1 }}{% endmacro %}{{ f(121) }}`, Limits{}, false},
	} {
		tpl, err := Compile(c.template)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tpl.Render(nil, Options{Limits: c.limits})
		if c.ok && err != nil || !c.ok && !errors.Is(err, ErrLimit) {
			t.Errorf("%s under %+v: %v", c.template, c.limits, err)
		}
	}
}

// TestDepthLimit checks how deeply a template may nest, to the level.
func TestDepthLimit(t *testing.T) {
	nest := func(open, inner, close string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
	}
	for _, c := range []struct {
		open, inner, close string
		most               int
	}{
		{"(", "1", ")", 73},
		{"[", "1", "]", 73},
		{"{1: ", "1", "}", 73},
		{"f(", "1", ")", 73},
		{"not ", "1", "", 147},
		{"1 if 1 else ", "1", "", 147},
	} {
		for n, ok := range map[int]bool{c.most: true, c.most + 1: false} {
			_, err := Compile("{{ " + nest(c.open, c.inner, c.close, n) + " }}")
			if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "nested too deeply") {
				t.Errorf("%d times %q: %v", n, c.open, err)
			}
		}
	}
	for n, ok := range map[int]bool{74: true, 75: false} {
		if _, err := Compile(nest("{% if 1 %}", "", "{% endif %}", n)); ok != (err == nil) {
			t.Errorf("%d nested ifs: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{300: true, 400: false} {
		if _, err := Compile("{{ 1" + strings.Repeat("+1", n) + " }}"); ok != (err == nil) {
			t.Errorf("a sum of %d: %v", n, err)
		}
	}
}

// TestSourceLimit: MaxSource bytes are accepted, one more is not.
func TestSourceLimit(t *testing.T) {
	if _, err := Compile(strings.Repeat("a", MaxSource)); err != nil {
		t.Error(err)
	}
	if _, err := Compile(strings.Repeat("a", MaxSource+1)); !errors.Is(err, ErrSyntax) {
		t.Errorf("error %v", err)
	}
}

// TestLargestTemplates: templates of the largest size compile in bounded time and memory,
// also those with very many names and scopes.
func TestLargestTemplates(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, MaxSource/len(unit)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < MaxSource-200; i++ {
			fmt.Fprintf(&b, format, i, i)
		}
		return b.String()
	}
	depth := 60
	nested := strings.Repeat("{% for a in b %}{% if a %}", depth) + strings.Repeat("{{ loop.x }}", 30_000) + strings.Repeat("{% endif %}{% endfor %}", depth)
	for name, src := range map[string]string{
		"variables":      fill("{{a}}"),
		"names":          numbered("{{ a%d ~ b%d }}"),
		"ifs":            numbered("{%% if a%d %%}{%% set b%d = 1 %%}{%% endif %%}"),
		"loops":          numbered("{%% for a%d in b%d %%}{%% endfor %%}"),
		"macros":         numbered("{%% macro a%d(b%d=1) %%}{%% endmacro %%}"),
		"blocks":         numbered("{%% block a%d %%}{{ b%d }}{%% endblock %%}"),
		"deep loops":     nested,
		"list":           "{{ [" + fill("1,")[:MaxSource-10] + "] }}",
		"concatenation":  "{{ a" + strings.Repeat("~a", MaxSource/2-10) + "}}",
		"comparison":     "{{ a" + strings.Repeat("<a", MaxSource/2-10) + "}}",
		"related names":  numbered("{%% set a%d = messages %%}{%% set messages = a%d %%}"),
		"open comment":   "{#" + fill("{#")[:MaxSource-10],
		"open raws":      fill("{% raw %}"),
		"string escapes": "{{ '" + fill(`\u00e9`)[:MaxSource-16] + "' }}",
		"spaces":         "{{" + strings.Repeat(" ", MaxSource-10) + "1}}",
		"tag ends":       fill("{%-%}"),
	} {
		t.Run(name, func(t *testing.T) {
			if len(src) > MaxSource {
				t.Fatalf("%d bytes", len(src))
			}
			tpl, err := Compile(src)
			if err == nil {
				_, err = tpl.Render(nil, Options{})
			}
			var e *Error
			if errors.As(err, &e) && e.Class == internalError {
				t.Error(err)
			}
		})
	}
}

// TestShippedTemplatesUnderLimits: templates in circulation whose macros never end for a
// schema with a list of types (Hermes-2-Pro, Command-R+) are stopped. The vectors contain
// them; this template has the same defect.
func TestShippedTemplatesUnderLimits(t *testing.T) {
	src := `{% macro py(s) %}{% if s.type == 'string' %}str{% else %}{{ py({'type': s.type}) }}{% endif %}{% endmacro %}` +
		`{% for n, p in tool.parameters.properties.items() %}{{ n }}: {{ py(p) }}{% endfor %}`
	tpl, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	vars := mustJSON(t, []byte(`{"tool": {"parameters": {"properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}}}}`))
	var e *Error
	if _, err = tpl.Render(vars, Options{}); !errors.As(err, &e) || e.Class != "RecursionError" {
		t.Errorf("error %v", err)
	}
}

// TestTemplatesCannotChangeValues: no template can change the values that a caller passes,
// so renders may share them.
func TestTemplatesCannotChangeValues(t *testing.T) {
	files, _ := filepath.Glob("testdata/templates/*.jinja")
	var cases caseFile
	readJSON(t, "testdata/cases.json", &cases)
	vars := cases.vars(t, "tools_parallel")
	print := func() string {
		tpl, _ := Compile(`{{ messages }}{{ tools }}`)
		s, err := tpl.Render(vars, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := print()
	sources := []string{
		`{{ messages | sort(attribute='role') }}{{ messages | reverse | list }}{{ messages[0] | dictsort }}{{ dict(messages[0], x=1) }}`,
		`{{ messages | batch(2, 'x') | list }}{{ messages | slice(4, 'x') | list }}{{ messages + [1] }}{{ messages | list }}`,
		`{% set messages = messages[1:] %}{% set ns = namespace(messages[0]) %}{% set ns.role = 'x' %}{{ ns.role }}`,
		`{% set messages.x %}y{% endset %}`,
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(b))
	}
	for _, src := range sources {
		tpl, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tpl.Render(vars, Options{})
		if after := print(); after != before {
			t.Fatalf("%.60q changed its variables", src)
		}
	}
}

// TestReserve: a render asks before it takes more, never for much more than it takes, and
// stops when it is told no.
func TestReserve(t *testing.T) {
	for _, source := range []string{
		`{% for i in range(64) %}{{ text }}{% endfor %}`,
		`{% set ns = namespace(all=[]) %}{% for i in range(64) %}{% set ns.all = ns.all + [text + 'x'] %}{% endfor %}`,
		`{% set all %}{% for i in range(64) %}{{ text }}{% endfor %}{% endset %}{{ all }}`,
	} {
		tpl, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		vars := NewDict(1)
		vars.Set("text", strings.Repeat("a", 64<<10))
		var asked int64
		if _, err := tpl.Render(vars, Options{Reserve: func(n int64) bool { asked = n; return true }}); err != nil {
			t.Fatal(err)
		}
		if asked < 64*64<<10 || asked > 6*64*64<<10 {
			t.Errorf("%s: asked for %d bytes", source, asked)
		}
		last := int64(0)
		_, err = tpl.Render(vars, Options{Reserve: func(n int64) bool { last = n; return n < 1<<20 }})
		if !errors.Is(err, ErrStopped) || last < 1<<20 || last > 2<<20 {
			t.Errorf("%s: refused at %d bytes: %v", source, last, err)
		}
	}
}
