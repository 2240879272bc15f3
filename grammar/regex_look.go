package grammar

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// What an assertion of a regular expression (^, $, lookahead, lookbehind, a word boundary)
// says of the text around it is a question about regular languages, so a pattern with
// assertions is regular. An automaton with assertions becomes one without by remembering
// them in its states:
//
//   - whether anything has been read (for ^), and whether $ has been passed;
//   - for each lookbehind, the state of an automaton for the texts that end with a match of
//     it, which has run along from the beginning;
//   - for each lookahead that was passed, the state of an automaton for the texts that begin
//     with a match of it, which runs along from there. Where the text ends it must accept or,
//     if the lookahead is negative, must not.

// look is a lookahead or a lookbehind.
type look struct {
	not  bool
	back bool
	// With a lookahead, dfas[0] is for where nothing has been read, so that ^ in it holds, and
	// dfas[1] for elsewhere. A lookbehind has dfas[0] alone.
	dfas [2]*dfa
}

// wordBoundary is \b or, with not, \B, in terms of lookaround.
func wordBoundary(not bool) *rx {
	word := &rx{kind: rxSet, set: wordChars}
	side := func(back, no bool) *rx { return &rx{kind: rxLook, back: back, not: no, subs: []*rx{word}} }
	both := func(before, after bool) *rx {
		return &rx{kind: rxCat, subs: []*rx{side(true, !before), side(false, !after)}}
	}
	return &rx{kind: rxAlt, subs: []*rx{both(true, not), both(false, !not)}}
}

// contains reports whether n or a part of it is of a kind for which is is true.
func (n *rx) contains(is func(n *rx) bool) bool {
	return is(n) || slices.ContainsFunc(n.subs, func(s *rx) bool { return s.contains(is) })
}

// notBegun is n where something has been read already: ^ matches nothing.
func (n *rx) notBegun() *rx {
	if n.kind == rxBegin {
		return &rx{kind: rxSet} // no character
	}
	c := *n
	c.subs = make([]*rx, len(n.subs))
	for i, s := range n.subs {
		c.subs[i] = s.notBegun()
	}
	return &c
}

// look makes the automata of the lookaround n.
func (b *builder) look(n *rx) *look {
	l := &look{not: n.not, back: n.back}
	sub := n.subs[0]
	var ok bool
	if n.back {
		l.dfas[0], ok = partDFA(sub, true, false, b)
	} else if l.dfas[0], ok = partDFA(sub, false, true, b); ok {
		l.dfas[1] = l.dfas[0]
		if sub.contains(func(n *rx) bool { return n.kind == rxBegin }) {
			l.dfas[1], ok = partDFA(sub.notBegun(), false, true, b)
		}
	}
	if !ok {
		fail(ErrTooComplex, "", "regular expression: the lookaround needs too many states")
	}
	return l
}

// unlooked is the removal of assertions from the automaton of b.
type unlooked struct {
	b, res *builder
	looks  []*look
	backs  []int32          // the lookbehinds, as indices of looks
	all    int32            // see layers
	plain  []int32          // one more than the state of the result for a state and its flags, without lookarounds; 0: none yet
	index  map[string]int32 // of the others
	list   []lookAt
	key    []byte
}

// lookAt is a state of the result.
type lookAt struct {
	s     int32
	read  bool    // something has been read
	over  bool    // $ has been passed
	back  []int32 // the states of the automata of backs; -1: it has given up
	ahead []ahead // the lookaheads that were passed and are not decided, in order
}

// ahead is a lookahead on its way: the state of one of its automata.
type ahead struct{ look, at, dfa int32 }

// layers removes the assertions from the automaton of b, which begins at start. The state
// all, from which every text is accepted, stays one state, but for lookaheads that are not
// decided.
func (b *builder) layers(start, all int32, looks []*look) (res *builder, from, newAll int32) {
	u := &unlooked{b: b, res: newBuilder(nil, 4*dfaLimit, b.meter), looks: looks, all: all, plain: make([]int32, 4*len(b.states)), index: make(map[string]int32)}
	first := lookAt{s: start}
	for i, l := range looks {
		if !l.back {
			continue
		}
		u.backs = append(u.backs, int32(i))
		at := int32(0)
		if l.dfas[0].empty() {
			at = -1
		}
		first.back = append(first.back, at)
	}
	from = u.place(first)
	for i := 0; i < len(u.list); i++ {
		u.expand(u.list[i])
	}
	newAll = -1
	if all >= 0 {
		newAll = *u.plainAt(lookAt{s: all, read: true}) - 1
	}
	return u.res, from, newAll
}

