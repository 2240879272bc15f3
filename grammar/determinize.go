package grammar

import (
	"encoding/binary"
	"slices"
)

// determinize makes the automaton that begins at from deterministic, by the subset
// construction over bytes and steps. It appends the new states to out and returns
// the new start; the numbers of the states of out begin at before. If there would be
// more than most states, it only removes eps steps: the machine that runs the network
// can be in several states at once anyway.
func (b *builder) determinize(from int32, out []state, before int32, most int) ([]state, int32) {
	d := newSubsets(b, out, before)
	start, ok := d.run(from, most)
	b.free(d.scratch)
	if ok {
		return d.out, start
	}
	b.free(d.kept)
	e := newSubsets(b, out, before)
	e.epsOnly = true
	start, ok = e.run(from, b.limit)
	b.free(e.scratch)
	if !ok {
		fail(ErrTooComplex, "", "the grammar needs more than %d states", b.limit)
	}
	return e.out, start
}

// subsets is one run of the subset construction: each new state stands for a set of
// the builder's states.
type subsets struct {
	b          *builder
	out        []state
	base       int              // out[base:] are the states of this run
	before     int32            // the number of out[0]
	sets       [][]int32        // the sets that the states out[base:] stand for
	singletons []int32          // for a state of b, 1 + the new state of the set with it alone; 0: none yet. All runs share the slice.
	used       []int32          // the states for which singletons is not 0
	index      map[string]int32 // the new state of each larger set; nil: there is none yet
	key        []byte           // scratch of lookup
	cuts       []int32          // scratch of edges
	buf        []edge           // scratch of edges
	union      []edge           // scratch of expand
	unionSteps []step           // scratch of expand
	set        []int32          // scratch of intern
	to, toLast []int32          // scratch of edges
	targets    [][]int32        // scratch of steps
	epsOnly    bool             // remove eps steps and do no more
	scratch    int64            // bytes that are given back after the run
	kept       int64            // bytes of the edges and steps of the new states
	absorb     int32            // a state from which every text is accepted, or -1: a set with it is as good as it alone
}

// setBytes is about what a set takes beside its elements.
const setBytes = 96

func newSubsets(b *builder, out []state, before int32) *subsets {
	for len(b.singletons) < len(b.states) {
		b.singletons = append(b.singletons, 0)
	}
	return &subsets{b: b, out: out, base: len(out), before: before, singletons: b.singletons, absorb: -1}
}

// clearSingletons removes this run's entries from singletons.
func (d *subsets) clearSingletons() {
	for _, s := range d.used {
		d.singletons[s] = 0
	}
}

// run does the construction from the state from. It reports false if there would be
// more than most states.
func (d *subsets) run(from int32, most int) (int32, bool) {
	defer d.clearSingletons()
	start := d.intern([]int32{from})
	for i := 0; i < len(d.sets); i++ {
		if len(d.sets) > most || len(d.out) > d.b.limit {
			return 0, false
		}
		d.expand(i)
	}
	return start, true
}

// internOne is intern for a set of one state.
func (d *subsets) internOne(s int32) int32 {
	if at := d.singletons[s]; at > 0 {
		return at - 1
	}
	one := [1]int32{s}
	return d.intern(one[:])
}

// intern returns the new state for the closure of set, which it does not keep.
func (d *subsets) intern(set []int32) int32 {
	seed := int32(-1)
	if len(set) == 1 {
		seed = set[0]
	}
	d.set = d.b.closure(append(d.set[:0], set...))
	if d.absorb >= 0 && len(d.set) > 1 && slices.Contains(d.set, d.absorb) {
		d.set = d.b.closure(append(d.set[:0], d.absorb))
	}
	i := d.lookup(d.set)
	if seed >= 0 && d.singletons[seed] == 0 {
		d.singletons[seed] = i + 1
		d.used = append(d.used, seed)
	}
	return i
}

// lookup returns the new state for a set that is its own closure. It keeps a copy.
func (d *subsets) lookup(set []int32) int32 {
	i := d.before + int32(len(d.out))
	if len(set) == 1 {
		if at := d.singletons[set[0]]; at > 0 {
			return at - 1
		}
		d.singletons[set[0]] = i + 1
		d.used = append(d.used, set[0])
	} else {
		d.key = d.key[:0]
		for _, s := range set {
			d.key = binary.LittleEndian.AppendUint32(d.key, uint32(s))
		}
		if at, ok := d.index[string(d.key)]; ok {
			return at
		}
		if d.index == nil {
			d.index = make(map[string]int32)
		}
		d.index[string(d.key)] = i
	}
	set = append(d.b.ids.take(len(set)), set...)
	d.sets = append(d.sets, set)
	n := int64(setBytes + 8*len(set)) // once as a set and once as a key
	d.scratch += n
	d.b.hold(n)
	st := state{}
	for _, s := range set {
		st.accept = st.accept || d.b.states[s].accept
		st.ways = max(st.ways, d.b.states[s].ways)
	}
	d.out = append(d.out, st)
	return i
}

