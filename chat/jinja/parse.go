package jinja

import (
	"slices"
	"strings"
)

const (
	// maxDepth bounds the nesting of statements and expressions, counted in recursive
	// calls of the parser (a pair of parentheses is two).
	maxDepth = 150
	// maxHeight bounds the height of the tree. Chains such as a+b+c+... and x|f|g|... add
	// a level for each operator or filter.
	maxHeight = 350
)

// parser turns a template into statements. It follows Jinja2's parser.py.
type parser struct {
	lex    *lexer
	cur    token
	ahead  token
	peeked bool
	depth  int
	height int
	nodes  int // expression nodes made so far
	// ends has the end tags that the open blocks need, the innermost last.
	ends   [][]string
	tags   []string
	blocks map[string]*blockDef
	order  []*blockDef
}

func newParser(src string) *parser {
	p := &parser{lex: newLexer(src), blocks: map[string]*blockDef{}}
	p.cur = p.lex.next()
	return p
}

func (p *parser) fail(format string, args ...any) { throwSyntax(p.cur.line, format, args...) }

// advance moves to the next token and returns the one before it.
func (p *parser) advance() token {
	t := p.cur
	if p.peeked {
		p.cur, p.peeked = p.ahead, false
	} else {
		p.cur = p.lex.next()
	}
	return t
}

func (p *parser) look() token {
	if !p.peeked {
		p.ahead, p.peeked = p.lex.next(), true
	}
	return p.ahead
}

func (t token) isName(name string) bool { return t.kind == tokName && t.text == name }

func (p *parser) skip(kind tokenKind) bool {
	if p.cur.kind != kind {
		return false
	}
	p.advance()
	return true
}

func (p *parser) skipName(name string) bool {
	if !p.cur.isName(name) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(kind tokenKind) token {
	if p.cur.kind != kind {
		p.unexpected(tokenText[kind])
	}
	return p.advance()
}

func (p *parser) expectName(name string) {
	if !p.skipName(name) {
		p.unexpected(name)
	}
}

func (p *parser) unexpected(want string) {
	if p.cur.kind == tokEOF {
		p.fail("unexpected end of template, expected '%s'.", want)
	}
	p.fail("expected token '%s', got '%s'", want, p.cur)
}

// enter counts one level of recursion of the parser; leave undoes it.
func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.fail("template is nested too deeply")
	}
	p.grow()
}

func (p *parser) leave() {
	p.depth--
	p.height--
}

// grow counts one level of the tree that is not a recursion of the parser.
func (p *parser) grow() {
	p.height++
	if p.height > maxHeight {
		p.fail("expression is too long or nested too deeply")
	}
}

// cost returns the steps that a statement counts for its expressions: those parsed since
// the parser had made from nodes.
func (p *parser) cost(from int) int64 { return 1 + int64(p.nodes-from)/8 }

// statements parses text, {{ }} and {% %} up to one of the end tags, which is then the
// current token, or without end tags up to the end of the template.
func (p *parser) statements(ends ...string) []stmt {
	p.enter()
	defer p.leave()
	if len(ends) > 0 {
		p.skip(tokColon)
		p.expect(tokBlockEnd)
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	var body []stmt
	for {
		switch p.cur.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.failEnd("")
			}
			return body
		case tokData:
			if t := p.advance(); t.text != "" {
				body = append(body, &dataStmt{t.text})
			}
		case tokPrintBegin:
			line := p.advance().line
			from := p.nodes
			value := p.tuple(tupleOptions{})
			p.expect(tokPrintEnd)
			body = append(body, &printStmt{value, line, p.cost(from)})
		default:
			p.advance()
			if p.cur.kind == tokName && slices.Contains(ends, p.cur.text) {
				return body
			}
			if s := p.statement(); s != nil {
				body = append(body, s...)
			}
			p.expect(tokBlockEnd)
		}
	}
}

// body parses statements up to the end tag and consumes its name.
func (p *parser) body(end string) []stmt {
	b := p.statements(end)
	p.advance()
	return b
}