// flags are a.read and a.over as a number.
func (a lookAt) flags() byte {
	flags := byte(0)
	if a.read {
		flags |= 1
	}
	if a.over {
		flags |= 2
	}
	return flags
}

// plainAt is the place for a, which has no lookarounds, in u.plain.
func (u *unlooked) plainAt(a lookAt) *int32 { return &u.plain[4*int(a.s)+int(a.flags())] }

func (u *unlooked) keyOf(a lookAt) string {
	k := append(u.key[:0], a.flags())
	k = binary.AppendVarint(k, int64(a.s))
	k = binary.AppendUvarint(k, uint64(len(a.back)))
	for _, s := range a.back {
		k = binary.AppendVarint(k, int64(s))
	}
	for _, h := range a.ahead {
		k = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(k, int64(h.look)), int64(h.at)), int64(h.dfa))
	}
	u.key = k
	return string(k)
}

// place is the state of the result for a.
func (u *unlooked) place(a lookAt) int32 {
	if a.s == u.all { // no assertion follows
		a.read, a.back = true, nil
	}
	if len(a.back)+len(a.ahead) == 0 {
		at := u.plainAt(a)
		if *at == 0 {
			*at = u.add(a) + 1
		}
		return *at - 1
	}
	key := u.keyOf(a)
	s, ok := u.index[key]
	if !ok {
		s = u.add(a)
		u.index[key] = s
	}
	return s
}

// add makes a state of the result for a.
func (u *unlooked) add(a lookAt) int32 {
	u.b.spend(8 * (1 + len(a.back) + len(a.ahead)))
	u.list = append(u.list, a)
	return u.res.state()
}

func (u *unlooked) expand(a lookAt) {
	s, st := u.place(a), &u.b.states[a.s]
	u.res.states[s].accept = st.accept && !slices.ContainsFunc(a.ahead, func(h ahead) bool {
		return u.dfa(h).states[h.at].accept == u.looks[h.look].not
	})
	if !a.over {
		for _, e := range st.edges {
			u.edge(s, a, e)
		}
	}
	for _, p := range st.steps {
		to := a
		to.s = p.to
		switch p.kind {
		case stepEps:
		case stepTick: // ^
			if a.read {
				continue
			}
		case stepGuard: // $
			to.over = true
		case stepCheck:
			var ok bool
			if to.ahead, ok = u.pass(a, p.rule); !ok {
				continue
			}
		}
		u.res.eps(s, u.place(to))
	}
}

func (u *unlooked) dfa(h ahead) *dfa { return u.looks[h.look].dfas[h.dfa] }

// pass goes past the lookaround number i: it returns the lookaheads that are on their way
// then, and reports whether it can be passed.
func (u *unlooked) pass(a lookAt, i int32) ([]ahead, bool) {
	l := u.looks[i]
	if l.back {
		k := slices.Index(u.backs, i)
		matches := a.back[k] >= 0 && l.dfas[0].states[a.back[k]].accept
		return a.ahead, matches != l.not
	}
	h := ahead{look: i}
	if a.read {
		h.dfa = 1
	}
	if u.dfa(h).empty() {
		h.at = -1
	}
	return u.with(a.ahead, h)
}

// with adds h to the lookaheads on their way, unless it is decided. It reports false if
// it is decided that the text must not go on like this.
func (u *unlooked) with(list []ahead, h ahead) ([]ahead, bool) {
	l := u.looks[h.look]
	switch {
	case h.at < 0:
		return list, l.not
	case h.at == u.dfa(h).all:
		return list, !l.not
	}
	if slices.Contains(list, h) {
		return list, true
	}
	list = append(slices.Clip(list), h)
	slices.SortFunc(list, func(a, b ahead) int {
		return int(a.look-b.look)<<20 + int(a.dfa-b.dfa)<<19 + int(a.at-b.at)
	})
	return list, true
}

