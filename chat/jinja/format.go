package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatPercent is format % v. With markup, text that is put in is escaped.
func (m *machine) formatPercent(format string, v Value, markup bool) string {
	p := &percentFormatter{m: m, whole: format, rest: format, value: v, values: []Value{v}, markup: markup}
	if t, ok := v.(*tuple); ok {
		p.values = t.items
	}
	switch v.(type) {
	case *Dict, *List, *rangeValue, *namespace:
		p.mapping = true
	}
	m.spend(int64(len(format) >> 5)) // beside the fields
	start := len(m.out)
	p.run()
	return m.take(start)
}

// percentFormatter writes one format string of the operator %.
type percentFormatter struct {
	m           *machine
	whole, rest string  // the format, and what of it is still to be written
	value       Value   // the right operand
	values      []Value // the items of a tuple, or the right operand itself
	next        int     // the first of values that was not used
	// mapping says that the right operand has items and is neither text nor a tuple.
	// Python then allows that it is not used, since it could be meant for %(name)s.
	mapping bool
	named   bool // a %(name)s has been written
	markup  bool
}

func (p *percentFormatter) run() {
	m := p.m
	for p.rest != "" {
		i := strings.IndexByte(p.rest, '%')
		if i < 0 {
			m.write(p.rest)
			break
		}
		m.write(p.rest[:i])
		p.rest = p.rest[i+1:]
		m.spend(1)
		p.field()
	}
	if p.next < len(p.values) && !p.mapping && !p.named {
		throwType("not all arguments converted during string formatting")
	}
}

// field writes the field whose % has just been read.
func (p *percentFormatter) field() {
	var v Value = missing
	if strings.HasPrefix(p.rest, "(") {
		end := closingParen(p.rest)
		if end < 0 {
			throwValue("incomplete format key")
		}
		if !p.mapping {
			throwType("format requires a mapping")
		}
		v = p.m.formatKey(p.value, p.rest[1:end])
		p.rest = p.rest[end+1:]
		p.named = true
	}
	f := p.spec()
	verb, size := utf8.DecodeRuneInString(p.rest)
	if verb == '%' {
		p.m.write("%")
		p.rest = p.rest[1:]
		return
	}
	if isMissing(v) {
		v = p.take()
	}
	if verb >= utf8.RuneSelf || strings.IndexByte("srcadiuxXoeEfFgG", byte(verb)) < 0 {
		shown := verb
		if verb >= utf8.RuneSelf {
			shown = '?'
		}
		throwValue("unsupported format character '%c' (0x%x) at index %d", shown, verb, runeLen(p.whole[:len(p.whole)-len(p.rest)]))
	}
	f.verb = byte(verb)
	p.rest = p.rest[size:]
	p.m.write(p.m.percentValue(&f, v, p.markup))
}

// take returns the next argument.
func (p *percentFormatter) take() Value {
	if p.next >= len(p.values) || p.mapping && p.next > 0 {
		throwType("not enough arguments for format string")
	}
	p.next++
	return p.values[p.next-1]
}

// spec reads flags, width and precision; the verb is then the next character.
func (p *percentFormatter) spec() formatSpec {
	f := formatSpec{precision: -1}
	zero := p.flags(&f)
	if f.width = p.number(); f.width < 0 {
		f.align, f.width = '<', -f.width
	}
	if strings.HasPrefix(p.rest, ".") {
		p.rest = p.rest[1:]
		f.precision = max(p.number(), 0)
	}
	if p.rest != "" && strings.IndexByte("hlL", p.rest[0]) >= 0 {
		p.rest = p.rest[1:]
	}
	if p.rest == "" {
		throwValue("incomplete format")
	}
	if zero && f.align == 0 {
		f.fill, f.align = "0", '='
	}
	return f
}

// flags reads flags and reports whether 0 was among them.
func (p *percentFormatter) flags(f *formatSpec) (zero bool) {
	for ; p.rest != ""; p.rest = p.rest[1:] {
		switch p.rest[0] {
		case '-':
			f.align = '<'
		case '+':
			f.sign = '+'
		case ' ':
			if f.sign == 0 {
				f.sign = ' '
			}
		case '#':
			f.alt = true
		case '0':
			zero = true
		default:
			return zero
		}
	}
	return zero
}

