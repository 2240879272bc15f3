package grammar

import (
	"cmp"
	"slices"
)

// A string with a pattern or a format and with bounds on its length. To run the automaton
// of the language beside one that counts to maxLength would multiply their states, and
// with 2,083 characters for a URI there are soon a million. So the automaton becomes a
// rule that counts its characters with the two counters of its frame.
//
// A counter alone would lead into dead ends: with maxLength 10, a mail address that has
// nine characters before its @ cannot be completed any more. So each state of the
// automaton knows how many more characters a text can have from there, at least and at
// most, and is entered only if the counters agree to that.

// lengthRange is how many characters a text can still have.
type lengthRange struct {
	least int32
	most  int32 // noBound: any number
}

const noBound = int32(1<<31 - 1)

// add is r with n more characters.
func (r lengthRange) add(n int32) lengthRange {
	r.least += n
	if r.most != noBound {
		r.most += n
	}
	return r
}

// textGraph is a language as it is spelled in JSON: an automaton over the bytes of the rest
// of a string, of which each state is either between two characters or inside of one.
type textGraph struct {
	edges   [][]edge
	accept  []bool // the closing quote may follow
	between []bool // the state is between two characters
	ranges  []lengthRange
	held    int64 // bytes that are accounted for it
}

// cost is the number of characters that begin with an edge of state s.
func (g *textGraph) cost(s int32) int32 {
	if g.between[s] {
		return 1
	}
	return 0
}

// newTextGraph spells the texts of d, which is not empty.
func newTextGraph(d *dfa, m *meter) *textGraph {
	b := newBuilder(nil, 1<<30, m)
	anyText := *d
	anyText.all = -1 // the rule for the rest of any string has counters of its own
	from := b.state()
	end, at := b.jsonStates(&anyText)
	b.eps(from, at[0])
	g := &textGraph{held: stateBytes * int64(len(b.states))}
	number := make([]int32, len(b.states))
	for i := range number {
		number[i] = -1
	}
	var list []int32
	place := func(s int32) int32 {
		if number[s] < 0 {
			number[s] = int32(len(list))
			list = append(list, s)
		}
		return number[s]
	}
	place(at[0])
	isBetween := make([]bool, len(b.states))
	for i, s := range at {
		isBetween[s] = !d.insideCharacter(int32(i))
	}
	for i := 0; i < len(list); i++ {
		m.spend(1 + len(b.states[list[i]].edges))
		var edges []edge
		accept := false
		for _, e := range b.states[list[i]].edges {
			if e.to == end {
				accept = true
			} else {
				edges = append(edges, edge{e.lo, e.hi, place(e.to)})
			}
		}
		g.edges, g.accept = append(g.edges, edges), append(g.accept, accept)
		g.between = append(g.between, isBetween[list[i]])
	}
	g.measure(m)
	return g
}

// insideCharacter reports whether the bytes that lead to s end in the middle of a
// character.
func (d *dfa) insideCharacter(s int32) bool {
	es := d.states[s].edges
	return len(es) > 0 && es[0].lo >= 0x80 && es[0].lo < 0xC0
}

// measure fills ranges.
func (g *textGraph) measure(m *meter) {
	n := len(g.edges)
	g.ranges = make([]lengthRange, n)
	preds := make([][]int32, n)
	for s := range g.edges {
		g.ranges[s] = lengthRange{least: noBound, most: -1}
		for _, e := range g.edges[s] {
			preds[e.to] = append(preds[e.to], int32(s))
		}
		m.spend(len(g.edges[s]))
	}
	g.measureLeast(preds, m)
	g.measureMost(preds, m)
}

// measureLeast finds the fewest characters, by a search backwards from the ends, with those
// of equal distance at a time. preds are the states before each state.
func (g *textGraph) measureLeast(preds [][]int32, m *meter) {
	var level []int32
	for s := range g.accept {
		if g.accept[s] {
			g.ranges[s].least = 0
			level = append(level, int32(s))
		}
	}
	for dist := int32(0); len(level) > 0; dist++ {
		var next []int32
		for i := 0; i < len(level); i++ {
			if g.ranges[level[i]].least < dist {
				continue // it was reached on a shorter way
			}
			for _, p := range preds[level[i]] {
				m.spend(1)
				d := dist + g.cost(p)
				if g.ranges[p].least <= d {
					continue
				}
				if g.ranges[p].least = d; d == dist {
					level = append(level, p)
				} else {
					next = append(next, p)
				}
			}
		}
		level = next
	}
}

