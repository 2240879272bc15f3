package jinja

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// meterSize is the size of the long operands: bytes of a text, and 64 times the items of a
// list or a dict.
const meterSize = 1 << 18

// meterVars makes the operands. Those with the names of pairs (s and t, l and k, ...) are
// equal and share no memory.
func meterVars(size int) *Dict {
	text := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	list := func(item func(i int) Value) *List {
		items := make([]Value, size/64)
		for i := range items {
			items[i] = item(i)
		}
		return NewList(items...)
	}
	dict := func() *Dict {
		d := NewDict(0)
		for i := range size / 64 {
			d.Set(fmt.Sprint("key", i), int64(i))
		}
		return d
	}
	number := func(i int) Value { return int64(i) }
	word := func(i int) Value { return fmt.Sprint("w", i*7919%1000003) }
	vars := NewDict(32)
	for name, v := range map[string]Value{
		"s": text("Ab c\n<\""), "t": text("Ab c\n<\""), "u": text("Ab é\n\x01Σ"), "v": text("Ab é\n\x01Σ"),
		"a": text("a"), "b": text("a"), "digits": text("7"), "fields": text("{}"), "percents": text("%%"),
		"l": list(number), "k": list(number), "w": list(word), "d": dict(), "e": dict(),
		"texts": NewList(text("a"), text("a"), text("a")), "keyed": NewDict(0),
		"nested": NewList(NewList(list(number))), "nested2": NewList(NewList(list(number))),
		"rows":  list(func(i int) Value { d := NewDict(1); d.Set("x", int64(-i)); return d }),
		"pairs": list(func(i int) Value { return NewList(fmt.Sprint("k", i), int64(i)) }),
	} {
		if d, ok := v.(*Dict); ok && name == "keyed" {
			d.Set(text("a"), int64(1))
		}
		vars.Set(name, v)
	}
	return vars
}

// meterOperators are the operations that are not filters, tests or methods.
var meterOperators = []string{
	`{{ s == t }}`, `{{ s != t }}`, `{{ s < t }}`, `{{ s <= t }}`, `{{ s > t }}`, `{{ s >= t }}`, `{{ a == b }}`, `{{ [s] == [t] }}`, `{{ [a] < [b] }}`,
	`{{ (s,) == (t,) }}`, `{{ {'x': s} == {'x': t} }}`, `{{ l == k }}`, `{{ l < k }}`, `{{ d == e }}`, `{{ nested == nested2 }}`, `{{ d.keys() == e.keys() }}`,
	`{{ d.items() == e.items() }}`, `{{ s|safe == t }}`, `{{ s|safe == t|safe }}`,
	`{% set x = s + t %}`, `{% set x = s ~ t %}`, `{% set x = l + k %}`, `{% set x = (s|safe) + t %}`, `{% set x = s|safe ~ t %}`, `{% set x = l ~ '' %}`,
	`{% set x = 'ab' * 100000 %}`, `{% set x = 100000 * 'ab' %}`, `{% set x = [1] * 10000 %}`, `{% set x = (1,) * 10000 %}`,
	`{{ s[250000] }}`, `{{ u[100000] }}`, `{{ u[-1] }}`, `{% set x = s[1:] %}`, `{% set x = u[1:-1] %}`, `{% set x = s[::2] %}`, `{% set x = u[::-1] %}`, `{% set x = l[::2] %}`,
	`{% set x = l[1:] %}`,
	`{{ 'zz' in s }}`, `{{ 'zz' not in s }}`, `{{ -1 in l }}`, `{{ a in [b] }}`, `{{ b in keyed }}`, `{{ 'x' in w }}`, `{{ a in keyed.keys() }}`, `{{ (b, 1) in keyed.items() }}`,
	`{{ 'x' in s|list }}`, `{{ keyed[b] }}`, `{{ {b: 1}[a] }}`, `{{ {(a, 1): 1}[(b, 1)] }}`, `{{ {a: 1} is mapping }}`,
	`{{ s }}`, `{% set x %}{{ s }}{% endset %}`, `{% filter upper %}{{ s }}{% endfilter %}`, `{% macro m(x) %}{{ x }}{% endmacro %}{% set y = m(s) %}`,
	`{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ s }}{% endcall %}`, `{% generation %}{{ s }}{% endgeneration %}`, `{% block b %}{{ s }}{% endblock %}`,
	`{% for x in l %}{% endfor %}`, `{% for x in s %}{% endfor %}`, `{% for x in l if x < 0 %}{% endfor %}`, `{% for x in d.items() %}{% endfor %}`,
	`{% for x in [l] recursive %}{% if x is iterable %}{{ loop(x) }}{% endif %}{% endfor %}`, `{% for x in l|select %}{{ loop.length }}{% endfor %}`,
	`{% for x in [s, t] %}{% if loop.changed(x) %}{% endif %}{% endfor %}`, `{% for x in [1] %}{{ loop.cycle(*l) }}{% endfor %}`,
	`{% for i in l %}{{ loop.last }}{% endfor %}`, `{% with x = s ~ '' %}{% endwith %}`, `{% if s == t %}{% endif %}`,
	`{% set x = range(50000)|list %}`, `{% for i in range(50000) %}{% endfor %}`, `{% set x = dict(d) %}`, `{% set x = dict(pairs) %}`, `{% set x = dict(d, **e) %}`,
	`{% set x = namespace(d) %}`, `{% set x = namespace(**d) %}`, `{% set x = cycler(*l) %}`, `{% set x = dict.fromkeys(l) %}`, `{{ strftime_now(s) }}`, `{{ strftime_now('%c' * 20000) }}`,
	`{% set x = s % () %}`, `{% set x = '%s' % s %}`, `{% set x = '%r' % u %}`, `{% set x = '%a' % u %}`, `{% set x = percents % () %}`, `{% set x = '%100000s' % 1 %}`,
	`{% set x = '%.100000f' % 1.5 %}`, `{% set x = '%(x)s' % {'x': s} %}`, `{{ 2 ** 100000 == 2 ** 100000 }}`, `{{ 3 ** 50000 // 3 ** 20000 > 1 }}`,
	`{{ 3 ** 50000 % 7 ** 10000 > 1 }}`, `{{ 3 ** 40000 * 7 ** 10000 > 1 }}`,
}

