package grammar

import (
	"encoding/binary"
	"slices"
)

// patternSet runs many patterns over a name at once, and says which of them match it. It is
// an automaton whose states are made when they are needed: a state is where those patterns
// are that have neither matched for good nor failed, with the set of those that have matched.
// With n patterns such as ^n1, ^n2 and so on, the work grows with n: most of them fail at the
// first character that differs.
type patternSet struct {
	s        *schemas
	path     string // for refusals
	base     *dfa   // the names in question
	patterns []*dfa
	index    map[string]int32
	states   []nameState
	labels   [][]int32 // sets of patterns, by number
	numbers  map[string]int32
}

// nameState is a state of a patternSet.
type nameState struct {
	base    int32 // state of base
	open    []runningPattern
	matched int32  // the number of the set of patterns that have matched for good
	edges   []edge // nil: not made yet
	made    bool
}

type runningPattern struct{ pattern, st int32 }

// nameLimit bounds the states of a patternSet.
const nameLimit = 8 * dfaLimit

func (s *schemas) newPatternSet(base *dfa, patterns []*dfa, path string) *patternSet {
	p := &patternSet{s: s, path: path, base: base, patterns: patterns, index: make(map[string]int32), numbers: make(map[string]int32)}
	p.label(nil)
	if base.empty() {
		return p
	}
	start := nameState{}
	for i, d := range patterns {
		p.run(&start, int32(i), d, 0)
	}
	p.state(start)
	return p
}

// run adds to x that pattern i, which is d, is in the state st.
func (p *patternSet) run(x *nameState, i int32, d *dfa, st int32) {
	switch {
	case d.empty():
	case st == d.all:
		x.matched = p.label(append(slices.Clip(p.labels[x.matched]), i))
	default:
		x.open = append(x.open, runningPattern{i, st})
	}
}

// label is the number of a set of patterns.
func (p *patternSet) label(set []int32) int32 {
	slices.Sort(set)
	p.s.b.spend(len(set))
	var key []byte
	for _, i := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(i))
	}
	n, ok := p.numbers[string(key)]
	if !ok {
		n = int32(len(p.labels))
		p.numbers[string(key)] = n
		p.labels = append(p.labels, set)
	}
	return n
}

// state is the number of the state x.
func (p *patternSet) state(x nameState) int32 {
	p.s.b.spend(1 + len(x.open)/4)
	key := binary.LittleEndian.AppendUint32(nil, uint32(x.base))
	key = binary.LittleEndian.AppendUint32(key, uint32(x.matched))
	for _, r := range x.open {
		key = binary.LittleEndian.AppendUint32(key, uint32(r.pattern))
		key = binary.LittleEndian.AppendUint32(key, uint32(r.st))
	}
	i, ok := p.index[string(key)]
	if !ok {
		if i = int32(len(p.states)); i >= nameLimit {
			fail(ErrUnsupported, p.path, "names and patterns need too many states together")
		}
		p.index[string(key)] = i
		p.states = append(p.states, x)
		p.s.b.hold(int64(stateBytes + 2*len(key)))
	}
	return i
}

// settled reports whether what the patterns say of a name is known in state i, whatever
// follows.
func (p *patternSet) settled(i int32) bool { return len(p.states[i].open) == 0 }

// ending are the patterns that match the names that end in state i; they are in order.
func (p *patternSet) ending(i int32) []int32 {
	x := &p.states[i]
	set := p.labels[x.matched]
	added := false
	for _, r := range x.open {
		if p.patterns[r.pattern].states[r.st].accept {
			if !added {
				set, added = slices.Clone(set), true
			}
			set = append(set, r.pattern)
		}
	}
	if added {
		slices.Sort(set)
	}
	return set
}

// edges are the edges of state i.
func (p *patternSet) edges(i int32) []edge {
	if p.states[i].made {
		return p.states[i].edges
	}
	x := p.states[i]
	var cut [257]bool
	note := func(edges []edge) {
		for _, e := range edges {
			cut[e.lo], cut[int(e.hi)+1] = true, true
		}
	}
	base := p.base.states[x.base].edges
	note(base)
	for _, r := range x.open {
		note(p.patterns[r.pattern].states[r.st].edges)
	}
	var begins []int
	for b := range 256 {
		if cut[b] {
			begins = append(begins, b)
		}
	}
	next := make([]nameState, len(begins)) // by the range that begins there
	for k := range next {
		next[k].base = noState
		next[k].matched = x.matched
	}
	between := func(e edge, f func(k int)) {
		k, _ := slices.BinarySearch(begins, int(e.lo))
		for ; k < len(begins) && begins[k] <= int(e.hi); k++ {
			f(k)
		}
	}
	for _, e := range base {
		between(e, func(k int) { next[k].base = e.to })
	}
	for _, r := range x.open {
		d := p.patterns[r.pattern]
		for _, e := range d.states[r.st].edges {
			between(e, func(k int) {
				p.s.b.spend(1)
				if next[k].base != noState {
					p.run(&next[k], r.pattern, d, e.to)
				}
			})
		}
	}
	var edges []edge
	for k, lo := range begins {
		hi := 255
		if k+1 < len(begins) {
			hi = begins[k+1] - 1
		}
		if next[k].base != noState {
			edges = append(edges, edge{byte(lo), byte(hi), p.state(next[k])})
		}
	}
	p.states[i].edges, p.states[i].made = edges, true
	return edges
}

