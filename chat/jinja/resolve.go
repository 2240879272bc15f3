package jinja

// The resolver decides which variable every name means. Jinja2 compiles a
// template to a Python function whose local variables are named by scope and
// name, and much of what templates rely on follows from that: a variable set
// inside a loop starts each round from its outer value and is lost after it, a
// macro sees the variables of the place that defines it as they are when it is
// called. So this is Jinja2's own algorithm (idtracking.py and the frames of
// compiler.py), with slots in place of Python's variables.

// symbols is one scope's view of the names.
type symbols struct {
	parent *symbols // the scope around it; nil for the template and for blocks
	// base is set while a branch of an if is resolved: names that are not here are looked
	// up there, and merge moves the names that are here there.
	base   *symbols
	level  int
	fn     *function
	refs   map[string]*binding
	stores map[string]bool
}

// binding is a variable and how its scope initializes it.
type binding struct {
	name  string
	fn    *function
	slot  int
	kind  loadKind
	outer *binding // loadOuter
}

func newSymbols(parent *symbols, fn *function) *symbols {
	s := &symbols{parent: parent, fn: fn, refs: map[string]*binding{}, stores: map[string]bool{}}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

// own returns the binding that this scope, not an outer one, has for name.
func (s *symbols) own(name string) *binding {
	for ; s != nil; s = s.base {
		if b := s.refs[name]; b != nil {
			return b
		}
	}
	return nil
}

func (s *symbols) find(name string) *binding {
	for ; s != nil; s = s.parent {
		if b := s.own(name); b != nil {
			return b
		}
	}
	return nil
}

func (s *symbols) define(name string, kind loadKind, outer *binding) *binding {
	key := slotKey{s.level, name}
	slot, ok := s.fn.slots[key]
	if !ok {
		slot = s.fn.size
		s.fn.size++
		s.fn.slots[key] = slot
	}
	b := &binding{name: name, fn: s.fn, slot: slot, kind: kind, outer: outer}
	s.refs[name] = b
	return b
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if s.own(name) != nil {
		return
	}
	if outer := s.parent.find(name); outer != nil {
		s.define(name, loadOuter, outer)
		return
	}
	s.define(name, loadUnset, nil)
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, loadContext, nil)
	}
}

func (s *symbols) param(name string) *binding {
	s.stores[name] = true
	return s.define(name, loadParam, nil)
}

func (s *symbols) branch() *symbols {
	return &symbols{parent: s.parent, base: s, level: s.level, fn: s.fn, refs: map[string]*binding{}, stores: map[string]bool{}}
}

func (s *symbols) stored(name string) bool {
	for ; s != nil; s = s.base {
		if s.stores[name] {
			return true
		}
	}
	return false
}

// merge adopts the names that the branches of an if have defined. A name that only some
// branches set may be unset after the if, so it starts with its value in the outer scope.
func (s *symbols) merge(branches ...*symbols) {
	var fresh []string
	for _, b := range branches {
		for name := range b.stores {
			if !s.stored(name) {
				fresh = append(fresh, name)
			}
		}
	}
	for _, b := range branches {
		for name, ref := range b.refs {
			s.refs[name] = ref
		}
		for name := range b.stores {
			s.stores[name] = true
		}
	}
	for _, name := range fresh {
		b := *s.own(name)
		if b.outer = s.parent.find(name); b.outer != nil {
			b.kind = loadOuter
		} else {
			b.kind = loadContext
		}
		s.refs[name] = &b
	}
}

// visit records what a node does to the names of this scope. It does not descend into
// nodes that open a scope of their own.
func (s *symbols) visit(n any) {
	switch n := n.(type) {
	case *nameExpr:
		switch n.use {
		case useLoad:
			s.load(n.name)
		case useStore:
			s.store(n.name)
		default:
			s.param(n.name)
		}
	case *nsTarget:
		s.load(n.name.name)
	case *ifStmt:
		s.visitIf(n)
	case *macroStmt:
		s.store(n.target.name)
	case *setStmt:
		s.visit(n.value)
		s.visit(n.target)
	case *setBlockStmt:
		s.visit(n.target)
	case *forStmt:
		s.visit(n.source)
	case *callStmt:
		s.visit(n.call)
	case *filterBlockStmt:
		s.visit(n.filter)
	case *withStmt:
		each(n.values, s.visit)
	case *blockStmt, *generationStmt:
	default:
		children(n, s.visit)
	}
}

// visitIf treats elif as Jinja2 does: all elifs together are one branch, in which each is
// an if of its own.
func (s *symbols) visitIf(n *ifStmt) {
	s.visit(n.branches[0].test)
	body := s.branch()
	each(n.branches[0].body, body.visit)
	elifs := s.branch()
	for i := range n.branches[1:] {
		elifs.visitIf(&ifStmt{branches: n.branches[1+i : 2+i]})
	}
	otherwise := s.branch()
	each(n.otherwise, otherwise.visit)
	s.merge(body, elifs, otherwise)
}

// undeclared returns those of the names that the nodes read before they assign them, at
// any depth except in blocks.
func undeclared[T any](nodes []T, names ...string) map[string]bool {
	open, found := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		open[n] = true
	}
	var look func(any)
	look = func(n any) {
		switch n := n.(type) {
		case *nameExpr:
			if n.use != useLoad {
				delete(open, n.name)
			} else if open[n.name] {
				found[n.name] = true
			}
		case *macroStmt: // its name does not count as an assignment here
			n.def.children(look)
		case *nsTarget, *blockStmt:
		default:
			children(n, look)
		}
	}
	each(nodes, look)
	return found
}
