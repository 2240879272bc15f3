package grammar

import "slices"

// A pattern may begin with a lookahead that does no more than bound the length, such as zod's
// for names of hosts: ^(?=.{1,253}\.?$). As an automaton it has a state for each length, in
// each state of the rest. As a bound on the length it has counters.

// lengthsForLooks returns r with such lookaheads as bounds. What they allow beyond the count,
// here a dot at the end, is left out, so its texts are some of those of r. It reports false
// if r has no such lookahead.
func (s *schemas) lengthsForLooks(r *stringRules) (narrow stringRules, ok bool) {
	narrow = *r
	narrow.langs = slices.Clone(r.langs)
	for i, l := range narrow.langs {
		if l.ast == nil {
			continue
		}
		rest, lo, hi := l.ast.lengthLook()
		if rest == nil {
			continue
		}
		ok = true
		narrow.langs[i] = &language{name: l.name + " without its length", ast: rest}
		narrow.least, narrow.most = max(narrow.least, int64(lo)), tighter(narrow.most, int64(hi))
	}
	return narrow, ok
}

// lengthLook returns n without the lookahead that it begins with, and the lengths of whole
// texts that are enough for that lookahead. rest is nil if there is no such lookahead.
func (n *rx) lengthLook() (rest *rx, lo, hi int32) {
	if n.kind != rxCat || len(n.subs) < 3 || n.subs[0].kind != rxBegin || n.subs[len(n.subs)-1].kind != rxEnd {
		return nil, 0, 0
	}
	look := n.subs[1]
	if look.kind != rxLook || look.back || look.not || look.subs[0].kind != rxCat {
		return nil, 0, 0
	}
	parts := look.subs[0].subs
	if len(parts) < 2 || parts[0].kind != rxRepeat || parts[0].subs[0].kind != rxSet || parts[0].hi < 0 || parts[len(parts)-1].kind != rxEnd {
		return nil, 0, 0
	}
	for _, p := range parts[1 : len(parts)-1] {
		if p.kind != rxRepeat || p.lo > 0 {
			return nil, 0, 0
		}
	}
	// The lookahead counts characters of a set, so no others may be read.
	others := parts[0].subs[0].set.invert()
	rest = &rx{kind: rxCat, subs: append([]*rx{n.subs[0]}, n.subs[2:]...)}
	if rest.contains(func(n *rx) bool { return n.kind == rxLook || n.kind == rxSet && n.set.meets(others) }) {
		return nil, 0, 0
	}
	return rest, parts[0].lo, parts[0].hi
}

// meets reports whether s and t have a character in common.
func (s runeSet) meets(t runeSet) bool {
	return slices.ContainsFunc(s, func(a [2]rune) bool {
		return slices.ContainsFunc(t, func(b [2]rune) bool { return a[0] <= b[1] && b[0] <= a[1] })
	})
}
