package jinja

import (
	"strings"
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
			m.spend(1)
			m.scan(len(s))
			return d.call(m, s, d.bind(m, a))
		}}
		markup[d.name] = &methodDef{name: d.name, call: func(m *machine, self Value, a args) Value {
			s := string(self.(Markup))
			m.spend(1)
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

// textMethod is a method without arguments that maps the text.
func textMethod(name string, f func(string) string) strMethod {
	return strMethod{native: native{name: name}, escapes: -1, call: func(m *machine, s string, _ []Value) Value {
		m.mapText(s)
		return f(s)
	}}
}

// mapText counts the time and memory to map the characters of s.
func (m *machine) mapText(s string) {
	m.mapping(len(s))
	if strings.Contains(s, "Σ") { // its lower case depends on the characters around it
		m.spend(int64(len(s) >> 2))
	}
}

// testMethod is a method without arguments that asks about the text.
func testMethod(name string, f func(string) bool) strMethod {
	return strMethod{native: native{name: name}, escapes: -1, plain: true,
		call: func(m *machine, s string, _ []Value) Value {
			m.classify(len(s))
			return f(s)
		}}
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
			return m.textList(m.splitLines(s, !isMissing(a[0]) && m.truthy(a[0])))
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