// expand gives the new state i its edges and steps.
func (d *subsets) expand(i int) {
	var edges []edge
	var steps []step
	set := d.sets[i]
	if len(set) == 1 {
		edges, steps = d.b.states[set[0]].edges, d.b.states[set[0]].steps
	} else {
		edges, steps = d.union[:0], d.unionSteps[:0]
		for _, s := range set {
			edges = append(edges, d.b.states[s].edges...)
			steps = append(steps, d.b.states[s].steps...)
		}
		d.union, d.unionSteps = edges, steps
	}
	d.b.spend(1 + len(edges) + len(steps))
	at := d.base + i
	if d.epsOnly {
		res := d.b.edges.take(len(edges))
		for _, e := range edges {
			res = append(res, edge{e.lo, e.hi, d.internOne(e.to)})
		}
		d.out[at].edges = res
	} else {
		d.edges(at, edges)
	}
	d.steps(at, steps)
	n := int64(56 + 8*cap(d.out[at].edges) + 24*cap(d.out[at].steps))
	d.kept += n
	d.b.hold(n)
}

// edges gives state at the edges of a set of states. Overlapping ranges are split, so
// that each byte leads to one set.
func (d *subsets) edges(at int, edges []edge) {
	if len(edges) == 0 {
		return
	}
	d.buf = append(d.buf[:0], edges...)
	edges = d.buf
	slices.SortFunc(edges, func(a, b edge) int { return int(a.lo) - int(b.lo) })
	apart := true
	for i := 1; i < len(edges) && apart; i++ {
		apart = edges[i].lo > edges[i-1].hi
	}
	res := d.b.edges.take(len(edges))
	add := func(lo, hi byte, to int32) {
		if n := len(res); n > 0 && res[n-1].to == to && res[n-1].hi+1 == lo {
			res[n-1].hi = hi
		} else {
			res = append(res, edge{lo, hi, to})
		}
	}
	if apart {
		for _, e := range edges {
			add(e.lo, e.hi, d.internOne(e.to))
		}
		d.out[at].edges = res
		return
	}
	d.cuts = d.cuts[:0]
	for _, e := range edges {
		d.cuts = append(d.cuts, int32(e.lo), int32(e.hi)+1)
	}
	slices.Sort(d.cuts)
	d.cuts = slices.Compact(d.cuts)
	last := int32(-1) // the state for toLast
	for k := 0; k+1 < len(d.cuts); k++ {
		lo, hi := byte(d.cuts[k]), byte(d.cuts[k+1]-1)
		to := d.to[:0]
		for _, e := range edges {
			if e.lo > lo {
				break
			}
			if e.hi >= hi {
				to = append(to, e.to)
			}
		}
		d.to = to
		if len(to) == 0 {
			continue
		}
		if last < 0 || !slices.Equal(to, d.toLast) { // neighbours often lead to the same
			d.toLast = append(d.toLast[:0], to...)
			slices.Sort(to)
			last = d.intern(slices.Compact(to))
		}
		add(lo, hi, last)
	}
	d.out[at].edges = res
}

// steps gives state at the steps of a set of states. Steps that differ only in where
// they lead become one, which leads to the set of these states.
func (d *subsets) steps(at int, steps []step) {
	if len(steps) == 0 {
		return
	}
	res := d.b.steps.take(len(steps))
	to := d.targets[:0]
	for _, s := range steps {
		if s.kind == stepEps {
			continue
		}
		t := s.to
		s.to = 0
		k := -1
		if !d.epsOnly {
			k = slices.Index(res, s)
		}
		if k < 0 {
			k = len(res)
			res, to = append(res, s), append(to, d.b.ids.take(1))
		}
		if !slices.Contains(to[k], t) {
			to[k] = append(to[k], t)
		}
	}
	d.targets = to
	for k := range res {
		slices.Sort(to[k])
		res[k].to = d.intern(to[k])
	}
	d.out[at].steps = res
}
