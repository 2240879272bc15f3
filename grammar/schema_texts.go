package grammar

import "slices"

// The strings that satisfy a schema are a regular language, whatever is combined in the
// schema: languages have unions, intersections and complements. So where only strings are
// left and there are many choices, they are not multiplied out.

// manyChoices is the number of combinations of choices about strings from which on they become one
// automaton. Few combinations may share their rules with other values.
const manyChoices = 8

// textKey is what textsOf remembers its results by: under a negation or in a oneOf, formats
// cannot be told exactly, and in a proof they are wider.
type textKey struct {
	node           int32
	exact, proving bool
}

// onlyTexts returns a node for the choices in open, none of whose values but strings can
// satisfy have. It returns nil if there are few, or if the language is not known.
func (e *expansion) onlyTexts(have alternative, open []choice) *schemaNode {
	combinations := 1
	for _, c := range open {
		combinations *= min(len(c.from), 1000)
		if combinations > manyChoices {
			break
		}
	}
	if have.said() != kindString || combinations <= manyChoices || len(open) == 1 && !open[0].of.derived() {
		return nil
	}
	s := e.s
	d := allDFA()
	for _, c := range open {
		n := &schemaNode{anyOf: c.from}
		if c.one && e.exact {
			n = &schemaNode{path: c.of.path, oneOf: c.from, anyForOne: c.of.anyForOne}
		}
		if d = s.and(d, s.choiceOfTexts(n), false); d == nil {
			return nil
		}
	}
	return s.textNode(d, have[0].path)
}

// textNode is a node that the strings in d satisfy.
func (s *schemas) textNode(d *dfa, path string) *schemaNode {
	return s.d.node(s.d.derive(path, func(n *schemaNode) {
		n.kinds = kindString
		n.text.in = &language{name: "=" + keyOf([]int32{n.id}), dfa: d}
	}))
}

// mergeTexts returns a node that stands for all alternatives of set, if they are many, are
// about strings only, and come from negations. Otherwise, or if their language is not known,
// it returns nil.
func (s *schemas) mergeTexts(set []any, alternatives []alternative) *schemaNode {
	if len(alternatives) <= manyChoices {
		return nil
	}
	fromNegation := false
	for _, a := range alternatives {
		if a.kinds() != kindString {
			return nil
		}
		fromNegation = fromNegation || slices.ContainsFunc(a, (*schemaNode).derived)
	}
	if !fromNegation {
		return nil
	}
	d := allDFA()
	for _, v := range set {
		if d = s.and(d, s.textsOf(v), false); d == nil {
			return nil
		}
	}
	return s.textNode(d, alternatives[0][0].path)
}

// textsOf is the language of the strings that satisfy schema, or nil if it is not known.
func (s *schemas) textsOf(schema any) *dfa {
	n := s.d.node(schema)
	switch n {
	case s.d.trueSchema:
		return allDFA()
	case s.d.falseSchema:
		return &dfa{all: -1}
	}
	key := textKey{n.id, s.negative > 0, s.proving > 0}
	d, ok := s.texts[key]
	if !ok {
		s.texts[key] = nil // a schema that refers to itself is not known
		d = s.textsOfNode(n)
		s.texts[key] = d
	}
	return d
}

func (s *schemas) textsOfNode(n *schemaNode) *dfa {
	s.b.spend(1)
	if n.never {
		return &dfa{all: -1}
	}
	if n.negates != nil {
		s.negative++
		defer func() { s.negative-- }()
		return s.and(allDFA(), s.textsOf(n.negates), true)
	}
	k := n.kinds
	if k&kindString == 0 {
		return &dfa{all: -1}
	}
	d := s.localTexts(n)
	for _, v := range n.also {
		d = s.and(d, s.textsOf(v), false)
	}
	return s.and(d, s.choiceOfTexts(n), false)
}

// localTexts are the strings that satisfy n without its allOf, $ref, anyOf and oneOf.
func (s *schemas) localTexts(n *schemaNode) *dfa {
	if n.undeniable != nil && n.undeniable.kinds&kindString != 0 {
		return nil
	}
	if s.negative > 0 && (enforced(n.text.format) || slices.ContainsFunc(n.text.not, func(p patternAt) bool { return p.format })) {
		return nil
	}
	r := s.stringRules(alternative{n})
	d := allDFA()
	if r.impossible() {
		d = &dfa{all: -1}
	} else if only, ok := s.stringDFA(&r); !ok {
		return nil
	} else if only != nil {
		d = only
	}
	if n.enum == nil {
		return d
	}
	var words []string
	for _, v := range n.enum {
		if w, ok := v.(string); ok {
			words = append(words, w)
		}
	}
	listed, ok := wordsDFA(words, s.b.meter)
	if !ok {
		return nil
	}
	return s.and(d, listed, false)
}

// choiceOfTexts are the strings that satisfy the anyOf and oneOf of n.
func (s *schemas) choiceOfTexts(n *schemaNode) *dfa {
	d := allDFA()
	if n.anyOf != nil {
		some := &dfa{all: -1}
		for _, v := range n.anyOf {
			some = s.or(some, s.textsOf(v))
		}
		d = s.and(d, some, false)
	}
	if n.oneOf == nil {
		return d
	}
	one, some := &dfa{all: -1}, &dfa{all: -1}
	s.negative++ // that a text satisfies no other schema must be told exactly
	defer func() { s.negative-- }()
	for _, v := range n.oneOf {
		t := s.textsOf(v)
		one = s.or(s.and(one, t, true), s.and(t, some, true))
		some = s.or(some, t)
	}
	if twice := s.and(some, one, true); twice != nil && !twice.empty() && s.relax(n) {
		one = some
	}
	return s.and(d, one, false)
}

// and is the intersection of a and b or, with minus, their difference. It is nil if one of
// them is, or if it would have too many states.
func (s *schemas) and(a, b *dfa, minus bool) *dfa {
	if a == nil || b == nil {
		return nil
	}
	d, ok := a.product(b, minus)
	if !ok {
		s.b.spend(4 * dfaLimit)
		return nil
	}
	s.b.spend(4 * (len(a.states) + len(b.states) + len(d.states)))
	return d
}

// or is the union of a and b, as and.
func (s *schemas) or(a, b *dfa) *dfa {
	return s.and(allDFA(), s.and(s.and(allDFA(), a, true), b, true), true)
}
