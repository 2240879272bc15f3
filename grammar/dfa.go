package grammar

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// dfa is a regular language of decoded texts (for a JSON string, what its escapes
// stand for), as a deterministic automaton over UTF-8 that begins in state 0. Its
// states have only edges, which are sorted and do not overlap, and an accepting state
// can be reached from each of them. The empty language has no states.
type dfa struct {
	states []state
	all    int32 // the state from which every text is accepted, or -1
}

// dfaLimit bounds the states of one language. A pattern that needs more is refused
// where it has to be combined with something else. Elsewhere it is lowered without a
// dfa.
const dfaLimit = 12_000

// makeDFA determinizes the automaton of b that begins at from. all is its state from
// which every text is accepted, or -1. It reports false if there would be more than
// dfaLimit states.
func makeDFA(b *builder, from, all int32) (*dfa, bool) {
	d := newSubsets(b, nil, 0)
	d.absorb = all
	if _, ok := d.run(from, dfaLimit); !ok {
		return nil, false
	}
	res := &dfa{states: d.out, all: -1}
	if all >= 0 {
		for i, set := range d.sets {
			if slices.Contains(set, all) {
				res.all = int32(i)
			}
		}
	}
	return res.trim(), true
}

// predecessors are the states before each state, one list after the other, and the ends of
// these lists.
func (d *dfa) predecessors() (preds, ends []int32) {
	ends = make([]int32, len(d.states)+1)
	for i := range d.states {
		for _, e := range d.states[i].edges {
			ends[e.to+1]++
		}
	}
	for i := range d.states {
		ends[i+1] += ends[i]
	}
	preds = make([]int32, ends[len(d.states)])
	for i := range d.states {
		for _, e := range d.states[i].edges {
			preds[ends[e.to]] = int32(i) // what was the beginning of a list becomes its end
			ends[e.to]++
		}
	}
	return preds, ends
}

// trim drops the states from which no accepting state can be reached.
func (d *dfa) trim() *dfa {
	preds, ends := d.predecessors()
	live := make([]bool, len(d.states))
	var list []int32
	for i := range d.states {
		if d.states[i].accept {
			live[i] = true
			list = append(list, int32(i))
		}
	}
	for i := 0; i < len(list); i++ {
		first := int32(0)
		if s := list[i]; s > 0 {
			first = ends[s-1]
		}
		for _, p := range preds[first:ends[list[i]]] {
			if !live[p] {
				live[p] = true
				list = append(list, p)
			}
		}
	}
	if len(list) == 0 {
		return &dfa{all: -1}
	}
	if len(list) == len(d.states) {
		return d
	}
	at := make([]int32, len(d.states))
	res := &dfa{all: -1}
	for i := range d.states {
		if at[i] = -1; live[i] {
			at[i] = int32(len(res.states))
			res.states = append(res.states, state{accept: d.states[i].accept})
		}
	}
	for i := range d.states {
		if !live[i] {
			continue
		}
		s := &res.states[at[i]]
		for _, e := range d.states[i].edges {
			if live[e.to] {
				s.edges = append(s.edges, edge{e.lo, e.hi, at[e.to]})
			}
		}
	}
	if d.all >= 0 {
		res.all = at[d.all]
	}
	return res
}

func (d *dfa) empty() bool { return len(d.states) == 0 }

// next is the state that byte b leads to from s, or -1.
func (d *dfa) next(s int32, b byte) int32 {
	for _, e := range d.states[s].edges {
		if e.lo <= b && b <= e.hi {
			return e.to
		}
	}
	return -1
}

func (d *dfa) match(text string) bool {
	if d.empty() {
		return false
	}
	s := int32(0)
	for i := range len(text) {
		if s = d.next(s, text[i]); s < 0 {
			return false
		}
	}
	return d.states[s].accept
}

// intersect and minus combine two languages. They report false if the result would
// have more than dfaLimit states.
func (d *dfa) intersect(e *dfa) (*dfa, bool) { return d.product(e, false) }
func (d *dfa) minus(e *dfa) (*dfa, bool)     { return d.product(e, true) }

func (d *dfa) product(e *dfa, minus bool) (*dfa, bool) {
	if d.empty() || e.empty() {
		if minus {
			return d, true
		}
		return &dfa{all: -1}, true
	}
	p := &product{a: d, b: e, minus: minus, index: make(map[pair]int32), res: &dfa{all: -1}}
	p.state(pair{0, 0})
	for i := 0; i < len(p.list); i++ {
		if len(p.list) > dfaLimit {
			return nil, false
		}
		p.res.states = append(p.res.states, p.expand(p.list[i]))
		if p.acceptsAll(p.list[i]) {
			p.res.all = int32(i)
		}
	}
	return p.res.trim(), true
}

// product builds an automaton that runs a and b side by side. It accepts what both
// accept or, with minus, what a accepts and b does not.
type product struct {
	a, b  *dfa
	minus bool
	index map[pair]int32 // state of res for a pair
	list  []pair         // the pairs in the order of their states
	res   *dfa
}

// pair is a state of a and one of b, or noState where b has given up.
type pair struct{ a, b int32 }

const noState = -1

// state is the state of res for x.
func (p *product) state(x pair) int32 {
	s, ok := p.index[x]
	if !ok {
		s = int32(len(p.list))
		p.index[x] = s
		p.list = append(p.list, x)
	}
	return s
}

// hopeless reports whether res can accept nothing from x on.
func (p *product) hopeless(x pair) bool {
	if p.minus {
		return x.b != noState && x.b == p.b.all
	}
	return x.b == noState
}

