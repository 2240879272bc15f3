package grammar

import (
	"encoding/binary"
	"slices"
)

// The one representation that all front ends lower to is a recursive transition
// network over bytes: every rule is an automaton whose states read bytes or take
// steps. Characters are spelled in UTF-8, so a token may end inside one.
//
// A running rule carries two counters, need and left, given by its call: how
// often tick must still happen, and how often it may (-1: without end). With
// them `maxLength: 100000` costs a handful of states.

// edge reads a byte of [lo, hi].
type edge struct {
	lo, hi byte
	to     int32
}

type stepKind uint8

const (
	stepCall  stepKind = iota // run rule with (need, left), then go on at to
	stepTick                  // if left != 0: count one, go on at to
	stepGuard                 // if need == 0: forget the counters, go on at to
	stepEps                   // go on at to; only before determinization
)

type step struct {
	kind       stepKind
	tail       bool // stepCall: to only accepts, so the call need not come back
	rule       int32
	need, left int32
	to         int32
}

type state struct {
	edges  []edge
	steps  []step
	accept bool
}

// builder collects the rules of one grammar on top of those of base. Errors of
// depth and size travel as panics of *Error, caught where compilation starts.
type builder struct {
	base   *network // rules 0 to len(base.starts)-1; nil while base itself is made
	states []state
	starts []int32 // of rule len(base.starts) on
	limit  int     // states
	*meter         // shared with the builders of parts
	rests  map[restKey]int32
	marks  []uint32 // pass in which a state was seen last
	pass   uint32
	alone  []int32 // see subsets
	list   []int32
}

func newBuilder(base *network, limit int, m *meter) *builder {
	return &builder{base: base, limit: limit, meter: m, states: make([]state, 0, 256)}
}

func (b *builder) state() int32 {
	b.work(1)
	if len(b.states) >= b.limit {
		fail(ErrTooComplex, "", "the grammar needs more than %d states", b.limit)
	}
	b.states = append(b.states, state{})
	return int32(len(b.states) - 1)
}

// rule declares a rule; its automaton grows from the start state returned by
// start and is complete when a state accepts.
func (b *builder) rule() int32 {
	b.starts = append(b.starts, b.state())
	return b.baseRules() + int32(len(b.starts)) - 1
}

func (b *builder) baseRules() int32 {
	if b.base == nil {
		return 0
	}
	return int32(len(b.base.starts))
}

func (b *builder) start(rule int32) int32 { return b.starts[rule-b.baseRules()] }
func (b *builder) accept(s int32)         { b.states[s].accept = true }

func (b *builder) edge(from int32, lo, hi byte, to int32) {
	b.states[from].edges = append(b.states[from].edges, edge{lo, hi, to})
}

func (b *builder) step(from int32, s step) {
	b.states[from].steps = append(b.states[from].steps, s)
}

func (b *builder) eps(from, to int32) { b.step(from, step{kind: stepEps, to: to}) }

// The methods below grow the automaton at from and return where it goes on.

func (b *builder) bytes(from int32, pairs ...byte) int32 {
	to := b.state()
	for i := 0; i < len(pairs); i += 2 {
		b.edge(from, pairs[i], pairs[i+1], to)
	}
	return to
}

func (b *builder) lit(from int32, s string) int32 {
	for i := range len(s) {
		from = b.bytes(from, s[i], s[i])
	}
	return from
}

func (b *builder) call(from, rule int32) int32 { return b.callN(from, rule, 0, -1) }

func (b *builder) callN(from, rule, need, left int32) int32 {
	to := b.state()
	b.step(from, step{kind: stepCall, rule: rule, need: need, left: left, to: to})
	return to
}

type frag func(from int32) int32

func (b *builder) alt(from int32, fs ...frag) int32 {
	to := b.state()
	for _, f := range fs {
		s := b.state()
		b.eps(from, s)
		b.eps(f(s), to)
	}
	return to
}

func (b *builder) opt(from int32, f frag) int32 {
	s, to := b.state(), b.state()
	b.eps(from, s)
	b.eps(f(s), to)
	b.eps(from, to)
	return to
}

