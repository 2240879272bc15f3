package grammar

import (
	"strings"
)

// This file is about x-grammar, a keyword of our own: a grammar in Lark that a string satisfies.
// Interfaces have tools whose input is a text of a grammar, and such an input comes as a string
// among the arguments of a call. What is inside a JSON string is written with escapes, so each
// character that the grammar reads is read as it is escaped there. A grammar has no automaton with
// finitely many states, so the keyword goes together with no other that is about strings.

// take takes x-grammar from a.
func (r *stringRules) take(a alternative) {
	for _, n := range a {
		if n.text.grammar == "" || n.text.grammar == r.grammar {
			continue
		}
		if r.at = stepPath(n.path, "x-grammar"); r.grammar != "" {
			fail(ErrUnsupported, r.at, "two grammars cannot be kept at once")
		}
		r.grammar = n.text.grammar
	}
	if r.grammar != "" && (len(r.langs) > 0 || r.least > 0 || r.most >= 0) {
		fail(ErrUnsupported, r.at, "a grammar cannot be kept together with other demands on a string")
	}
}

// grammarRule is the rule for the texts of the grammar of r: as they are written inside a JSON string,
// or, where end is not empty, as they are in front of that, which no terminal of the grammar has in it.
func (s *schemas) grammarRule(r *stringRules, end string) int32 {
	key := "g:" + end + "\x00" + r.grammar
	rule, ok := s.valueRules[key]
	if !ok {
		rule = s.parseGrammar(r, end)
		s.valueRules[key] = rule
	}
	return rule
}

// parseGrammar makes the rule. Its refusals say where the grammar is.
func (s *schemas) parseGrammar(r *stringRules, end string) int32 {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			e.Path = r.at
			panic(e)
		default:
			panic(e)
		}
	}()
	d := parseLark(r.grammar, s.b)
	d.part = true
	if end == "" {
		return s.b.definitions(d, Options{}, true, nil)
	}
	avoid, ok := regexDFA(&rx{kind: rxCat, subs: rxText(end)}, true, s.b)
	if !ok {
		fail(ErrTooComplex, "", "the end of a string needs too many states")
	}
	return s.b.definitions(d, Options{}, false, avoid)
}

// written reads a text of the grammar of r as it is. Where models write line breaks around strings,
// both are there: who reads the parameter takes them off, and would else take off one that belongs to the
// text. A text that has the end of a parameter in it would be read only up to that. No text and no regular
// expression of the grammar has it in it. That it is not made of several is not looked after: a language without it
// is no language of a grammar in general that could be written down in a bearable size. Lines, with a line break
// at their end, cannot make it, and package chat/toolcall shows in a test what is read otherwise.
func (x *xmlParameters) written(from int32, r *stringRules) int32 {
	rule := x.s.grammarRule(r, x.style.end)
	if x.style.types[0].name == "true" { // see framed
		return x.b.call(from, rule)
	}
	return x.b.lit(x.b.call(x.b.lit(from, "\n"), rule), "\n")
}

// escaped is text as it is written inside a JSON string.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if escapeIndex(text[i]) < 0 {
			b.WriteByte(text[i])
		} else {
			b.WriteString(escapeByte(text[i]))
		}
	}
	return b.String()
}

// embedEscaped reads a text of d as it is written inside a JSON string.
func (b *builder) embedEscaped(from int32, d *dfa) int32 {
	to := b.state()
	at := make([]int32, len(d.states))
	for i := range at {
		at[i] = b.state()
	}
	for i := range d.states {
		if d.states[i].accept {
			b.eps(at[i], to)
		}
		if esc := b.plainEdges(at[i], d.states[i].edges, at); esc != (escapeTo{}) {
			b.edge(at[i], '\\', '\\', b.escapes(esc))
		}
	}
	if len(at) > 0 {
		b.eps(from, at[0])
	}
	return to
}
