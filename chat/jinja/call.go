package jinja

import (
	"strconv"
	"strings"
)

// keyword is one keyword argument of a call.
type keyword struct {
	name  string
	value Value
}

// args are the evaluated arguments of a call. They are on the machine's stacks and valid
// until the callee returns, so a callee that keeps them must copy them.
type args struct {
	pos []Value
	kw  []keyword
}

func (a args) keyword(name string) (Value, bool) {
	for _, k := range a.kw {
		if k.name == name {
			return k.value, true
		}
	}
	return nil, false
}

type mark struct{ stack, keywords int }

func (m *machine) mark() mark { return mark{len(m.stack), len(m.keywords)} }

func (m *machine) release(to mark) {
	m.stack = m.stack[:to.stack]
	m.keywords = m.keywords[:to.keywords]
}

// eval evaluates the arguments onto the machine's stacks.
func (a *arguments) eval(m *machine) args {
	if a == nil {
		return args{}
	}
	return a.evalWith(m, missing)
}

// evalWith is eval with a macro as the argument caller, unless it is missing.
func (a *arguments) evalWith(m *machine, caller Value) args {
	at := m.mark()
	for _, e := range a.pos {
		v := e.eval(m)
		m.stack = append(m.stack, v)
	}
	if a.star != nil {
		v := a.star.eval(m)
		it, ok := m.iterate(v)
		if !ok {
			throwType("argument after * must be an iterable, not %s", typeName(v))
		}
		for {
			v, ok := it.next(m)
			if !ok {
				break
			}
			m.alloc(valueSize)
			m.spend(1)
			m.stack = append(m.stack, v)
		}
	}
	for i, name := range a.names {
		v := a.values[i].eval(m)
		m.keywords = append(m.keywords, keyword{name, v})
	}
	if !isMissing(caller) {
		m.keywords = append(m.keywords, keyword{"caller", caller})
	}
	if a.dict != nil {
		m.spread(a.dict.eval(m), at)
	}
	// The capacity of each is its length, so an append cannot overwrite what comes after
	// it on the stack.
	s, k := len(m.stack), len(m.keywords)
	return args{m.stack[at.stack:s:s], m.keywords[at.keywords:k:k]}
}

// spread adds the entries of **v.
func (m *machine) spread(v Value, at mark) {
	d, ok := v.(*Dict)
	if !ok {
		throwType("argument after ** must be a mapping, not %s", typeName(v))
	}
	m.alloc(4 * valueSize * len(d.keys))
	given := map[string]bool{}
	for _, k := range m.keywords[at.keywords:] {
		m.scan(2 * len(k.name))
		given[k.name] = true
	}
	for i, k := range d.keys {
		m.spend(1)
		name, ok := asString(k)
		if !ok {
			throwType("keywords must be strings")
		}
		m.scan(2 * len(name))
		if given[name] {
			throwType("jinja2.sandbox.SandboxedEnvironment.call() got multiple values for keyword argument '%s'", name)
		}
		m.keywords = append(m.keywords, keyword{name, d.vals[i]})
	}
}

func (e *callExpr) eval(m *machine) Value { return e.evalWith(m, missing) }

// evalWith makes the call, with a macro as the argument caller if one is given.
func (e *callExpr) evalWith(m *machine, caller Value) Value {
	m.spend(2)
	var self, callee Value
	var def *methodDef
	if attr, ok := e.callee.(*attributeExpr); ok {
		// A method that is called where it is looked up needs no bound method.
		self = attr.object.eval(m)
		if def = findMethod(self, attr.name); def == nil || def.mutates {
			def, callee = nil, m.attribute(self, attr.name)
		}
	} else {
		callee = e.callee.eval(m)
	}
	at := m.mark()
	a := e.args.evalWith(m, caller)
	var v Value
	if def != nil {
		v = def.call(m, self, a)
	} else {
		v = m.call(callee, a)
	}
	m.release(at)
	return v
}

// call calls a value.
func (m *machine) call(callee Value, a args) Value {
	switch f := callee.(type) {
	case *builtin:
		return f.call(m, a)
	case *boundMethod:
		return f.call(m, f.self, a)
	case *macro:
		return f.call(m, a)
	case *loopContext:
		return f.call(m, a)
	case *joiner:
		noArguments("Joiner.__call__", m, a)
		return f.next()
	case *blockReference:
		noArguments("BlockReference.__call__", m, a)
		return f.call(m)
	case *undefined:
		f.raise()
	}
	throwType("'%s' object is not callable", typeName(callee))
	return nil
}

// builtin is a function of the environment: range, namespace, ...
type builtin struct {
	name string
	typ  string
	call func(m *machine, a args) Value
}

// boundMethod is a method with its object: x.upper without a call.
type boundMethod struct {
	self Value
	name string
	call func(m *machine, self Value, a args) Value
}

// signature is the parameter list of a function written in Python. It binds arguments,
// with Python's errors.
type signature struct {
	name     string
	lead     int // number of parameters before these, which the environment passes
	params   []string
	required int
}

// bind returns one value for each parameter, missing if none was given. The values are on
// the machine's stack.
func (s *signature) bind(m *machine, a args) []Value {
	if len(a.pos) > len(s.params) {
		s.tooMany(len(a.pos))
	}
	at := len(m.stack)
	m.stack = append(m.stack, a.pos...)
	for range s.params[len(a.pos):] {
		m.stack = append(m.stack, missing)
	}
	bound := m.stack[at:len(m.stack):len(m.stack)]
	for _, k := range a.kw {
		i := 0
		for i < len(s.params) && s.params[i] != k.name {
			i++
		}
		if i == len(s.params) {
			throwType("%s() got an unexpected keyword argument '%s'", s.name, k.name)
		}
		if !isMissing(bound[i]) {
			throwType("%s() got multiple values for argument '%s'", s.name, k.name)
		}
		bound[i] = k.value
	}
	var absent []string
	for i := 0; i < s.required; i++ {
		if isMissing(bound[i]) {
			absent = append(absent, "'"+s.params[i]+"'")
		}
	}
	if absent != nil {
		s.tooFew(absent)
	}
	return bound
}

func (s *signature) tooMany(n int) {
	takes := strconv.Itoa(s.lead + len(s.params))
	plural := "s"
	if s.required < len(s.params) {
		takes = "from " + strconv.Itoa(s.lead+s.required) + " to " + takes
	} else if s.lead+len(s.params) == 1 {
		plural = ""
	}
	were := "were"
	if s.lead+n == 1 {
		were = "was"
	}
	throwType("%s() takes %s positional argument%s but %d %s given", s.name, takes, plural, s.lead+n, were)
}

func (s *signature) tooFew(absent []string) {
	plural, list := "", absent[0]
	switch n := len(absent); {
	case n == 2:
		plural, list = "s", absent[0]+" and "+absent[1]
	case n > 2:
		plural, list = "s", strings.Join(absent[:n-1], ", ")+", and "+absent[n-1]
	}
	throwType("%s() missing %d required positional argument%s: %s", s.name, len(absent), plural, list)
}
