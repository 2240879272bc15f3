package jinja

// The grammar of expressions is, from the loosest binding to the tightest: condexpr, or,
// and, not, compare, add, concat, multiply, power, unary, postfix, primary. Every loop that
// builds a chain calls grow for each operator, because it makes the tree one level higher.

func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	defer p.restore(p.height)
	e := p.or()
	for p.skipName("if") {
		p.grow()
		line := p.cur.line
		c := &condExpr{test: p.or(), then: e, line: line}
		if p.skipName("else") {
			c.otherwise = p.expression()
		}
		p.nodes++
		e = c
	}
	return e
}

// restore resets the height after a chain.
func (p *parser) restore(height int) { p.height = height }

type tupleOptions struct {
	simple     bool   // names and literals alone: an assignment's target
	namespaces bool   // ns.attr too
	noCond     bool   // no "a if b else c"
	parens     bool   // in parentheses: may be empty
	end        string // a name that ends it
}

// tuple parses an expression, or several with commas between.
func (p *parser) tuple(o tupleOptions) expr {
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			p.expect(tokComma)
		}
		if k := p.cur.kind; k == tokPrintEnd || k == tokBlockEnd || k == tokRParen || o.end != "" && p.cur.isName(o.end) {
			break
		}
		switch {
		case o.simple:
			items = append(items, p.primary(o.namespaces))
		case o.noCond:
			p.enter()
			items = append(items, p.or())
			p.leave()
		default:
			items = append(items, p.expression())
		}
		if p.cur.kind != tokComma {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !o.parens {
			p.fail("Expected an expression, got '%s'", p.cur)
		}
	}
	p.nodes++
	return &tupleExpr{items}
}

func (p *parser) or() expr {
	defer p.restore(p.height)
	left := p.and()
	for p.skipName("or") {
		p.grow()
		p.nodes++
		left = &orExpr{left, p.and()}
	}
	return left
}

func (p *parser) and() expr {
	defer p.restore(p.height)
	left := p.not()
	for p.skipName("and") {
		p.grow()
		p.nodes++
		left = &andExpr{left, p.not()}
	}
	return left
}

func (p *parser) not() expr {
	if !p.skipName("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	p.nodes++
	return &notExpr{p.not()}
}

func (p *parser) compare() expr {
	first := p.add()
	var rest []comparison
	for {
		c := comparison{op: p.cur.kind}
		switch {
		case p.cur.kind >= tokEq && p.cur.kind <= tokLe:
			p.advance()
		case p.cur.isName("in"):
			p.advance()
			c.op = tokEOF
		case p.cur.isName("not") && p.look().isName("in"):
			p.advance()
			p.advance()
			c.op, c.negated = tokEOF, true
		default:
			if len(rest) == 0 {
				return first
			}
			return &compareExpr{first, rest}
		}
		c.operand = p.add()
		p.nodes++
		rest = append(rest, c)
	}
}

// binary parses a chain of the operators from low to high, which bind to the
// left.
func (p *parser) binary(operand func(*parser) expr, low, high tokenKind) expr {
	left := operand(p)
	if p.cur.kind < low || p.cur.kind > high {
		return left
	}
	defer p.restore(p.height)
	for p.cur.kind >= low && p.cur.kind <= high {
		op := p.advance().kind
		p.grow()
		p.nodes++
		left = &binaryExpr{op, left, operand(p)}
	}
	return left
}

func (p *parser) add() expr { return p.binary((*parser).concat, tokAdd, tokSub) }

func (p *parser) concat() expr {
	first := p.multiply()
	if p.cur.kind != tokTilde {
		return first
	}
	parts := []expr{first}
	for p.skip(tokTilde) {
		p.nodes++
		parts = append(parts, p.multiply())
	}
	return &concatExpr{parts}
}

func (p *parser) multiply() expr { return p.binary((*parser).power, tokDiv, tokMod) }

// power is left associative, unlike in Python.
func (p *parser) power() expr { return p.binary((*parser).filtered, tokPow, tokPow) }

// filtered parses an operand with its filters and tests.
func (p *parser) filtered() expr { return p.unary(true) }

func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	defer p.restore(p.height)
	var e expr
	switch p.cur.kind {
	case tokSub, tokAdd:
		negative := p.advance().kind == tokSub
		p.nodes++
		e = &signExpr{p.unary(false), negative}
	default:
		e = p.primary(false)
	}
	e = p.postfix(e)
	if filters {
		e = p.filterChain(e)
	}
	return e
}

func (p *parser) primary(namespaces bool) expr {
	p.nodes++
	switch t := p.cur; t.kind {
	case tokName:
		p.advance()
		switch t.text {
		case "true", "True":
			return &constExpr{true}
		case "false", "False":
			return &constExpr{false}
		case "none", "None":
			return &constExpr{nil}
		}
		n := &nameExpr{name: t.text}
		if namespaces && p.skip(tokDot) {
			return nsExpr{&nsTarget{n, p.expect(tokName).text}}
		}
		return n
	case tokString:
		s := p.advance().text
		for p.cur.kind == tokString {
			s += p.advance().text
		}
		return &constExpr{s}
	case tokInteger, tokFloat:
		return &constExpr{p.advance().num}
	case tokLParen:
		p.advance()
		e := p.tuple(tupleOptions{parens: true})
		p.expect(tokRParen)
		return e
	case tokLBracket:
		return p.list()
	case tokLBrace:
		return p.dict()
	}
	p.fail("unexpected '%s'", p.cur)
	return nil
}

