package jinja

import (
	"html"
	"strings"
)

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
	m.mapping(len(s) + 4*n)
	return htmlEscapes.Replace(s)
}

// toMarkup is markupsafe.escape(v).
func (m *machine) toMarkup(v Value) Markup {
	if s, ok := v.(Markup); ok {
		return s
	}
	return Markup(m.escape(m.str(v)))
}

// markupAll turns text, also within a list or tuple of it, into Markup.
func markupAll(v Value) Value {
	switch v := v.(type) {
	case string:
		return Markup(v)
	case *List:
		for i, x := range v.items {
			v.items[i] = markupAll(x)
		}
	case *tuple:
		for i, x := range v.items {
			v.items[i] = markupAll(x)
		}
	}
	return v
}

func (m *machine) joinMarkup(sep Markup, items Value) Value {
	it := m.mustIterate(items)
	start := len(m.out)
	for i := 0; ; i++ {
		v, ok := it.next(m)
		if !ok {
			return Markup(m.take(start))
		}
		m.spend(1)
		s := m.toMarkup(v)
		if i > 0 {
			m.write(string(sep))
		}
		m.write(string(s))
	}
}

// stripTags is Markup.striptags: no tags, single spaces, no entities.
func (m *machine) stripTags(s string) string {
	m.mapping(2 * len(s))
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
	m.alloc(b.Len())
	return m.unescapeHTML(singleSpaces(b.String()))
}

// singleSpaces is " ".join(s.split()), without a list of the words.
func singleSpaces(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for s = trimLeftSpace(s); s != ""; {
		end := strings.IndexFunc(s, isSpace)
		if end < 0 {
			end = len(s)
		}
		b.WriteString(s[:end])
		if s = trimLeftSpace(s[end:]); s != "" {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func (m *machine) unescapeHTML(s string) string {
	m.mapping(2 * len(s))
	return html.UnescapeString(s)
}
