package jinja

import (
	"strings"
)

// joinText is str.join, which takes nothing but text.
func (m *machine) joinText(sep string, items Value) string {
	it, ok := m.iterate(items)
	if !ok {
		throwType("can only join an iterable")
	}
	start := len(m.out)
	for i := 0; ; i++ {
		v, ok := it.next(m)
		if !ok {
			return m.take(start)
		}
		s, ok := asString(v)
		if !ok {
			throwType("sequence item %d: expected str instance, %s found", i, typeName(v))
		}
		m.spend(1)
		if i > 0 {
			m.write(sep)
		}
		m.write(s)
	}
}

func strReplace(m *machine, s string, a []Value) Value {
	old, ok := asString(a[0])
	if !ok {
		throwType("replace() argument 1 must be str, not %s", typeName(a[0]))
	}
	with, ok := asString(a[1])
	if !ok {
		throwType("replace() argument 2 must be str, not %s", typeName(a[1]))
	}
	n := int64(-1)
	if !isMissing(a[2]) {
		n = mustIndex(a[2])
	}
	return m.replaceText(s, old, with, n)
}

func (m *machine) replaceText(s, old, with string, n int64) string {
	m.scan(2 * len(s))
	count := int64(strings.Count(s, old))
	if n >= 0 {
		count = min(count, n)
	}
	if count == 0 {
		return s
	}
	m.spend(count / 4)
	m.alloc(len(s))
	m.allocTimes(count, len(with))
	return strings.Replace(s, old, with, int(count))
}

func strExpandTabs(m *machine, s string, a []Value) Value {
	size := int64(8)
	if !isMissing(a[0]) {
		size = mustIndex(a[0])
	}
	m.mapping(len(s))
	if size > 0 {
		m.allocTimes(int64(strings.Count(s, "\t")), int(min(size, 1<<30)))
	}
	var b strings.Builder
	column := int64(0)
	for _, r := range s {
		switch r {
		case '\t':
			if size > 0 {
				n := size - column%size
				b.WriteString(strings.Repeat(" ", int(n)))
				column += n
			}
		case '\n', '\r':
			column = 0
			b.WriteRune(r)
		default:
			column++
			b.WriteRune(r)
		}
	}
	return b.String()
}

func strZfill(m *machine, s string, a []Value) Value {
	pad := mustIndex(a[0]) - int64(runeLen(s))
	if pad <= 0 {
		return s
	}
	m.allocTimes(pad, 1)
	m.alloc(len(s))
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return sign + strings.Repeat("0", int(pad)) + s
}

func (m *machine) justify(name, s string, width, fill Value) string {
	char := " "
	if !isMissing(fill) {
		var ok bool
		if char, ok = asString(fill); !ok {
			throwType("The fill character must be a unicode character, not %s", typeName(fill))
		}
		if runeLen(char) != 1 {
			throwType("The fill character must be exactly one character long")
		}
	}
	m.scan(len(s))
	w := mustIndex(width)
	pad := w - int64(runeLen(s))
	if pad <= 0 {
		return s
	}
	m.allocTimes(pad, len(char))
	m.alloc(len(s))
	left := int64(0)
	switch name {
	case "rjust":
		left = pad
	case "center":
		left = pad/2 + (pad & w & 1)
	}
	return strings.Repeat(char, int(left)) + s + strings.Repeat(char, int(pad-left))
}