// meterFilters has a use of every filter, meterTests of every test, and meterMethods of
// every method. Those with "" do not depend on the size of their operand.
var meterFilters = map[string]string{
	"abs": "", "attr": "", "default": "", "d": "", "items": `{% set x = d|items|list %}`, "map": `{% set x = l|map('string')|list %}`,
	"select": `{% set x = l|select('odd')|list %}`, "reject": `{% set x = l|reject('odd')|list %}`,
	"selectattr": `{% set x = rows|selectattr('x')|list %}`, "rejectattr": `{% set x = rows|rejectattr('x', 'eq', 1)|list %}`,
	"upper": `{% set x = u|upper %}`, "lower": `{% set x = u|lower %}`, "capitalize": `{% set x = u|capitalize %}`, "title": `{% set x = u|title %}`,
	"string": `{% set x = l|string %}`, "trim": `{% set x = (' ' * 300000)|trim %}`, "replace": `{% set x = s|replace('A', 'x') %}`,
	"join": `{% set x = w|join(',') %}`, "center": `{% set x = s|center(300000) %}`, "indent": `{% set x = s|indent(2) %}`, "truncate": `{% set x = s|truncate(200000) %}`,
	"wordcount": `{{ s|wordcount }}`, "format": `{% set x = '%s'|format(s) %}`, "tojson": `{% set x = u|tojson %}`, "urlencode": `{% set x = s|urlencode %}`,
	"length": `{{ s|length }}`, "count": `{{ u|count }}`, "list": `{% set x = s|list %}`, "first": "", "last": `{{ u|last }}`, "reverse": `{% set x = u|reverse %}`,
	"dictsort": `{% set x = d|dictsort %}`, "sort": `{% set x = w|sort %}`, "unique": `{% set x = w|unique|list %}`, "groupby": `{% set x = rows|groupby('x') %}`,
	"min": `{{ l|min }}`, "max": `{{ w|max }}`, "sum": `{{ l|sum }}`, "batch": `{% set x = l|batch(7)|list %}`, "slice": `{% set x = l|slice(7)|list %}`,
	"int": `{{ digits|int }}`, "float": `{{ digits|float }}`, "round": `{{ (3 ** 70000)|round(-4000) > 0 }}`, "filesizeformat": `{{ digits|filesizeformat }}`,
	"safe": `{{ l|safe }}`, "escape": `{% set x = s|escape %}`, "e": `{% set x = s|e %}`, "forceescape": `{% set x = s|forceescape %}`,
	"striptags": `{% set x = s|striptags %}`, "xmlattr": `{% set x = d|xmlattr %}`, "random": "", "pprint": "", "urlize": "", "wordwrap": "",
}