// acceptsAll reports whether res accepts every text from x on.
func (p *product) acceptsAll(x pair) bool {
	if p.minus {
		return x.a == p.a.all && x.b == noState
	}
	return x.a == p.a.all && x.b == p.b.all
}

func (p *product) expand(x pair) state {
	var other []edge
	accept := false
	if x.b != noState {
		other, accept = p.b.states[x.b].edges, p.b.states[x.b].accept
	}
	st := state{accept: p.a.states[x.a].accept && accept != p.minus}
	for _, e := range p.a.states[x.a].edges {
		lo := int(e.lo)
		for _, f := range other {
			if int(f.hi) < lo || f.lo > e.hi {
				continue
			}
			p.edge(&st, lo, int(f.lo)-1, pair{e.to, noState})
			lo = max(lo, int(f.lo))
			hi := min(int(e.hi), int(f.hi))
			p.edge(&st, lo, hi, pair{e.to, f.to})
			lo = hi + 1
		}
		p.edge(&st, lo, int(e.hi), pair{e.to, noState})
	}
	return st
}

func (p *product) edge(st *state, lo, hi int, to pair) {
	if lo <= hi && !p.hopeless(to) {
		st.edges = append(st.edges, edge{byte(lo), byte(hi), p.state(to)})
	}
}

// lengths are the numbers of characters of the shortest and the longest text of d,
// which is not empty. most is -1 if there is no longest one.
func (d *dfa) lengths() (fewest, most int) {
	// A character starts with a byte that is no continuation byte.
	cost := func(e edge) int {
		if e.lo >= 0x80 && e.hi < 0xC0 {
			return 0
		}
		return 1
	}
	dist := make([]int, len(d.states))
	for i := range dist {
		dist[i] = -1
	}
	dist[0] = 0
	fewest = -1
	for level := []int32{0}; len(level) > 0; { // breadth first, by characters
		var next []int32
		for i := 0; i < len(level); i++ {
			s := level[i]
			if d.states[s].accept && (fewest < 0 || dist[s] < fewest) {
				fewest = dist[s]
			}
			for _, e := range d.states[s].edges {
				if dist[e.to] >= 0 {
					continue
				}
				dist[e.to] = dist[s] + cost(e)
				if cost(e) == 0 {
					level = append(level, e.to)
				} else {
					next = append(next, e.to)
				}
			}
		}
		level = next
	}
	return fewest, d.longest(cost)
}

// longest is the cost of the longest text, or -1, by a depth-first search without
// recursion: texts may be long.
func (d *dfa) longest(cost func(edge) int) int {
	const open, unseen = -2, -1
	best := make([]int, len(d.states))
	for i := range best {
		best[i] = unseen
	}
	type frame struct {
		s int32
		k int
	}
	todo := []frame{{}}
	best[0] = open
	for len(todo) > 0 {
		f := &todo[len(todo)-1]
		es := d.states[f.s].edges
		if f.k < len(es) {
			e := es[f.k]
			f.k++
			switch best[e.to] {
			case open:
				return -1 // a loop, and every state can reach an accepting one
			case unseen:
				best[e.to] = open
				todo = append(todo, frame{s: e.to})
			}
			continue
		}
		most := 0
		for _, e := range es {
			most = max(most, best[e.to]+cost(e))
		}
		best[f.s] = most
		todo = todo[:len(todo)-1]
	}
	return best[0]
}

// allDFA is the language of all texts.
var allDFA = sync.OnceValue(func() *dfa {
	b := newBuilder(nil, 1000, unmetered())
	s := b.state()
	b.runeRange(s, s, 0, utf8.MaxRune)
	b.accept(s)
	d, _ := makeDFA(b, s, s)
	return d
})

// wordsDFA is the language of the given words. It reports false if it would have
// more than dfaLimit states. Its work is spent from m.
func wordsDFA(words []string, m *meter) (*dfa, bool) {
	res := &dfa{states: []state{{}}, all: -1}
	for _, w := range words {
		m.spend(1 + len(w))
		s := int32(0)
		for i := range len(w) {
			to := res.next(s, w[i])
			if to < 0 {
				if len(res.states) > dfaLimit {
					return nil, false
				}
				to = int32(len(res.states))
				res.states = append(res.states, state{})
				res.states[s].edges = append(res.states[s].edges, edge{w[i], w[i], to})
			}
			s = to
		}
		res.states[s].accept = true
	}
	for i := range res.states {
		slices.SortFunc(res.states[i].edges, func(a, b edge) int { return int(a.lo) - int(b.lo) })
	}
	return res.trim(), true
}

// lengthDFA is the language of the texts of lo to hi characters (hi -1: no bound). It
// reports false if it would have too many states.
func lengthDFA(lo, hi int) (*dfa, bool) {
	if max(lo, hi)*8 > dfaLimit {
		return nil, false
	}
	b := newBuilder(nil, dfaLimit+100, unmetered())
	s := b.state()
	for range lo {
		to := b.state()
		b.runeRange(s, to, 0, utf8.MaxRune)
		s = to
	}
	start := int32(0)
	if hi < 0 {
		b.runeRange(s, s, 0, utf8.MaxRune)
		b.accept(s)
		return makeDFA(b, start, s)
	}
	b.accept(s)
	for range hi - lo {
		to := b.state()
		b.runeRange(s, to, 0, utf8.MaxRune)
		b.accept(to)
		s = to
	}
	return makeDFA(b, start, -1)
}
