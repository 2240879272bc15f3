package grammar

import (
	"cmp"
	"slices"
)

// A grammar is ambiguous if a text has several parses. Each of them is a stack of its
// position, and a careless grammar (`s ::= s s | "a" | ""`) has more of them with every
// byte. This file keeps the work within bounds, in four ways.
//
//   - Stacks that can read the same texts become one where that is easy to see
//     (network.folds, joinCounts).
//   - After a token, at most bounds.stacks of the stacks are kept (thinned). The others are
//     parses that are not followed any further. Each stack can be completed on its own, so
//     this excludes some texts, but it allows no wrong one and leads into no dead end.
//   - A step over one byte takes at most bounds.step visits. A byte that would need more
//     is not legal.
//   - A mask takes at most bounds.mask visits. If it would need more, Fill reports
//     ErrTooComplex.
//
// Fill and Accept must agree, for otherwise a token that was drawn is refused. Without the
// third bound they do: a shape is walked from the upper part of the stacks alone, but what
// is above and what is below the base does not depend on each other. The bound, however,
// could be passed by a whole position and not by its parts. So each step counts its visits.
// Each frame of a step from the whole position either comes from one above the base, and so
// from one in the relative position, or is there because base was popped, after one of a
// few bytes. Therefore
//
//   - a token that is legal without a pop of the base is always accepted: if the steps from
//     the whole position take too many visits, Accept leaves out all that pops the base
//     (readAbove), and the rest takes no more visits than it has in the relative position;
//   - a token that is legal only after a pop is accepted because Fill takes the shape only
//     if the visits of both parts together are within the bound.
//
// Otherwise Fill walks the trie from the position itself (fillDirectly), by the same steps
// as Accept. Whether a step passes the bound depends on the states in the stacks alone, and
// not on what was built before.
//
// Two frames may become one in the relative position when their counters are clipped. Then
// a step from the position may take as many times the visits. That is known for the frames
// as they are (split.merged), and no more of them become equal later: only where it makes
// no difference (loose) a limit is clipped to none, and otherwise the clipped counters stay
// different for as long as a token is.

// Real schemas have up to 140 stacks, for anyOf with as many alternatives, and their steps
// take as many visits. A visit takes 0.05 to 0.4 µs, so a step takes some milliseconds at
// most, and a mask half a second or so. Masks of JSON take some ten thousand visits.
const (
	maxStacks     = 1024      // parses that are followed from one token to the next
	maxStepVisits = 16_384    // visits of a step over one byte
	maxMaskVisits = 2_000_000 // visits that a mask takes
)

// bounds are those of a machine. Only tests have others than the default.
type bounds struct {
	stacks int
	step   int32
	mask   int64
}

var defaultBounds = bounds{maxStacks, maxStepVisits, maxMaskVisits}

// tooMany is the cost of a shape that has no tokens because its walk was given up.
const tooMany = 1 << 40

// read is the position after the text t of a token, or dead.
func (m *machine) read(p *position, t []byte) *position {
	q := p
	for _, b := range t {
		before := q
		if q = m.step(q, b); q != dead {
			continue
		}
		if before.cost.Load() > m.bounds.step {
			return m.readAbove(p, t)
		}
		break
	}
	return q
}

// readAbove is read without what pops the base of p.
func (m *machine) readAbove(p *position, t []byte) *position {
	base := m.splitOf(p).base
	for i := 0; i < len(t) && p != dead; i++ {
		p, _ = m.stepAbove(p, t[i], base)
	}
	return p
}

// stepAbove is step without what pops base. It is not remembered.
func (m *machine) stepAbove(p *position, b byte, base *frame) (n *position, visits int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	frames := m.readers(p, m.net.class[b])
	if len(frames) == 0 {
		return dead, 0
	}
	if base.depth > 0 {
		m.floor = m.adopt(base)
		defer func() { m.floor = nil }()
	}
	return m.close(frames)
}

