package jinja

import (
	"strings"
	"unicode/utf8"
)

// textList makes a list of pieces that share the memory of their text.
func (m *machine) textList(parts []string) *List {
	m.alloc(2 * valueSize * len(parts))
	m.spend(int64(len(parts)) / 4)
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return &List{items}
}

func (m *machine) stripText(name, s string, chars Value, sides [2]bool) string {
	cut := isSpace
	if !isMissing(chars) && chars != nil {
		set, ok := asString(chars)
		if !ok {
			throwType("%s arg must be None or str", name)
		}
		m.scan(len(set))
		cut = func(r rune) bool { m.spend(int64(len(set) >> 6)); return strings.ContainsRune(set, r) }
	}
	before := len(s)
	if sides[0] {
		s = strings.TrimLeftFunc(s, cut)
	}
	if sides[1] {
		s = strings.TrimRightFunc(s, cut)
	}
	m.classify(before - len(s))
	return s
}

// splitText is split and rsplit.
func (m *machine) splitText(s string, sep, limit Value, fromEnd bool) Value {
	n := -1
	if !isMissing(limit) {
		n = int(mustIndex(limit))
	}
	if isMissing(sep) || sep == nil {
		m.classify(len(s))
		return m.textList(m.splitSpace(s, n, fromEnd))
	}
	by, ok := asString(sep)
	if !ok {
		throwType("must be str or None, not %s", typeName(sep))
	}
	if by == "" {
		throwValue("empty separator")
	}
	m.scan(2 * len(s))
	count := strings.Count(s, by)
	m.spend(int64(count) / 4)
	if n >= 0 {
		count = min(count, n)
	}
	m.alloc(valueSize * (count + 1))
	if !fromEnd || n < 0 {
		return m.textList(strings.SplitN(s, by, count+1))
	}
	parts := make([]string, count+1)
	for ; count > 0; count-- {
		i := strings.LastIndex(s, by)
		parts[count] = s[i+len(by):]
		s = s[:i]
	}
	parts[0] = s
	return m.textList(parts)
}

// splitSpace splits at runs of white space, at most n times if n >= 0.
func (m *machine) splitSpace(s string, n int, fromEnd bool) []string {
	var parts []string
	if fromEnd {
		for s = trimRightSpace(s); s != ""; s = trimRightSpace(s) {
			i := strings.LastIndexFunc(s, isSpace)
			m.alloc(valueSize)
			if i < 0 || len(parts) == n {
				parts = append(parts, s)
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+size:])
			s = s[:i]
		}
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
		return parts
	}
	for s = trimLeftSpace(s); s != ""; s = trimLeftSpace(s) {
		i := strings.IndexFunc(s, isSpace)
		m.alloc(valueSize)
		if i < 0 || len(parts) == n {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[:i])
		s = s[i:]
	}
	return parts
}

// splitLines is str.splitlines.
func (m *machine) splitLines(s string, keepEnds bool) []string {
	m.classify(len(s))
	var lines []string
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		end := i + n
		switch r {
		case '\r':
			if end < len(s) && s[end] == '\n' {
				end++
			}
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		default:
			i = end
			continue
		}
		m.alloc(valueSize)
		if keepEnds {
			lines = append(lines, s[start:end])
		} else {
			lines = append(lines, s[start:i])
		}
		start, i = end, end
	}
	if start < len(s) {
		lines = append(lines, s[start:])
	}
	return lines
}

func (m *machine) partition(s string, sep Value, fromEnd bool) Value {
	by, ok := asString(sep)
	if !ok {
		throwType("must be str, not %s", typeName(sep))
	}
	if by == "" {
		throwValue("empty separator")
	}
	m.scan(2 * len(s))
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