// number reads a number, or * for the next argument.
func (p *percentFormatter) number() int {
	if strings.HasPrefix(p.rest, "*") {
		p.rest = p.rest[1:]
		n, ok := asIndex(p.take())
		if !ok {
			throwType("* wants int")
		}
		if n > maxField || n < -maxField {
			throwLimit("format width")
		}
		return int(n)
	}
	n := 0
	for p.rest != "" && isDigitByte(p.rest[0]) {
		if n = n*10 + int(p.rest[0]-'0'); n > maxField {
			throwLimit("format width")
		}
		p.rest = p.rest[1:]
	}
	return n
}

// closingParen returns where the parenthesis at the start of s closes.
func closingParen(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (m *machine) formatKey(v Value, name string) Value {
	d, ok := v.(*Dict)
	if !ok {
		throwType("%s indices must be integers or slices, not str", typeName(v))
	}
	i := d.findText(m, name)
	if i < 0 {
		throw("KeyError", "%s", repr(name))
	}
	return d.vals[i]
}

func (m *machine) percentValue(f *formatSpec, v Value, markup bool) string {
	text := func(s string) string {
		if markup {
			s = m.escape(s)
		}
		if f.fill == "0" { // zeros are for numbers
			f.fill, f.align = "", '>'
		}
		if f.align == 0 {
			f.align = '>'
		}
		return m.formatText(f, s)
	}
	switch f.verb {
	case 's':
		if s, ok := v.(Markup); ok {
			markup = false
			return text(string(s))
		}
		return text(m.str(v))
	case 'r':
		return text(m.repr(v))
	case 'a':
		return text(m.asciiRepr(v))
	case 'c':
		if s, ok := asString(v); ok {
			m.scan(len(s))
			if runeLen(s) != 1 {
				throwType("%%c requires int or char")
			}
			return text(s)
		}
		if _, ok := asIndex(v); !ok {
			throwType("%%c requires int or char")
		}
		return text(m.char(v))
	case 'd', 'i', 'u', 'x', 'X', 'o':
		n := m.percentInt(f.verb, v)
		if f.verb == 'i' || f.verb == 'u' {
			f.verb = 'd'
		}
		return m.formatInt(f, n)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if !isNumber(v) {
			if u, ok := v.(*undefined); ok {
				u.raise()
			}
			throwType("must be real number, not %s", typeName(v))
		}
		return m.formatFloat(f, toFloat(v))
	}
	return ""
}

// percentInt converts the argument of %d and its like.
func (m *machine) percentInt(verb byte, v Value) Value {
	switch x := v.(type) {
	case bool, int64, *big.Int:
		return v
	case float64:
		if verb == 'x' || verb == 'X' || verb == 'o' {
			throwType("%%%c format: an integer is required, not float", verb)
		}
		return truncate(x)
	case *undefined:
		if verb == 'd' || verb == 'i' || verb == 'u' {
			x.raise()
		}
	}
	if verb == 'x' || verb == 'X' || verb == 'o' {
		throwType("%%%c format: an integer is required, not %s", verb, typeName(v))
	}
	throwType("%%%c format: a real number is required, not %s", verb, typeName(v))
	return nil
}

// truncate is int(x) of a float.
func truncate(x float64) Value {
	switch {
	case math.IsNaN(x):
		throwValue("cannot convert float NaN to integer")
	case math.IsInf(x, 0):
		throw("OverflowError", "cannot convert float infinity to integer")
	case math.Abs(x) < 1<<63:
		return int64(x)
	}
	i, _ := big.NewFloat(x).Int(nil)
	return normalize(i)
}

// asciiRepr is ascii(v).
func (m *machine) asciiRepr(v Value) string {
	s := m.repr(v)
	m.scan(len(s))
	if isASCII(s) {
		return s
	}
	m.alloc(3 * len(s))
	m.spend(int64(len(s)))
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteByte(byte(r))
		case r <= 0xff:
			b.WriteString(`\x` + strconv.FormatInt(int64(r), 16))
		case r <= 0xffff:
			b.WriteString(`\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
		default:
			b.WriteString(`\U` + strings.Repeat("0", 8-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
		}
	}
	return b.String()
}