func (p *parser) list() expr {
	p.advance()
	l := &listExpr{}
	for p.cur.kind != tokRBracket {
		if len(l.items) > 0 {
			p.expect(tokComma)
			if p.cur.kind == tokRBracket {
				break
			}
		}
		l.items = append(l.items, p.expression())
	}
	p.advance()
	return l
}

func (p *parser) dict() expr {
	p.advance()
	d := &dictExpr{}
	for p.cur.kind != tokRBrace {
		if len(d.keys) > 0 {
			p.expect(tokComma)
			if p.cur.kind == tokRBrace {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expect(tokColon)
		d.values = append(d.values, p.expression())
	}
	p.advance()
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		switch p.cur.kind {
		case tokDot, tokLBracket:
			p.grow()
			e = p.subscript(e)
		case tokLParen:
			p.grow()
			e = p.call(e)
		default:
			return e
		}
	}
}

// filterChain parses filters, tests and the calls that may follow them.
func (p *parser) filterChain(e expr) expr {
	for {
		switch {
		case p.cur.kind == tokPipe:
			p.grow()
			p.advance()
			e = p.filter(e)
		case p.cur.isName("is"):
			p.grow()
			p.advance()
			e = p.test(e)
		case p.cur.kind == tokLParen:
			p.grow()
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) subscript(e expr) expr {
	p.nodes++
	if p.advance().kind == tokDot {
		t := p.advance()
		switch t.kind {
		case tokName:
			return &attributeExpr{e, t.text}
		case tokInteger:
			return &itemExpr{e, &constExpr{t.num}}
		}
		throwSyntax(t.line, "expected name or number")
	}
	var keys []expr
	for p.cur.kind != tokRBracket {
		if len(keys) > 0 {
			p.expect(tokComma)
		}
		keys = append(keys, p.subscribed())
	}
	p.advance()
	if len(keys) == 1 {
		return &itemExpr{e, keys[0]}
	}
	for _, k := range keys {
		if _, ok := k.(*sliceExpr); ok {
			p.fail("a slice among several subscripts is not supported")
		}
	}
	return &itemExpr{e, &tupleExpr{keys}}
}

func (p *parser) subscribed() expr {
	s := &sliceExpr{}
	if p.cur.kind != tokColon {
		e := p.expression()
		if p.cur.kind != tokColon {
			return e
		}
		s.start = e
	}
	p.advance()
	ends := func() bool { return p.cur.kind == tokRBracket || p.cur.kind == tokComma }
	if p.cur.kind != tokColon && !ends() {
		s.stop = p.expression()
	}
	if p.skip(tokColon) && !ends() {
		s.step = p.expression()
	}
	return s
}

func (p *parser) call(callee expr) expr {
	p.nodes++
	return &callExpr{callee, p.arguments()}
}

func (p *parser) arguments() *arguments {
	line := p.expect(tokLParen).line
	a := &arguments{}
	ensure := func(ok bool) {
		if !ok {
			throwSyntax(line, "invalid syntax for function call expression")
		}
	}
	for first := true; p.cur.kind != tokRParen; first = false {
		if !first {
			p.expect(tokComma)
			if p.cur.kind == tokRParen {
				break
			}
		}
		p.nodes++
		switch {
		case p.cur.kind == tokMul:
			ensure(a.star == nil && a.dict == nil)
			p.advance()
			a.star = p.expression()
		case p.cur.kind == tokPow:
			ensure(a.dict == nil)
			p.advance()
			a.dict = p.expression()
		case p.cur.kind == tokName && p.look().kind == tokAssign:
			ensure(a.dict == nil)
			name := p.advance().text
			p.advance()
			for _, n := range a.names {
				if n == name {
					throwPython(line, "keyword argument repeated: %s", name)
				}
			}
			a.names = append(a.names, name)
			a.values = append(a.values, p.expression())
		default:
			ensure(a.star == nil && a.dict == nil && len(a.names) == 0)
			a.pos = append(a.pos, p.expression())
		}
	}
	p.advance()
	return a
}

// dottedName reads the name of a filter or test.
func (p *parser) dottedName() string {
	name := p.expect(tokName).text
	for p.skip(tokDot) {
		name += "." + p.expect(tokName).text
	}
	return name
}

// filters parses |f|g... after e.
func (p *parser) filters(e expr) expr {
	defer p.restore(p.height)
	for p.skip(tokPipe) {
		p.grow()
		e = p.filter(e)
	}
	return e
}

// filter parses one filter from its name on.
func (p *parser) filter(input expr) expr {
	p.nodes++
	f := &filterExpr{input: input, line: p.cur.line, name: p.dottedName()}
	if p.cur.kind == tokLParen {
		f.args = p.arguments()
	}
	return f
}

// test parses what follows "is".
func (p *parser) test(input expr) expr {
	p.nodes++
	line := p.cur.line
	negated := p.skipName("not")
	t := &testExpr{input: input, line: line, name: p.dottedName()}
	switch p.cur.kind {
	case tokLParen:
		t.args = p.arguments()
	case tokName, tokString, tokInteger, tokFloat, tokLBracket, tokLBrace:
		if p.cur.isName("else") || p.cur.isName("or") || p.cur.isName("and") {
			break
		}
		if p.cur.isName("is") {
			p.fail("You cannot chain multiple tests with is")
		}
		// primary and postfix recurse only through brackets, which are counted.
		p.enter()
		arg := p.postfix(p.primary(false))
		p.leave()
		t.args = &arguments{pos: []expr{arg}}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
