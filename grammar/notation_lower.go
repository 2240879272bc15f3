package grammar

import (
	"errors"
	"slices"
)

// exprLowering lowers the expressions of a grammar.
type exprLowering struct {
	b     *builder
	d     *definitions
	o     Options          // for JSON schemas
	rules map[string]int32 // nil: the rules are terminals, which are spelled out
	depth int              // of terminals that are spelled out

	// inJSON says that texts are read as they are written inside a JSON string: the characters
	// that need an escape in their shortest one, and all others as they are.
	inJSON bool
	// avoid, if it is not empty, is what no text and no regular expression has in it, because the text would
	// end there. That several of them together do not make it is not looked after.
	avoid *dfa
}

// text reads a text.
func (l *exprLowering) text(from int32, s string) int32 {
	if l.avoid != nil && l.avoid.match(s) {
		return l.b.state()
	}
	if l.inJSON {
		s = escaped(s)
	}
	return l.b.lit(from, s)
}

// leaf reads one character of set.
func (l *exprLowering) leaf(from int32, set runeSet) int32 {
	if l.inJSON {
		return l.b.jsonLeaf(from, set)
	}
	return l.b.utf8Leaf(from, set)
}

// embed reads a text of d.
func (l *exprLowering) embed(from int32, d *dfa) int32 {
	if l.avoid != nil {
		var ok bool
		if d, ok = d.minus(l.avoid); !ok {
			fail(ErrTooComplex, "", "grammar: a terminal needs too many states without the mark that would end it")
		}
	}
	if l.inJSON {
		return l.b.embedEscaped(from, d)
	}
	return l.b.embed(from, d)
}

// chunks reads some neighbours of texts.
func (l *exprLowering) chunks(from int32, texts []string) int32 {
	if l.inJSON {
		all := make([]string, len(texts))
		for i, s := range texts {
			all[i] = escaped(s)
		}
		texts = all
	}
	return l.b.chunks(from, texts)
}

func (l *exprLowering) at(from int32, n *expr) int32 {
	b := l.b
	b.spend(1)
	switch n.kind {
	case exprText:
		return l.text(from, n.text)
	case exprSet:
		return l.leaf(from, n.set)
	case exprRule:
		return l.named(from, n)
	case exprRegex:
		return l.regex(from, n.re)
	case exprSeq:
		for _, s := range n.subs {
			from = l.at(from, s)
		}
		return from
	case exprAlt:
		fs := make([]frag, len(n.subs))
		for i, s := range n.subs {
			fs[i] = func(at int32) int32 { return l.at(at, s) }
		}
		return b.alt(from, fs...)
	case exprRepeat:
		size := n.subs[0].cost()
		if l.rules == nil {
			size = 0 // there are no rules in a terminal
		}
		return b.repeat(from, n.lo, n.hi, size, func(at int32) int32 { return l.at(at, n.subs[0]) })
	case exprAnd, exprNot, exprLazy:
		return l.embed(from, l.language(n))
	case exprChunks:
		return l.chunks(from, n.chunks)
	}
	return l.more(from, n)
}

// more lowers what no terminal has in it.
func (l *exprLowering) more(from int32, n *expr) int32 {
	b := l.b
	if l.rules == nil {
		fail(ErrInvalid, "", "grammar: %s: tokens, schemas and grammars cannot be parts of a terminal", l.d.place(n.at))
	}
	if n.kind == exprNested {
		return b.call(from, b.definitions(n.nested, l.o, l.inJSON, l.avoid))
	}
	if l.inJSON {
		fail(ErrUnsupported, "", "grammar: %s: tokens, schemas and free text with triggers cannot be parts of a grammar whose text is inside a JSON string", l.d.place(n.at))
	}
	switch n.kind {
	case exprToken:
		return b.token(from, n.tokens, "")
	case exprSchema:
		return b.call(from, l.schema(n))
	}
	return l.free(from, n.free)
}

