package grammar

import (
	"encoding/binary"
	"slices"
)

// minimize makes states one from which the same is read: they accept or not, read the same
// bytes and call the same rules, and go on to states of which this is true again (Moore
// 1956, on steps as well as on bytes). Rules are the same if their start states are. The
// forms that removeLeftRecursion makes have many such states, and two of them that stand on
// each other as return addresses double the stacks of an ambiguous text.
func (n *network) minimize(b *builder) {
	class := make([]int32, len(n.states)) // of each state
	for i := range n.states {
		for k, flag := range [...]bool{n.states[i].accept, n.states[i].sure, n.states[i].flat} {
			if flag {
				class[i] |= 1 << k
			}
		}
	}
	for count := 0; ; {
		classes := make(map[string]int32, count)
		next := make([]int32, len(n.states))
		var key []byte
		for i := range n.states {
			b.spend(1 + len(n.states[i].edges) + len(n.states[i].steps))
			key = n.appendKey(key[:0], i, class)
			c, ok := classes[string(key)]
			if !ok {
				c = int32(len(classes))
				classes[string(key)] = c
			}
			next[i] = c
		}
		class = next
		if len(classes) == count {
			break
		}
		count = len(classes)
	}
	n.merge(class)
}

// appendKey appends to key what tells apart the state n.states[i] from others of its class,
// if states of one class are taken to be equal.
func (n *network) appendKey(key []byte, i int, class []int32) []byte {
	appendState := func(s int32) {
		c := -1 - int64(s)
		if s >= n.common {
			c = int64(class[s-n.common])
		}
		key = binary.AppendVarint(key, c)
	}
	st := &n.states[i]
	key = binary.AppendVarint(key, int64(class[i]))
	key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(st.slack)), uint64(st.ways))
	for _, e := range st.edges {
		key = append(key, e.lo, e.hi)
		appendState(e.to)
	}
	key = append(key, 255, 0) // no edge has this range
	for _, s := range st.steps {
		key = append(key, byte(s.kind))
		if s.kind == stepCall {
			appendState(n.starts[s.rule])
		}
		key = binary.AppendVarint(binary.AppendVarint(key, int64(s.need)), int64(s.left))
		appendState(s.to)
	}
	return key
}

// merge keeps one state of each class. Steps of a state that have become equal are one.
func (n *network) merge(class []int32) {
	first := make([]int32, len(n.states)) // of each class
	for i := len(class) - 1; i >= 0; i-- {
		first[class[i]] = int32(i) + n.common
	}
	to := func(s int32) int32 {
		if s < n.common {
			return s
		}
		return first[class[s-n.common]]
	}
	rules := make(map[int32]int32) // by start state: the first rule with it
	for r := n.own(); r < int32(len(n.starts)); r++ {
		n.starts[r] = to(n.starts[r])
		if _, ok := rules[n.starts[r]]; !ok {
			rules[n.starts[r]] = r
		}
	}
	for i := range n.states {
		st := &n.states[i]
		for k := range st.edges {
			st.edges[k].to = to(st.edges[k].to)
		}
		steps := st.steps[:0]
		for _, s := range st.steps {
			if s.to = to(s.to); s.kind == stepCall && s.rule >= n.own() {
				s.rule = rules[n.starts[s.rule]]
			}
			if !slices.Contains(steps, s) {
				steps = append(steps, s)
			}
		}
		st.steps = steps
	}
}
