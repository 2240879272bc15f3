package jinja

import "slices"

// scope is the scope that the resolver is in.
type scope struct {
	sym *symbols
	fn  *function
	// soft says that the scope is inside an if, where an unknown filter is an error only
	// when it is executed.
	soft bool
	// toplevel says that blocks see the variables that are assigned here.
	toplevel bool
	inLoop   bool // break and continue are allowed
}

// inner opens a scope within the same function.
func (sc scope) inner() scope {
	return scope{sym: newSymbols(sc.sym, sc.fn), fn: sc.fn, inLoop: sc.inLoop}
}

// call opens the scope of a function within this one.
func (sc scope) call() scope {
	fn := newFunction(sc.fn)
	return scope{sym: newSymbols(sc.sym, fn), fn: fn}
}

func newFunction(parent *function) *function {
	f := &function{parent: parent, slots: map[slotKey]int{}}
	if parent != nil {
		f.depth = parent.depth + 1
	}
	return f
}

type resolver struct {
	t *Template
	// globals maps each name that the template does not define to its index.
	globals   map[string]int
	hasBlocks bool
}

func (r *resolver) template(body []stmt, blocks []*blockDef) {
	r.hasBlocks = len(blocks) > 0
	fn := newFunction(nil)
	root := scope{sym: newSymbols(nil, fn), fn: fn, toplevel: true}
	r.t.self = -1
	if undeclared(body, "self")["self"] {
		r.t.self = root.sym.param("self").slot
	}
	each(body, root.sym.visit)
	r.t.root, r.t.frame = fn, r.frame(root)
	r.body(body, root)
	for _, b := range blocks {
		r.block(b)
	}
}

// block resolves a block. It is a function that sees none of the variables around it,
// only those of the context.
func (r *resolver) block(b *blockDef) {
	b.fn = newFunction(nil)
	sc := scope{sym: newSymbols(nil, b.fn), fn: b.fn}
	reads := undeclared(b.body, "self", "super")
	if reads["self"] {
		b.self = sc.sym.param("self").slot
	}
	if reads["super"] {
		b.over = sc.sym.param("super").slot
	}
	each(b.body, sc.sym.visit)
	b.frame = r.frame(sc)
	r.body(b.body, sc)
}

// frame lists the initial values that entering a scope assigns.
func (r *resolver) frame(sc scope) frame {
	var f frame
	for name, b := range sc.sym.refs {
		l := load{kind: b.kind, slot: b.slot}
		switch b.kind {
		case loadParam:
			continue
		case loadContext:
			l.global = r.global(name)
		case loadOuter:
			l.outer = variable{sc.fn.depth - b.outer.fn.depth, b.outer.slot}
		}
		f.loads = append(f.loads, l)
	}
	// Any order would do. A fixed one makes runs repeatable.
	slices.SortFunc(f.loads, func(a, b load) int { return a.slot - b.slot })
	return f
}

func (r *resolver) global(name string) int {
	i, ok := r.globals[name]
	if !ok {
		i = len(r.t.globals)
		r.globals[name] = i
		r.t.globals = append(r.t.globals, name)
	}
	return i
}

func (r *resolver) name(n *nameExpr, sc scope) {
	b := sc.sym.find(n.name)
	if b == nil {
		throwSyntax(0, "name %s is not known in this scope", repr(n.name))
	}
	n.variable = variable{sc.fn.depth - b.fn.depth, b.slot}
	n.unknown = &undefined{name: n.name}
	n.export = r.hasBlocks && sc.toplevel && n.use == useStore
}

// expr resolves an expression or a target.
func (r *resolver) expr(n any, sc scope) {
	switch n := n.(type) {
	case *nameExpr:
		r.name(n, sc)
		return
	case *condExpr:
		sc.soft = true
	case *filterExpr:
		if n.filter = filters[n.name]; n.filter == nil && !sc.soft {
			throwAssertion(n.line, "No filter named %s.", repr(n.name))
		}
	case *testExpr:
		if n.test = tests[n.name]; n.test == nil && !sc.soft {
			throwAssertion(n.line, "No test named %s.", repr(n.name))
		}
	}
	children(n, func(c any) { r.expr(c, sc) })
}

func (r *resolver) body(body []stmt, sc scope) {
	for _, s := range body {
		r.stmt(s, sc)
	}
}

