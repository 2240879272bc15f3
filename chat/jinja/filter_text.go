package jinja

import "strings"

// softText is markupsafe.soft_str: str and Markup stay as they are, anything else becomes
// its str.
func (m *machine) softText(v Value) (s string, markup bool) {
	switch v := v.(type) {
	case Markup:
		return string(v), true
	case string:
		return v, false
	}
	return m.str(v), false
}

func likeText(s string, markup bool) Value {
	if markup {
		return Markup(s)
	}
	return s
}

func mapText(name string, f func(string) string) *filterDef {
	return newFilter(name, 1, "", 0, func(m *machine, v Value, _ []Value) Value {
		s, markup := m.softText(v)
		m.mapText(s)
		return likeText(f(s), markup)
	})
}

func textFilters() map[string]*filterDef {
	return map[string]*filterDef{
		"upper":      mapText("do_upper", upper),
		"lower":      mapText("do_lower", lower),
		"capitalize": mapText("do_capitalize", capitalize),
		"title":      mapText("do_title", titleWords),
		"string": newFilter("soft_str", 1, "", 0, func(m *machine, v Value, _ []Value) Value {
			return likeText(m.softText(v))
		}),
		"trim": newFilter("do_trim", 1, "chars", 0, func(m *machine, v Value, a []Value) Value {
			s, markup := m.softText(v)
			return likeText(m.stripText("strip", s, orNone(a[0]), [2]bool{true, true}), markup)
		}),
		"replace": newFilter("do_replace", 2, "old new count", 2, func(m *machine, v Value, a []Value) Value {
			n := int64(-1)
			if orNone(a[2]) != nil {
				n = mustIndex(a[2])
			}
			s := m.str(v)
			return m.replaceText(s, m.str(a[0]), m.str(a[1]), n)
		}),
		"join": newFilter("sync_do_join", 2, "d attribute", 0, filterJoin),
		"center": newFilter("do_center", 1, "width", 0, func(m *machine, v Value, a []Value) Value {
			s, markup := m.softText(v)
			var width Value = int64(80)
			if !isMissing(a[0]) {
				width = a[0]
			}
			return likeText(m.justify("center", s, width, missing), markup)
		}),
		"indent":    newFilter("do_indent", 1, "width first blank", 0, filterIndent),
		"truncate":  newFilter("do_truncate", 2, "length killwords end leeway", 0, filterTruncate),
		"wordcount": newFilter("do_wordcount", 1, "", 0, filterWordCount),
		"format":    {raw: filterFormat},
		"tojson":    newFilter("tojson", 1, "ensure_ascii indent separators sort_keys", 0, filterToJSON),
		"urlencode": newFilter("do_urlencode", 1, "", 0, filterURLEncode),
	}
}

// titleWords starts a word after white space and opening brackets.
func titleWords(s string) string {
	var b strings.Builder
	start := 0
	flush := func(end int) {
		if start < end {
			word := s[start:end]
			first := word[:byteOffset(word, 1)]
			b.WriteString(upper(first))
			b.WriteString(lower(word[len(first):]))
		}
	}
	for i, r := range s {
		if isSpace(r) || strings.ContainsRune("-({[<", r) {
			flush(i)
			b.WriteRune(r)
			start = i + len(string(r))
		}
	}
	flush(len(s))
	return b.String()
}

func filterJoin(m *machine, v Value, a []Value) Value {
	sep := ""
	if !isMissing(a[0]) {
		sep = m.str(a[0])
	}
	g := newGetter(orNone(a[1]), false)
	it, ok := m.iterate(v)
	if !ok {
		throwType("'%s' object is not iterable", typeName(v))
	}
	start := len(m.out)
	for i := 0; ; i++ {
		x, ok := it.next(m)
		if !ok {
			return m.take(start)
		}
		s := m.str(g.get(m, x))
		if i > 0 {
			m.write(sep)
		}
		m.write(s)
	}
}