// failEnd reports an unknown tag, or the end of the template inside a block.
func (p *parser) failEnd(tag string) {
	var b strings.Builder
	if tag == "" {
		b.WriteString("Unexpected end of template.")
	} else {
		b.WriteString("Encountered unknown tag '" + tag + "'.")
	}
	if n := len(p.ends); n > 0 {
		looking := "'" + strings.Join(p.ends[n-1], "' or '") + "'"
		if tag != "" && slices.ContainsFunc(p.ends, func(e []string) bool { return slices.Contains(e, tag) }) {
			b.WriteString(" You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + ".")
		} else {
			b.WriteString(" Jinja was looking for the following tags: " + looking + ".")
		}
	}
	if n := len(p.tags); n > 0 {
		b.WriteString(" The innermost block that needs to be closed is '" + p.tags[n-1] + "'.")
	}
	p.fail("%s", b.String())
}

// statement parses one {% %}, of which the current token is the first.
func (p *parser) statement() []stmt {
	if p.cur.kind != tokName {
		p.fail("tag name expected")
	}
	p.enter()
	defer p.leave()
	tag, line := p.cur.text, p.cur.line
	if !slices.Contains(statementTags, tag) {
		p.failEnd(tag)
	}
	p.advance()
	p.tags = append(p.tags, tag)
	defer func() { p.tags = p.tags[:len(p.tags)-1] }()
	if tag == "print" {
		return p.parsePrint(line)
	}
	return []stmt{p.parseTag(tag, line)}
}

var statementTags = []string{"for", "if", "set", "macro", "call", "filter", "with", "block", "generation",
	"break", "continue", "print", "include", "extends", "import", "from", "autoescape"}

func (p *parser) parseTag(tag string, line int) stmt {
	switch tag {
	case "for":
		return p.parseFor(line)
	case "if":
		return p.parseIf(line)
	case "set":
		return p.parseSet(line)
	case "macro":
		return p.parseMacro(line)
	case "call":
		return p.parseCall(line)
	case "filter":
		return p.parseFilterBlock(line)
	case "with":
		return p.parseWith(line)
	case "block":
		return p.parseBlock(line)
	case "generation":
		return p.parseGeneration(line)
	case "break":
		return &breakStmt{line}
	case "continue":
		return &continueStmt{line}
	case "import":
		return p.parseImport(line)
	case "from":
		return p.parseFrom(line)
	case "autoescape":
		throwSyntax(line, "autoescape is not supported: a prompt is not HTML")
	}
	return p.parseTemplate(line) // include, extends
}

func (p *parser) parsePrint(line int) []stmt {
	var out []stmt
	for p.cur.kind != tokBlockEnd {
		if len(out) > 0 {
			p.expect(tokComma)
		}
		from := p.nodes
		value := p.expression()
		out = append(out, &printStmt{value, line, p.cost(from)})
	}
	return out
}

func (p *parser) parseFor(line int) stmt {
	s := &forStmt{line: line, loopSlot: -1}
	s.target = p.target(useFor, "in")
	p.expectName("in")
	from := p.nodes
	s.source = p.tuple(tupleOptions{noCond: true, end: "recursive"})
	s.cost = p.cost(from)
	if p.skipName("if") {
		from = p.nodes
		s.filter = &loopFilter{target: cloneTarget(s.target), test: p.expression()}
		s.filter.cost = p.cost(from)
	}
	if p.skipName("recursive") {
		s.recursive = &function{}
	}
	s.body = p.statements("endfor", "else")
	if p.advance().text == "else" {
		s.otherwise = p.body("endfor")
	}
	return s
}

// cloneTarget copies a target, because the filter of a loop assigns to variables of its
// own.
func cloneTarget(t target) target {
	switch t := t.(type) {
	case *nameExpr:
		c := *t
		return &c
	case *tupleTarget:
		c := &tupleTarget{}
		for _, x := range t.items {
			c.items = append(c.items, cloneTarget(x))
		}
		return c
	}
	return t
}

func (p *parser) parseIf(line int) stmt {
	s := &ifStmt{}
	for {
		from := p.nodes
		b := ifBranch{line: line, test: p.tuple(tupleOptions{noCond: true})}
		b.cost = p.cost(from)
		b.body = p.statements("elif", "else", "endif")
		s.branches = append(s.branches, b)
		line = p.cur.line
		switch p.advance().text {
		case "elif":
			continue
		case "else":
			s.otherwise = p.body("endif")
		}
		return s
	}
}

func (p *parser) parseSet(line int) stmt {
	t := p.target(useStore, "")
	if p.skip(tokAssign) {
		from := p.nodes
		s := &setStmt{target: t, value: p.tuple(tupleOptions{}), line: line}
		s.cost = p.cost(from)
		return s
	}
	from := p.nodes
	f, _ := p.filters(nil).(*filterExpr)
	cost := p.cost(from)
	return &setBlockStmt{target: t, filter: f, body: p.body("endset"), line: line, cost: cost}
}

func (p *parser) parseWith(line int) stmt {
	s := &withStmt{line: line}
	from := p.nodes
	for p.cur.kind != tokBlockEnd {
		if len(s.targets) > 0 {
			p.expect(tokComma)
		}
		s.targets = append(s.targets, p.target(useParam, ""))
		p.expect(tokAssign)
		s.values = append(s.values, p.expression())
	}
	s.cost = p.cost(from)
	s.body = p.body("endwith")
	return s
}

func (p *parser) parseFilterBlock(line int) stmt {
	from := p.nodes
	f := p.filters(p.filter(nil)).(*filterExpr)
	cost := p.cost(from)
	return &filterBlockStmt{filter: f, body: p.body("endfilter"), line: line, cost: cost}
}

// signature parses the parameters of a macro or call block.
func (p *parser) signature(d *macroDef) {
	p.expect(tokLParen)
	from := p.nodes
	for p.cur.kind != tokRParen {
		if len(d.params) > 0 {
			p.expect(tokComma)
		}
		d.params = append(d.params, p.nameTarget(useParam))
		if p.skip(tokAssign) {
			d.defaults = append(d.defaults, p.expression())
		} else if len(d.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	}
	d.cost = int64(p.nodes-from) / 8
	p.advance()
}

func newMacroDef(line int) *macroDef {
	return &macroDef{line: line, caller: -1, kwargs: -1, varargs: -1}
}

func (p *parser) parseMacro(line int) stmt {
	d := newMacroDef(line)
	name := p.nameTarget(useStore)
	d.name = name.name
	p.signature(d)
	d.body = p.body("endmacro")
	return &macroStmt{def: d, target: name}
}

func (p *parser) parseCall(line int) stmt {
	d := newMacroDef(line)
	if p.cur.kind == tokLParen {
		p.signature(d)
	}
	from := p.nodes
	call, ok := p.expression().(*callExpr)
	if !ok {
		throwSyntax(line, "expected call")
	}
	cost := p.cost(from)
	d.body = p.body("endcall")
	return &callStmt{def: d, call: call, line: line, cost: cost}
}

func (p *parser) parseGeneration(line int) stmt {
	d := newMacroDef(line)
	d.body = p.body("endgeneration")
	return &generationStmt{def: d}
}

func (p *parser) parseBlock(line int) stmt {
	b := &blockDef{name: p.expect(tokName).text, self: -1, over: -1}
	s := &blockStmt{block: b, line: line, scoped: p.skipName("scoped"), required: p.skipName("required")}
	if p.cur.kind == tokSub {
		p.fail("Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.")
	}
	b.body = p.body("endblock")
	if s.required {
		for _, x := range b.body {
			if d, ok := x.(*dataStmt); !ok || trimLeftSpace(d.text) != "" {
				p.fail("Required blocks can only contain comments or whitespace")
			}
		}
	}
	p.skipName(b.name)
	if p.blocks[b.name] != nil {
		throwAssertion(line, "block %s defined twice", repr(b.name))
	}
	p.blocks[b.name] = b
	p.order = append(p.order, b)
	return s
}

// parseTemplate parses include and extends.
func (p *parser) parseTemplate(line int) stmt {
	p.expression()
	if p.cur.isName("ignore") && p.look().isName("missing") {
		p.advance()
		p.advance()
	}
	p.importContext()
	return &templateStmt{line}
}

func (p *parser) importContext() bool {
	if (p.cur.isName("with") || p.cur.isName("without")) && p.look().isName("context") {
		p.advance()
		p.advance()
		return true
	}
	return false
}

func (p *parser) parseImport(line int) stmt {
	p.expression()
	p.expectName("as")
	p.nameTarget(useStore)
	p.importContext()
	return &templateStmt{line}
}

func (p *parser) parseFrom(line int) stmt {
	p.expression()
	p.expectName("import")
	for first := true; ; first = false {
		if !first {
			p.expect(tokComma)
		}
		if p.cur.kind != tokName {
			p.unexpected("name")
		}
		if p.importContext() {
			break
		}
		if n := p.nameTarget(useStore); strings.HasPrefix(n.name, "_") {
			p.fail("names starting with an underline can not be imported")
		}
		if p.skipName("as") {
			p.nameTarget(useStore)
		}
		if p.importContext() || p.cur.kind != tokComma {
			break
		}
	}
	return &templateStmt{line}
}

// target parses the target of an assignment, up to the name end if that is not "".
func (p *parser) target(use nameUse, end string) target {
	line := p.cur.line
	e := p.tuple(tupleOptions{simple: true, namespaces: use == useStore, end: end})
	return p.asTarget(e, use, line)
}

func (p *parser) nameTarget(use nameUse) *nameExpr {
	t := p.expect(tokName)
	n := &nameExpr{name: t.text}
	p.asTarget(n, use, t.line)
	return n
}

// nsExpr is ns.attr as a target. It is never evaluated.
type nsExpr struct{ *nsTarget }

func (nsExpr) eval(*machine) Value { return nil }

func (p *parser) asTarget(e expr, use nameUse, line int) target {
	kind := "expr"
	switch e := e.(type) {
	case *nameExpr:
		switch e.name {
		case "true", "false", "none", "True", "False", "None":
			kind = "name"
		default:
			e.use = use
			return e
		}
	case nsExpr:
		return e.nsTarget
	case *tupleExpr:
		t := &tupleTarget{}
		for _, x := range e.items {
			t.items = append(t.items, p.asTarget(x, use, line))
		}
		return t
	case *constExpr:
		kind = "const"
	case *listExpr:
		kind = "list"
	case *dictExpr:
		kind = "dict"
	}
	throwSyntax(line, "can't assign to '%s'", kind)
	return nil
}
