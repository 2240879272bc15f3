package grammar

import "slices"

// network is a finished grammar: its rules have no dead ends, and are deterministic
// unless that would have needed too many states. The rules in json_rules.go are
// common to all grammars; their network is the base of all others.
type network struct {
	base   *network   // the common rules; nil in base itself
	states []state    // the states that are not those of base; their numbers begin at common
	starts []int32    // start states of the rules, those of base first
	common int32      // number of states in base
	root   int32      // the rule for a whole text
	class  [256]uint8 // of each byte; bytes that no edge tells apart have the same class
	reps   []byte     // one byte of each class
	marked bool       // there are named tokens

	values *record // before the first one of values that are compared (record.go); nil: there are none

	// In base only, for each rule:
	cuts         [][4]uint64 // the bytes at which a range of its edges begins or has just ended, as bits
	nullableBase []empty     // how it reads the empty text
}

func (n *network) at(s int32) *state {
	if s < n.common {
		return &n.base.states[s]
	}
	return &n.states[s-n.common]
}

// own is the number of the first rule that is not one of base.
func (n *network) own() int32 {
	if n.base == nil {
		return 0
	}
	return int32(len(n.base.starts))
}

// finish makes the network of the rules so far. It removes left recursion and what
// leads nowhere: a mask must never allow a token after which the text cannot be
// completed.
func (b *builder) finish(root int32) *network {
	n := b.rules()
	n.root = root
	null := n.nullable(b.meter)
	rewrite := n.leftRecursive(null, b.meter) || n.countsNothing(null)
	if rewrite {
		root = b.removeLeftRecursion(n, null)
		n = b.rules()
		n.root = root
	}
	n.marked = b.marked
	n.trim(b)
	if rewrite {
		n.minimize(b)
	}
	n.tails(b)
	n.folds(b)
	if !n.alive(root) {
		fail(ErrUnsatisfiable, "", "no text can satisfy this")
	}
	n.classes(b)
	n.pack(b)
	return n
}

// pack copies the states, and their edges and steps, into arrays of exactly their sizes.
// What they grew in while the rules were made is several times as large, and a grammar
// may be kept for long.
func (n *network) pack(b *builder) {
	edges, steps := 0, 0
	for i := range n.states {
		edges += len(n.states[i].edges)
		steps += len(n.states[i].steps)
	}
	allEdges, allSteps := make([]edge, 0, edges), make([]step, 0, steps)
	states := make([]state, len(n.states))
	for i, st := range n.states {
		b.spend(1)
		e, s := len(allEdges), len(allSteps)
		allEdges, allSteps = append(allEdges, st.edges...), append(allSteps, st.steps...)
		states[i] = state{allEdges[e:len(allEdges):len(allEdges)], allSteps[s:len(allSteps):len(allSteps)], st.accept, st.slack, st.ways, st.sure, st.flat}
		if st.ways > 0 {
			n.values = &record{}
		}
	}
	n.states, n.starts = states, slices.Clone(n.starts)
}

// bytes is how much memory n takes, without its base.
func (n *network) bytes() int64 {
	size := int64(1024 + 64*len(n.states) + 4*len(n.starts))
	for i := range n.states {
		size += int64(8*len(n.states[i].edges) + 20*len(n.states[i].steps))
	}
	return size
}

// rules determinizes all rules.
func (b *builder) rules() *network {
	n := &network{base: b.base, states: make([]state, 0, len(b.states))}
	if b.base != nil {
		n.starts = slices.Clone(b.base.starts)
		n.common = int32(len(b.base.states))
	}
	for _, s := range b.starts {
		var start int32
		n.states, start = b.determinize(s, n.states, n.common, b.reach(s))
		n.starts = append(n.starts, start)
	}
	return n
}

// reach is how many states the deterministic form of the automaton at from may have:
// a small multiple of the states that it has now.
func (b *builder) reach(from int32) int {
	first := b.visited()
	first(from)
	list := append(b.worklist[:0], from)
	for i := 0; i < len(list); i++ {
		b.spend(1)
		st := &b.states[list[i]]
		for _, e := range st.edges {
			if first(e.to) {
				list = append(list, e.to)
			}
		}
		for _, s := range st.steps {
			if first(s.to) {
				list = append(list, s.to)
			}
		}
	}
	b.worklist = list
	return 4*len(list) + 256
}

// classes fills class and reps.
func (n *network) classes(b *builder) {
	var cut [4]uint64
	called := make([]bool, len(n.starts))
	if n.root < n.own() {
		cut = n.base.cuts[n.root]
	}
	for i := range n.states {
		b.spend(1)
		n.states[i].cut(&cut)
		for _, s := range n.states[i].steps {
			if s.kind == stepCall && s.rule < n.own() && !called[s.rule] {
				called[s.rule] = true
				for w, bits := range n.base.cuts[s.rule] {
					cut[w] |= bits
				}
			}
		}
	}
	cut[0] |= 1
	n.reps = n.reps[:0]
	for i := range 256 {
		if cut[i>>6]>>(i&63)&1 == 1 {
			n.reps = append(n.reps, byte(i))
		}
		n.class[i] = uint8(len(n.reps) - 1)
	}
}

// cut sets the bits of the bytes at which a range of the edges of s begins or has
// just ended.
func (s *state) cut(cut *[4]uint64) {
	for _, e := range s.edges {
		cut[e.lo>>6] |= 1 << (e.lo & 63)
		if e.hi < 255 {
			cut[(e.hi+1)>>6] |= 1 << ((e.hi + 1) & 63)
		}
		if s.ways > 0 { // the bytes of values are told apart
			for b := int(e.lo); b <= int(e.hi); b++ {
				cut[b>>6] |= 1 << (b & 63)
			}
		}
	}
}

// asBase prepares n to be the base of other networks.
func (n *network) asBase() *network {
	n.nullableBase = n.nullable(unmetered())
	n.cuts = make([][4]uint64, len(n.starts))
	for r := range n.starts {
		seen := make([]bool, len(n.states))
		list := []int32{n.starts[r]}
		seen[list[0]] = true
		visit := func(s int32) {
			if !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
		for i := 0; i < len(list); i++ {
			st := &n.states[list[i]]
			st.cut(&n.cuts[r])
			for _, e := range st.edges {
				visit(e.to)
			}
			for _, s := range st.steps {
				visit(s.to)
				if s.kind == stepCall {
					visit(n.starts[s.rule])
				}
			}
		}
	}
	return n
}

// alive reports whether any text satisfies rule, once dead ends are removed.
func (n *network) alive(rule int32) bool {
	s := n.at(n.starts[rule])
	return s.accept || len(s.edges) > 0 || len(s.steps) > 0
}
