package jinja

// loopContext is the variable loop, and iterates over the loop's items. It reads ahead
// only if the template asks for something that depends on later items (loop.last,
// loop.nextitem, loop.length).
type loopContext struct {
	source  Value // what the loop iterates over; its length is loop.length
	it      iterator
	current Value
	before  Value
	after   Value // the next item if it has been read ahead, otherwise missing
	index0  int
	size    int // -1 while it is not known
	depth0  int
	render  func(m *machine, items Value, depth int) Value // nil unless recursive
	changed []Value
	asked   bool // changed() was called before
}

// advance moves to the next item.
func (l *loopContext) advance(m *machine) (Value, bool) {
	v := l.after
	if isMissing(v) {
		var ok bool
		if v, ok = l.it.next(m); !ok {
			return nil, false
		}
	} else {
		l.after = missing
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, true
}

func (l *loopContext) peek(m *machine) (Value, bool) {
	if isMissing(l.after) {
		v, ok := l.it.next(m)
		if !ok {
			return nil, false
		}
		l.after = v
	}
	return l.after, true
}

// len is the number of items. A generator is read to its end for it.
func (l *loopContext) len(m *machine) int {
	if l.size >= 0 {
		return l.size
	}
	if n, ok := m.length(l.source); ok {
		l.size = n
		return n
	}
	rest := m.drain(&l.it)
	l.it = iterator{items: rest}
	l.size = len(rest) + l.index0 + 1
	if !isMissing(l.after) {
		l.size++
	}
	return l.size
}

func (l *loopContext) attribute(m *machine, name string) (Value, bool) {
	switch name {
	case "index":
		return int64(l.index0 + 1), true
	case "index0":
		return int64(l.index0), true
	case "first":
		return l.index0 == 0, true
	case "last":
		_, more := l.peek(m)
		return !more, true
	case "length":
		return int64(l.len(m)), true
	case "revindex":
		return int64(l.len(m) - l.index0), true
	case "revindex0":
		return int64(l.len(m) - l.index0 - 1), true
	case "depth":
		return int64(l.depth0 + 1), true
	case "depth0":
		return int64(l.depth0), true
	case "previtem":
		if l.index0 == 0 {
			return &undefined{hint: "there is no previous item"}, true
		}
		return l.before, true
	case "nextitem":
		if v, ok := l.peek(m); ok {
			return v, true
		}
		return &undefined{hint: "there is no next item"}, true
	case "cycle":
		return &boundMethod{l, name, loopCycle}, true
	case "changed":
		return &boundMethod{l, name, loopChanged}, true
	}
	return nil, false
}

func loopCycle(m *machine, self Value, a args) Value {
	l := self.(*loopContext)
	(&signature{name: "LoopContext.cycle", lead: 1, params: make([]string, len(a.pos))}).bind(m, a)
	if len(a.pos) == 0 {
		throwType("no items for cycling given")
	}
	return a.pos[l.index0%len(a.pos)]
}

func loopChanged(m *machine, self Value, a args) Value {
	l := self.(*loopContext)
	(&signature{name: "LoopContext.changed", lead: 1, params: make([]string, len(a.pos))}).bind(m, a)
	if l.asked && m.equalItems(l.changed, a.pos, 0) {
		return false
	}
	m.alloc(valueSize * len(a.pos))
	l.asked, l.changed = true, append([]Value(nil), a.pos...)
	return true
}

// call is loop(items) in a recursive loop.
func (l *loopContext) call(m *machine, a args) Value {
	items := loopCallSig.bind(m, a)[0]
	if l.render == nil {
		throwType("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.render(m, items, l.depth0+1)
}

var loopCallSig = &signature{name: "LoopContext.__call__", lead: 1, params: []string{"iterable"}, required: 1}

func (s *forStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	items := s.source.eval(m)
	if s.recursive == nil {
		return s.loop(m, items, nil, 0)
	}
	env := m.act
	var render func(m *machine, items Value, depth int) Value
	render = func(m *machine, items Value, depth int) Value {
		caller := m.enter(s.recursive, env)
		start := len(m.out)
		s.loop(m, items, render, depth)
		m.leave(caller)
		return m.take(start)
	}
	m.write(m.str(render(m, items, 0)))
	return sigNone
}

// loop runs the loop over items within the current activation.
func (s *forStmt) loop(m *machine, items Value, render func(*machine, Value, int) Value, depth int) signal {
	source := items
	if s.filter != nil {
		env := m.act
		if s.recursive != nil {
			env = env.parent // the condition is not part of the loop's own function
		}
		source = s.filter.generator(m, items, env)
	}
	it := m.mustIterate(source)
	var ctx *loopContext
	if s.loopSlot >= 0 {
		m.alloc(12 * valueSize)
		ctx = &loopContext{source: source, it: it, after: missing, index0: -1, size: -1, depth0: depth, render: render}
	}
	slots := m.act.slots
	completed := false
	for {
		var v Value
		var ok bool
		if ctx != nil {
			v, ok = ctx.advance(m)
		} else {
			v, ok = it.next(m)
		}
		if !ok {
			break
		}
		m.spend(1)
		m.line = s.line
		s.target.assign(m, v)
		if ctx != nil {
			slots[s.loopSlot] = ctx
		}
		m.enterFrame(&s.frame)
		sig := m.run(s.body)
		if sig == sigBreak {
			break
		}
		// Jinja2 clears the flag for else at the end of the body. After continue or break
		// that statement is not reached.
		if sig == sigNone {
			completed = true
		}
	}
	if completed || s.otherwise == nil {
		return sigNone
	}
	m.enterFrame(&s.elseFrame)
	return m.run(s.otherwise)
}

// generator gives the items that fulfil the condition of a for statement. An item is
// tested when the loop needs it, after the rounds before it have run.
func (f *loopFilter) generator(m *machine, items Value, env *activation) *generator {
	it := m.mustIterate(items)
	return newGenerator("t_1", func(m *machine) func() (Value, bool) {
		act := m.newActivation(f.fn, env)
		before := m.act
		m.act = act
		m.enterFrame(&f.frame)
		m.act = before
		return func() (Value, bool) {
			for {
				v, ok := it.next(m)
				if !ok {
					return nil, false
				}
				m.spend(f.cost)
				before := m.act
				m.act = act
				f.target.assign(m, v)
				pass := m.truthy(f.test.eval(m))
				if pass {
					v = f.item(m, f.target, v)
				}
				m.act = before
				if pass {
					return v, true
				}
			}
		}
	})
}

// item is what the generator yields for an item v that was assigned to t. Jinja2's
// generated code yields the target, so unpacked items become tuples.
func (f *loopFilter) item(m *machine, t target, v Value) Value {
	switch t := t.(type) {
	case *tupleTarget:
		items := make([]Value, len(t.items))
		for i, x := range t.items {
			items[i] = f.item(m, x, nil)
		}
		return m.newTuple(items)
	case *nameExpr:
		return t.eval(m)
	}
	return v
}
