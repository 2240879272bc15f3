package grammar

import (
	"slices"
)

// anchored takes the anchors off the ends of n: begin and end report whether there was
// ^ and $. ok is false if core still has anchors.
func anchored(n *rx) (core *rx, begin, end, ok bool) {
	switch n.kind {
	case rxBegin:
		return &rx{kind: rxCat}, true, false, true
	case rxEnd:
		return &rx{kind: rxCat}, false, true, true
	case rxCat:
		subs := n.subs
		for len(subs) > 0 && subs[0].kind == rxBegin {
			subs, begin = subs[1:], true
		}
		for len(subs) > 0 && subs[len(subs)-1].kind == rxEnd {
			subs, end = subs[:len(subs)-1], true
		}
		if len(subs) == 1 && !begin && !end {
			return anchored(subs[0])
		}
		if core = (&rx{kind: rxCat, subs: subs}); len(subs) == 1 {
			core = subs[0]
		}
	case rxAlt:
		core = &rx{kind: rxAlt}
		for i, s := range n.subs {
			c, b, e, ok := anchored(s)
			if !ok || i > 0 && (b != begin || e != end) {
				return nil, false, false, false
			}
			core.subs, begin, end = append(core.subs, c), b, e
		}
	default:
		core = n
	}
	return core, begin, end, !core.hasAnchor()
}

func (n *rx) hasAnchor() bool {
	return n.contains(func(n *rx) bool { return n.kind == rxBegin || n.kind == rxEnd || n.kind == rxLook })
}

// cost is roughly the number of states that n needs.
func (n *rx) cost() int {
	c := 1
	for _, s := range n.subs {
		c += s.cost()
	}
	if n.kind == rxRepeat {
		c *= int(max(1, n.lo, n.hi))
	}
	return min(c, 1<<30)
}

// counts reports whether n repeats something so often that counters pay.
func (n *rx) counts() bool {
	return n.kind == rxRepeat && max(n.lo, n.hi) > 16 || slices.ContainsFunc(n.subs, (*rx).counts)
}

// nullable reports whether n matches the empty text everywhere.
func (n *rx) nullable() bool {
	switch n.kind {
	case rxSet, rxBegin, rxEnd, rxLook:
		return false
	case rxAlt:
		return slices.ContainsFunc(n.subs, (*rx).nullable)
	case rxRepeat:
		return n.lo == 0 || n.subs[0].nullable()
	}
	return !slices.ContainsFunc(n.subs, func(s *rx) bool { return !s.nullable() })
}

// lowering says how a regular expression is lowered.
type lowering struct {
	leaf    func(from int32, set runeSet) int32 // reads a character of set, as it is spelled here
	counted bool                                // repetitions may become counted rules
	looks   *[]*look                            // collects the lookarounds
}

// rx reads what n matches. An assertion becomes a stepTick (^), a stepGuard ($) or a stepCheck
// with the number of its lookaround as rule, which layers replaces.
func (b *builder) rx(from int32, n *rx, how lowering) int32 {
	b.spend(1)
	switch n.kind {
	case rxSet:
		return how.leaf(from, n.set)
	case rxCat:
		for _, s := range n.subs {
			from = b.rx(from, s, how)
		}
		return from
	case rxAlt:
		fs := make([]frag, len(n.subs))
		for i, s := range n.subs {
			fs[i] = func(at int32) int32 { return b.rx(at, s, how) }
		}
		return b.alt(from, fs...)
	case rxRepeat:
		sub := n.subs[0]
		lo, hi := n.lo, n.hi
		if sub.nullable() {
			lo = 0
		}
		size := 0
		if how.counted {
			size = sub.cost()
		}
		return b.repeat(from, lo, hi, size, func(at int32) int32 { return b.rx(at, sub, how) })
	}
	to := b.state()
	switch n.kind {
	case rxBegin:
		b.step(from, step{kind: stepTick, to: to})
	case rxEnd:
		b.step(from, step{kind: stepGuard, to: to})
	default:
		b.step(from, step{kind: stepCheck, rule: int32(len(*how.looks)), to: to})
		*how.looks = append(*how.looks, b.look(n))
	}
	return to
}

// chain reads n and then end. If n is a sequence, a counted repetition in it takes
// what follows into its rule. A rule that could return after every character would make
// every token pop the base of its shape that goes on with something else. So what follows
// alternatives with a counted repetition is read in each of them, if it is short.
func (b *builder) chain(from int32, n *rx, how lowering, end string) int32 {
	parts := []*rx{n}
	if n.kind == rxCat {
		parts = n.subs
	}
	for i, p := range parts {
		if rest := parts[i+1:]; p.kind == rxAlt && p.counts() && len(p.subs)*(&rx{kind: rxCat, subs: rest}).cost() <= 256 {
			to := b.state()
			for _, alternative := range p.subs {
				s := b.state()
				b.eps(from, s)
				b.eps(b.chain(s, alternative.before(rest), how, end), to)
			}
			return to
		}
		if p.kind != rxRepeat || !p.counts() || p.hi == 0 || p.subs[0].nullable() || p.subs[0].counts() {
			from = b.rx(from, p, how)
			continue
		}
		r := b.rule()
		loop, body, out := b.state(), b.state(), b.state()
		b.eps(b.start(r), loop)
		b.step(loop, step{kind: stepTick, to: body})
		b.eps(b.rx(body, p.subs[0], how), loop)
		b.step(loop, step{kind: stepGuard, to: out})
		b.accept(b.chain(out, &rx{kind: rxCat, subs: parts[i+1:]}, how, end))
		return b.callN(from, r, p.lo, p.hi)
	}
	return b.lit(from, end)
}

// before is n and then rest, as one sequence.
func (n *rx) before(rest []*rx) *rx {
	subs := []*rx{n}
	if n.kind == rxCat {
		subs = n.subs
	}
	return &rx{kind: rxCat, subs: slices.Concat(subs, rest)}
}

// utf8Leaf reads a character of set in UTF-8.
func (b *builder) utf8Leaf(from int32, set runeSet) int32 {
	to := b.state()
	for _, r := range set {
		b.runeRange(from, to, r[0], r[1])
	}
	return to
}

// regexDFA is the language of the texts that n matches as a whole or, with search, of
// the texts that contain a match. It reports false if there would be too many states.
func regexDFA(n *rx, search bool, outer *builder) (d *dfa, ok bool) {
	return partDFA(n, search, search, outer)
}

// regexRule lowers a regular expression that must match a whole text.
func (b *builder) regexRule(pattern string) int32 {
	n := parseRegex(pattern, b.meter)
	r := b.rule()
	core, _, _, ok := anchored(n)
	if ok {
		b.accept(b.chain(b.start(r), core, lowering{leaf: b.utf8Leaf, counted: true}, ""))
		return r
	}
	d, ok := regexDFA(n, false, b)
	if !ok {
		fail(ErrTooComplex, "", "regular expression: too complex for anchors inside it")
	}
	b.accept(b.embed(b.start(r), d))
	return r
}

// embed reads a text of d.
func (b *builder) embed(from int32, d *dfa) int32 {
	to := b.state()
	at := make([]int32, len(d.states))
	for i := range d.states {
		at[i] = b.state()
	}
	for i := range d.states {
		for _, e := range d.states[i].edges {
			b.edge(at[i], e.lo, e.hi, at[e.to])
		}
		if d.states[i].accept {
			b.eps(at[i], to)
		}
	}
	if len(at) > 0 {
		b.eps(from, at[0])
	}
	return to
}