func filterIndent(m *machine, v Value, a []Value) Value {
	s, ok := asString(v)
	if !ok {
		if u, ok := v.(*undefined); ok {
			u.raise()
		}
		switch v.(type) {
		case *List:
			throw("AttributeError", "'list' object has no attribute 'splitlines'")
		case *tuple:
			throwType("can only concatenate tuple (not \"str\") to tuple")
		}
		throwType("unsupported operand type(s) for +=: '%s' and 'str'", typeName(v))
	}
	_, markup := v.(Markup)
	indent, ok := asString(a[0])
	if !ok {
		width := int64(4)
		if !isMissing(a[0]) {
			n, isInt := asIndex(a[0])
			if !isInt {
				throwType("can't multiply sequence by non-int of type '%s'", typeName(a[0]))
			}
			width = max(n, 0)
		}
		indent = m.repeatText(" ", width)
	}
	blank := m.flag(a[2])
	m.alloc(len(s))
	lines := m.splitLines(s+"\n", false)
	start := len(m.out)
	if m.flag(a[1]) {
		m.write(indent)
	}
	for i, line := range lines {
		m.spend(1)
		if i > 0 {
			m.write("\n")
			if blank || line != "" {
				m.write(indent)
			}
		}
		m.write(line)
	}
	return likeText(m.take(start), markup)
}

func filterTruncate(m *machine, v Value, a []Value) Value {
	length, leeway, end := int64(255), int64(5), "..."
	if !isMissing(a[0]) {
		length = mustIndex(a[0])
	}
	if !isMissing(a[2]) {
		s, ok := asString(a[2])
		if !ok {
			throwType("object of type '%s' has no len()", typeName(a[2]))
		}
		end = s
	}
	if orNone(a[3]) != nil {
		leeway = mustIndex(a[3])
	}
	endLen := int64(runeLen(end))
	if length < endLen {
		throw("AssertionError", "expected length >= %d, got %d", endLen, length)
	}
	if leeway < 0 {
		throw("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	s, ok := asString(v)
	if !ok {
		n, ok := m.length(v)
		if !ok {
			throwType("object of type '%s' has no len()", typeName(v))
		}
		if int64(n) <= length+leeway {
			return v
		}
		throwType("unhashable type: 'slice'")
	}
	_, markup := v.(Markup)
	m.scan(2*len(s) + len(end))
	if int64(runeLen(s)) <= length+leeway {
		return v
	}
	cut := s[:byteOffset(s, int(length-endLen))]
	if !m.flag(a[1]) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	m.alloc(len(cut) + len(end))
	if _, safe := a[2].(Markup); markup && !safe {
		end = m.escape(end)
	}
	return likeText(cut+end, markup)
}

func filterWordCount(m *machine, v Value, _ []Value) Value {
	s, _ := m.softText(v)
	m.classify(len(s))
	n, in := int64(0), false
	for _, r := range s {
		word := isWord(r)
		if word && !in {
			n++
		}
		in = word
	}
	return n
}

func filterFormat(m *machine, v Value, a args) Value {
	if len(a.pos) > 0 && len(a.kw) > 0 {
		throw("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	s, markup := m.softText(v)
	var with Value = &tuple{items: a.pos}
	if len(a.kw) > 0 {
		d := &Dict{}
		for _, k := range a.kw {
			d.setText(m, k.name, k.value)
		}
		with = d
	}
	return likeText(m.formatPercent(s, with, markup), markup)
}

func filterURLEncode(m *machine, v Value, _ []Value) Value {
	quote := func(v Value, query bool) string {
		s := m.str(v)
		m.alloc(3 * len(s))
		m.classify(len(s))
		return percentEncode(s, query)
	}
	if _, ok := asString(v); ok {
		return quote(v, false)
	}
	if d, ok := v.(*Dict); ok {
		v = &view{d, viewItems}
	}
	it, ok := m.iterate(v)
	if !ok {
		return quote(v, false)
	}
	start := len(m.out)
	for i := 0; ; i++ {
		x, ok := it.next(m)
		if !ok {
			return m.take(start)
		}
		kv := m.collect(x)
		if len(kv) > 2 {
			throwValue("too many values to unpack (expected 2)")
		}
		if len(kv) < 2 {
			throwValue("not enough values to unpack (expected 2, got %d)", len(kv))
		}
		if i > 0 {
			m.write("&")
		}
		m.write(quote(kv[0], true))
		m.write("=")
		m.write(quote(kv[1], true))
	}
}

// percentEncode is urllib.parse.quote, or quote_plus if query is set.
func percentEncode(s string, query bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~", c) >= 0,
			c == '/' && !query:
			b.WriteByte(c)
		case c == ' ' && query:
			b.WriteByte('+')
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
