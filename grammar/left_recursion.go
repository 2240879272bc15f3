package grammar

import "slices"

// A rule that calls itself before it has read a byte would push frames without end.
// Such rules are rewritten by their left corners (Rosenkrantz and Lewis 1970; here on
// automata instead of productions). A text of a left-recursive rule begins with a part
// that has no left recursion. After it, one rule after another turns out to have begun
// with what was read so far. This chain needs no stack.

// nullable reports for each rule whether it accepts the empty text.
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

// front are the states that can be reached from from without reading a byte, if the
// rules marked in null are those that accept the empty text.
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

// leftRecursive reports whether any rule can call itself before it has read a byte.
func (n *network) leftRecursive() bool {
	return slices.ContainsFunc(cycles(n.leftCalls(n.nullable())), func(c []int32) bool { return c != nil })
}

// cycles gives for each rule the rules of its strongly connected component, nil if
// the rule does not reach itself. calls are the rules that each rule calls.
func cycles(calls [][]int32) [][]int32 {
	n := len(calls)
	c := &components{calls: calls, index: make([]int, n), low: make([]int, n), onPath: make([]bool, n), res: make([][]int32, n)}
	for rule := range calls {
		if c.index[rule] == 0 {
			c.search(int32(rule))
		}
	}
	return c.res
}

// components is Tarjan's algorithm (1972) with a stack of its own instead of recursion.
type components struct {
	calls  [][]int32
	index  []int // the order in which the rules were found, from 1 on; 0: not yet
	low    []int // the smallest index known to be reachable
	path   []int32
	onPath []bool
	count  int
	res    [][]int32
}

func (c *components) search(root int32) {
	type visit struct {
		rule int32
		next int // the call to follow next
	}
	todo := []visit{{rule: root}}
	for len(todo) > 0 {
		v := &todo[len(todo)-1]
		rule := v.rule
		if v.next == 0 {
			c.enter(rule)
		}
		if v.next < len(c.calls[rule]) {
			to := c.calls[rule][v.next]
			v.next++
			if c.index[to] == 0 {
				todo = append(todo, visit{rule: to})
			} else if c.onPath[to] {
				c.low[rule] = min(c.low[rule], c.index[to])
			}
			continue
		}
		todo = todo[:len(todo)-1]
		if len(todo) > 0 {
			caller := todo[len(todo)-1].rule
			c.low[caller] = min(c.low[caller], c.low[rule])
		}
		if c.low[rule] == c.index[rule] {
			c.takeComponent(rule)
		}
	}
}

func (c *components) enter(rule int32) {
	c.count++
	c.index[rule], c.low[rule], c.onPath[rule] = c.count, c.count, true
	c.path = append(c.path, rule)
}

// takeComponent takes the component that begins with first off the path.
func (c *components) takeComponent(first int32) {
	at := slices.Index(c.path, first)
	component := slices.Clone(c.path[at:])
	c.path = c.path[:at]
	for _, rule := range component {
		c.onPath[rule] = false
		if len(component) > 1 || slices.Contains(c.calls[rule], rule) {
			c.res[rule] = component
		}
	}
}

