package jinja

import (
	"strings"
)

// window cuts s[start:end] out of s for the methods that search within one,
// with the number of characters before it. ok is false if start is beyond the end of s.
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
	m.scan(3 * len(s))
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
	m.scan(2 * len(text))
	if name == "count" {
		if !ok {
			return int64(0)
		}
		n := strings.Count(text, sub)
		m.spend(int64(n) / 8)
		return int64(n)
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
			m.spend(1)
			affix, ok := asString(x)
			if !ok {
				throwType("tuple for %s must only contain str, not %s", name, typeName(x))
			}
			m.scan(min(len(text), len(affix)))
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
	m.scan(min(len(text), len(affix)))
	return inside && at(text, affix)
}
