package grammar

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// dfa is a regular language over the UTF-8 of decoded text, state 0 first. Its
// states only have edges, sorted and without overlap, and every one of them leads
// to an accepting state; the empty language has no states.
type dfa struct {
	states []state
	all    int32 // the state from which every text is accepted, or -1
}

// dfaLimit bounds the states of one language. What needs more is refused where
// it must be combined with something, and kept as an automaton of sets elsewhere.
const dfaLimit = 12_000

// makeDFA determinizes the automaton of b that starts at from; all is its state
// that accepts every text, or -1. False if it would pass the limit.
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

// trim drops the states that cannot accept.
func (d *dfa) trim() *dfa {
	preds := make([][]int32, len(d.states))
	live := make([]bool, len(d.states))
	var list []int32
	for i := range d.states {
		for _, e := range d.states[i].edges {
			preds[e.to] = append(preds[e.to], int32(i))
		}
		if d.states[i].accept {
			live[i] = true
			list = append(list, int32(i))
		}
	}
	for i := 0; i < len(list); i++ {
		for _, p := range preds[list[i]] {
			if !live[p] {
				live[p] = true
				list = append(list, p)
			}
		}
	}
	if len(list) == 0 {
		return &dfa{all: -1}
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

// intersect and minus combine languages; false if the result passes the limit.
func (d *dfa) intersect(e *dfa) (*dfa, bool) { return d.product(e, false) }
func (d *dfa) minus(e *dfa) (*dfa, bool)     { return d.product(e, true) }

func (d *dfa) product(e *dfa, minus bool) (*dfa, bool) {
	if d.empty() || e.empty() {
		if minus {
			return d, true
		}
		return &dfa{all: -1}, true
	}
	type pair struct{ a, b int32 } // b -1: e is dead
	index := map[pair]int32{{0, 0}: 0}
	list := []pair{{0, 0}}
	res := &dfa{all: -1}
	for i := 0; i < len(list); i++ {
		if len(list) > dfaLimit {
			return nil, false
		}
		p := list[i]
		var other []edge
		accept := false
		if p.b >= 0 {
			other, accept = e.states[p.b].edges, e.states[p.b].accept
		}
		st := state{accept: d.states[p.a].accept && accept != minus}
		switch {
		case minus && p.a == d.all && p.b < 0, !minus && p.a == d.all && p.b == e.all:
			res.all = int32(i)
		}
		add := func(lo, hi int, to pair) {
			if lo > hi || to.b < 0 && !minus || minus && to.b >= 0 && to.b == e.all {
				return
			}
			t, ok := index[to]
			if !ok {
				t = int32(len(list))
				index[to] = t
				list = append(list, to)
			}
			st.edges = append(st.edges, edge{byte(lo), byte(hi), t})
		}
		for _, x := range d.states[p.a].edges {
			lo := int(x.lo)
			for _, y := range other {
				if int(y.hi) < lo || y.lo > x.hi {
					continue
				}
				add(lo, int(y.lo)-1, pair{x.to, -1})
				lo = max(lo, int(y.lo))
				hi := min(int(x.hi), int(y.hi))
				add(lo, hi, pair{x.to, y.to})
				lo = hi + 1
			}
			add(lo, int(x.hi), pair{x.to, -1})
		}
		res.states = append(res.states, st)
	}
	return res.trim(), true
}

// lengths are the fewest and the most characters of the texts of d, which is not
// empty; most is -1 when there is no bound.
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
	for level := []int32{0}; len(level) > 0; { // by characters, continuation bytes at once
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
				return -1 // a loop, and every state accepts sooner or later
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

// runeRange reads one character of [lo, hi] in UTF-8; surrogates are left out.
func (b *builder) runeRange(from, to int32, lo, hi rune) {
	for _, part := range [...][2]rune{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}} {
		l, h := max(lo, part[0]), min(hi, part[1])
		if l > h {
			continue
		}
		b.byteRange(from, to, utf8.AppendRune(nil, l), utf8.AppendRune(nil, h))
	}
}

// byteRange reads the encodings from lo to hi, which have the same length.
func (b *builder) byteRange(from, to int32, lo, hi []byte) {
	rest := len(lo) - 1
	if rest == 0 {
		b.edge(from, lo[0], hi[0], to)
		return
	}
	free := func(s []byte, v byte) bool { return !slices.ContainsFunc(s, func(c byte) bool { return c != v }) }
	first, last := []byte{0x80, 0x80, 0x80}[:rest], []byte{0xBF, 0xBF, 0xBF}[:rest]
	part := func(l, h byte, lo, hi []byte) {
		if free(lo, 0x80) && free(hi, 0xBF) {
			b.edge(from, l, h, b.rest(to, rest))
			return
		}
		s := b.state()
		b.edge(from, l, h, s)
		b.byteRange(s, to, lo, hi)
	}
	l, h := lo[0], hi[0]
	if l == h {
		part(l, l, lo[1:], hi[1:])
		return
	}
	if !free(lo[1:], 0x80) {
		part(l, l, lo[1:], last)
		l++
	}
	end := h
	if !free(hi[1:], 0xBF) {
		end--
	}
	if l <= end {
		part(l, end, first, last)
	}
	if end < h {
		part(h, h, first, hi[1:])
	}
}

// rest is the state from which n continuation bytes lead to to.
func (b *builder) rest(to int32, n int) int32 {
	if n == 0 {
		return to
	}
	key := restKey{to, n}
	s, ok := b.rests[key]
	if !ok {
		s = b.state()
		b.edge(s, 0x80, 0xBF, b.rest(to, n-1))
		if b.rests == nil {
			b.rests = make(map[restKey]int32)
		}
		b.rests[key] = s
	}
	return s
}

type restKey struct {
	to int32
	n  int
}

// allDFA is every text.
var allDFA = sync.OnceValue(func() *dfa {
	b := newBuilder(nil, 1000, unmetered())
	s := b.state()
	b.runeRange(s, s, 0, utf8.MaxRune)
	b.accept(s)
	d, _ := makeDFA(b, s, s)
	return d
})

// wordsDFA is a finite language.
func wordsDFA(words []string) (*dfa, bool) {
	res := &dfa{states: []state{{}}, all: -1}
	for _, w := range words {
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

// lengthDFA is every text of lo to hi characters (hi -1: no bound).
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