// edge adds the edge e of the state of a. It is split where the automata that run along go
// to different states.
func (u *unlooked) edge(s int32, a lookAt, e edge) {
	cuts := []int{int(e.lo), int(e.hi) + 1}
	cut := func(d *dfa, at int32) {
		if at < 0 {
			return
		}
		for _, f := range d.states[at].edges {
			for _, c := range [...]int{int(f.lo), int(f.hi) + 1} {
				if int(e.lo) < c && c <= int(e.hi) {
					cuts = append(cuts, c)
				}
			}
		}
	}
	if e.to != u.all { // no lookbehind can follow
		for k, at := range a.back {
			cut(u.looks[u.backs[k]].dfas[0], at)
		}
	}
	for _, h := range a.ahead {
		cut(u.dfa(h), h.at)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	u.b.spend(len(cuts) * (1 + len(a.back) + len(a.ahead)))
	for k := 0; k+1 < len(cuts); k++ {
		c := byte(cuts[k])
		if to, ok := u.after(a, e.to, c); ok {
			u.res.edge(s, c, byte(cuts[k+1]-1), u.place(to))
		}
	}
}

// after is where a is after the byte c, which leads the automaton of b to the state to.
func (u *unlooked) after(a lookAt, to int32, c byte) (lookAt, bool) {
	res := lookAt{s: to, read: true, back: make([]int32, len(a.back))}
	for k, at := range a.back {
		if res.back[k] = -1; at >= 0 {
			res.back[k] = u.looks[u.backs[k]].dfas[0].next(at, c)
		}
	}
	for _, h := range a.ahead {
		h.at = u.dfa(h).next(h.at, c)
		var ok bool
		if res.ahead, ok = u.with(res.ahead, h); !ok {
			return res, false
		}
	}
	return res, true
}

// partDFA is the language of the texts in which a match of n begins anywhere, or only at
// the beginning if before is false, and ends anywhere, or only at the end if after is false.
// It reports false if there would be too many states.
func partDFA(n *rx, before, after bool, outer *builder) (d *dfa, ok bool) {
	b := newBuilder(nil, 8*dfaLimit, outer.meter)
	defer orTooLarge(&d, &ok)
	n = n.fewest(before, after)
	start := b.state()
	at, all := start, int32(-1)
	if before {
		b.runeRange(start, start, 0, utf8.MaxRune)
		at = b.state()
		b.eps(start, at)
	}
	var looks []*look
	at = b.rx(at, n, lowering{leaf: b.utf8Leaf, looks: &looks})
	if after {
		all = b.state()
		b.eps(at, all)
		b.runeRange(all, all, 0, utf8.MaxRune)
		at = all
	}
	b.accept(at)
	if n.hasAnchor() {
		b, start, all = b.layers(start, all, looks)
	}
	return makeDFA(b, start, all)
}

// fewest is a pattern that matches in the same texts as n, if a match may begin anywhere
// (before) or end anywhere (after): where something is repeated there, more than the least
// number of times makes no difference. [a-z]{1,3000}x is found wherever [a-z]x is. (The
// assertions in what is left are about the text, and not about where the match begins.)
func (n *rx) fewest(before, after bool) *rx {
	if !before && !after {
		return n
	}
	switch n.kind {
	case rxRepeat:
		c := *n
		c.hi = c.lo
		return &c
	case rxAlt:
		c := *n
		c.subs = make([]*rx, len(n.subs))
		for i, s := range n.subs {
			c.subs[i] = s.fewest(before, after)
		}
		return &c
	case rxCat:
		c := *n
		c.subs = slices.Clone(n.subs)
		for before && len(c.subs) > 0 {
			if c.subs[0] = c.subs[0].fewest(true, false); !c.subs[0].nothing() {
				break
			}
			c.subs = c.subs[1:]
		}
		for after && len(c.subs) > 0 {
			last := len(c.subs) - 1
			if c.subs[last] = c.subs[last].fewest(false, true); !c.subs[last].nothing() {
				break
			}
			c.subs = c.subs[:last]
		}
		return &c
	}
	return n
}

// nothing reports whether n matches the empty text and nothing else, as far as it is easy to
// see.
func (n *rx) nothing() bool {
	return n.kind == rxCat && len(n.subs) == 0 || n.kind == rxRepeat && n.hi == 0
}

// orTooLarge, when deferred, turns the failure of a construction for its size into ok false.
func orTooLarge(d **dfa, ok *bool) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		if r.Kind != ErrTooComplex {
			panic(r)
		}
		*d, *ok = nil, false
	default:
		panic(r)
	}
}
