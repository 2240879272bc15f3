package jinja

// methodDef is a method of a built-in type.
type methodDef struct {
	name string
	call func(m *machine, self Value, a args) Value
	// mutates says that the method changes the object, so the sandbox forbids it.
	mutates bool
}

// findMethod returns the method of that name, or nil if the type has none.
func findMethod(obj Value, name string) *methodDef {
	switch obj.(type) {
	case string:
		return strMethods[name]
	case Markup:
		return markupMethods[name]
	case *Dict:
		return dictMethods[name]
	case *List:
		return listMethods[name]
	case *tuple:
		return tupleMethods[name]
	case *rangeValue:
		return rangeMethods[name]
	case *cycler:
		return cyclerMethods[name]
	}
	return nil
}

func methodTable(defs ...*methodDef) map[string]*methodDef {
	t := make(map[string]*methodDef, len(defs))
	for _, d := range defs {
		t[d.name] = d
	}
	return t
}

// native describes how a method that is written in C takes its arguments. The texts of its
// errors depend on that.
type native struct {
	typ      string // the type, for messages
	name     string
	min, max int
	keywords []string // their names, for the few that take keywords
	parsed   bool     // parsed by PyArg_ParseTuple
}

// bind returns max values, missing for those that were not given.
func (n *native) bind(m *machine, a args) []Value {
	given := len(a.pos) + len(a.kw)
	switch {
	case len(a.kw) > 0 && n.keywords == nil:
		throwType("%s.%s() takes no keyword arguments", n.typ, n.name)
	case n.max == 0 && given > 0:
		throwType("%s.%s() takes no arguments (%d given)", n.typ, n.name, given)
	case n.min == 1 && n.max == 1 && given != 1:
		throwType("%s.%s() takes exactly one argument (%d given)", n.typ, n.name, given)
	case given < n.min && n.parsed:
		throwType("%s() takes at least %d argument%s (%d given)", n.name, n.min, plural(n.min), given)
	case given < n.min:
		throwType("%s expected at least %d argument%s, got %d", n.name, n.min, plural(n.min), given)
	case given > n.max && (n.parsed || n.keywords != nil):
		throwType("%s() takes at most %d argument%s (%d given)", n.name, n.max, plural(n.max), given)
	case given > n.max:
		throwType("%s expected at most %d argument%s, got %d", n.name, n.max, plural(n.max), given)
	}
	at := len(m.stack)
	m.stack = append(m.stack, a.pos...)
	for range n.max - len(a.pos) {
		m.stack = append(m.stack, missing)
	}
	bound := m.stack[at:len(m.stack):len(m.stack)]
	for _, k := range a.kw {
		i := 0
		for i < len(n.keywords) && n.keywords[i] != k.name {
			i++
		}
		if i == len(n.keywords) {
			throwType("'%s' is an invalid keyword argument for %s()", k.name, n.name)
		}
		if !isMissing(bound[i]) {
			throwType("argument for %s() given by name ('%s') and position (%d)", n.name, k.name, i+1)
		}
		bound[i] = k.value
	}
	return bound
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// nativeMethod makes a method that binds its arguments first.
func nativeMethod(n native, f func(m *machine, self Value, a []Value) Value) *methodDef {
	return &methodDef{name: n.name, call: func(m *machine, self Value, a args) Value {
		m.spend(1)
		return f(m, self, n.bind(m, a))
	}}
}

func forbidden(name string) *methodDef { return &methodDef{name: name, mutates: true} }

var dictMethods = methodTable(
	nativeMethod(native{typ: "dict", name: "items"}, func(_ *machine, self Value, _ []Value) Value {
		return &view{self.(*Dict), viewItems}
	}),
	nativeMethod(native{typ: "dict", name: "keys"}, func(_ *machine, self Value, _ []Value) Value {
		return &view{self.(*Dict), viewKeys}
	}),
	nativeMethod(native{typ: "dict", name: "values"}, func(_ *machine, self Value, _ []Value) Value {
		return &view{self.(*Dict), viewValues}
	}),
	nativeMethod(native{typ: "dict", name: "get", min: 1, max: 2}, func(m *machine, self Value, a []Value) Value {
		d := self.(*Dict)
		if i := d.find(m, a[0]); i >= 0 {
			return d.vals[i]
		}
		if isMissing(a[1]) {
			return nil
		}
		return a[1]
	}),
	nativeMethod(native{typ: "dict", name: "copy"}, func(m *machine, self Value, _ []Value) Value {
		d := self.(*Dict)
		m.alloc(4 * valueSize * (len(d.keys) + 1))
		return d.clone()
	}),
	&methodDef{name: "fromkeys", call: dictFromKeys},
	forbidden("clear"), forbidden("pop"), forbidden("popitem"), forbidden("setdefault"), forbidden("update"),
)

var fromKeysNative = native{typ: "dict", name: "fromkeys", min: 1, max: 2}

func dictFromKeys(m *machine, _ Value, a args) Value {
	b := fromKeysNative.bind(m, a)
	v := b[1]
	if isMissing(v) {
		v = nil
	}
	d := &Dict{}
	it := m.mustIterate(b[0])
	for {
		k, ok := it.next(m)
		if !ok {
			return d
		}
		m.alloc(4 * valueSize)
		m.spend(1)
		d.set(m, k, v)
	}
}

// indexMethod and countMethod are shared by list, tuple and range.
func indexMethod(typ string) *methodDef {
	return nativeMethod(native{typ: typ, name: "index", min: 1, max: 3}, func(m *machine, self Value, a []Value) Value {
		items := m.collect(self)
		from, to := 0, len(items)
		if !isMissing(a[1]) {
			from, _, _ = sliceBounds(a[1], nil, nil, len(items))
		}
		if !isMissing(a[2]) {
			_, to, _ = sliceBounds(nil, a[2], nil, len(items))
		}
		for i := from; i < to; i++ {
			m.spend(1)
			if m.same(items[i], a[0]) {
				return int64(i)
			}
		}
		switch typ {
		case "tuple":
			throwValue("tuple.index(x): x not in tuple")
		case "range":
			throwValue("%s is not in range", repr(a[0]))
		}
		throwValue("%s is not in list", repr(a[0]))
		return nil
	})
}

func countMethod(typ string) *methodDef {
	return nativeMethod(native{typ: typ, name: "count", min: 1, max: 1}, func(m *machine, self Value, a []Value) Value {
		n := int64(0)
		for _, x := range m.collect(self) {
			m.spend(1)
			if m.same(x, a[0]) {
				n++
			}
		}
		return n
	})
}

// same compares as Python's containers do: identical values count as equal.
func (m *machine) same(a, b Value) bool { return m.identical(a, b) || m.equal(a, b) }

var listMethods = methodTable(
	indexMethod("list"), countMethod("list"),
	nativeMethod(native{typ: "list", name: "copy"}, func(m *machine, self Value, _ []Value) Value {
		return m.newList(self.(*List).items)
	}),
	forbidden("append"), forbidden("clear"), forbidden("pop"), forbidden("reverse"), forbidden("insert"),
	forbidden("sort"), forbidden("extend"), forbidden("remove"),
)

var (
	tupleMethods = methodTable(indexMethod("tuple"), countMethod("tuple"))
	rangeMethods = methodTable(indexMethod("range"), countMethod("range"))
)
