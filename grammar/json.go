package grammar

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// object is a JSON object in the order of its text.
type object struct {
	keys []string
	m    map[string]any
}

// maxDepth bounds the nesting of schemas and tags.
const maxDepth = 256

// parseJSON reads one JSON text into *object, []any, string, json.Number, bool
// and nil. Of equal keys the last counts, in the place of the first.
func parseJSON(text []byte) (v any, err error) {
	defer catch(&err)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v = parseValue(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail(ErrInvalid, "", "there is more than one JSON value")
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) any {
	if depth > maxDepth {
		fail(ErrTooComplex, "", "JSON is nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		fail(ErrInvalid, "", "not JSON: %v", err)
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			list = append(list, parseValue(d, depth+1))
		}
		if _, err := d.Token(); err != nil {
			fail(ErrInvalid, "", "not JSON: %v", err)
		}
		return list
	}
	o := &object{m: make(map[string]any)}
	for d.More() {
		k, _ := parseValue(d, depth+1).(string)
		v := parseValue(d, depth+1)
		if _, ok := o.m[k]; !ok {
			o.keys = append(o.keys, k)
		}
		o.m[k] = v
	}
	if _, err := d.Token(); err != nil {
		fail(ErrInvalid, "", "not JSON: %v", err)
	}
	return o
}

// canonicalJSON is a text that two values have in common exactly when they are
// equal as JSON Schema has it: 1 and 1.0 are equal, and the order of properties does
// not count. A number with more digits than parseNumber takes equals only one that
// is spelled alike.
func canonicalJSON(v any) string { return string(appendCanonical(nil, v)) }

func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		dst = append(dst, '{')
		for _, k := range slices.Sorted(slices.Values(v.keys)) {
			dst = append(append(dst, quoteJSON(k)...), ':')
			dst = append(appendCanonical(dst, v.m[k]), ',')
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for _, e := range v {
			dst = append(appendCanonical(dst, e), ',')
		}
		return append(dst, ']')
	case json.Number:
		if r, ok := parseNumber(string(v)); ok {
			return append(dst, r.RatString()...)
		}
		return append(append(dst, '='), v...)
	}
	return append(dst, dumpJSON(v)...)
}

