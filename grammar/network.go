package grammar

import "slices"

// network is a finished grammar: deterministic rules (as far as that was
// affordable) without dead ends. The states of the common rules come first and are
// shared by all networks.
type network struct {
	base   *network    // the common rules; nil in base itself
	states []state     // less those of base
	starts []int32     // of each rule, those of base first
	common int32       // number of states in base
	root   int32       // rule
	cuts   [][4]uint64 // of each rule of base: bytes at which one of its edges begins, or that follow one
	null   []bool      // of each rule of base: it can read nothing
	class  [256]uint8
	reps   []byte // one byte of each class
}

func (n *network) at(s int32) *state {
	if s < n.common {
		return &n.base.states[s]
	}
	return &n.states[s-n.common]
}

// own is the first rule that is not of base.
func (n *network) own() int32 {
	if n.base == nil {
		return 0
	}
	return int32(len(n.base.starts))
}

// finish determinizes the rules and cuts off what leads nowhere: a mask must
// never allow a token after which the text cannot be completed.
func (b *builder) finish(root int32) *network {
	n := b.rules()
	n.root = root
	if n.leftRecursive() {
		root = b.removeLeftRecursion(n)
		n = b.rules()
		n.root = root
	}
	n.trim(b)
	if !n.alive(root) {
		fail(ErrUnsatisfiable, "", "no text can satisfy this")
	}
	n.classes()
	return n
}

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

