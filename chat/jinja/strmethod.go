package jinja

import (
	"strings"
	"unicode/utf8"
)

// strMethod is a method of str. The Markup of the same name returns Markup
// where this returns text (unless plain), and escapes the argument numbered
// escapes.
type strMethod struct {
	native
	call    func(m *machine, s string, a []Value) Value
	plain   bool
	escapes int // -1: none
}

var strMethods, markupMethods map[string]*methodDef

// In init, as str.format looks attributes up, methods among them.
func init() {
	str, markup := map[string]*methodDef{}, map[string]*methodDef{}
	strMethods, markupMethods = str, markup
	for _, d := range strMethodList() {
		d.typ = "str"
		str[d.name] = &methodDef{name: d.name, call: func(m *machine, self Value, a args) Value {
			s := self.(string)
			m.burn(1)
			m.scan(len(s))
			return d.call(m, s, d.bind(m, a))
		}}
		markup[d.name] = &methodDef{name: d.name, call: func(m *machine, self Value, a args) Value {
			s := string(self.(Markup))
			m.burn(1)
			m.scan(len(s))
			bound := d.bind(m, a)
			if d.escapes >= 0 && !isMissing(bound[d.escapes]) {
				bound[d.escapes] = string(m.toMarkup(bound[d.escapes]))
			}
			v := d.call(m, s, bound)
			if d.plain {
				return v
			}
			return markupAll(v)
		}}
	}
	for _, name := range []string{"format", "format_map"} {
		str[name] = &methodDef{name: name, call: func(m *machine, self Value, a args) Value {
			return m.formatMethod(name, self.(string), a, false)
		}}
		markup[name] = &methodDef{name: name, call: func(m *machine, self Value, a args) Value {
			return Markup(m.formatMethod(name, string(self.(Markup)), a, true))
		}}
	}
	markup["join"] = &methodDef{name: "join", call: func(m *machine, self Value, a args) Value {
		return m.joinMarkup(self.(Markup), markupJoinSig.bind(m, a)[0])
	}}
	markup["striptags"] = &methodDef{name: "striptags", call: func(m *machine, self Value, a args) Value {
		noArguments("Markup.striptags", m, a)
		return m.stripTags(string(self.(Markup)))
	}}
	markup["unescape"] = &methodDef{name: "unescape", call: func(m *machine, self Value, a args) Value {
		noArguments("Markup.unescape", m, a)
		return m.unescapeHTML(string(self.(Markup)))
	}}
}

var markupJoinSig = &signature{name: "Markup.join", lead: 1, params: []string{"iterable"}, required: 1}

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

// textMethod is a method without arguments that maps the text.
func textMethod(name string, f func(string) string) strMethod {
	return strMethod{native: native{name: name}, escapes: -1, call: func(m *machine, s string, _ []Value) Value {
		m.mapping(len(s))
		return f(s)
	}}
}

// testMethod is a method without arguments that asks about the text.
func testMethod(name string, f func(string) bool) strMethod {
	return strMethod{native: native{name: name}, escapes: -1, plain: true,
		call: func(_ *machine, s string, _ []Value) Value { return f(s) }}
}

func runesMethod(name string, is func(rune) bool) strMethod {
	return testMethod(name, func(s string) bool { return allRunes(s, is) })
}