// dumpJSON writes v with ", " and ": ", as Python does.
func dumpJSON(v any) string {
	var parts []string
	switch v := v.(type) {
	case *object:
		for _, k := range v.keys {
			parts = append(parts, quoteJSON(k)+": "+dumpJSON(v.m[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, e := range v {
			parts = append(parts, dumpJSON(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return quoteJSON(v)
	case json.Number:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}

// quoteJSON is the one spelling that generated property names and constants have:
// escapes only where JSON demands them.
func quoteJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		b.WriteString(escapeByte(s[i]))
	}
	b.WriteByte('"')
	return b.String()
}

func escapeByte(c byte) string {
	switch c {
	case '"', '\\':
		return `\` + string(c)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if c < 0x20 {
		const hex = "0123456789abcdef"
		return `\u00` + string(hex[c>>4]) + string(hex[c&15])
	}
	return string([]byte{c})
}

// The rules that every grammar has. Their states are the same everywhere, so
// their shapes are built once per vocabulary.
const (
	ruleTail     = iota // the rest of a string, counted in characters, with the closing quote
	ruleInteger         // without exponent
	ruleNumber          // any
	ruleBreak           // one or two line breaks and an indentation
	ruleAny             // any value, whitespace allowed
	ruleObject          // any object
	ruleArray           // any array
	ruleTightAny        // the same without whitespace
	ruleTightObject
	ruleTightArray
	ruleFormat // the rest of a string of formatNames[0], with the closing quote, and so on
)

// maxIndent bounds the spaces or tabs of one indentation. A model that likes
// whitespace too much would otherwise write it until its token limit.
const maxIndent = 48

var commonRules = sync.OnceValue(func() *network {
	b := newBuilder(nil, 200_000, unmetered())
	for range ruleFormat + len(formatNames) {
		b.rule()
	}
	b.stringTail()
	b.accept(b.integer(b.start(ruleInteger)))
	s := b.integer(b.start(ruleNumber))
	digits := func(at int32) int32 {
		at = b.bytes(at, '0', '9')
		return b.star(at, func(at int32) int32 { return b.bytes(at, '0', '9') })
	}
	s = b.opt(s, func(at int32) int32 { return digits(b.lit(at, ".")) })
	s = b.opt(s, func(at int32) int32 {
		at = b.bytes(at, 'e', 'e', 'E', 'E')
		at = b.opt(at, func(at int32) int32 { return b.bytes(at, '+', '+', '-', '-') })
		at = b.bytes(at, '0', '9')
		return b.repeat(at, 0, 2, 1, func(at int32) int32 { return b.bytes(at, '0', '9') }) // 1e999 is beyond every float
	})
	b.accept(s)
	b.lineBreak()
	b.anyValue(b.flexible, ruleAny, ruleObject, ruleArray)
	b.anyValue(tight, ruleTightAny, ruleTightObject, ruleTightArray)
	for i, f := range formatNames {
		s := b.start(ruleFormat + int32(i))
		b.accept(b.jsonString(s, formatDFA(f)))
	}
	n := b.rules()
	n.trim(b)
	return n.asBase()
})

func (b *builder) integer(s int32) int32 {
	s = b.opt(s, func(at int32) int32 { return b.lit(at, "-") })
	return b.alt(s, func(at int32) int32 { return b.lit(at, "0") }, func(at int32) int32 {
		at = b.bytes(at, '1', '9')
		return b.star(at, func(at int32) int32 { return b.bytes(at, '0', '9') })
	})
}

// stringTail counts characters as decoded: a pair of escaped surrogates is one, a
// lone one is not written.
func (b *builder) stringTail() {
	loop, body, out := b.state(), b.state(), b.state()
	b.eps(b.start(ruleTail), loop)
	b.step(loop, step{kind: stepTick, to: body})
	b.step(loop, step{kind: stepGuard, to: out})
	b.accept(b.lit(out, `"`))
	b.runeRange(body, loop, 0x20, '"'-1)
	b.runeRange(body, loop, '"'+1, '\\'-1)
	b.runeRange(body, loop, '\\'+1, utf8.MaxRune)
	esc := b.lit(body, `\`)
	for _, c := range []byte(`"\/bfnrt`) {
		b.edge(esc, c, c, loop)
	}
	hex := func(from int32, to int32) {
		b.edge(from, '0', '9', to)
		b.edge(from, 'A', 'F', to)
		b.edge(from, 'a', 'f', to)
	}
	u := b.lit(esc, "u")
	h3, h2, h1 := b.state(), b.state(), b.state()
	b.edge(u, '0', '9', h3)
	for _, r := range [...][2]byte{{'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}} {
		b.edge(u, r[0], r[1], h3)
	}
	hex(h3, h2)
	hex(h2, h1)
	hex(h1, loop)
	d := b.bytes(u, 'D', 'D', 'd', 'd')
	b.edge(d, '0', '7', h2)
	high := b.bytes(d, '8', '9', 'A', 'B', 'a', 'b')
	x, y := b.state(), b.state()
	hex(high, x)
	hex(x, y)
	low := b.bytes(b.lit(y, `\u`), 'D', 'D', 'd', 'd')
	low = b.bytes(low, 'C', 'F', 'c', 'f')
	hex(low, h1)
}

// flexible is the default whitespace between JSON's tokens: nothing, a space, or
// one or two line breaks with an indentation.
func (b *builder) flexible(from int32) int32 {
	to := b.state()
	b.eps(from, to)
	b.edge(from, ' ', ' ', to)
	b.step(from, step{kind: stepCall, rule: ruleBreak, left: maxIndent, to: to})
	return to
}

func (b *builder) lineBreak() {
	line := func(at int32) int32 {
		return b.lit(b.opt(at, func(at int32) int32 { return b.lit(at, "\r") }), "\n")
	}
	s := b.opt(line(b.start(ruleBreak)), line)
	loop, body, out := b.state(), b.state(), b.state()
	b.eps(s, loop)
	b.step(loop, step{kind: stepTick, to: body})
	b.edge(body, ' ', ' ', loop)
	b.edge(body, '\t', '\t', loop)
	b.step(loop, step{kind: stepGuard, to: out})
	b.accept(out)
}

func tight(from int32) int32 { return from }

// anyValue defines any value, any object and any array with ws between tokens.
func (b *builder) anyValue(ws frag, value, obj, arr int32) {
	text := func(at int32) int32 { return b.call(b.lit(at, `"`), ruleTail) }
	b.accept(b.alt(b.start(value), text,
		func(at int32) int32 { return b.call(at, ruleNumber) },
		func(at int32) int32 { return b.lit(at, "true") },
		func(at int32) int32 { return b.lit(at, "false") },
		func(at int32) int32 { return b.lit(at, "null") },
		func(at int32) int32 { return b.call(at, obj) },
		func(at int32) int32 { return b.call(at, arr) }))
	list := func(s int32, open, shut string, member frag) {
		s = ws(b.lit(s, open))
		s = b.opt(s, func(at int32) int32 {
			return b.star(member(at), func(at int32) int32 { return member(ws(b.lit(at, ","))) })
		})
		b.accept(b.lit(s, shut))
	}
	list(b.start(obj), "{", "}", func(at int32) int32 { return ws(b.call(ws(b.lit(ws(text(at)), ":")), value)) })
	list(b.start(arr), "[", "]", func(at int32) int32 { return ws(b.call(at, value)) })
}

// jsonLeaf spells characters as they stand inside a JSON string.
func (b *builder) jsonLeaf(from int32, set runeSet) int32 {
	to := b.state()
	for _, r := range set {
		for c := r[0]; c <= r[1] && c < 0x80; c++ {
			if c < 0x20 || c == '"' || c == '\\' {
				b.eps(b.lit(from, escapeByte(byte(c))), to)
			} else {
				b.edge(from, byte(c), byte(c), to)
			}
		}
		if r[1] >= 0x80 {
			b.runeRange(from, to, max(r[0], 0x80), r[1])
		}
	}
	return to
}

// jsonString reads the rest of a JSON string, closing quote included, whose text
// is in d.
func (b *builder) jsonString(from int32, d *dfa) int32 {
	to := b.state()
	if d.empty() {
		return to
	}
	at := make([]int32, len(d.states))
	for i := range at {
		at[i] = b.state()
	}
	b.eps(from, at[0])
	escapes := make(map[escapeTo]int32)
	for i := range d.states {
		s := at[i]
		if int32(i) == d.all {
			b.eps(b.call(s, ruleTail), to)
			continue
		}
		if d.states[i].accept {
			b.edge(s, '"', '"', to)
		}
		var esc escapeTo
		for _, e := range d.states[i].edges {
			lo := int(e.lo)
			for c := int(e.lo); c <= int(e.hi) && c <= '\\'; c++ {
				k := escapeIndex(byte(c))
				if k < 0 {
					continue
				}
				esc[k] = at[e.to] + 1
				if c > lo {
					b.edge(s, byte(lo), byte(c-1), at[e.to])
				}
				lo = c + 1
			}
			if lo <= int(e.hi) {
				b.edge(s, byte(lo), e.hi, at[e.to])
			}
		}
		if esc == (escapeTo{}) {
			continue
		}
		x, ok := escapes[esc]
		if !ok {
			x = b.escapes(esc)
			escapes[esc] = x
		}
		b.edge(s, '\\', '\\', x)
	}
	return to
}

// escapeTo says where the characters that JSON must escape lead: 1 more than the
// state, 0 for nowhere. Most states of a language have the same.
type escapeTo [34]int32

func escapeIndex(c byte) int {
	switch {
	case c < 0x20:
		return int(c)
	case c == '"':
		return 32
	case c == '\\':
		return 33
	}
	return -1
}

// escapes is the state behind the backslash.
func (b *builder) escapes(to escapeTo) int32 {
	s := b.state()
	u := [2]int32{-1, -1} // behind u000 and u001
	for c := range byte('\\' + 1) {
		k := escapeIndex(c)
		if k < 0 || to[k] == 0 {
			continue
		}
		text := escapeByte(c)
		last := text[len(text)-1]
		if len(text) == 2 {
			b.edge(s, last, last, to[k]-1)
			continue
		}
		if u[c>>4] < 0 {
			u[c>>4] = b.lit(s, text[1:len(text)-1])
		}
		b.edge(u[c>>4], last, last, to[k]-1)
	}
	return s
}

// literal reads exactly v, with ws between its tokens.
func (b *builder) literal(from int32, v any, ws frag) int32 {
	switch v := v.(type) {
	case nil:
		return b.lit(from, "null")
	case bool:
		return b.lit(from, strconv.FormatBool(v))
	case string:
		return b.lit(from, quoteJSON(v))
	case json.Number:
		return b.literalNumber(from, v)
	case []any:
		s := ws(b.lit(from, "["))
		for i, e := range v {
			if i > 0 {
				s = ws(b.lit(s, ","))
			}
			s = ws(b.literal(s, e, ws))
		}
		return b.lit(s, "]")
	case *object:
		s := ws(b.lit(from, "{"))
		for i, k := range v.keys {
			if i > 0 {
				s = ws(b.lit(s, ","))
			}
			s = ws(b.lit(ws(b.lit(s, quoteJSON(k))), ":"))
			s = ws(b.literal(s, v.m[k], ws))
		}
		return b.lit(s, "}")
	}
	return from
}

// literalNumber reads n as it is written in the schema, or as the plain decimal of
// the same value.
func (b *builder) literalNumber(from int32, n json.Number) int32 {
	r, ok := parseNumber(string(n))
	if !ok {
		return b.lit(from, string(n))
	}
	d := decimalOf(new(big.Rat).Abs(r))
	plain := d.whole
	if d.frac != "" {
		plain += "." + d.frac
	}
	if r.Sign() < 0 {
		plain = "-" + plain
	}
	if plain == string(n) {
		return b.lit(from, plain)
	}
	return b.alt(from, func(at int32) int32 { return b.lit(at, string(n)) }, func(at int32) int32 { return b.lit(at, plain) })
}