// named reads the rule or terminal that n refers to.
func (l *exprLowering) named(from int32, n *expr) int32 {
	if l.rules != nil {
		r, ok := l.rules[n.text]
		if !ok {
			fail(ErrInvalid, "", "grammar: %s: the rule %s is not defined", l.d.place(n.at), n.text)
		}
		return l.b.call(from, r)
	}
	body := l.d.body[n.text]
	if body == nil {
		fail(ErrInvalid, "", "grammar: %s: the terminal %s is not defined", l.d.place(n.at), n.text)
	}
	if l.depth++; l.depth > maxDepth {
		fail(ErrInvalid, "", "grammar: the terminal %s refers to itself, or to too many others", n.text)
	}
	from = l.at(from, body)
	l.depth--
	return from
}

func (l *exprLowering) regex(from int32, re *rx) int32 {
	core, _, _, ok := anchored(re)
	if !ok {
		fail(ErrUnsupported, "", "anchors inside a regular expression of a grammar")
	}
	if l.avoid != nil && l.rules != nil {
		d, ok := regexDFA(core, false, l.b)
		if !ok {
			fail(ErrTooComplex, "", "grammar: a terminal needs too many states without the mark that would end it")
		}
		return l.embed(from, d)
	}
	return l.b.rx(from, core, lowering{leaf: l.leaf, counted: l.rules != nil})
}

// schema is the rule for the JSON of a schema. Its refusals say where the schema is.
func (l *exprLowering) schema(n *expr) int32 {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			r.Msg = "grammar: " + l.d.place(n.at) + ": " + r.Error()
			r.Path = ""
			panic(r)
		default:
			panic(r)
		}
	}()
	return l.b.schemaRule(n.schema, "", l.o)
}

// free reads free text or tokens with rules after their triggers.
func (l *exprLowering) free(from int32, f *freeExpr) int32 {
	t := &tags{b: l.b, o: l.o}
	var after []frag
	for _, r := range f.rules {
		after = append(after, func(at int32) int32 { return l.at(at, r) })
	}
	if f.byToken {
		return t.freeTokens(from, tagNode{}, tokenDispatch{excludes: f.without, begins: f.tokens, after: after, once: f.once})
	}
	return t.freeText(from, f.excludes, triggers{texts: f.texts, after: after, once: f.once})
}

// language is the set of texts of a terminal.
func (l *exprLowering) language(n *expr) *dfa {
	if l.depth++; l.depth > maxDepth {
		fail(ErrTooComplex, "", "grammar: a terminal is nested too deeply")
	}
	defer func() { l.depth-- }()
	var d *dfa
	ok := true
	switch n.kind {
	case exprAnd:
		for _, s := range n.subs {
			e := l.language(s)
			l.b.spend(4 * len(e.states))
			if d == nil {
				d = e
			} else if d, ok = d.intersect(e); !ok {
				break
			}
		}
	case exprNot:
		e := l.language(n.subs[0])
		l.b.spend(4 * len(e.states))
		d, ok = allDFA().minus(e)
	case exprLazy:
		d = l.language(n.subs[0]).shortest()
	default:
		d, ok = l.automaton(n)
	}
	if !ok {
		fail(ErrTooComplex, "", "grammar: a terminal with & or ~, or a lazy one, needs more than %d states", dfaLimit)
	}
	l.b.spend(len(d.states))
	return d
}

// automaton is the deterministic automaton of a terminal. It reports false if it would have
// too many states.
func (l *exprLowering) automaton(n *expr) (d *dfa, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if e, is := r.(*Error); !is || !errors.Is(e, ErrTooComplex) || l.b.left < 0 {
				panic(r)
			}
			d, ok = nil, false
		}
	}()
	b := newBuilder(nil, 8*dfaLimit, l.b.meter)
	inner := &exprLowering{b: b, d: l.d, depth: l.depth}
	start := b.state()
	b.accept(inner.at(start, n))
	return makeDFA(b, start, -1)
}

// shortest is the language of the texts of d that do not begin with a shorter one of them.
func (d *dfa) shortest() *dfa {
	res := &dfa{states: slices.Clone(d.states), all: -1}
	for i := range res.states {
		if res.states[i].accept {
			res.states[i].edges = nil
		}
	}
	return res.trim()
}
