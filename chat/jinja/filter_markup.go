package jinja

import "strings"

func markupFilters() map[string]*filterDef {
	return map[string]*filterDef{
		"safe": newFilter("do_mark_safe", 1, "", 0, func(m *machine, v Value, _ []Value) Value {
			return Markup(m.str(v))
		}),
		"escape": newFilter("escape", 1, "", 0, func(m *machine, v Value, _ []Value) Value { return m.toMarkup(v) }),
		"forceescape": newFilter("do_forceescape", 1, "", 0, func(m *machine, v Value, _ []Value) Value {
			return Markup(m.escape(m.str(v)))
		}),
		"striptags": newFilter("do_striptags", 1, "", 0, func(m *machine, v Value, _ []Value) Value {
			return m.stripTags(m.str(v))
		}),
		"xmlattr": newFilter("do_xmlattr", 2, "autospace", 0, filterXMLAttr),
	}
}

func filterXMLAttr(m *machine, v Value, a []Value) Value {
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*undefined); ok {
			u.raise()
		}
		throw("AttributeError", "'%s' object has no attribute 'items'", typeName(v))
	}
	start := len(m.out)
	space := isMissing(a[0]) || m.truthy(a[0])
	for i, k := range d.keys {
		m.spend(1)
		x := d.vals[i]
		if x == nil || isUndefined(x) {
			continue
		}
		key, ok := asString(k)
		if !ok {
			throwType("expected string or bytes-like object, got '%s'", typeName(k))
		}
		m.scan(2 * len(key))
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			throwValue("Invalid character in attribute name: %s", repr(key))
		}
		if space || len(m.out) > start {
			m.write(" ")
		}
		m.write(string(m.toMarkup(k)))
		m.write(`="`)
		m.write(string(m.toMarkup(x)))
		m.write(`"`)
	}
	return m.take(start)
}
