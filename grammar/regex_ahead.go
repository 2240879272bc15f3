package grammar

import (
	"errors"
	"slices"
)

// Lookahead in regular expressions. (?=A) says of the rest of the text that it begins with a
// match of A, so it is an intersection with the language A.*; (?!A) takes this language away.
// To have the rest of the text at hand, an expression with lookahead is lowered from its end
// to its beginning: each function here takes the language of what may follow, and returns
// that of the expression and what follows it.
//
// The patterns that libraries write need no more than that: those of Decimal in Pydantic up
// to 2.13, and of durations in zod. Lookahead inside a repetition without an upper bound is
// refused, and so is ^ where it cannot be seen that it is at the beginning of the text.

const (
	// aheadCopies is how often a repetition with lookahead in it is written out at most.
	aheadCopies = 64
	// aheadStates bounds the states of all automata that are made for one expression.
	aheadStates = 20 * dfaLimit
)

func (n *rx) looksAhead() bool {
	return n.kind == rxAhead || slices.ContainsFunc(n.subs, (*rx).looksAhead)
}

func (n *rx) hasBegin() bool {
	return n.kind == rxBegin || slices.ContainsFunc(n.subs, (*rx).hasBegin)
}

// lookaheadDFA is regexDFA for an expression with lookahead.
func lookaheadDFA(n *rx, search bool, outer *builder) (*dfa, bool) {
	a := &ahead{outer: outer}
	if !search {
		d := a.before(n, &dfa{states: []state{{accept: true}}, all: -1}, true)
		return d, !a.failed
	}
	d := a.search(n)
	return d, !a.failed
}

// search is the language of the texts that contain a match of n.
func (a *ahead) search(n *rx) *dfa {
	if n.kind == rxAlt {
		var all []*dfa
		for _, s := range n.subs {
			all = append(all, a.search(s))
		}
		return a.union(all)
	}
	if first(n) {
		return a.before(n, allDFA(), true)
	}
	parts := []*rx{{kind: rxRepeat, hi: -1, subs: []*rx{{kind: rxSet, set: anyChar}}}}
	if n.kind == rxCat {
		parts = append(parts, n.subs...)
	} else {
		parts = append(parts, n)
	}
	return a.sequence(parts, allDFA(), true)
}

// first reports whether a match of n is certainly at the beginning of the text, because it
// begins with ^.
func first(n *rx) bool {
	return n.kind == rxBegin || n.kind == rxCat && len(n.subs) > 0 && first(n.subs[0])
}

// ahead lowers one expression.
type ahead struct {
	outer *builder
	// failed is set when a language has too many states. Nothing that is returned afterwards
	// has a meaning.
	failed bool
	made   int // states so far
	// dry is set to look only for what is refused: no automata are made.
	dry bool
}

// checkAhead refuses lookahead that cannot be lowered.
func checkAhead(n *rx) {
	if n.looksAhead() {
		(&ahead{dry: true}).search(n)
	}
}

// before is the language of the texts that consist of a match of n and a text of rest. start
// says that this is all of a text and not only the end of one.
func (a *ahead) before(n *rx, rest *dfa, start bool) *dfa {
	if !a.dry {
		a.outer.spend(1)
	}
	if a.failed || rest.empty() {
		return rest
	}
	if !n.looksAhead() {
		return a.plain(n, rest, start)
	}
	switch n.kind {
	case rxCat:
		return a.sequence(n.subs, rest, start)
	case rxAlt:
		var all []*dfa
		for _, s := range n.subs {
			all = append(all, a.before(s, rest, start))
		}
		return a.union(all)
	case rxRepeat:
		return a.repeated(n, rest, start)
	}
	begins := a.before(n.subs[0], allDFA(), start)
	return a.combine(rest, begins, n.not)
}

// sequence lowers subs from the last to the first. Runs of parts without lookahead are
// lowered together.
func (a *ahead) sequence(subs []*rx, rest *dfa, start bool) *dfa {
	for end := len(subs); end > 0; {
		i := end - 1
		if !subs[i].looksAhead() {
			for i > 0 && !subs[i-1].looksAhead() {
				i--
			}
		}
		part := subs[i]
		if end-i > 1 {
			part = &rx{kind: rxCat, subs: subs[i:end]}
		}
		rest = a.before(part, rest, start && zeroWidth(subs[:i]))
		end = i
	}
	return rest
}

// zeroWidth reports whether what the parts match is certainly empty.
func zeroWidth(parts []*rx) bool {
	return !slices.ContainsFunc(parts, func(n *rx) bool { return n.kind != rxBegin && n.kind != rxAhead })
}

// repeated writes a repetition out, the last copy first.
func (a *ahead) repeated(n *rx, rest *dfa, start bool) *dfa {
	if n.hi < 0 {
		fail(ErrUnsupported, "", "regular expression: lookahead inside a repetition without an upper bound is not supported")
	}
	if n.hi > aheadCopies {
		a.failed = true
		return rest
	}
	if a.dry {
		return a.before(n.subs[0], rest, start && n.hi == 1)
	}
	res := rest
	for i := n.hi; i > 0; i-- {
		one := a.before(n.subs[0], res, start && i == 1)
		if i > n.lo {
			one = a.union([]*dfa{rest, one})
		}
		res = one
	}
	return res
}

// plain is before for an expression without lookahead.
func (a *ahead) plain(n *rx, rest *dfa, start bool) (d *dfa) {
	if !start && n.hasBegin() {
		fail(ErrUnsupported, "", "regular expression: ^ after lookahead is not supported here")
	}
	return a.automaton(func(b *builder, from int32) int32 {
		return b.embed(b.rx(from, n, lowering{leaf: b.utf8Leaf}), rest)
	}, n.hasAnchor())
}

func (a *ahead) union(all []*dfa) *dfa {
	return a.automaton(func(b *builder, from int32) int32 {
		to := b.state()
		for _, d := range all {
			b.eps(b.embed(from, d), to)
		}
		return to
	}, false)
}

// automaton makes the language of what f reads.
func (a *ahead) automaton(f func(b *builder, from int32) int32, anchors bool) (d *dfa) {
	if a.failed || a.dry {
		return allDFA()
	}
	defer func() {
		if r := recover(); r != nil {
			if e, is := r.(*Error); !is || !errors.Is(e, ErrTooComplex) {
				panic(r)
			}
			d, a.failed = allDFA(), true
		}
	}()
	b := newBuilder(nil, 8*dfaLimit, a.outer.meter)
	start := b.state()
	b.accept(f(b, start))
	if anchors {
		b, start, _ = b.layers(start, -1)
	}
	d, ok := makeDFA(b, start, -1)
	return a.keep(d, ok, len(b.states))
}

// keep returns d, or notes that there are too many states: ok is false, or all together are
// too many. work is the number of states that d was made from.
func (a *ahead) keep(d *dfa, ok bool, work int) *dfa {
	if a.made += work; !ok || a.made > aheadStates {
		a.failed = true
		return allDFA()
	}
	return d
}

// combine is the intersection of two languages or, with minus, their difference.
func (a *ahead) combine(d, e *dfa, minus bool) *dfa {
	if a.failed || a.dry {
		return d
	}
	a.outer.spend(4 * (len(d.states) + len(e.states)))
	res, ok := d.product(e, minus)
	return a.keep(res, ok, len(d.states)+len(e.states))
}