// removeLeftRecursion replaces the automata of b, whose finished form is n, by
// automata without left recursion. First every rule gets a form that reads at least
// one byte, so that no empty rule hides a left call. Then the cycles are removed. The
// result is the root.
func (b *builder) removeLeftRecursion(n *network) int32 {
	first := b.baseRules()
	null := n.nullable()
	root := n.root
	b.reset()
	for range n.starts[first:] {
		b.rule()
	}
	for r := first; r < int32(len(n.starts)); r++ {
		c := nonEmpty{b: b, n: n, null: null, begin: map[int32]int32{n.starts[r]: b.start(r)}, rest: map[int32]int32{}}
		c.copyRule(n.starts[r])
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

// nonEmpty copies a rule of n into b, in a form that reads at least one byte. Each
// state has two copies: begin before the first byte, and rest after it.
type nonEmpty struct {
	b           *builder
	n           *network
	null        []bool // by rule: it can read nothing
	begin, rest map[int32]int32
	todo        []halfState
}

type halfState struct {
	s    int32
	rest bool
}

func (c *nonEmpty) copyRule(start int32) {
	c.todo = []halfState{{start, false}}
	for len(c.todo) > 0 {
		at := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.copyState(at)
	}
}

// state is the copy of s.
func (c *nonEmpty) state(s int32, rest bool) int32 {
	copies := c.begin
	if rest {
		copies = c.rest
	}
	t, ok := copies[s]
	if !ok {
		t = c.b.state()
		copies[s] = t
		c.todo = append(c.todo, halfState{s, rest})
	}
	return t
}

func (c *nonEmpty) copyState(at halfState) {
	b := c.b
	from, st := c.state(at.s, at.rest), c.n.at(at.s)
	b.states[from].accept, b.states[from].ways = at.rest && st.accept, st.ways
	for _, e := range st.edges {
		b.edge(from, e.lo, e.hi, c.state(e.to, true))
	}
	for _, s := range st.steps {
		if s.kind != stepCall {
			s.to = c.state(s.to, at.rest)
			b.step(from, s)
			continue
		}
		if c.null[s.rule] { // the call reads nothing
			b.eps(from, c.state(s.to, at.rest))
		}
		s.to = c.state(s.to, true)
		b.step(from, s)
	}
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

// copyRule copies the automaton of n that begins at from into b, without the calls for
// which drop is true (of the state that calls and the rule). at maps states of n to
// their copies and has an entry for from.
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
		b.states[to].accept, b.states[to].ways = st.accept, st.ways
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

// leftCorners builds rule r of the given cycle of rules. It has copies of all of them
// without their left calls into the cycle. The end of each copy leads on to the places
// where its rule was called on the left.
func (b *builder) leftCorners(n *network, r int32, cycle []int32) {
	at := make(map[int32]int32) // the copies of n's states
	var calls []leftCall
	for _, d := range cycle {
		left := n.front(n.starts[d], make([]bool, len(n.starts)))
		at[n.starts[d]] = b.state()
		b.copyRule(n, n.starts[d], func(s, rule int32) bool {
			return slices.Contains(left, s) && slices.Contains(cycle, rule)
		}, at)
		calls = append(calls, n.leftCallsIn(left, cycle)...)
		b.eps(b.start(r), at[n.starts[d]])
	}
	ends := make(map[int32][]int32) // the accepting states of each rule, in n
	for _, d := range cycle {
		ends[d] = n.accepting(d)
		for _, s := range ends[d] {
			if d != r {
				b.states[at[s]].accept = false
			}
		}
	}
	for _, c := range calls {
		for _, e := range ends[c.rule] {
			b.eps(at[e], at[c.to])
		}
	}
}

// leftCall is a call that happens before a byte is read, and the state after it.
type leftCall struct{ rule, to int32 }

// leftCallsIn are the calls in the given states of rules of the cycle.
func (n *network) leftCallsIn(states, cycle []int32) []leftCall {
	var calls []leftCall
	for _, s := range states {
		for _, p := range n.at(s).steps {
			switch {
			case p.kind != stepCall:
				fail(ErrUnsupported, "", "left recursion through a counted repetition")
			case slices.Contains(cycle, p.rule):
				calls = append(calls, leftCall{p.rule, p.to})
			}
		}
	}
	return calls
}

// accepting are the accepting states of a rule.
func (n *network) accepting(rule int32) []int32 {
	var res []int32
	seen := map[int32]bool{n.starts[rule]: true}
	list := []int32{n.starts[rule]}
	visit := func(s int32) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	for i := 0; i < len(list); i++ {
		st := n.at(list[i])
		if st.accept {
			res = append(res, list[i])
		}
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, p := range st.steps {
			visit(p.to)
		}
	}
	return res
}

// reset drops the rules of b.
func (b *builder) reset() {
	b.states, b.starts, b.rests, b.marks, b.singletons = nil, nil, nil, nil, nil
}
