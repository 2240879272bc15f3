package grammar

import "slices"

// All front ends lower to the same representation, a recursive transition network
// over bytes (Woods 1970): every rule is an automaton, whose states read a byte or
// take a step without reading. Characters are spelled in UTF-8, so a token may end
// in the middle of one.
//
// A running rule has two counters, need and left, which its call sets: how many
// ticks must still happen, and how many may (-1: any number). With them,
// `maxLength: 100000` needs a handful of states.

// edge reads a byte of [lo, hi] and leads to the state to.
type edge struct {
	lo, hi byte
	to     int32
}

type stepKind uint8

const (
	stepCall     stepKind = iota // run rule with the counters need and left, then go on at to
	stepTick                     // if left is not 0, count one tick and go on at to
	stepGuard                    // if need is 0, stop counting and go on at to
	stepEps                      // go on at to; determinization removes these
	stepCheck                    // if the counters agree to it, go on at to
	stepRecord                   // begin to read a value that must differ from earlier ones (record.go)
	stepRecorded                 // the value is complete, if it does differ
)

type step struct {
	kind       stepKind
	tail       bool // stepCall: the state to does nothing but accept, so no frame is needed to return to
	folds      bool // stepCall: no frame is needed to return to if the caller's own has the state to, see network.folds
	rule       int32
	need, left int32 // of a stepTick and a stepCheck, see agrees
	to         int32
}

// agrees reports whether a frame with the given counters, after the tick of a stepTick, may
// take s: it takes at least s.left more ticks to complete the rule from there, and, unless
// s.need is 0, at most s.need-1. Without that, a text could be led to where it cannot be
// completed within its counters.
func (s *step) agrees(need, left int32) bool {
	return (left < 0 || left >= s.left) && (s.need == 0 || need < s.need)
}

// slack is by how much the counters of a frame may differ from 0 and still decide about s.
func (s *step) slack() int32 {
	if s.kind != stepTick && s.kind != stepCheck {
		return 0
	}
	return max(s.left, s.need)
}

type state struct {
	edges  []edge
	steps  []step
	accept bool
	slack  int32  // of a finished network: the largest slack of the steps of the state's rule
	ways   uint32 // how many values can be completed from here, while one is read (record.go); 0: none is read
	sure   bool   // a frame here knows how often it has ticked, see network.sure
	flat   bool   // of a counted rule that calls no other, see machine.loose
}

// stateBytes is about how much memory a state takes while a grammar is compiled, with its
// edges and steps, the slices that they grow in, and the copies of the network.
const stateBytes = 256

// builder collects the rules of one grammar. The rules of base come first: their
// numbers are 0 to len(base.starts)-1. A refusal is a panic with an *Error, which
// compile catches.
type builder struct {
	base       *network // the rules that all grammars share; nil while they are made
	states     []state
	starts     []int32 // start states of the rules from len(base.starts) on
	limit      int     // how many states there may be
	*meter             // shared with the builders of parts
	rests      map[restKey]int32
	marks      []uint32 // for each state, the last pass of visited that saw it
	pass       uint32
	singletons []int32 // see subsets
	worklist   []int32 // scratch of reach
	warnings   []Warning
	voc        *Vocabulary // for the tokens that a grammar names; nil in what has no vocabulary
	marked     bool        // a token was named

	edges slab[edge] // of states
	steps slab[step]
	ids   slab[int32] // of subsets
}

func newBuilder(base *network, limit int, m *meter) *builder {
	return &builder{base: base, limit: limit, meter: m, states: make([]state, 0, 256)}
}

func (b *builder) state() int32 {
	b.spend(1)
	b.hold(stateBytes)
	if len(b.states) >= b.limit {
		fail(ErrTooComplex, "", "the grammar needs more than %d states", b.limit)
	}
	if len(b.states) == cap(b.states) {
		b.states = slices.Grow(b.states, len(b.states)) // append would copy a large slice much more often
	}
	b.states = append(b.states, state{})
	return int32(len(b.states) - 1)
}

// rule declares a rule and returns its number. Its automaton begins at the state
// that start returns, and the caller adds the rest of it.
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
	st := &b.states[from]
	if st.edges == nil {
		st.edges = b.edges.take(1)
	}
	st.edges = append(st.edges, edge{lo, hi, to})
}

func (b *builder) step(from int32, s step) {
	st := &b.states[from]
	if st.steps == nil {
		st.steps = b.steps.take(1)
	}
	st.steps = append(st.steps, s)
}

func (b *builder) eps(from, to int32) { b.step(from, step{kind: stepEps, to: to}) }

// The methods below add an automaton that begins at from, and return the state that
// it ends at.

// bytes reads one byte of the ranges lo, hi, lo, hi and so on.
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

// frag is a fragment of an automaton: it adds what begins at from and returns the
// state that it ends at.
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

// counted declares a rule that repeats f. Its calls say how often: at least need
// and at most left times.
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

// repeat reads f lo to hi times (hi -1: any number above lo). size is roughly the
// number of states that f needs, 0 if f cannot be a rule: small repetitions are
// spelled out, and others become a counted rule.
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

// visited starts a new pass over the states of b. In this pass, first reports true
// for a state the first time that it is called.
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

// closure adds to set what its states reach by eps steps, and sorts it.
func (b *builder) closure(set []int32) []int32 {
	if len(set) == 1 && !slices.ContainsFunc(b.states[set[0]].steps, isEps) {
		return set
	}
	first := b.visited()
	for _, s := range set {
		first(s)
	}
	for i := 0; i < len(set); i++ {
		b.spend(1 + len(b.states[set[i]].steps))
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
