package grammar

import "slices"

// Grammars for other programs name the end token where the output ends, as in
// `start: <|python_tag|> call <|eom_id|>`. There it says nothing that is not so anyway: end
// tokens are legal exactly where the output may end. So dropEnds takes it out of the places
// after which nothing can follow. Everywhere else it stays, and is refused.

// dropEnds removes the end tokens from the ends of the grammar.
func (d *definitions) dropEnds(b *builder) {
	if d.part || !slices.ContainsFunc(d.names, func(name string) bool { return d.body[name].namesEnd(b) }) {
		return
	}
	last := d.lastRules(b)
	for _, name := range d.names {
		if last[name] {
			d.body[name] = d.body[name].withoutEnd(b, d)
		}
	}
}

// isEnd reports whether n is an end token and nothing else.
func (n *expr) isEnd(b *builder) bool {
	return n.kind == exprToken && !n.tokens.not && len(n.tokens.ranges) == 1 && n.tokens.ranges[0].lo == n.tokens.ranges[0].hi && b.endsIn(n.tokens.ranges[0])
}

// namesEnd reports whether there is an end token in n.
func (n *expr) namesEnd(b *builder) bool {
	b.spend(1)
	return n.isEnd(b) || slices.ContainsFunc(n.subs, func(s *expr) bool { return s.namesEnd(b) })
}

// lastRules are the rules after which nothing can follow wherever they are used.
func (d *definitions) lastRules(b *builder) map[string]bool {
	last := make(map[string]bool, len(d.names))
	uses := make(map[string]*ruleUses, len(d.names))
	for _, name := range d.names {
		last[name], uses[name] = true, &ruleUses{}
		uses[name].find(b, d.body[name], true)
	}
	// What is used in the middle of a rule, or at the end of one that is, is not last.
	var queue []string
	not := func(name string) {
		if last[name] {
			last[name] = false
			queue = append(queue, name)
		}
	}
	for _, name := range d.names {
		for _, r := range uses[name].middle {
			not(r)
		}
	}
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if u := uses[name]; u != nil {
			b.spend(1 + len(u.last))
			for _, r := range u.last {
				not(r)
			}
		}
	}
	return last
}

// ruleUses are the rules that a rule refers to, at its end and elsewhere.
type ruleUses struct{ last, middle []string }

// find adds the rules of n, which is at the end of its rule if end is true.
func (u *ruleUses) find(b *builder, n *expr, end bool) {
	b.spend(1)
	switch {
	case n.kind == exprRule && end:
		u.last = append(u.last, n.text)
	case n.kind == exprRule:
		u.middle = append(u.middle, n.text)
	case n.kind == exprSeq:
		for i, s := range n.subs {
			u.find(b, s, end && i == n.lastPart())
		}
	case n.kind == exprFree:
		for _, r := range n.free.rules {
			u.find(b, r, false)
		}
	default:
		for _, s := range n.subs {
			u.find(b, s, end && (n.kind == exprAlt || n.kind == exprRepeat && n.hi == 1))
		}
	}
}

// lastPart is the index of the last part of a sequence, but for what is ignored after it.
func (n *expr) lastPart() int {
	i := len(n.subs) - 1
	for i > 0 && n.subs[i].kind == exprRule && n.subs[i].text == ignored {
		i--
	}
	return i
}

// withoutEnd is n, which is at the end of the grammar, without an end token at its end.
func (n *expr) withoutEnd(b *builder, d *definitions) *expr {
	b.spend(1)
	if n.isEnd(b) {
		b.warn("", "grammar: %s: the end token has no effect: the output may end here anyway", d.place(n.at))
		return &expr{kind: exprSeq}
	}
	c := *n
	c.subs = slices.Clone(n.subs)
	switch {
	case n.kind == exprSeq && len(n.subs) > 0:
		i := n.lastPart()
		c.subs[i] = n.subs[i].withoutEnd(b, d)
	case n.kind == exprAlt, n.kind == exprRepeat && n.hi == 1:
		for i, s := range n.subs {
			c.subs[i] = s.withoutEnd(b, d)
		}
	}
	return &c
}
