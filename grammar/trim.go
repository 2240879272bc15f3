package grammar

import "slices"

// trimmer removes dead ends. Whether a call can return depends on its counters, so
// there are two bits for each rule: whether it can be completed without a tick, and
// with at least one. (Counted rules have the form of builder.counted, so what can
// tick once can tick as often as it must.) Rules and states of the base are alive
// already; "own" ones are the others.
type trimmer struct {
	n      *network
	work   *meter
	states [][]int32 // the states of each own rule, in the order of a search from its start
	bare   []bool    // by rule: it can be completed without a tick
	ticked []bool    // by rule: it can be completed with ticks
	users  [][]int32 // the rules that call an own rule
	ends   []bool    // by own state: its rule can be completed from there
}

// trim removes the edges and steps after which no rule can be completed.
func (n *network) trim(b *builder) {
	rules := len(n.starts)
	t := &trimmer{n: n, work: b.meter, bare: make([]bool, rules), ticked: make([]bool, rules),
		states: make([][]int32, rules), users: make([][]int32, rules), ends: make([]bool, len(n.states))}
	first := n.own()
	for r := range first {
		t.bare[r], t.ticked[r] = true, true // base is trimmed; its counted rules can do either
	}
	seen := make([]bool, len(n.states))
	for r := first; r < int32(rules); r++ {
		t.collect(r, seen)
		t.setSlack(r)
	}
	queue := make([]int32, 0, rules)
	queued := make([]bool, rules)
	for r := int32(rules) - 1; r >= first; r-- {
		queue, queued[r] = append(queue, r), true
	}
	for i := 0; i < len(queue); i++ {
		r := queue[i]
		queued[r] = false
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
		if t.counts(r) {
			n.sure(t.states[r], b)
		}
	}
}

// tails marks the calls after which the calling rule has nothing left to do but to
// accept. Its frame need not be kept, so right recursion does not grow the stack.
func (n *network) tails(b *builder) {
	for i := range n.states {
		b.spend(1)
		for k := range n.states[i].steps {
			s := &n.states[i].steps[k]
			ret := n.at(s.to)
			s.tail = s.kind == stepCall && ret.accept && len(ret.edges) == 0 && len(ret.steps) == 0
		}
	}
}

// collect finds the states of rule r and the rules that it calls.
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
		t.work.spend(1)
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

// setSlack fills in the slack of the states of rule r.
func (t *trimmer) setSlack(r int32) {
	slack := int32(0)
	for _, s := range t.states[r] {
		steps := t.n.at(s).steps
		for i := range steps {
			slack = max(slack, steps[i].slack())
		}
	}
	for _, s := range t.states[r] {
		t.n.at(s).slack = slack
	}
}

// ok reports whether step s can be passed, as far as is known.
func (t *trimmer) ok(s step) bool {
	if s.kind != stepCall {
		return true
	}
	return s.need == 0 && t.bare[s.rule] || s.left != 0 && t.ticked[s.rule]
}

// spread finds the states of rule r from which it can be completed, as far as is
// known. Edges mostly lead to states further on in the list, so few passes from its
// end are enough.
func (t *trimmer) spread(r int32) {
	list, c := t.states[r], t.n.common
	for again := true; again; {
		again = false
		for i := len(list) - 1; i >= 0; i-- {
			t.work.spend(1)
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

// complete computes both bits of rule r again and reports whether one has changed.
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
	if t.counts(r) {
		bare, ticked = t.ways(r)
	}
	changed := bare != t.bare[r] || ticked != t.ticked[r]
	t.bare[r], t.ticked[r] = bare, ticked
	return changed
}

// counts reports whether rule r has ticks.
func (t *trimmer) counts(r int32) bool {
	return slices.ContainsFunc(t.states[r], func(s int32) bool {
		return slices.ContainsFunc(t.n.at(s).steps, func(p step) bool { return p.kind == stepTick })
	})
}

// ways computes both bits of a rule that has ticks.
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

// cut removes the edges and steps of rule r that lead to states from which it cannot
// be completed. The slices may be shared with the builder, so they are not filtered
// in place.
func (t *trimmer) cut(r int32) {
	for _, s := range t.states[r] {
		t.work.spend(1)
		st := t.n.at(s)
		if st.ways > 0 && !t.ends[s-t.n.common] && t.ends[t.n.starts[r]-t.n.common] {
			fail(ErrUnsupported, "", "values that must differ belong to something that nothing satisfies") // ways would be wrong
		}
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
