package jinja

// run executes statements until one of them is break or continue.
func (m *machine) run(body []stmt) signal {
	for _, s := range body {
		if sig := s.exec(m); sig != sigNone {
			return sig
		}
	}
	return sigNone
}

// enterFrame gives the variables of a scope their initial values.
func (m *machine) enterFrame(f *frame) {
	m.spend(int64(len(f.loads)) / 8)
	for i := range f.loads {
		l := &f.loads[i]
		var v Value
		switch l.kind {
		case loadContext:
			v = m.global(l.global)
		case loadOuter:
			v = m.act.at(l.outer.hops).slots[l.outer.slot]
		default:
			v = missing
		}
		m.act.slots[l.slot] = v
	}
}

func (m *machine) global(i int) Value {
	if m.exported != nil {
		m.scan(2 * len(m.t.globals[i]))
		if v, ok := m.exported[m.t.globals[i]]; ok {
			return v
		}
	}
	return m.globals[i]
}

func (s *dataStmt) exec(m *machine) signal {
	m.write(s.text)
	return sigNone
}

func (s *printStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	m.write(m.str(s.value.eval(m)))
	return sigNone
}

func (s *ifStmt) exec(m *machine) signal {
	for i := range s.branches {
		b := &s.branches[i]
		m.line = b.line
		m.spend(b.cost)
		if m.truthy(b.test.eval(m)) {
			return m.run(b.body)
		}
	}
	return m.run(s.otherwise)
}

func (s *setStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	for _, n := range s.namespaces {
		if _, ok := n.eval(m).(*namespace); !ok {
			throw("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
	}
	s.target.assign(m, s.value.eval(m))
	return sigNone
}

func (s *setBlockStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	m.enterFrame(&s.frame)
	start := len(m.out)
	sig := m.run(s.body)
	text := m.take(start)
	if sig != sigNone {
		return sig // the assignment is not reached
	}
	var v Value = text
	if s.filter != nil {
		v = s.filter.applyBlock(m, v)
	}
	s.target.assign(m, v)
	return sigNone
}

func (s *filterBlockStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	m.enterFrame(&s.frame)
	start := len(m.out)
	sig := m.run(s.body)
	text := m.take(start)
	if sig != sigNone {
		return sig
	}
	m.writeText(s.filter.applyBlock(m, text))
	return sigNone
}

// writeText writes the result of a filter or call block. It must be text: unlike the result
// of {{ }} it is not converted.
func (m *machine) writeText(v Value) {
	s, ok := asString(v)
	if !ok {
		throwType("sequence item 0: expected str instance, %s found", typeName(v))
	}
	m.write(s)
}

func (s *withStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	m.enterFrame(&s.frame)
	for i, t := range s.targets {
		t.assign(m, s.values[i].eval(m))
	}
	return m.run(s.body)
}

func (s *macroStmt) exec(m *machine) signal {
	m.spend(1)
	m.alloc(4 * valueSize)
	s.target.assign(m, &macro{s.def, m.act})
	return sigNone
}

func (s *callStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(s.cost)
	m.writeText(s.call.evalWith(m, &macro{s.def, m.act}))
	return sigNone
}

func (s *generationStmt) exec(m *machine) signal {
	m.spend(1)
	m.write(m.str((&macro{s.def, m.act}).call(m, args{})))
	return sigNone
}

func (s *blockStmt) exec(m *machine) signal {
	m.line = s.line
	m.spend(1)
	if s.required {
		throw("TemplateRuntimeError", "Required block %s not found", repr(s.block.name))
	}
	if s.scoped {
		before := m.exported
		m.alloc(4 * valueSize * (len(before) + len(s.locals)))
		m.exported = make(map[string]Value, len(before)+len(s.locals))
		for k, v := range before {
			m.scan(2 * len(k))
			m.exported[k] = v
		}
		for _, l := range s.locals {
			m.scan(2 * len(l.name))
			if v := m.act.at(l.hops).slots[l.slot]; !isMissing(v) {
				m.exported[l.name] = v
			}
		}
		defer func() { m.exported = before }()
	}
	m.runBlock(s.block)
	return sigNone
}

// runBlock writes a block. It is a function that sees none of the variables around it,
// only those that the top level has set.
func (m *machine) runBlock(b *blockDef) {
	caller := m.enter(b.fn, nil)
	if b.self >= 0 {
		m.act.slots[b.self] = &selfReference{}
	}
	if b.over >= 0 {
		m.act.slots[b.over] = &undefined{hint: "there is no parent block called " + repr(b.name) + "."}
	}
	m.enterFrame(&b.frame)
	m.run(b.body)
	m.leave(caller)
}

func (s *breakStmt) exec(*machine) signal { return sigBreak }

func (s *continueStmt) exec(*machine) signal { return sigContinue }

func (s *templateStmt) exec(m *machine) signal {
	m.line = s.line
	throwType("no loader for this environment specified")
	return sigNone
}