var meterTests = map[string]string{
	"odd": "", "even": "", "divisibleby": "", "defined": "", "undefined": "", "none": "", "boolean": "", "true": "", "false": "", "integer": "", "float": "",
	"number": "", "string": "", "mapping": "", "sequence": "", "callable": "", "escaped": "", "iterable": "",
	"lower": `{{ a is lower }}`, "upper": `{{ digits is upper }}`, "sameas": `{{ a is sameas(b) }}`, "in": `{{ 'z' is in(a) }}`,
	"filter": `{{ a is filter }}`, "test": `{{ a is test }}`,
	"eq": `{{ a is eq(b) }}`, "equalto": `{{ a is equalto(b) }}`, "==": `{{ [a]|select('==', b)|list|length }}`, "ne": `{{ a is ne(b) }}`, "!=": `{{ [a]|select('!=', b)|list }}`,
	"gt": `{{ a is gt(b) }}`, "greaterthan": `{{ a is greaterthan(b) }}`, ">": `{{ [a]|select('>', b)|list }}`, "ge": `{{ a is ge(b) }}`, ">=": `{{ [a]|reject('>=', b)|list }}`,
	"lt": `{{ a is lt(b) }}`, "lessthan": `{{ a is lessthan(b) }}`, "<": `{{ [a]|select('<', b)|list }}`, "le": `{{ a is le(b) }}`, "<=": `{{ [a]|reject('<=', b)|list }}`,
}

var meterMethods = map[string]string{
	"str.upper": `{% set x = u.upper() %}`, "str.lower": `{% set x = u.lower() %}`, "str.title": `{% set x = u.title() %}`, "str.capitalize": `{% set x = u.capitalize() %}`,
	"str.swapcase": `{% set x = u.swapcase() %}`, "str.casefold": `{% set x = u.casefold() %}`, "str.isdigit": `{{ digits.isdigit() }}`,
	"str.isdecimal": `{{ digits.isdecimal() }}`, "str.isnumeric": `{{ digits.isnumeric() }}`, "str.isalpha": `{{ a.isalpha() }}`, "str.isalnum": `{{ a.isalnum() }}`,
	"str.isspace": `{{ (' ' * 300000).isspace() }}`, "str.isascii": `{{ a.isascii() }}`, "str.isidentifier": `{{ a.isidentifier() }}`, "str.istitle": `{{ ('A' ~ a).istitle() }}`,
	"str.isprintable": `{{ a.isprintable() }}`, "str.isupper": `{{ digits.isupper() }}`, "str.islower": `{{ a.islower() }}`, "str.join": `{% set x = ','.join(w) %}`,
	"str.replace": `{% set x = s.replace('A', 'x') %}`, "str.expandtabs": `{% set x = s.expandtabs() %}`, "str.zfill": `{% set x = a.zfill(300000) %}`,
	"str.removeprefix": `{% set x = a.removeprefix(b) %}`, "str.removesuffix": `{% set x = a.removesuffix(b) %}`, "str.strip": `{% set x = a.strip('a') %}`,
	"str.lstrip": `{% set x = a.lstrip('a') %}`, "str.rstrip": `{% set x = a.rstrip('a') %}`, "str.split": `{% set x = s.split() %}{% set x = s.split(' ') %}`,
	"str.rsplit": `{% set x = s.rsplit(none, 100000) %}`, "str.splitlines": `{% set x = s.splitlines() %}`, "str.partition": `{% set x = a.partition('b') %}`,
	"str.rpartition": `{% set x = a.rpartition('b') %}`, "str.ljust": `{% set x = a.ljust(300000) %}`, "str.rjust": `{% set x = a.rjust(300000) %}`,
	"str.center": `{% set x = a.center(300000) %}`, "str.find": `{{ a.find('b') }}`, "str.rfind": `{{ a.rfind('b') }}`, "str.index": `{{ s.index('c\n<"Ab c') }}{{ (a ~ 'c').index('c') }}`,
	"str.rindex": `{{ ('c' ~ a).rindex('c') }}`, "str.count": `{{ a.count('aa') }}`, "str.startswith": `{{ a.startswith(b) }}`, "str.endswith": `{{ a.endswith(b) }}`,
	"str.encode": "", "str.translate": "", "str.maketrans": "", "str.format": `{% set x = fields.format(*range(100000)) %}{% set x = '{}'.format(s) %}`,
	"str.format_map": `{% set x = '{x}'.format_map({'x': s}) %}{% set x = s.format_map({}) %}`,
	"Markup.join":    `{% set x = ('-'|safe).join(w) %}`, "Markup.striptags": `{% set x = (s|safe).striptags() %}`, "Markup.unescape": `{% set x = (s|safe).unescape() %}`,
	"dict.items": "", "dict.keys": "", "dict.values": "", "dict.get": `{{ keyed.get(b) }}`, "dict.copy": `{% set x = d.copy() %}`, "dict.fromkeys": `{% set x = dict.fromkeys(l) %}`,
	"list.index": `{{ l.index(l[-1]) }}`, "list.count": `{{ texts.count(b) }}`, "list.copy": `{% set x = l.copy() %}`,
	"tuple.index": `{{ ((0,) * 5000 + (1,)).index(1) }}`, "tuple.count": `{{ (a, 1).count(b) }}`, "range.index": `{{ range(5000).index(4999) }}`, "range.count": `{{ range(5000).count(1) }}`,
	"Cycler.next": "", "Cycler.reset": "",
}

