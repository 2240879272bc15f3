package grammar

import "slices"

// A rule that calls itself before it has read a byte would push frames without
// end. Such rules are rewritten by their left corners (Rosenkrantz and Lewis
// 1970, on automata instead of productions): a left-recursive text is a first
// part without left recursion, after which one rule after the other is found to
// have begun with what was read so far. That chain needs no stack.

// nullable finds the rules that can read nothing.
func (n *network) nullable() []bool {
	null := make([]bool, len(n.starts))
	if n.base != nil {
		copy(null, n.base.nullableBase)
	}
	for again := true; again; {
		again = false
		for r := int(n.own()); r < len(n.starts); r++ {
			if null[r] {
				continue
			}
			for _, s := range n.front(n.starts[r], null) {
				if n.at(s).accept {
					null[r], again = true, true
					break
				}
			}
		}
	}
	return null
}

// front are the states that from reaches without reading a byte, given the rules
// known to be nullable.
func (n *network) front(from int32, null []bool) []int32 {
	list := []int32{from}
	if len(n.at(from).steps) == 0 {
		return list
	}
	seen := map[int32]bool{from: true}
	for i := 0; i < len(list); i++ {
		for _, s := range n.at(list[i]).steps {
			if (s.kind != stepCall || null[s.rule]) && !seen[s.to] {
				seen[s.to] = true
				list = append(list, s.to)
			}
		}
	}
	return list
}

// leftCalls are the rules that each rule can call before it has read a byte.
func (n *network) leftCalls(null []bool) [][]int32 {
	calls := make([][]int32, len(n.starts))
	for r := n.own(); r < int32(len(n.starts)); r++ { // the common rules do not call back
		for _, s := range n.front(n.starts[r], null) {
			for _, st := range n.at(s).steps {
				if st.kind == stepCall && !slices.Contains(calls[r], st.rule) {
					calls[r] = append(calls[r], st.rule)
				}
			}
		}
	}
	return calls
}

func (n *network) leftRecursive() bool {
	return slices.ContainsFunc(cycles(n.leftCalls(n.nullable())), func(c []int32) bool { return c != nil })
}