func (b *builder) star(from int32, f frag) int32 {
	loop, to := b.state(), b.state()
	b.eps(from, loop)
	b.eps(f(loop), loop)
	b.eps(loop, to)
	return to
}

// counted declares the rule f{need,left}, to be called with those counts.
func (b *builder) counted(f frag) int32 {
	r := b.rule()
	loop, body, out := b.state(), b.state(), b.state()
	b.eps(b.start(r), loop)
	b.step(loop, step{kind: stepTick, to: body})
	b.eps(f(body), loop)
	b.step(loop, step{kind: stepGuard, to: out})
	b.accept(out)
	return r
}

// repeat reads f between lo and hi times (hi -1: without end). size is the
// number of states f costs: small repetitions are spelled out, others counted.
func (b *builder) repeat(from int32, lo, hi int32, size int, f frag) int32 {
	switch {
	case hi == 0:
		return from
	case lo == 0 && hi < 0:
		return b.star(from, f)
	case lo == 0 && hi == 1:
		return b.opt(from, f)
	case size > 0 && int64(size)*int64(max(lo, hi)) > 16:
		return b.callN(from, b.counted(f), lo, hi)
	}
	for range lo {
		from = f(from)
	}
	if hi < 0 {
		return b.star(from, f)
	}
	to := b.state()
	for range hi - lo {
		b.eps(from, to)
		from = f(from)
	}
	b.eps(from, to)
	return to
}

// visited starts a new pass over the states of b, in which first is true once for
// each.
func (b *builder) visited() (first func(s int32) bool) {
	b.pass++
	for len(b.marks) < len(b.states) {
		b.marks = append(b.marks, 0)
	}
	return b.first
}

func (b *builder) first(s int32) bool {
	if b.marks[s] == b.pass {
		return false
	}
	b.marks[s] = b.pass
	return true
}

