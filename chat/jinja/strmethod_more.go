package jinja

import (
	"html"
	"strings"
	"unicode"
)

func isPrintable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

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
		m.burn(1)
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
	count := int64(strings.Count(s, old))
	if n >= 0 {
		count = min(count, n)
	}
	if count == 0 {
		return s
	}
	m.alloc(len(s))
	m.allocTimes(count, len(with))
	return strings.Replace(s, old, with, int(count))
}

func strExpandTabs(m *machine, s string, a []Value) Value {
	size := int64(8)
	if !isMissing(a[0]) {
		size = mustIndex(a[0])
	}
	m.alloc(len(s))
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

func (m *machine) partition(s string, sep Value, fromEnd bool) Value {
	by, ok := asString(sep)
	if !ok {
		throwType("must be str, not %s", typeName(sep))
	}
	if by == "" {
		throwValue("empty separator")
	}
	if fromEnd {
		if i := strings.LastIndex(s, by); i >= 0 {
			return m.newTuple([]Value{s[:i], by, s[i+len(by):]})
		}
		return m.newTuple([]Value{"", "", s})
	}
	if i := strings.Index(s, by); i >= 0 {
		return m.newTuple([]Value{s[:i], by, s[i+len(by):]})
	}
	return m.newTuple([]Value{s, "", ""})
}

// window cuts s[start:end] out of s for the methods that search within one,
// with the number of characters before it; false if start lies behind s.
func (m *machine) window(s string, start, end Value) (text string, before int, ok bool) {
	if (isMissing(start) || start == nil) && (isMissing(end) || end == nil) {
		return s, 0, true
	}
	none := func(v Value) Value {
		if isMissing(v) {
			return nil
		}
		return v
	}
	n := runeLen(s)
	if i, isInt := asIndex(none(start)); isInt && i > int64(n) {
		return "", 0, false
	}
	from, to, _ := sliceBounds(none(start), none(end), nil, n)
	if from > to {
		return "", 0, false
	}
	a := byteOffset(s, from)
	return s[a : a+byteOffset(s[a:], to-from)], from, true
}

func (m *machine) findText(name, s string, a []Value) Value {
	sub, ok := asString(a[0])
	if !ok {
		throwType("must be str, not %s", typeName(a[0]))
	}
	text, before, ok := m.window(s, a[1], a[2])
	if name == "count" {
		if !ok {
			return int64(0)
		}
		return int64(strings.Count(text, sub))
	}
	i := -1
	if ok {
		if name == "find" || name == "index" {
			i = strings.Index(text, sub)
		} else {
			i = strings.LastIndex(text, sub)
		}
	}
	if i >= 0 {
		return int64(before + runeLen(text[:i]))
	}
	if name == "index" || name == "rindex" {
		throwValue("substring not found")
	}
	return int64(-1)
}

func (m *machine) hasAffix(name, s string, a []Value, at func(string, string) bool) Value {
	text, _, inside := m.window(s, a[1], a[2])
	if t, ok := a[0].(*tuple); ok {
		for _, x := range t.items {
			m.burn(1)
			affix, ok := asString(x)
			if !ok {
				throwType("tuple for %s must only contain str, not %s", name, typeName(x))
			}
			if inside && at(text, affix) {
				return true
			}
		}
		return false
	}
	affix, ok := asString(a[0])
	if !ok {
		throwType("%s first arg must be str or a tuple of str, not %s", name, typeName(a[0]))
	}
	return inside && at(text, affix)
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escape makes text safe for HTML.
func (m *machine) escape(s string) string {
	m.scan(len(s))
	n := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '&', '>', '<', '\'', '"':
			n++
		}
	}
	if n == 0 {
		return s
	}
	m.alloc(len(s) + 4*n)
	return htmlEscapes.Replace(s)
}

// toMarkup is markupsafe.escape(v).
func (m *machine) toMarkup(v Value) Markup {
	if s, ok := v.(Markup); ok {
		return s
	}
	return Markup(m.escape(m.str(v)))
}

func (m *machine) joinMarkup(sep Markup, items Value) Value {
	it := m.mustIterate(items)
	start := len(m.out)
	for i := 0; ; i++ {
		v, ok := it.next(m)
		if !ok {
			return Markup(m.take(start))
		}
		m.burn(1)
		s := m.toMarkup(v)
		if i > 0 {
			m.write(string(sep))
		}
		m.write(string(s))
	}
}

// stripTags is Markup.striptags: no tags, single spaces, no entities.
func (m *machine) stripTags(s string) string {
	m.alloc(2 * len(s))
	var b strings.Builder
	pos := 0
	for {
		i := strings.IndexByte(s[pos:], '<')
		if i < 0 {
			break
		}
		start := pos + i
		end := -1
		if strings.HasPrefix(s[start:], "<!--") {
			if j := strings.Index(s[start+4:], "-->"); j >= 0 {
				end = start + 4 + j + 3
			}
		} else if j := strings.IndexByte(s[start:], '>'); j >= 0 {
			end = start + j + 1
		}
		if end < 0 {
			break
		}
		b.WriteString(s[pos:start])
		pos = end
	}
	b.WriteString(s[pos:])
	return m.unescapeHTML(strings.Join(strings.FieldsFunc(b.String(), isSpace), " "))
}

func (m *machine) unescapeHTML(s string) string {
	m.alloc(len(s))
	return html.UnescapeString(s)
}
