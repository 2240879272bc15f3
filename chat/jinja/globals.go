package jinja

import (
	"math/big"
	"strings"
)

// maxRange is the sandbox's limit for range().
const maxRange = 100000

// globals are the functions that every template sees, unless the caller of Render passes
// a variable of the same name.
var globals = map[string]Value{
	"range":           &builtin{name: "range", typ: "function", call: globalRange},
	"dict":            &builtin{name: "dict", typ: "TemplateDict", call: func(m *machine, a args) Value { return m.newDict(a) }},
	"namespace":       &builtin{name: "namespace", typ: "type", call: globalNamespace},
	"cycler":          &builtin{name: "cycler", typ: "type", call: globalCycler},
	"joiner":          &builtin{name: "joiner", typ: "type", call: globalJoiner},
	"raise_exception": &builtin{name: "raise_exception", typ: "function", call: globalRaise},
	"strftime_now":    &builtin{name: "strftime_now", typ: "function", call: globalStrftime},
}

func globalRange(m *machine, a args) Value {
	if len(a.kw) > 0 {
		throwType("safe_range() got an unexpected keyword argument '%s'", a.kw[0].name)
	}
	if len(a.pos) < 1 {
		throwType("range expected at least 1 argument, got 0")
	}
	if len(a.pos) > 3 {
		throwType("range expected at most 3 arguments, got %d", len(a.pos))
	}
	var n [3]int64
	for i, v := range a.pos {
		n[i] = mustIndex(v)
		if b, ok := v.(*big.Int); ok && !b.IsInt64() {
			throw("OverflowError", "Python int too large to convert to C ssize_t")
		}
	}
	r := &rangeValue{0, n[0], 1}
	if len(a.pos) > 1 {
		r.start, r.stop = n[0], n[1]
	}
	if len(a.pos) > 2 {
		r.step = n[2]
	}
	if r.step == 0 {
		throwValue("range() arg 3 must not be zero")
	}
	// In big ints, as stop-start may not fit.
	span := new(big.Int).Sub(big.NewInt(r.stop), big.NewInt(r.start))
	span.Quo(span, big.NewInt(r.step))
	if span.Cmp(big.NewInt(maxRange)) > 0 || span.IsInt64() && span.Int64() == maxRange && r.len() > maxRange {
		throw("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return r
}

// newDict is dict(*args, **kwargs).
func (m *machine) newDict(a args) *Dict {
	if len(a.pos) > 1 {
		throwType("dict expected at most 1 argument, got %d", len(a.pos))
	}
	d := &Dict{}
	if len(a.pos) == 1 {
		if from, ok := a.pos[0].(*Dict); ok {
			m.alloc(4 * valueSize * len(from.keys))
			d = from.clone()
		} else {
			m.fillDict(d, a.pos[0])
		}
	}
	for _, k := range a.kw {
		m.alloc(4 * valueSize)
		d.setText(m, k.name, k.value)
	}
	return d
}

func (m *machine) fillDict(d *Dict, pairs Value) {
	it := m.mustIterate(pairs)
	for i := 0; ; i++ {
		x, ok := it.next(m)
		if !ok {
			return
		}
		if _, ok := m.iterate(x); !ok {
			throwType("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		kv := m.collect(x)
		if len(kv) != 2 {
			throwValue("dictionary update sequence element #%d has length %d; 2 is required", i, len(kv))
		}
		m.alloc(4 * valueSize)
		m.spend(1)
		d.set(m, kv[0], kv[1])
	}
}

func globalNamespace(m *machine, a args) Value {
	d := m.newDict(a)
	for _, k := range d.keys {
		if s, ok := asString(k); ok {
			checkPrivate(s)
		}
	}
	return &namespace{d}
}

func checkPrivate(name string) {
	if strings.HasPrefix(name, "_") {
		throw("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got %s. Please rename the attribute.", repr(name))
	}
}

// cycler gives its items one after the other, and begins again after the last.
type cycler struct {
	items []Value
	pos   int
}

func globalCycler(m *machine, a args) Value {
	(&signature{name: "Cycler.__init__", lead: 1, params: make([]string, len(a.pos))}).bind(m, a)
	if len(a.pos) == 0 {
		throw("RuntimeError", "at least one item has to be provided")
	}
	return &cycler{items: m.keep(a).pos}
}

func (c *cycler) attribute(name string) (Value, bool) {
	switch name {
	case "current":
		return c.items[c.pos], true
	case "items":
		return &tuple{items: c.items}, true
	case "pos":
		return int64(c.pos), true
	}
	def := cyclerMethods[name]
	if def == nil {
		return nil, false
	}
	return &boundMethod{c, name, def.call}, true
}

var cyclerMethods = methodTable(
	&methodDef{name: "next", call: func(m *machine, self Value, a args) Value {
		noArguments("Cycler.next", m, a)
		c := self.(*cycler)
		v := c.items[c.pos]
		c.pos = (c.pos + 1) % len(c.items)
		return v
	}},
	&methodDef{name: "reset", call: func(m *machine, self Value, a args) Value {
		noArguments("Cycler.reset", m, a)
		self.(*cycler).pos = 0
		return nil
	}},
)

// joiner is a function that gives "" at its first call and sep from then on.
type joiner struct {
	sep  Value
	used bool
}

// noArguments raises Python's error if a method without parameters gets arguments.
func noArguments(name string, m *machine, a args) {
	(&signature{name: name, lead: 1}).bind(m, a)
}

func globalJoiner(m *machine, a args) Value {
	sep := joinerInit.bind(m, a)[0]
	if isMissing(sep) {
		sep = ", "
	}
	return &joiner{sep: sep}
}

var joinerInit = &signature{name: "Joiner.__init__", lead: 1, params: []string{"sep"}}

func (j *joiner) next() Value {
	if !j.used {
		j.used = true
		return ""
	}
	return j.sep
}

var raiseSig = &signature{name: "raise_exception", params: []string{"message"}, required: 1}

func globalRaise(m *machine, a args) Value {
	v := raiseSig.bind(m, a)[0]
	text := ""
	if v != nil {
		text = m.str(v)
	}
	panic(&Error{Class: "TemplateError", Text: text, kind: ErrRaised})
}

var strftimeSig = &signature{name: "strftime_now", params: []string{"format"}, required: 1}

func globalStrftime(m *machine, a args) Value {
	format, ok := asString(strftimeSig.bind(m, a)[0])
	if !ok {
		throwType("strftime() argument 1 must be str, not %s", typeName(a.pos[0]))
	}
	return m.strftime(m.now(), format)
}
