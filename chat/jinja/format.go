package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatPercent is format % v. With markup, what goes in as text is escaped.
func (m *machine) formatPercent(format string, v Value, markup bool) string {
	values := []Value{v}
	tup, isTuple := v.(*tuple)
	if isTuple {
		values = tup.items
	}
	// Whatever has items but is no text or tuple may stay unused: it could be
	// meant for %(name)s alone.
	mapping := false
	switch v.(type) {
	case *Dict, *List, *rangeValue, *namespace:
		mapping = true
	}
	start := len(m.out)
	whole, next := format, 0
	take := func() Value {
		if next >= len(values) || mapping && next > 0 {
			throwType("not enough arguments for format string")
		}
		next++
		return values[next-1]
	}
	named := false
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			m.write(format)
			break
		}
		m.write(format[:i])
		format = format[i+1:]
		m.burn(1)
		var key Value = missing
		if strings.HasPrefix(format, "(") {
			end := closingParen(format)
			if end < 0 {
				throwValue("incomplete format key")
			}
			if !mapping {
				throwType("format requires a mapping")
			}
			key = m.formatKey(v, format[1:end])
			format = format[end+1:]
			named = true
		}
		f := formatSpec{precision: -1}
		format = parsePercent(format, &f, take)
		verb, size := utf8.DecodeRuneInString(format)
		if verb == '%' {
			m.write("%")
			format = format[1:]
			continue
		}
		if isMissing(key) {
			key = take()
		}
		if verb >= utf8.RuneSelf || strings.IndexByte("srcadiuxXoeEfFgG", byte(verb)) < 0 {
			shown := verb
			if verb >= utf8.RuneSelf {
				shown = '?'
			}
			throwValue("unsupported format character '%c' (0x%x) at index %d", shown, verb, runeLen(whole[:len(whole)-len(format)]))
		}
		f.verb = byte(verb)
		format = format[size:]
		m.write(m.percentValue(&f, key, markup))
	}
	if next < len(values) && !mapping && !named {
		throwType("not all arguments converted during string formatting")
	}
	return m.take(start)
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
	i := d.findString(name)
	if i < 0 {
		throw("KeyError", "%s", repr(name))
	}
	return d.vals[i]
}

// parsePercent reads flags, width and precision and returns the rest, which
// starts with the verb.
func parsePercent(s string, f *formatSpec, take func() Value) string {
	zero := false
flags:
	for s != "" {
		switch s[0] {
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
			break flags
		}
		s = s[1:]
	}
	number := func() int {
		if s != "" && s[0] == '*' {
			s = s[1:]
			v := take()
			n, ok := asIndex(v)
			if !ok {
				throwType("* wants int")
			}
			if n > maxField || n < -maxField {
				throwLimit("format width")
			}
			return int(n)
		}
		n := 0
		for s != "" && s[0] >= '0' && s[0] <= '9' {
			if n = n*10 + int(s[0]-'0'); n > maxField {
				throwLimit("format width")
			}
			s = s[1:]
		}
		return n
	}
	if f.width = number(); f.width < 0 {
		f.align, f.width = '<', -f.width
	}
	if s != "" && s[0] == '.' {
		s = s[1:]
		f.precision = max(number(), 0)
	}
	if s != "" && strings.IndexByte("hlL", s[0]) >= 0 {
		s = s[1:]
	}
	if s == "" {
		throwValue("incomplete format")
	}
	if zero && f.align == 0 {
		f.fill, f.align = "0", '='
	}
	return s
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
		return text(asciiRepr(m.repr(v)))
	case 'c':
		if s, ok := asString(v); ok {
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

func asciiRepr(s string) string {
	if isASCII(s) {
		return s
	}
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
