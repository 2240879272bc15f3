package grammar

import (
	"fmt"
	"slices"
)

// network is a finished grammar: deterministic rules (as far as that was
// affordable) without dead ends.
type network struct {
	states []state
	starts []int32 // of each rule
	root   int32   // rule
	common int32   // the states below are those of the common rules, in every grammar the same
	class  [256]uint8
	reps   []byte // one byte of each class
}

func (n *network) String() string {
	return fmt.Sprintf("%d rules, %d states, %d byte classes", len(n.starts), len(n.states), len(n.reps))
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
	n := &network{}
	if b.base != nil {
		n.states = slices.Clone(b.base.states)
		n.starts = slices.Clone(b.base.starts)
		n.common = int32(len(n.states))
	}
	for _, s := range b.starts {
		var start int32
		n.states, start = b.determinize(s, n.states, b.reach(s))
		n.starts = append(n.starts, start)
	}
	return n
}

// reach bounds the subsets of the automaton at from by a small multiple of its
// states.
func (b *builder) reach(from int32) int {
	seen := map[int32]bool{from: true}
	list := []int32{from}
	visit := func(t int32) {
		if !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	for i := 0; i < len(list); i++ {
		st := &b.states[list[i]]
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, s := range st.steps {
			visit(s.to)
		}
	}
	b.work(len(list))
	return 4*len(list) + 256
}

// classes groups bytes that no edge tells apart.
func (n *network) classes() {
	var cut [257]bool
	cut[0] = true
	for i := range n.states {
		for _, e := range n.states[i].edges {
			cut[e.lo], cut[int(e.hi)+1] = true, true
		}
	}
	n.reps = n.reps[:0]
	for i := range 256 {
		if cut[i] {
			n.reps = append(n.reps, byte(i))
		}
		n.class[i] = uint8(len(n.reps) - 1)
	}
}

// Two bits per rule say how it can be completed: without a tick, and with at
// least one. (Counted rules have the form of builder.counted, so what can tick
// once can tick as often as it must.)
type trimmer struct {
	n      *network
	owner  []int32   // rule of each own state
	states [][]int32 // own states of each rule
	preds  map[int32][]int32
	bare   []bool
	ticked []bool
	users  [][]int32 // rules that call a rule
}

func (n *network) alive(rule int32) bool {
	s := &n.states[n.starts[rule]]
	return s.accept || len(s.edges) > 0 || len(s.steps) > 0
}

func (n *network) trim(b *builder) {
	t := &trimmer{n: n, bare: make([]bool, len(n.starts)), ticked: make([]bool, len(n.starts)),
		states: make([][]int32, len(n.starts)), users: make([][]int32, len(n.starts))}
	first := int32(0) // own rules
	if b.base != nil {
		first = int32(len(b.base.starts))
		for r := range b.base.starts {
			t.bare[r], t.ticked[r] = true, true // base is trimmed; its counted rules can do either
		}
	}
	seen := make([]bool, len(n.states))
	for r := first; r < int32(len(n.starts)); r++ {
		t.collect(r, seen)
	}
	queue := make([]int32, 0, len(n.starts))
	queued := make([]bool, len(n.starts))
	for r := int32(len(n.starts)) - 1; r >= first; r-- {
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
	for r := first; r < int32(len(n.starts)); r++ {
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
			ret := &n.states[s.to]
			s.tail = s.kind == stepCall && ret.accept && len(ret.edges) == 0 && len(ret.steps) == 0
		}
	}
}

func (t *trimmer) collect(r int32, seen []bool) {
	list := []int32{t.n.starts[r]}
	seen[list[0]] = true
	visit := func(s int32) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	for i := 0; i < len(list); i++ {
		st := &t.n.states[list[i]]
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, s := range st.steps {
			visit(s.to)
			if s.kind == stepCall && !slices.Contains(t.users[s.rule], r) {
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

// ends are the states of r from which it can be completed, as far as is known.
func (t *trimmer) ends(r int32) map[int32]bool {
	preds := make(map[int32][]int32)
	var list []int32
	ends := make(map[int32]bool)
	for _, s := range t.states[r] {
		st := &t.n.states[s]
		if st.accept {
			ends[s] = true
			list = append(list, s)
		}
		for _, e := range st.edges {
			preds[e.to] = append(preds[e.to], s)
		}
		for _, p := range st.steps {
			if t.ok(p) {
				preds[p.to] = append(preds[p.to], s)
			}
		}
	}
	for i := 0; i < len(list); i++ {
		for _, p := range preds[list[i]] {
			if !ends[p] {
				ends[p] = true
				list = append(list, p)
			}
		}
	}
	return ends
}

// complete recomputes both bits of r and reports whether one changed.
func (t *trimmer) complete(r int32) bool {
	if t.bare[r] && t.ticked[r] {
		return false
	}
	ends := t.ends(r)
	type at struct {
		s      int32
		ticked bool
	}
	start := at{t.n.starts[r], false}
	if !ends[start.s] {
		return false
	}
	seen := map[at]bool{start: true}
	list := []at{start}
	visit := func(a at) {
		if ends[a.s] && !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	bare, ticked := false, false
	for i := 0; i < len(list); i++ {
		a := list[i]
		st := &t.n.states[a.s]
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
	// A rule that never ticks may be called with any counts.
	if bare && !slices.ContainsFunc(t.states[r], func(s int32) bool {
		return slices.ContainsFunc(t.n.states[s].steps, func(p step) bool { return p.kind == stepTick })
	}) {
		ticked = true
	}
	changed := bare != t.bare[r] || ticked != t.ticked[r]
	t.bare[r], t.ticked[r] = bare, ticked
	return changed
}

// cut removes what leads out of the completable states. The slices may be
// shared with the builder, so they are not filtered in place.
func (t *trimmer) cut(r int32) {
	ends := t.ends(r)
	for _, s := range t.states[r] {
		st := &t.n.states[s]
		if slices.ContainsFunc(st.edges, func(e edge) bool { return !ends[e.to] }) {
			st.edges = slices.DeleteFunc(slices.Clone(st.edges), func(e edge) bool { return !ends[e.to] })
		}
		bad := func(p step) bool { return !ends[p.to] || !t.ok(p) }
		if slices.ContainsFunc(st.steps, bad) {
			st.steps = slices.DeleteFunc(slices.Clone(st.steps), bad)
		}
	}
}
