package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filterToJSON is transformers' tojson: json.dumps with its arguments, without escapes for
// HTML.
func filterToJSON(m *machine, v Value, a []Value) Value {
	e := jsonEncoder{m: m, itemSep: ", ", keySep: ": "}
	e.ascii = m.flag(a[0])
	e.sortKeys = m.flag(a[3])
	_, isText := asString(v) // a text has no layout, so the arguments for it are not checked
	if indent := orNone(a[1]); indent != nil && !isText {
		e.multiline, e.itemSep = true, ","
		if s, ok := asString(indent); ok {
			e.indent = s
		} else {
			n, ok := asIndex(indent)
			if !ok {
				if u, ok := indent.(*undefined); ok {
					u.raise()
				}
				throwType("can't multiply sequence by non-int of type '%s'", typeName(indent))
			}
			e.indent = m.repeatText(" ", max(n, 0))
		}
	}
	if seps := orNone(a[2]); seps != nil {
		pair := m.collect(seps)
		switch {
		case len(pair) > 2:
			throwValue("too many values to unpack (expected 2)")
		case len(pair) < 2:
			throwValue("not enough values to unpack (expected 2, got %d)", len(pair))
		}
		var ok1, ok2 bool
		e.itemSep, ok1 = asString(pair[0])
		e.keySep, ok2 = asString(pair[1])
		if !ok1 || !ok2 {
			throwType("make_encoder() separators must be str")
		}
	}
	start := len(m.out)
	e.encode(v, 0)
	return m.take(start)
}

type jsonEncoder struct {
	m               *machine
	ascii, sortKeys bool
	multiline       bool
	indent          string
	itemSep, keySep string
}

func (e *jsonEncoder) newline(depth int) {
	if !e.multiline {
		return
	}
	e.m.spend(int64(depth / 8))
	e.m.write("\n")
	for range depth {
		e.m.write(e.indent)
	}
}

func (e *jsonEncoder) encode(v Value, depth int) {
	if depth > maxNesting {
		throwRecursion()
	}
	m := e.m
	m.spend(1)
	switch v := v.(type) {
	case nil:
		m.write("null")
	case bool:
		m.write(strconv.FormatBool(v))
	case int64:
		m.write(strconv.FormatInt(v, 10))
	case *big.Int:
		m.spend(int64(v.BitLen() >> 6))
		m.write(bigString(v))
	case float64:
		m.write(jsonFloat(v))
	case string:
		e.text(v)
	case Markup:
		e.text(string(v))
	case *List:
		e.list(v.items, depth)
	case *tuple:
		e.list(v.items, depth)
	case *Dict:
		e.dict(v, depth)
	default:
		throwType("Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case math.IsNaN(f):
		return "NaN"
	}
	return floatString(f)
}

func (e *jsonEncoder) list(items []Value, depth int) {
	if len(items) == 0 {
		e.m.write("[]")
		return
	}
	e.m.write("[")
	for i, x := range items {
		if i > 0 {
			e.m.write(e.itemSep)
		}
		e.newline(depth + 1)
		e.encode(x, depth+1)
	}
	e.newline(depth)
	e.m.write("]")
}

func (e *jsonEncoder) dict(d *Dict, depth int) {
	if len(d.keys) == 0 {
		e.m.write("{}")
		return
	}
	keys := d.keys
	if e.sortKeys {
		keys = e.m.sorted(keys, false, func(k Value) Value { return k }, e.m.less)
	}
	e.m.write("{")
	for i, k := range keys {
		if i > 0 {
			e.m.write(e.itemSep)
		}
		e.newline(depth + 1)
		e.key(k)
		e.m.write(e.keySep)
		v := d.vals[i]
		if e.sortKeys {
			v = d.vals[d.find(e.m, k)]
		}
		e.encode(v, depth+1)
	}
	e.newline(depth)
	e.m.write("}")
}

func (e *jsonEncoder) key(k Value) {
	switch k := k.(type) {
	case string:
		e.text(k)
	case nil:
		e.m.write(`"null"`)
	case bool:
		e.m.write(`"` + strconv.FormatBool(k) + `"`)
	case int64, *big.Int:
		e.m.write(`"` + e.m.str(k) + `"`)
	case float64:
		e.m.write(`"` + jsonFloat(k) + `"`)
	default:
		throwType("keys must be str, int, float, bool or None, not %s", typeName(k))
	}
}

// text writes a string. Control characters, quotes and backslashes are escaped, and with
// ensure_ascii everything else that is not printable ASCII.
func (e *jsonEncoder) text(s string) {
	m := e.m
	m.write(`"`)
	m.scan(4 * len(s))
	start, escapes := 0, int64(0)
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' || c >= 0x7f && !e.ascii {
			i++
			continue
		}
		m.write(s[start:i])
		r, n := utf8.DecodeRuneInString(s[i:])
		escaped := jsonEscape(r)
		if escapes++; escapes&7 == 0 || len(escaped) > 2 {
			m.spend(1)
		}
		m.write(escaped)
		i += n
		start = i
	}
	m.write(s[start:])
	m.write(`"`)
}

func jsonEscape(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if r > 0xffff {
		r -= 0x10000
		return hex4(0xd800+r>>10) + hex4(0xdc00+r&0x3ff)
	}
	return hex4(r)
}

func hex4(r rune) string {
	s := strconv.FormatInt(int64(r), 16)
	return `\u` + strings.Repeat("0", 4-len(s)) + s
}