func strMethodList() []strMethod {
	list := []strMethod{
		textMethod("upper", upper), textMethod("lower", lower), textMethod("title", title),
		textMethod("capitalize", capitalize), textMethod("swapcase", swapcase), textMethod("casefold", casefold),
		runesMethod("isdigit", isDigit), runesMethod("isdecimal", isDecimal), runesMethod("isnumeric", isNumeric),
		runesMethod("isalpha", isAlpha), runesMethod("isalnum", isAlnum), runesMethod("isspace", isSpace),
		testMethod("isascii", isASCII), testMethod("isidentifier", isIdentifier), testMethod("istitle", isTitleCased),
		testMethod("isprintable", isPrintable),
		testMethod("isupper", func(s string) bool { return isCaseOnly(s, isUpper, isLower) }),
		testMethod("islower", func(s string) bool { return isCaseOnly(s, isLower, isUpper) }),
		{native: native{name: "join", min: 1, max: 1}, escapes: -1, plain: true,
			call: func(m *machine, s string, a []Value) Value { return m.joinText(s, a[0]) }},
		{native: native{name: "replace", min: 2, max: 3}, escapes: 1, call: strReplace},
		{native: native{name: "expandtabs", max: 1, keywords: []string{"tabsize"}}, escapes: -1, call: strExpandTabs},
		{native: native{name: "zfill", min: 1, max: 1}, escapes: -1, call: strZfill},
	}
	for name, cut := range map[string]func(string, string) string{"removeprefix": strings.TrimPrefix, "removesuffix": strings.TrimSuffix} {
		list = append(list, strMethod{native: native{name: name, min: 1, max: 1}, escapes: -1,
			call: func(m *machine, s string, a []Value) Value { return cut(s, textArgument(name, a[0])) }})
	}
	for name, sides := range map[string][2]bool{"strip": {true, true}, "lstrip": {true, false}, "rstrip": {false, true}} {
		list = append(list, strMethod{native: native{name: name, max: 1}, escapes: -1,
			call: func(m *machine, s string, a []Value) Value { return m.stripText(name, s, a[0], sides) }})
	}
	for _, name := range []string{"split", "rsplit"} {
		list = append(list, strMethod{native: native{name: name, max: 2, keywords: []string{"sep", "maxsplit"}}, escapes: -1,
			call: func(m *machine, s string, a []Value) Value { return m.splitText(s, a[0], a[1], name == "rsplit") }})
	}
	list = append(list, strMethod{native: native{name: "splitlines", max: 1, keywords: []string{"keepends"}}, escapes: -1,
		call: func(m *machine, s string, a []Value) Value {
			return m.textList(splitLines(s, !isMissing(a[0]) && m.truthy(a[0])))
		}})
	for name, fromEnd := range map[string]bool{"partition": false, "rpartition": true} {
		list = append(list, strMethod{native: native{name: name, min: 1, max: 1}, escapes: -1,
			call: func(m *machine, s string, a []Value) Value { return m.partition(s, a[0], fromEnd) }})
	}
	for _, name := range []string{"ljust", "rjust", "center"} {
		list = append(list, strMethod{native: native{name: name, min: 1, max: 2}, escapes: 1,
			call: func(m *machine, s string, a []Value) Value { return m.justify(name, s, a[0], a[1]) }})
	}
	for _, name := range []string{"find", "rfind", "index", "rindex", "count"} {
		list = append(list, strMethod{native: native{name: name, min: 1, max: 3, parsed: true}, escapes: -1, plain: true,
			call: func(m *machine, s string, a []Value) Value { return m.findText(name, s, a) }})
	}
	for name, at := range map[string]func(string, string) bool{"startswith": strings.HasPrefix, "endswith": strings.HasSuffix} {
		list = append(list, strMethod{native: native{name: name, min: 1, max: 3, parsed: true}, escapes: -1, plain: true,
			call: func(m *machine, s string, a []Value) Value { return m.hasAffix(name, s, a, at) }})
	}
	for _, name := range []string{"encode", "translate", "maketrans"} {
		list = append(list, strMethod{native: native{name: name, max: 3, keywords: []string{"encoding", "errors"}}, escapes: -1,
			call: func(*machine, string, []Value) Value {
				throwType("str.%s() is not supported in chat templates", name)
				return nil
			}})
	}
	return list
}

func textArgument(method string, v Value) string {
	s, ok := asString(v)
	if !ok {
		throwType("%s() argument must be str, not %s", method, typeName(v))
	}
	return s
}

// textList makes a list of pieces that share the memory of their text.
func (m *machine) textList(parts []string) *List {
	m.alloc(2 * valueSize * len(parts))
	m.burn(int64(len(parts)) / 4)
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
		cut = func(r rune) bool { m.burn(int64(len(set) >> 6)); return strings.ContainsRune(set, r) }
	}
	if sides[0] {
		s = strings.TrimLeftFunc(s, cut)
	}
	if sides[1] {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

// splitText is split and rsplit.
func (m *machine) splitText(s string, sep, limit Value, fromEnd bool) Value {
	n := -1
	if !isMissing(limit) {
		n = int(mustIndex(limit))
	}
	if isMissing(sep) || sep == nil {
		m.alloc(len(s) / 4) // the pieces of a text full of spaces
		return m.textList(splitSpace(s, n, fromEnd))
	}
	by, ok := asString(sep)
	if !ok {
		throwType("must be str or None, not %s", typeName(sep))
	}
	if by == "" {
		throwValue("empty separator")
	}
	count := strings.Count(s, by)
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
func splitSpace(s string, n int, fromEnd bool) []string {
	if n < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if fromEnd {
		for s = trimRightSpace(s); s != ""; s = trimRightSpace(s) {
			i := strings.LastIndexFunc(s, isSpace)
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
func splitLines(s string, keepEnds bool) []string {
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