// fillDirectly writes the mask of p by a walk through the trie from p itself. undecided
// reports that there are tokens whose steps would take too many visits.
func (m *machine) fillDirectly(p *position, mask []uint32, pace Pace) (undecided bool) {
	if p.gaveUp.Load() {
		fail(ErrTooComplex, "", "too ambiguous: a mask takes too much work")
	}
	clear(mask)
	nodes := m.voc.nodes
	every := paceEvery(m, pace)
	base := m.splitOf(p).base
	var w path
	w.at[0] = p
	above := uint8(0) // the depth from which on the walk leaves out what pops base; 0: nowhere
	for i := 0; i < len(nodes); {
		every.call()
		n := &nodes[i]
		if n.depth <= above {
			above = 0
		}
		var s *position
		if above > 0 {
			var visits int32
			s, visits = m.stepAbove(w.at[n.depth-1], n.b, base)
			w.spent += int64(visits)
		} else if s = w.step(m, n.depth, n.b); s == dead && w.at[n.depth-1].cost.Load() > m.bounds.step {
			undecided, above = true, n.depth
			s = m.readAbove(p, m.voc.tokens[m.voc.tokensBelow(i)[0]][:n.depth])
			w.spent += int64(m.bounds.step) // about so many visits, at most
		}
		m.spendVisits()
		if w.spent > m.bounds.mask {
			p.gaveUp.Store(true)
			fail(ErrTooComplex, "", "too ambiguous: a mask takes too much work")
		}
		if s == dead {
			i += int(n.skip)
			continue
		}
		w.enter(n.depth, s)
		if n.token >= 0 {
			m.voc.set(mask, n.token)
		}
		i++
	}
	return undecided
}

// spendVisits spends the visits since the last call from the budget of the compilation that
// builds the first mask.
func (m *machine) spendVisits() {
	if m.meter != nil {
		visits := m.visits.Load()
		m.meter.spend(int(visits - m.metered))
		m.metered = visits
	}
}

// thinned is p with the smallest of its stacks, if there are more than may be. The order
// of the stacks does not depend on when they were made, so a text that is read a second
// time leads to the same stacks.
func (m *machine) thinned(p *position) *position {
	if len(p.tops) <= m.bounds.stacks {
		return p
	}
	if t := p.thin.Load(); t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tops := slices.Clone(p.tops)
	slices.SortFunc(tops, compareStacks)
	t := m.position(tops[:m.bounds.stacks], p.accept, p.pops)
	p.thin.Store(t)
	return t
}

// compareStacks orders stacks of one machine by their size and what is in them.
func compareStacks(a, b *frame) int {
	if c := cmp.Compare(a.depth, b.depth); c != 0 {
		return c
	}
	for a != b && a.depth > 0 {
		if c := cmp.Or(cmp.Compare(a.st, b.st), cmp.Compare(a.need, b.need), cmp.Compare(a.left, b.left)); c != 0 {
			return c
		}
		if c := compareRecords(a.rec, b.rec); c != 0 {
			return c
		}
		a, b = a.parent, b.parent
	}
	return 0
}

// adopt returns f for the present round of the machine. If everything was forgotten since f
// was made, frames are made again with the same states as those of f's stack. Without this
// a position could have two stacks that are equal but for the time when they were made, and
// after each time that everything is forgotten twice as many. The caller holds mu.
func (m *machine) adopt(f *frame) *frame {
	if f.depth == 0 || f.round == m.rounds {
		return f
	}
	if f.heir == nil || f.heir.round != m.rounds {
		k := f.frameKey
		k.parent = m.adopt(f.parent)
		f.heir = m.frame(k)
	}
	return f.heir
}

// maxFold bounds how many states network.folds looks at for one call.
const maxFold = 64

// folds marks the calls that return to a state which can stand for two of itself. That is a
// state in which its rule can end, and from which all ways to an end of the rule lead back
// to it, as after an item of `root ::= root root | "a"` in its form without left recursion,
// `root ::= "a" root*`. A frame in such a state whose caller's frame is in the same state
// reads what either of them reads alone: any number of the same items. So the second frame
// is left out, and the text "aaa" has one stack instead of three.
func (n *network) folds(b *builder) {
	known := make(map[int32]bool)
	for i := range n.states {
		for k := range n.states[i].steps {
			s := &n.states[i].steps[k]
			if s.kind != stepCall || s.tail || !n.at(s.to).accept {
				continue
			}
			folds, ok := known[s.to]
			if !ok {
				folds = n.foldsAt(s.to, b)
				known[s.to] = folds
			}
			s.folds = folds
		}
	}
}

