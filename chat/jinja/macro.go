package jinja

// macro is a macro or the body of a call block, with the variables of the scope that
// defined it.
type macro struct {
	def *macroDef
	env *activation
}

// call follows Macro.__call__ of Jinja2's runtime.py.
func (f *macro) call(m *machine, a args) Value {
	d := f.def
	caller := m.enter(d.fn, f.env)
	slots := m.act.slots
	n := min(len(a.pos), len(d.params))
	for i, v := range a.pos[:n] {
		slots[d.params[i].slot] = v
	}
	extra := f.keywords(m, a, n)
	switch {
	case d.kwargs < 0 && extra != nil:
		f.refuse(extra)
	case d.kwargs >= 0 && extra == nil:
		slots[d.kwargs] = &Dict{}
	case d.kwargs >= 0:
		slots[d.kwargs] = extra
	}
	if d.varargs >= 0 {
		slots[d.varargs] = m.newTuple(append([]Value(nil), a.pos[n:]...))
	} else if len(a.pos) > n {
		throwType("macro %s takes not more than %d argument(s)", d.displayRepr(), len(d.params))
	}
	m.enterFrame(&d.frame)
	m.spend(d.cost)
	firstDefault := len(d.params) - len(d.defaults)
	for i, p := range d.params {
		if !isMissing(slots[p.slot]) {
			continue
		}
		if i >= firstDefault {
			slots[p.slot] = d.defaults[i-firstDefault].eval(m)
		} else {
			slots[p.slot] = &undefined{hint: "parameter " + repr(p.name) + " was not provided"}
		}
	}
	start := len(m.out)
	m.run(d.body)
	m.leave(caller)
	return m.take(start)
}

// keywords assigns the keyword arguments to their parameters, of which the first n were
// given by position, and returns those that no parameter has the name of, nil if there
// are none.
func (f *macro) keywords(m *machine, a args, n int) (extra *Dict) {
	d := f.def
	slots := m.act.slots
next:
	for _, k := range a.kw {
		m.spend(int64(len(d.params)-n)>>4 + int64(len(k.name)>>7))
		for _, p := range d.params[n:] {
			if p.name == k.name {
				slots[p.slot] = k.value
				continue next
			}
		}
		if k.name == "caller" && d.caller >= 0 {
			slots[d.caller] = k.value
			continue
		}
		if extra == nil {
			extra = &Dict{}
		}
		m.alloc(4 * valueSize)
		extra.setText(m, k.name, k.value)
	}
	if d.caller >= 0 && (isMissing(slots[d.caller]) || slots[d.caller] == nil) {
		slots[d.caller] = &undefined{hint: "No caller defined"}
	}
	return extra
}

func (f *macro) refuse(extra *Dict) {
	if _, ok := extra.Get("caller"); ok {
		throwType("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", f.def.displayRepr())
	}
	throwType("macro %s takes no keyword argument %s", f.def.displayRepr(), repr(extra.keys[0]))
}

// displayRepr is repr of the macro's name.
func (d *macroDef) displayRepr() string {
	if d.name == "" {
		return "None"
	}
	return repr(d.name)
}

func (f *macro) attribute(m *machine, name string) (Value, bool) {
	d := f.def
	switch name {
	case "name":
		if d.name == "" {
			return nil, true
		}
		return d.name, true
	case "arguments":
		names := make([]Value, len(d.params))
		for i, p := range d.params {
			names[i] = p.name
		}
		return m.newTuple(names), true
	case "catch_kwargs":
		return d.kwargs >= 0, true
	case "catch_varargs":
		return d.varargs >= 0, true
	case "caller":
		return d.readsCaller, true
	case "explicit_caller":
		return d.explicitCaller, true
	}
	return nil, false
}

// selfReference is the variable self: the template's blocks by name.
type selfReference struct{}

// blockReference is self.name, which renders the block when it is called.
type blockReference struct{ block *blockDef }

func (b *blockReference) call(m *machine) Value {
	start := len(m.out)
	m.runBlock(b.block)
	return m.take(start)
}