// meter renders a template and returns the steps that it took.
func meter(t *testing.T, source string, vars *Dict) int64 {
	t.Helper()
	tpl, err := Compile(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	m := new(machine)
	m.start(tpl, vars, Options{Now: goldenClock, Limits: Limits{Steps: 1 << 40, Memory: 1 << 40, Output: 1 << 30}})
	func() {
		defer func() {
			if r := recover(); r != nil {
				if e, ok := r.(*Error); !ok || e.kind != ErrRender && e.kind != ErrRaised {
					t.Fatalf("%s: %v", source, r)
				}
			}
		}()
		m.enterFrame(&tpl.frame)
		m.run(tpl.body)
	}()
	return m.spent()
}

// TestEveryOperationIsMetered: whatever touches a long text or a long list counts steps in
// proportion to its length, so that no operation is free of charge and none can be used to
// get around Limits.Steps.
func TestEveryOperationIsMetered(t *testing.T) {
	templates := slices.Clone(meterOperators)
	use := func(kind string, all, uses map[string]string) {
		for name := range all {
			if _, ok := uses[name]; !ok {
				t.Errorf("%s %s has no template here", kind, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(uses)) {
			if _, ok := all[name]; !ok {
				t.Errorf("there is no %s %s", kind, name)
			}
			if uses[name] != "" {
				templates = append(templates, uses[name])
			}
		}
	}
	use("filter", names(filters), meterFilters)
	use("test", names(tests), meterTests)
	use("method", methodNames(), meterMethods)
	large := meterVars(meterSize)
	for _, source := range templates {
		began := time.Now()
		steps := meter(t, source, large)
		if testing.Verbose() {
			t.Logf("%8d steps %8.1f ns each: %s", steps, float64(time.Since(began))/float64(steps), source)
		}
		if want := int64(meterSize / 256); steps < want {
			t.Errorf("%s took %d steps, want at least %d", source, steps, want)
		}
	}
}

// methodNames has all methods that do something of their own, with their types.
func methodNames() map[string]string {
	methods := map[string]string{}
	for typ, table := range map[string]map[string]*methodDef{"str": strMethods, "Markup": markupMethods, "dict": dictMethods,
		"list": listMethods, "tuple": tupleMethods, "range": rangeMethods, "Cycler": cyclerMethods} {
		for name, d := range table {
			if _, ofStr := strMethods[name]; !d.mutates && (typ != "Markup" || !ofStr || name == "join") {
				methods[typ+"."+name] = ""
			}
		}
	}
	return methods
}

func names[T any](table map[string]T) map[string]string {
	out := map[string]string{}
	for name := range table {
		out[name] = ""
	}
	return out
}