// closure adds what eps reaches from the states of set, which it sorts.
func (b *builder) closure(set []int32) []int32 {
	if len(set) == 1 && !slices.ContainsFunc(b.states[set[0]].steps, isEps) {
		return set
	}
	first := b.visited()
	for _, s := range set {
		first(s)
	}
	for i := 0; i < len(set); i++ {
		b.work(1)
		for _, st := range b.states[set[i]].steps {
			if st.kind == stepEps && first(st.to) {
				set = append(set, st.to)
			}
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

func isEps(s step) bool { return s.kind == stepEps }

// determinize rewrites the automaton that starts at from by subset construction
// over bytes and steps, appending to out, and returns the new start; before states
// come before those of out. When that
// would need more than most states it only removes eps; the machine that runs
// the network takes sets of states anyway.
func (b *builder) determinize(from int32, out []state, before int32, most int) ([]state, int32) {
	d := newSubsets(b, out, before)
	if start, ok := d.run(from, most); ok {
		return d.out, start
	}
	e := newSubsets(b, out, before)
	e.single = true
	start, ok := e.run(from, b.limit)
	if !ok {
		fail(ErrTooComplex, "", "the grammar needs more than %d states", b.limit)
	}
	return e.out, start
}

type subsets struct {
	b      *builder
	out    []state
	base   int
	before int32     // states before out
	sets   [][]int32 // of out[base:]
	alone  []int32   // 1 more than what intern gives for a set of one; shared by all rules of b
	used   []int32   // states for which alone is set
	index  map[string]int32
	key    []byte
	cuts   []int32
	buf    []edge
	single bool  // one state each: eps removal alone
	absorb int32 // a state that makes any set with it accept everything, or -1
}

func newSubsets(b *builder, out []state, before int32) *subsets {
	for len(b.alone) < len(b.states) {
		b.alone = append(b.alone, 0)
	}
	return &subsets{b: b, out: out, base: len(out), before: before, alone: b.alone, index: make(map[string]int32), absorb: -1}
}

// forget clears what alone says of this run.
func (d *subsets) forget() {
	for _, s := range d.used {
		d.alone[s] = 0
	}
}

func (d *subsets) run(from int32, most int) (int32, bool) {
	defer d.forget()
	start := d.intern([]int32{from})
	for i := 0; i < len(d.sets); i++ {
		if len(d.sets) > most || len(d.out) > d.b.limit {
			return 0, false
		}
		d.expand(i)
	}
	return start, true
}

// one is intern for a set of one.
func (d *subsets) one(s int32) int32 {
	if at := d.alone[s]; at > 0 {
		return at - 1
	}
	return d.intern([]int32{s})
}

func (d *subsets) intern(set []int32) int32 {
	seed := int32(-1)
	if len(set) == 1 {
		seed = set[0]
	}
	set = d.b.closure(set)
	if d.absorb >= 0 && len(set) > 1 && slices.Contains(set, d.absorb) {
		set = d.b.closure([]int32{d.absorb})
	}
	i := d.lookup(set)
	if seed >= 0 && d.alone[seed] == 0 {
		d.alone[seed] = i + 1
		d.used = append(d.used, seed)
	}
	return i
}

// lookup is the state of a closed set.
func (d *subsets) lookup(set []int32) int32 {
	i := d.before + int32(len(d.out))
	if len(set) == 1 {
		if at := d.alone[set[0]]; at > 0 {
			return at - 1
		}
		d.alone[set[0]] = i + 1
		d.used = append(d.used, set[0])
	} else {
		d.key = d.key[:0]
		for _, s := range set {
			d.key = binary.LittleEndian.AppendUint32(d.key, uint32(s))
		}
		if at, ok := d.index[string(d.key)]; ok {
			return at
		}
		d.index[string(d.key)] = i
	}
	d.sets = append(d.sets, set)
	st := state{}
	for _, s := range set {
		st.accept = st.accept || d.b.states[s].accept
	}
	d.out = append(d.out, st)
	return i
}

func (d *subsets) expand(i int) {
	var edges []edge
	var steps []step
	set := d.sets[i]
	if len(set) == 1 {
		edges, steps = d.b.states[set[0]].edges, d.b.states[set[0]].steps
	} else {
		for _, s := range set {
			edges = append(edges, d.b.states[s].edges...)
			steps = append(steps, d.b.states[s].steps...)
		}
	}
	d.b.work(1 + len(edges) + len(steps))
	at := d.base + i
	if d.single {
		for _, e := range edges {
			to := d.one(e.to)
			d.out[at].edges = append(d.out[at].edges, edge{e.lo, e.hi, to})
		}
	} else {
		d.edges(at, edges)
	}
	d.steps(at, steps)
}

// edges splits overlapping ranges, so that each byte leads to one set.
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
	res := make([]edge, 0, len(edges))
	add := func(lo, hi byte, to int32) {
		if n := len(res); n > 0 && res[n-1].to == to && res[n-1].hi+1 == lo {
			res[n-1].hi = hi
		} else {
			res = append(res, edge{lo, hi, to})
		}
	}
	if apart {
		for _, e := range edges {
			add(e.lo, e.hi, d.one(e.to))
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
	for k := 0; k+1 < len(d.cuts); k++ {
		lo, hi := byte(d.cuts[k]), byte(d.cuts[k+1]-1)
		var to []int32
		for _, e := range edges {
			if e.lo > lo {
				break
			}
			if e.hi >= hi {
				to = append(to, e.to)
			}
		}
		if len(to) == 0 {
			continue
		}
		slices.Sort(to)
		add(lo, hi, d.intern(slices.Compact(to)))
	}
	d.out[at].edges = res
}

// steps joins equal steps; their targets become one set.
func (d *subsets) steps(at int, steps []step) {
	var res []step
	var to [][]int32
	for _, s := range steps {
		if s.kind == stepEps {
			continue
		}
		t := s.to
		s.to = 0
		k := -1
		if !d.single {
			k = slices.Index(res, s)
		}
		if k < 0 {
			k = len(res)
			res, to = append(res, s), append(to, nil)
		}
		if !slices.Contains(to[k], t) {
			to[k] = append(to[k], t)
		}
	}
	for k := range res {
		slices.Sort(to[k])
		res[k].to = d.intern(to[k])
	}
	d.out[at].steps = res
}
