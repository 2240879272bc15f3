package grammar

import (
	"math/big"
)

// Texts inside JSON are decoded texts: a language of strings or a constant says nothing
// of escapes. This file spells them as they are written.

// jsonLeaf reads one character of set, as it is written inside a JSON string.
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

// jsonString reads the rest of a JSON string, with the closing quote, whose decoded
// text is in d. The characters that JSON must escape are read in one spelling.
func (b *builder) jsonString(from int32, d *dfa) int32 {
	if d.empty() {
		return b.state()
	}
	to, at := b.jsonStates(d)
	b.eps(from, at[0])
	return to
}

// jsonStates adds the states of jsonString: at are those that stand for the states of d, and
// to is the one after the closing quote.
func (b *builder) jsonStates(d *dfa) (to int32, at []int32) {
	to = b.state()
	at = make([]int32, len(d.states))
	for i := range at {
		at[i] = b.state()
	}
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
		esc := b.plainEdges(s, d.states[i].edges, at)
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
	return to, at
}

// plainEdges adds the given edges to s, without the characters that JSON must escape,
// and returns where those lead. at are the states that the edges lead to.
func (b *builder) plainEdges(s int32, edges []edge, at []int32) escapeTo {
	var esc escapeTo
	for _, e := range edges {
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
	return esc
}

// escapeTo says which states the characters that JSON must escape lead to, by
// escapeIndex: 1 + the state, or 0 for none. Most states of a language have the same.
type escapeTo [34]int32

// escapeIndex numbers the characters that JSON must escape; -1 for the others.
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

// escapes is a state, after a backslash, from which the rest of the escapes in to is
// read.
func (b *builder) escapes(to escapeTo) int32 {
	s := b.state()
	u := [2]int32{-1, -1} // after u000 and u001
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

// spelling is what is not written as in JSON.
type spelling struct {
	null, yes, no string // the names of null, true and false
	// bare is what follows the keys of objects, which have no quotes then. "": they are strings.
	bare  string
	quote frag           // is around strings, which have no escapes then; nil: they are as in JSON
	texts *xmlParameters // reads what is between such quotes
	both  bool           // strings may be as in JSON as well
	other string         // another name of null; "": there is none
}

var (
	jsonSpelling   = spelling{null: "null", yes: "true", no: "false"}
	pythonSpelling = spelling{null: "None", yes: "True", no: "False"}
)

// text reads the string v.
func (n *spelling) text(b *builder, from int32, v string) int32 {
	return n.string(b, from, func(at int32) int32 { return b.lit(at, quoteJSON(v)) }, func(at int32) int32 {
		if n.texts.style.bars(v) {
			return b.state()
		}
		return b.lit(at, v)
	})
}

// string reads a string as it is in JSON, or what is between quotes, or either.
func (n *spelling) string(b *builder, from int32, json, quoted frag) int32 {
	if n.quote == nil {
		return json(from)
	}
	within := func(at int32) int32 { return n.quote(quoted(n.quote(at))) }
	if n.both {
		return b.alt(from, json, within)
	}
	return within(from)
}

// nothing reads null.
func (n *spelling) nothing(b *builder, from int32) int32 {
	if n.other == "" {
		return b.lit(from, n.null)
	}
	return b.alt(from, func(at int32) int32 { return b.lit(at, n.null) }, func(at int32) int32 { return b.lit(at, n.other) })
}

// key reads the key k and what follows it, with sep after that.
func (n *spelling) key(b *builder, from int32, k string, ws, sep frag) int32 {
	switch {
	case n.bare == "":
		return sep(b.lit(ws(b.lit(from, quoteJSON(k))), ":"))
	case !isKeyword(k):
		return b.state()
	}
	return b.lit(from, k+n.bare)
}

func (n *spelling) of(v bool) string {
	if v {
		return n.yes
	}
	return n.no
}

// literal reads the value v, with ws between its tokens, and sep after commas and colons.
func (b *builder) literal(from int32, v any, ws, sep frag) int32 {
	return b.constant(from, v, ws, sep, &jsonSpelling)
}

// constant is literal with another spelling.
func (b *builder) constant(from int32, v any, ws, sep frag, names *spelling) int32 {
	switch v := v.(type) {
	case nil:
		return names.nothing(b, from)
	case bool:
		return b.lit(from, names.of(v))
	case string:
		return names.text(b, from, v)
	case numeral:
		return b.literalNumber(from, v)
	case []any:
		s := ws(b.lit(from, "["))
		for i, e := range v {
			if i > 0 {
				s = sep(b.lit(s, ","))
			}
			s = ws(b.constant(s, e, ws, sep, names))
		}
		return b.lit(s, "]")
	case *object:
		s := ws(b.lit(from, "{"))
		for i, k := range v.keys {
			if i > 0 {
				s = sep(b.lit(s, ","))
			}
			s = names.key(b, s, k, ws, sep)
			s = ws(b.constant(s, v.m[k], ws, sep, names))
		}
		return b.lit(s, "}")
	}
	return from
}

// literalNumber reads n either as it is written in the schema, or as the same value
// without exponent and trailing zeros.
func (b *builder) literalNumber(from int32, n numeral) int32 {
	plain, ok := plainNumber(n)
	if !ok || plain == string(n) {
		return b.lit(from, string(n))
	}
	return b.alt(from, func(at int32) int32 { return b.lit(at, string(n)) }, func(at int32) int32 { return b.lit(at, plain) })
}

// plainNumber is n without exponent and trailing zeros. It reports false if n has too many
// digits.
func plainNumber(n numeral) (plain string, ok bool) {
	r, ok := parseNumber(string(n))
	if !ok {
		return "", false
	}
	plain = decimalOf(new(big.Rat).Abs(r)).String()
	if r.Sign() < 0 {
		plain = "-" + plain
	}
	return plain, true
}
