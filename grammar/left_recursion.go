package grammar

import "slices"

// A rule that calls itself before it has read a byte would push frames without end.
// Such rules are rewritten by their left corners (Rosenkrantz and Lewis 1970; here on
// automata instead of productions). A text of a left-recursive rule begins with a part
// that has no left recursion. After it, one rule after another turns out to have begun
// with what was read so far. This chain needs no stack.

// empty says how a rule can read the empty text: without a tick, and with some. What can
// tick once without reading can tick as often as it must.
type empty struct{ bare, ticked bool }

// passes reports whether step s can be taken without reading anything, if null says which
// rules can.
func (s *step) passes(null []empty) bool {
	if s.kind != stepCall {
		return true
	}
	return s.need == 0 && null[s.rule].bare || s.left != 0 && null[s.rule].ticked
}

// nullable finds out for each rule how it reads the empty text.
func (n *network) nullable(work *meter) []empty {
	null := make([]empty, len(n.starts))
	if n.base != nil {
		copy(null, n.base.nullableBase)
	}
	waiting := make([][]int32, len(n.starts)) // the rules that have a call that does not pass yet
	queue := make([]int32, 0, len(n.starts))
	queued := make([]bool, len(n.starts))
	for r := int32(len(n.starts)) - 1; r >= n.own(); r-- {
		queue, queued[r] = append(queue, r), true
	}
	for i := 0; i < len(queue); i++ {
		r := queue[i]
		queued[r] = false
		e := n.emptyWays(r, null, work, func(rule int32) {
			if w := waiting[rule]; len(w) == 0 || w[len(w)-1] != r {
				waiting[rule] = append(w, r)
			}
		})
		if e == null[r] {
			continue
		}
		null[r] = e
		for _, u := range waiting[r] {
			if !queued[u] {
				queue, queued[u] = append(queue, u), true
			}
		}
		waiting[r] = waiting[r][:0]
	}
	return null
}

// emptyWays finds out how rule r reads the empty text, if null is what is known so far. It
// calls blocked for the rules that might change that.
func (n *network) emptyWays(r int32, null []empty, work *meter, blocked func(rule int32)) (e empty) {
	type at struct {
		s      int32
		ticked bool
	}
	start := at{n.starts[r], false}
	if len(n.at(start.s).steps) == 0 {
		work.spend(1)
		return empty{bare: n.at(start.s).accept}
	}
	seen := map[at]bool{start: true}
	list := []at{start}
	for i := 0; i < len(list); i++ {
		a, st := list[i], n.at(list[i].s)
		work.spend(1 + len(st.steps))
		e.bare = e.bare || st.accept && !a.ticked
		e.ticked = e.ticked || st.accept && a.ticked
		for k := range st.steps {
			s := &st.steps[k]
			to := at{s.to, a.ticked || s.kind == stepTick}
			if s.kind == stepCall && s.rule >= n.own() && !(null[s.rule].bare && null[s.rule].ticked) {
				blocked(s.rule)
			}
			if s.passes(null) && !seen[to] {
				seen[to] = true
				list = append(list, to)
			}
		}
	}
	return e
}

// front are the states that can be reached from from without reading a byte, if null says
// how the rules read the empty text.
func (n *network) front(from int32, null []empty, work *meter) []int32 {
	list := []int32{from}
	if len(n.at(from).steps) == 0 {
		work.spend(1)
		return list
	}
	seen := map[int32]bool{from: true}
	for i := 0; i < len(list); i++ {
		steps := n.at(list[i]).steps
		work.spend(1 + len(steps))
		for k := range steps {
			if s := &steps[k]; s.passes(null) && !seen[s.to] {
				seen[s.to] = true
				list = append(list, s.to)
			}
		}
	}
	return list
}

// leftCalls are the rules that each rule can call before it has read a byte.
func (n *network) leftCalls(null []empty, work *meter) [][]int32 {
	calls := make([][]int32, len(n.starts))
	last := make([]int32, len(n.starts))              // 1 + the rule that was last seen to call a rule
	for r := n.own(); r < int32(len(n.starts)); r++ { // the common rules do not call back
		for _, s := range n.front(n.starts[r], null, work) {
			for _, st := range n.at(s).steps {
				if st.kind == stepCall && last[st.rule] != r+1 {
					last[st.rule] = r + 1
					calls[r] = append(calls[r], st.rule)
				}
			}
		}
	}
	return calls
}