// cycles gives for each rule the rules of its strongly connected component, nil
// where the rule does not reach itself (Tarjan 1972, with a stack of its own).
func cycles(calls [][]int32) [][]int32 {
	n := len(calls)
	res := make([][]int32, n)
	index, low, on := make([]int, n), make([]int, n), make([]bool, n)
	var path []int32
	next := 0
	type frame struct {
		v int32
		k int
	}
	for root := range n {
		if index[root] != 0 {
			continue
		}
		todo := []frame{{v: int32(root)}}
		for len(todo) > 0 {
			f := &todo[len(todo)-1]
			v := f.v
			if f.k == 0 {
				next++
				index[v], low[v], on[v] = next, next, true
				path = append(path, v)
			}
			if f.k < len(calls[v]) {
				w := calls[v][f.k]
				f.k++
				if index[w] == 0 {
					todo = append(todo, frame{v: w})
				} else if on[w] {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			todo = todo[:len(todo)-1]
			if len(todo) > 0 {
				up := todo[len(todo)-1].v
				low[up] = min(low[up], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			at := len(path) - 1
			for path[at] != v {
				at--
			}
			scc := slices.Clone(path[at:])
			path = path[:at]
			for _, w := range scc {
				on[w] = false
				if len(scc) > 1 || slices.Contains(calls[w], w) {
					res[w] = scc
				}
			}
		}
	}
	return res
}

// removeLeftRecursion replaces the automata of b, whose finished form is n, by
// ones without left recursion. First every rule gets a form that reads at least
// one byte, so that no empty rule can hide a left call; then the cycles go. The
// result is the root.
func (b *builder) removeLeftRecursion(n *network) int32 {
	first := b.baseRules()
	null := n.nullable()
	root := n.root
	b.reset()
	type layers struct{ begin, rest map[int32]int32 } // of n's states
	copies := make([]layers, len(n.starts))
	for r := first; r < int32(len(n.starts)); r++ {
		b.rule()
		copies[r] = layers{map[int32]int32{n.starts[r]: b.start(r)}, map[int32]int32{}}
	}
	for r := first; r < int32(len(n.starts)); r++ {
		c := copies[r]
		type at struct {
			s    int32
			rest bool
		}
		todo := []at{{n.starts[r], false}}
		place := func(s int32, rest bool) int32 {
			m := c.begin
			if rest {
				m = c.rest
			}
			t, ok := m[s]
			if !ok {
				t = b.state()
				m[s] = t
				todo = append(todo, at{s, rest})
			}
			return t
		}
		for len(todo) > 0 {
			a := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			from, st := place(a.s, a.rest), n.at(a.s)
			b.states[from].accept = a.rest && st.accept
			for _, e := range st.edges {
				b.edge(from, e.lo, e.hi, place(e.to, true))
			}
			for _, s := range st.steps {
				if s.kind != stepCall {
					s.to = place(s.to, a.rest)
					b.step(from, s)
					continue
				}
				if null[s.rule] {
					b.eps(from, place(s.to, a.rest))
				}
				s.to = place(s.to, true)
				b.step(from, s)
			}
		}
	}
	b.cutLeft()
	if null[root] { // the text as a whole may be empty after all
		r := b.rule()
		end := b.call(b.start(r), root)
		b.accept(end)
		b.accept(b.start(r))
		root = r
	}
	return root
}

// cutLeft removes the cycles of left calls from b, whose rules all read a byte.
func (b *builder) cutLeft() {
	n := b.rules()
	none := make([]bool, len(n.starts))
	first := b.baseRules()
	b.reset()
	for r := first; r < int32(len(n.starts)); r++ {
		b.rule()
	}
	sccs := cycles(n.leftCalls(none))
	for r := first; r < int32(len(n.starts)); r++ {
		if sccs[r] == nil {
			b.copyRule(n, n.starts[r], nil, map[int32]int32{n.starts[r]: b.start(r)})
			continue
		}
		b.leftCorners(n, r, sccs[r])
	}
}

// copyRule copies the automaton of n that starts at from into b, leaving out the
// calls for which drop holds (given the state that calls, and the rule). at maps
// states of n to states of b and has an entry for from.
func (b *builder) copyRule(n *network, from int32, drop func(s, rule int32) bool, at map[int32]int32) {
	todo := []int32{from}
	place := func(s int32) int32 {
		t, ok := at[s]
		if !ok {
			t = b.state()
			at[s] = t
			todo = append(todo, s)
		}
		return t
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		to, st := at[s], n.at(s)
		b.states[to].accept = st.accept
		for _, e := range st.edges {
			b.edge(to, e.lo, e.hi, place(e.to))
		}
		for _, p := range st.steps {
			if p.kind == stepCall && drop != nil && drop(s, p.rule) {
				place(p.to)
				continue
			}
			p.to = place(p.to)
			b.step(to, p)
		}
	}
}

// leftCorners builds rule r of the cycle scc: copies of all its rules, without
// their left calls into scc; the end of each leads on to wherever it was called
// from on the left.
func (b *builder) leftCorners(n *network, r int32, scc []int32) {
	none := make([]bool, len(n.starts))
	at := make(map[int32]int32)
	type site struct{ callee, to int32 }
	var sites []site
	for _, d := range scc {
		left := n.front(n.starts[d], none)
		at[n.starts[d]] = b.state()
		b.copyRule(n, n.starts[d], func(s, rule int32) bool {
			return slices.Contains(left, s) && slices.Contains(scc, rule)
		}, at)
		for _, s := range left {
			for _, p := range n.at(s).steps {
				switch {
				case p.kind != stepCall:
					fail(ErrUnsupported, "", "left recursion through a counted repetition")
				case slices.Contains(scc, p.rule):
					sites = append(sites, site{p.rule, p.to})
				}
			}
		}
		b.eps(b.start(r), at[n.starts[d]])
	}
	ends := make(map[int32][]int32) // accepting states of each rule, in n
	for _, d := range scc {
		seen := map[int32]bool{n.starts[d]: true}
		list := []int32{n.starts[d]}
		for i := 0; i < len(list); i++ {
			st := n.at(list[i])
			if st.accept {
				ends[d] = append(ends[d], list[i])
				if d != r {
					b.states[at[list[i]]].accept = false
				}
			}
			for _, e := range st.edges {
				if !seen[e.to] {
					seen[e.to] = true
					list = append(list, e.to)
				}
			}
			for _, p := range st.steps {
				if !seen[p.to] {
					seen[p.to] = true
					list = append(list, p.to)
				}
			}
		}
	}
	for _, s := range sites {
		for _, e := range ends[s.callee] {
			b.eps(at[e], at[s.to])
		}
	}
}

// reset drops the rules of b.
func (b *builder) reset() {
	b.states, b.starts, b.rests, b.marks, b.singletons = nil, nil, nil, nil, nil
}