func (r *resolver) stmt(s stmt, sc scope) {
	switch s := s.(type) {
	case *printStmt:
		r.expr(s.value, sc)
	case *ifStmt:
		sc.soft = true
		for _, b := range s.branches {
			r.expr(b.test, sc)
			r.body(b.body, sc)
		}
		r.body(s.otherwise, sc)
	case *forStmt:
		r.loop(s, sc)
	case *setStmt:
		r.expr(s.target, sc)
		r.expr(s.value, sc)
		s.namespaces = namespacesOf(s.target, nil)
	case *setBlockStmt:
		in := sc.inner()
		each(s.body, in.sym.visit)
		s.frame = r.frame(in)
		r.body(s.body, in)
		r.expr(s.target, sc)
		if s.filter != nil {
			r.expr(s.filter, in)
		}
	case *filterBlockStmt:
		in := sc.inner()
		each(s.body, in.sym.visit)
		in.sym.visit(s.filter)
		s.frame = r.frame(in)
		r.body(s.body, in)
		r.expr(s.filter, in)
	case *withStmt:
		in := sc.inner()
		each(s.targets, in.sym.visit)
		each(s.body, in.sym.visit)
		s.frame = r.frame(in)
		for i := range s.targets {
			r.expr(s.targets[i], in)
			r.expr(s.values[i], sc)
		}
		r.body(s.body, in)
	case *macroStmt:
		r.macro(s.def, sc)
		r.name(s.target, sc)
	case *callStmt:
		r.macro(s.def, sc)
		r.expr(s.call, sc)
	case *generationStmt:
		r.macro(s.def, sc)
	case *blockStmt:
		if s.scoped {
			r.blockLocals(s, sc)
		}
	case *breakStmt:
		if !sc.inLoop {
			throwPython(s.line, "'break' outside loop")
		}
	case *continueStmt:
		if !sc.inLoop {
			throwPython(s.line, "'continue' not properly in loop")
		}
	}
}

// blockLocals lists the variables that have been assigned in the scopes around
// a scoped block.
func (r *resolver) blockLocals(s *blockStmt, sc scope) {
	seen := map[string]bool{}
	for sym := sc.sym; sym != nil; sym = sym.parent {
		for name := range sym.stores {
			if seen[name] {
				continue
			}
			seen[name] = true
			b := sc.sym.find(name)
			s.locals = append(s.locals, blockLocal{name, variable{sc.fn.depth - b.fn.depth, b.slot}})
		}
	}
}

func namespacesOf(t target, found []*nameExpr) []*nameExpr {
	switch t := t.(type) {
	case *nsTarget:
		found = append(found, t.name)
	case *tupleTarget:
		for _, x := range t.items {
			found = namespacesOf(x, found)
		}
	}
	return found
}

func (r *resolver) loop(s *forStmt, sc scope) {
	checkLoopName(s)
	in := sc.inner()
	if s.recursive != nil {
		in = sc.call()
		s.recursive = in.fn
	}
	in.inLoop = true
	if s.recursive != nil || undeclared(s.body, "loop")["loop"] || hasScopedBlock(s) {
		s.loopSlot = in.sym.param("loop").slot
	}
	in.sym.visit(s.target)
	each(s.body, in.sym.visit)
	s.frame = r.frame(in)

	if s.filter != nil {
		f := sc.call()
		s.filter.fn = f.fn
		f.sym.visit(s.filter.target)
		f.sym.visit(s.filter.test)
		s.filter.frame = r.frame(f)
		r.expr(s.filter.target, f)
		r.expr(s.filter.test, f)
	}
	r.expr(s.source, sc)
	r.expr(s.target, in)
	r.body(s.body, in)

	otherwise := scope{sym: newSymbols(sc.sym, in.fn), fn: in.fn, inLoop: sc.inLoop && s.recursive == nil}
	each(s.otherwise, otherwise.sym.visit)
	s.elseFrame = r.frame(otherwise)
	r.body(s.otherwise, otherwise)
}

// checkLoopName refuses assignments to the special variable loop.
func checkLoopName(s *forStmt) {
	var look func(any)
	look = func(n any) {
		switch n := n.(type) {
		case *nameExpr:
			if n.name == "loop" && (n.use == useStore || n.use == useFor) {
				throwAssertion(s.line, "Can't assign to special loop variable in for-loop target")
			}
		case *nsTarget:
		default:
			children(n, look)
		}
	}
	look(s)
}

func hasScopedBlock(s *forStmt) bool {
	found := false
	var look func(any)
	look = func(n any) {
		if b, ok := n.(*blockStmt); ok && b.scoped {
			found = true
		}
		children(n, look)
	}
	look(s)
	return found
}

func (r *resolver) macro(d *macroDef, sc scope) {
	in := sc.call()
	d.fn = in.fn
	for _, p := range d.params {
		if p.name == "caller" {
			d.explicitCaller = true
		}
	}
	// The body is resolved twice, because the implicit parameters are known only after the
	// first time.
	look := func() {
		each(d.params, in.sym.visit)
		each(d.defaults, in.sym.visit)
		each(d.body, in.sym.visit)
	}
	look()
	isParam := func(name string) bool {
		return slices.ContainsFunc(d.params, func(p *nameExpr) bool { return p.name == name })
	}
	reads := undeclared(d.body, "caller", "kwargs", "varargs")
	d.readsCaller = reads["caller"]
	if d.readsCaller {
		if i := slices.IndexFunc(d.params, func(p *nameExpr) bool { return p.name == "caller" }); i >= 0 {
			if i < len(d.params)-len(d.defaults) {
				throwAssertion(d.line, `When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`)
			}
		} else {
			d.caller = in.sym.param("caller").slot
		}
	}
	if reads["kwargs"] && !isParam("kwargs") {
		d.kwargs = in.sym.param("kwargs").slot
	}
	if reads["varargs"] && !isParam("varargs") {
		d.varargs = in.sym.param("varargs").slot
	}
	look()
	d.frame = r.frame(in)
	each(d.params, func(p any) { r.expr(p, in) })
	each(d.defaults, func(e any) { r.expr(e, in) })
	r.body(d.body, in)
}