// leftRecursive reports whether any rule can call itself before it has read a byte.
func (n *network) leftRecursive(null []empty, work *meter) bool {
	return slices.ContainsFunc(cycles(n.leftCalls(null, work)), func(c []int32) bool { return c != nil })
}

// countsNothing reports whether any rule can tick without reading a byte.
func (n *network) countsNothing(null []empty) bool {
	return slices.ContainsFunc(null[n.own():], func(e empty) bool { return e.ticked })
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
// one byte, so that no empty rule hides a left call, and so do the repetitions of a
// counted rule, so that no rule ticks without reading. Then the cycles are removed. The
// result is the root.
func (b *builder) removeLeftRecursion(n *network, null []empty) int32 {
	first := b.baseRules()
	root := n.root
	b.reset()
	for range n.starts[first:] {
		b.rule()
	}
	for r := first; r < int32(len(n.starts)); r++ {
		c := nonEmpty{b: b, n: n, null: null, copies: map[halfState]int32{{s: n.starts[r]}: b.start(r)}}
		c.copyRule(n.starts[r])
	}
	b.cutLeft()
	if null[root].bare { // the text as a whole may be empty after all
		r := b.rule()
		end := b.call(b.start(r), root)
		b.accept(end)
		b.accept(b.start(r))
		root = r
	}
	return root
}

// nonEmpty copies a rule of n into b, in a form that reads at least one byte, as does
// each of its repetitions if it is a counted rule.
type nonEmpty struct {
	b      *builder
	n      *network
	null   []empty
	copies map[halfState]int32
	todo   []halfState
}

// halfState is a state in one of three copies.
type halfState struct {
	s    int32
	part part
}

type part uint8

const (
	nothingRead part = iota // the rule has read nothing, and has not ticked
	justTicked              // nothing was read since the last tick
	somethingRead
)

func (c *nonEmpty) copyRule(start int32) {
	c.todo = []halfState{{s: start}}
	for len(c.todo) > 0 {
		at := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.copyState(at)
	}
}

// state is the copy of s.
func (c *nonEmpty) state(s int32, p part) int32 {
	at := halfState{s, p}
	t, ok := c.copies[at]
	if !ok {
		t = c.b.state()
		c.copies[at] = t
		c.todo = append(c.todo, at)
	}
	return t
}

func (c *nonEmpty) copyState(at halfState) {
	b := c.b
	from, st := c.state(at.s, at.part), c.n.at(at.s)
	b.spend(len(st.edges) + len(st.steps))
	b.states[from].accept, b.states[from].ways = at.part == somethingRead && st.accept, st.ways
	for _, e := range st.edges {
		b.edge(from, e.lo, e.hi, c.state(e.to, somethingRead))
	}
	for _, s := range st.steps {
		switch s.kind {
		case stepCall:
			if s.passes(c.null) {
				b.eps(from, c.state(s.to, at.part))
			}
			if c.null[s.rule].ticked { // some of the repetitions that are needed may be empty
				s.need = 0
			}
			s.to = c.state(s.to, somethingRead)
			b.step(from, s)
		case stepTick:
			if at.part != justTicked {
				s.to = c.state(s.to, justTicked)
				b.step(from, s)
			}
		case stepGuard:
			if at.part != justTicked {
				s.to = c.state(s.to, at.part)
				b.step(from, s)
			}
		default:
			s.to = c.state(s.to, at.part)
			b.step(from, s)
		}
	}
}

// cutLeft removes the cycles of left calls from b, whose rules all read a byte.
func (b *builder) cutLeft() {
	n := b.rules()
	none := make([]empty, len(n.starts))
	first := b.baseRules()
	b.reset()
	for r := first; r < int32(len(n.starts)); r++ {
		b.rule()
	}
	sccs := cycles(n.leftCalls(none, b.meter))
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
	none := make([]empty, len(n.starts))
	inCycle := make([]bool, len(n.starts))
	for _, d := range cycle {
		inCycle[d] = true
	}
	for _, d := range cycle {
		left := n.front(n.starts[d], none, b.meter)
		at[n.starts[d]] = b.state()
		b.copyRule(n, n.starts[d], func(s, rule int32) bool {
			return inCycle[rule] && slices.Contains(left, s)
		}, at)
		calls = append(calls, n.leftCallsIn(left, inCycle)...)
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
func (n *network) leftCallsIn(states []int32, inCycle []bool) []leftCall {
	var calls []leftCall
	for _, s := range states {
		for _, p := range n.at(s).steps {
			switch {
			case p.kind != stepCall:
				fail(ErrUnsupported, "", "left recursion through a counted repetition")
			case inCycle[p.rule]:
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