// measureMost finds the most characters, in an order in which all successors of a state are
// known before it. What is left over then is on a loop or leads to one.
func (g *textGraph) measureMost(preds [][]int32, m *meter) {
	open := make([]int, len(g.edges))
	var ready []int32
	for s := range g.edges {
		g.ranges[s].most = noBound
		if open[s] = len(g.edges[s]); open[s] == 0 {
			ready = append(ready, int32(s))
		}
	}
	for i := 0; i < len(ready); i++ {
		s := ready[i]
		most := int32(0)
		for _, e := range g.edges[s] {
			most = max(most, g.ranges[e.to].most+g.cost(s))
		}
		g.ranges[s].most = most
		for _, p := range preds[s] {
			m.spend(1)
			if open[p]--; open[p] == 0 {
				ready = append(ready, p)
			}
		}
	}
}

// dense reports whether from every state of g, of gap+1 lengths in a row that lie between
// the least and the most one, the text can have one. For that it is enough that there are
// never more than gap lengths missing between the ranges of the states that follow a state.
// (By induction: if a run of gap+1 lengths of a state has one in common with the range of a
// state that follows, then the same run, without the character in between, is a run for
// that state, and either it is shorter or closer to the end of its character.)
func (g *textGraph) dense(gap int64, m *meter) bool {
	var parts []lengthRange
	for s := range g.edges {
		parts = parts[:0]
		if g.accept[s] {
			parts = append(parts, lengthRange{})
		}
		for _, e := range g.edges[s] {
			parts = append(parts, g.ranges[e.to].add(g.cost(int32(s))))
		}
		m.spend(len(parts))
		slices.SortFunc(parts, func(a, b lengthRange) int { return cmp.Compare(a.least, b.least) })
		end := int64(parts[0].most)
		for _, p := range parts[1:] {
			if int64(p.least)-end-1 > gap {
				return false
			}
			end = max(end, int64(p.most))
		}
	}
	return true
}

// countedString reads the rest of a JSON string, with the closing quote, whose text is in d and
// has least to most characters (most -1: no bound). It reports false if that needs more
// than counters: if the texts of d have certain lengths only, and least and most are closer
// together than these.
func (b *builder) countedString(from int32, d *dfa, least, most int64) (int32, bool) {
	if d.empty() {
		return b.state(), true
	}
	g := newTextGraph(d, b.meter)
	defer b.free(g.held)
	if least > 0 && most >= 0 && !g.dense(most-least, b.meter) {
		return 0, false
	}
	c := countedText{b: b, g: g, least: least, most: most}
	if r := g.ranges[0]; most >= 0 && int64(r.least) > most || int64(r.most) < least {
		return b.state(), true
	}
	return b.callN(from, c.rule(), int32(least), int32(most)), true
}

// countedText makes the rule for a textGraph.
type countedText struct {
	b           *builder
	g           *textGraph
	least, most int64
	at          []int32           // the states of the rule that stand for those of g
	entries     map[entryTo]int32 // the states before them
}

// entryTo is a way to get to state s of the graph.
type entryTo struct {
	s      int32
	counts bool // a character has begun
}

// rule reads the rest of a string.
func (c *countedText) rule() int32 {
	b, g := c.b, c.g
	r := b.rule()
	c.at, c.entries = make([]int32, len(g.edges)), make(map[entryTo]int32)
	for i := range c.at {
		c.at[i] = b.state()
	}
	b.eps(b.start(r), c.at[0])
	quote := b.state()
	b.accept(b.lit(quote, `"`))
	for i := range g.edges {
		s := int32(i)
		if g.accept[s] {
			b.step(c.at[s], step{kind: stepGuard, to: quote})
		}
		for _, e := range g.edges[s] {
			b.edge(c.at[s], e.lo, e.hi, c.entry(s, e.to))
		}
	}
	return r
}

// entry is the state that an edge from s to the state to of the graph leads to: the one
// that stands for it, after a tick if a character has begun, and after a check of the
// counters if they may forbid it.
func (c *countedText) entry(s, to int32) int32 {
	b, g := c.b, c.g
	counts := g.cost(s) > 0
	if !counts && g.ranges[to] == g.ranges[s] {
		return c.at[to] // the counters have been checked at s
	}
	key := entryTo{to, counts}
	if in, ok := c.entries[key]; ok {
		return in
	}
	check := step{kind: stepCheck, to: c.at[to]}
	if counts {
		check.kind = stepTick
	}
	if c.most >= 0 {
		check.left = g.ranges[to].least
	}
	if m := int64(g.ranges[to].most); m < c.least {
		check.need = int32(m) + 1
	}
	if !counts && check.left == 0 && check.need == 0 {
		return c.at[to]
	}
	in := b.state()
	b.step(in, check)
	c.entries[key] = in
	return in
}