// match returns the patterns that match name, in order. base has to have all names.
func (p *patternSet) match(name string) []int32 {
	at := int32(0)
	for i := 0; i < len(name) && !p.settled(at); i++ {
		p.s.b.spend(1)
		if at = edgeTo(p.edges(at), name[i]); at == noState {
			return nil
		}
	}
	return p.ending(at)
}

// edgeTo is where byte b leads to by one of edges, or -1.
func edgeTo(edges []edge, b byte) int32 {
	k, ok := slices.BinarySearchFunc(edges, b, func(e edge, b byte) int {
		switch {
		case e.hi < b:
			return -1
		case e.lo > b:
			return 1
		}
		return 0
	})
	if !ok {
		return noState
	}
	return edges[k].to
}

// classes returns the names by the sets of patterns that match them: a language for each
// set. Each takes the work of its own states.
func (p *patternSet) classes() (sets [][]int32, names []*dfa) {
	if len(p.states) == 0 {
		return nil, nil
	}
	var before [][]int32            // the states with an edge to a state
	ends := make(map[int32][]int32) // the states in which names of a class can end
	class := make(map[int32]int32)  // of a settled state that all texts are in
	var order []int32               // the numbers of the sets
	for i := int32(0); int(i) < len(p.states); i++ {
		label := p.label(p.ending(i))
		whole := p.settled(i) && p.states[i].base == p.base.all
		if whole || p.base.states[p.states[i].base].accept {
			if ends[label] == nil {
				order = append(order, label)
			}
			ends[label] = append(ends[label], i)
		}
		if whole {
			class[i] = label
			continue // every text goes on in the same class
		}
		for _, e := range p.edges(i) {
			for int(e.to) >= len(before) {
				before = append(before, nil)
			}
			before[e.to] = append(before[e.to], i)
		}
	}
	for len(before) < len(p.states) {
		before = append(before, nil)
	}
	for _, label := range order {
		sets = append(sets, p.labels[label])
		names = append(names, p.language(ends[label], before, class))
	}
	return sets, names
}

// language is the language of the names that end in one of ends.
func (p *patternSet) language(ends []int32, before [][]int32, whole map[int32]int32) *dfa {
	at := make(map[int32]int32)
	var list []int32
	visit := func(i int32) {
		if _, ok := at[i]; !ok {
			at[i] = int32(len(list))
			list = append(list, i)
		}
	}
	visit(0) // the start comes first
	for _, i := range ends {
		visit(i)
	}
	for k := 0; k < len(list); k++ {
		for _, i := range before[list[k]] {
			visit(i)
		}
	}
	d := &dfa{states: make([]state, len(list)), all: -1}
	for _, i := range ends {
		if _, ok := whole[i]; ok {
			d.all = at[i]
		}
		d.states[at[i]].accept = true
	}
	for k, i := range list {
		p.s.b.spend(1 + len(p.states[i].edges))
		if _, ok := whole[i]; ok {
			continue
		}
		for _, e := range p.states[i].edges {
			if to, ok := at[e.to]; ok {
				d.states[k].edges = append(d.states[k].edges, edge{e.lo, e.hi, to})
			}
		}
	}
	if d.all >= 0 {
		d.acceptAll()
	}
	return d
}

// acceptAll gives the state d.all the language of all texts.
func (d *dfa) acceptAll() {
	first := int32(len(d.states)) - 1
	for s, st := range allDFA().states {
		var edges []edge
		for _, e := range st.edges {
			to := d.all
			if e.to > 0 {
				to = first + e.to
			}
			edges = append(edges, edge{e.lo, e.hi, to})
		}
		if s == 0 {
			d.states[d.all].edges = edges
		} else {
			d.states = append(d.states, state{edges: edges, accept: st.accept})
		}
	}
}