// reach bounds the subsets of the automaton at from by a small multiple of its
// states.
func (b *builder) reach(from int32) int {
	first := b.visited()
	first(from)
	list := append(b.list[:0], from)
	for i := 0; i < len(list); i++ {
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
	b.list = list
	b.work(len(list))
	return 4*len(list) + 256
}

// classes groups bytes that no edge tells apart.
func (n *network) classes() {
	var cut [4]uint64
	called := make([]bool, len(n.starts))
	if n.root < n.own() {
		cut = n.base.cuts[n.root]
	}
	for i := range n.states {
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

func (s *state) cut(cut *[4]uint64) {
	for _, e := range s.edges {
		cut[e.lo>>6] |= 1 << (e.lo & 63)
		if e.hi < 255 {
			cut[(e.hi+1)>>6] |= 1 << ((e.hi + 1) & 63)
		}
	}
}

// asBase prepares n to be the base of other networks.
func (n *network) asBase() *network {
	n.null = n.nullable()
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

func (n *network) alive(rule int32) bool {
	s := n.at(n.starts[rule])
	return s.accept || len(s.edges) > 0 || len(s.steps) > 0
}

// trimmer removes dead ends. Two bits per rule say how it can be completed:
// without a tick, and with at least one. (Counted rules have the form of
// builder.counted, so what can tick once can tick as often as it must.)
type trimmer struct {
	n      *network
	states [][]int32 // own states of each own rule
	bare   []bool
	ticked []bool
	users  [][]int32 // rules that call an own rule
	ends   []bool    // of the own states: their rule can be completed from there
}

func (n *network) trim(b *builder) {
	rules := len(n.starts)
	t := &trimmer{n: n, bare: make([]bool, rules), ticked: make([]bool, rules),
		states: make([][]int32, rules), users: make([][]int32, rules), ends: make([]bool, len(n.states))}
	first := n.own()
	for r := range first {
		t.bare[r], t.ticked[r] = true, true // base is trimmed; its counted rules can do either
	}
	seen := make([]bool, len(n.states))
	for r := first; r < int32(rules); r++ {
		t.collect(r, seen)
	}
	queue := make([]int32, 0, rules)
	queued := make([]bool, rules)
	for r := int32(rules) - 1; r >= first; r-- {
		queue, queued[r] = append(queue, r), true
	}
	for i := 0; i < len(queue); i++ {
		r := queue[i]
		queued[r] = false
		b.work(len(t.states[r]))
		if !t.complete(r) {
			continue
		}
		for _, u := range t.users[r] {
			if !queued[u] {
				queue, queued[u] = append(queue, u), true
			}
		}
	}
	for r := first; r < int32(rules); r++ {
		t.spread(r)
		t.cut(r)
	}
	n.tails()
}

// tails marks the calls after which nothing is left but to accept: their frame
// need not be kept, so right recursion does not grow the stack.
func (n *network) tails() {
	for i := range n.states {
		for k := range n.states[i].steps {
			s := &n.states[i].steps[k]
			ret := n.at(s.to)
			s.tail = s.kind == stepCall && ret.accept && len(ret.edges) == 0 && len(ret.steps) == 0
		}
	}
}

func (t *trimmer) collect(r int32, seen []bool) {
	c := t.n.common
	list := []int32{t.n.starts[r]}
	seen[list[0]-c] = true
	visit := func(s int32) {
		if !seen[s-c] {
			seen[s-c] = true
			list = append(list, s)
		}
	}
	for i := 0; i < len(list); i++ {
		st := t.n.at(list[i])
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, s := range st.steps {
			visit(s.to)
			if s.kind == stepCall && s.rule >= t.n.own() && !slices.Contains(t.users[s.rule], r) {
				t.users[s.rule] = append(t.users[s.rule], r)
			}
		}
	}
	t.states[r] = list
}

func (t *trimmer) ok(s step) bool {
	if s.kind != stepCall {
		return true
	}
	return s.need == 0 && t.bare[s.rule] || s.left != 0 && t.ticked[s.rule]
}

// spread finds the states of r from which it can be completed, as far as is
// known. Edges mostly lead on in the list, so few passes from its end suffice.
func (t *trimmer) spread(r int32) {
	list, c := t.states[r], t.n.common
	for again := true; again; {
		again = false
		for i := len(list) - 1; i >= 0; i-- {
			s := list[i] - c
			if t.ends[s] {
				continue
			}
			st := &t.n.states[s]
			if st.accept || slices.ContainsFunc(st.edges, func(e edge) bool { return t.ends[e.to-c] }) ||
				slices.ContainsFunc(st.steps, func(p step) bool { return t.ends[p.to-c] && t.ok(p) }) {
				t.ends[s], again = true, true
			}
		}
	}
}

// complete recomputes both bits of r and reports whether one changed.
func (t *trimmer) complete(r int32) bool {
	if t.bare[r] && t.ticked[r] {
		return false
	}
	t.spread(r)
	c := t.n.common
	if !t.ends[t.n.starts[r]-c] {
		return false
	}
	bare, ticked := true, true
	if slices.ContainsFunc(t.states[r], func(s int32) bool {
		return slices.ContainsFunc(t.n.at(s).steps, func(p step) bool { return p.kind == stepTick })
	}) {
		bare, ticked = t.ways(r)
	}
	changed := bare != t.bare[r] || ticked != t.ticked[r]
	t.bare[r], t.ticked[r] = bare, ticked
	return changed
}

// ways tells how a rule that ticks can be completed.
func (t *trimmer) ways(r int32) (bare, ticked bool) {
	type at struct {
		s      int32
		ticked bool
	}
	start := at{t.n.starts[r], false}
	seen := map[at]bool{start: true}
	list := []at{start}
	visit := func(a at) {
		if t.ends[a.s-t.n.common] && !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	for i := 0; i < len(list); i++ {
		a := list[i]
		st := t.n.at(a.s)
		bare = bare || st.accept && !a.ticked
		ticked = ticked || st.accept && a.ticked
		for _, e := range st.edges {
			visit(at{e.to, a.ticked})
		}
		for _, p := range st.steps {
			if t.ok(p) {
				visit(at{p.to, a.ticked || p.kind == stepTick})
			}
		}
	}
	return bare, ticked
}

// cut removes what leads out of the completable states. The slices may be
// shared with the builder, so they are not filtered in place.
func (t *trimmer) cut(r int32) {
	for _, s := range t.states[r] {
		st := t.n.at(s)
		out := func(e edge) bool { return !t.ends[e.to-t.n.common] }
		if slices.ContainsFunc(st.edges, out) {
			st.edges = slices.DeleteFunc(slices.Clone(st.edges), out)
		}
		bad := func(p step) bool { return !t.ends[p.to-t.n.common] || !t.ok(p) }
		if slices.ContainsFunc(st.steps, bad) {
			st.steps = slices.DeleteFunc(slices.Clone(st.steps), bad)
		}
	}
}