// foldsAt reports whether the state q, which accepts, is the only one from there on that
// does, and nothing is counted.
func (n *network) foldsAt(q int32, b *builder) bool {
	list := []int32{q}
	visit := func(s int32) {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	for i := 0; i < len(list) && len(list) <= maxFold; i++ {
		st := n.at(list[i])
		b.spend(1 + len(st.edges) + len(st.steps))
		if i > 0 && st.accept {
			return false
		}
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, s := range st.steps {
			if s.kind != stepCall {
				return false
			}
			visit(s.to)
		}
	}
	return len(list) <= maxFold
}

// joinCounts joins the stacks in tops that differ in nothing but the counters of one frame,
// the one at the given depth below the top, if their counters allow numbers of ticks that
// overlap or follow each other. A frame in such a state reads what any of them reads. So
// `([a-z]+ ","?){1,50}` has two stacks and not one for each way in which a word can be cut.
// The caller holds mu.
func (m *machine) joinCounts(depth int) {
	if len(m.tops) < 2 {
		return
	}
	list, others := m.counting[:0], m.tops[:0]
	for _, f := range m.tops {
		if c := f.below(depth); m.joinable(f, c) {
			list = append(list, f)
		} else {
			others = append(others, f)
		}
	}
	m.counting = list
	if len(list) < 2 {
		m.tops = append(others, list...)
		return
	}
	slices.SortFunc(list, func(f, g *frame) int {
		return cmp.Or(compareButCounts(f, g, depth), cmp.Compare(f.below(depth).need, g.below(depth).need))
	})
	for len(list) > 0 {
		k := list[0].below(depth).frameKey
		n := 1
		for ; n < len(list) && compareButCounts(list[0], list[n], depth) == 0 && k.join(list[n].below(depth)); n++ {
		}
		f := list[0]
		if n > 1 {
			f = m.frame(k)
			if depth == 1 {
				top := list[0].frameKey
				top.parent = f
				f = m.frame(top)
			}
		}
		others, list = append(others, f), list[n:]
	}
	m.tops = others
}

// joinable reports whether the counters of c, which is the frame f or the one below it, may
// be joined with those of others: nothing but the end of a counter depends on them, and
// neither frame has values that must differ.
func (m *machine) joinable(f, c *frame) bool {
	return c.depth > 0 && (c.need > 0 || c.left >= 0) && f.rec == nil && c.rec == nil && m.net.at(c.st).slack == 0
}

// below is the frame that is so many frames below f: none or one.
func (f *frame) below(depth int) *frame {
	if depth == 1 {
		return f.parent
	}
	return f
}

// compareButCounts orders stacks by all but the counters of the frames at the given depth.
func compareButCounts(f, g *frame, depth int) int {
	c, d := f.below(depth), g.below(depth)
	o := cmp.Or(cmp.Compare(c.st, d.st), cmp.Compare(c.parent.id, d.parent.id))
	if depth == 1 {
		o = cmp.Or(o, cmp.Compare(f.st, g.st), cmp.Compare(f.need, g.need), cmp.Compare(f.left, g.left))
	}
	return o
}

// join lets k tick as often as f may, too. It reports false if that would allow numbers that
// neither allows. f needs as many ticks as k, or more.
func (k *frameKey) join(f *frame) bool {
	if k.left < 0 {
		return true
	}
	if f.need > k.left+1 {
		return false
	}
	if f.left < 0 || f.left > k.left {
		k.left = f.left
	}
	return true
}

// loose reports whether the upper limit of a frame can be left out when it is so far away
// that no token reaches it. Either there is no doubt about how often the frame has ticked,
// or the frames that differ in that are joined in any case, because what they allow overlaps.
func (m *machine) loose(k frameKey) bool {
	st := m.net.at(k.st)
	return st.sure || st.flat && st.slack == 0 && k.rec == nil && (k.need == 0 || k.left < 0 || k.left-k.need >= m.voc.longest)
}

// sure marks the states of a counted rule. They are flat if the rule calls no other rule, and
// sure if, moreover, from each of them every byte leads on in one way: then what a frame has
// read and the state that it is in leave one possibility for how often it has ticked.
func (n *network) sure(states []int32, b *builder) {
	for _, s := range states {
		if slices.ContainsFunc(n.at(s).steps, func(p step) bool { return p.kind == stepCall }) {
			return
		}
	}
	sure := !slices.ContainsFunc(states, func(s int32) bool { return !n.onlyWay(s, b) })
	for _, s := range states {
		n.at(s).sure, n.at(s).flat = sure, true
	}
}

// onlyWay reports whether from s, in a rule without calls, every byte leads on in one way
// through any ticks and guards.
func (n *network) onlyWay(s int32, b *builder) bool {
	list := []int32{s}
	var seen [4]uint64 // the bytes that have a way
	for i := 0; i < len(list); i++ {
		st := n.at(list[i])
		b.spend(1 + len(st.edges) + len(st.steps))
		for _, e := range st.edges {
			for c := int(e.lo); c <= int(e.hi); c++ {
				if seen[c>>6]>>(c&63)&1 == 1 {
					return false
				}
				seen[c>>6] |= 1 << (c & 63)
			}
		}
		for _, p := range st.steps {
			if slices.Contains(list, p.to) {
				return false
			}
			list = append(list, p.to)
		}
	}
	return true
}
