package jinja

// selectFilters are the filters that apply another filter or a test to every
// item: map, select and their relatives. All are lazy.
func selectFilters() map[string]*filterDef {
	return map[string]*filterDef{
		"map":        {raw: filterMap},
		"select":     {raw: selector(true, false)},
		"reject":     {raw: selector(false, false)},
		"selectattr": {raw: selector(true, true)},
		"rejectattr": {raw: selector(false, true)},
		"attr": newFilter("do_attr", 2, "name", 1, func(m *machine, v Value, a []Value) Value {
			name, ok := asString(a[0])
			if !ok {
				throwType("attribute name must be string, not '%s'", typeName(a[0]))
			}
			if u, ok := v.(*undefined); ok {
				u.raise()
			}
			if x, ok := m.ownAttribute(v, name); ok {
				return x
			}
			return &undefined{obj: v, name: name, hasObj: true}
		}),
		"default": newFilter("do_default", 1, "default_value boolean", 0, func(m *machine, v Value, a []Value) Value {
			if isUndefined(v) || m.flag(a[1]) && !m.truthy(v) {
				if isMissing(a[0]) {
					return ""
				}
				return a[0]
			}
			return v
		}),
	}
}

// keep copies arguments that are needed after the call.
func (m *machine) keep(a args) args {
	m.alloc(valueSize * (len(a.pos) + 2*len(a.kw)))
	return args{append([]Value(nil), a.pos...), append([]keyword(nil), a.kw...)}
}

// lazily makes the generator of map and select. It has no items if v is false. prepare is
// called when the first item is needed; the function that it returns gives what an item
// becomes, or false to drop it.
func lazily(name string, v Value, prepare func(m *machine) func(x Value) (Value, bool)) *generator {
	return newGenerator(name, func(m *machine) func() (Value, bool) {
		if !m.truthy(v) {
			return nil
		}
		f := prepare(m)
		it := m.mustIterate(v)
		return func() (Value, bool) {
			for {
				x, ok := it.next(m)
				if !ok {
					return nil, false
				}
				m.spend(1)
				at := m.mark()
				y, ok := f(x)
				m.release(at)
				if ok {
					return y, true
				}
			}
		}
	})
}

func filterMap(m *machine, v Value, a args) Value {
	a = m.keep(a)
	return lazily("sync_do_map", v, func(m *machine) func(Value) (Value, bool) {
		if attribute, ok := a.keyword("attribute"); ok && len(a.pos) == 0 {
			g := newGetter(attribute, false)
			for _, k := range a.kw {
				switch k.name {
				case "attribute":
				case "default":
					g.absent = k.value
				default:
					throw("FilterArgumentError", "Unexpected keyword argument %s", repr(k.name))
				}
			}
			return func(x Value) (Value, bool) { return g.get(m, x), true }
		}
		if len(a.pos) == 0 {
			throw("FilterArgumentError", "map requires a filter argument")
		}
		f := filters[m.callableName("filter", a.pos[0], func(s string) bool { return filters[s] != nil })]
		rest := args{a.pos[1:], a.kw}
		return func(x Value) (Value, bool) { return f.call(m, x, rest), true }
	})
}

func selector(want, byAttribute bool) func(m *machine, v Value, a args) Value {
	return func(m *machine, v Value, a args) Value {
		a = m.keep(a)
		return lazily("select_or_reject", v, func(m *machine) func(Value) (Value, bool) {
			rest := a.pos
			var g getter
			if byAttribute {
				if len(rest) == 0 {
					throw("FilterArgumentError", "Missing parameter for attribute name")
				}
				g = newGetter(rest[0], false)
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return func(x Value) (Value, bool) { return x, m.truthy(g.get(m, x)) == want }
			}
			name := rest[0]
			with := args{rest[1:], a.kw}
			return func(x Value) (Value, bool) {
				t := tests[m.callableName("test", name, func(s string) bool { return tests[s] != nil })]
				return x, t.call(m, g.get(m, x), with) == want
			}
		})
	}
}

// callableName checks the name of a filter or test given as a value.
func (m *machine) callableName(kind string, v Value, known func(string) bool) string {
	if s, ok := asString(v); ok {
		m.scan(2 * len(s))
		if known(s) {
			return s
		}
	}
	switch v := v.(type) {
	case *undefined:
		throw("TemplateRuntimeError", "No %s named Undefined. (%s; did you forget to quote the callable name?)", kind, v.message())
	case *List, *Dict:
		throwType("unhashable type: '%s'", typeName(v))
	}
	throw("TemplateRuntimeError", "No %s named %s.", kind, repr(v))
	return ""
}
