package grammar

import "slices"

// objectBody builds the automaton of an object. Between two properties, the object is in
// one of several places: at (i, c) the declared properties before the i-th have been read
// or left out, and c properties have been read. Which names may come next at a place are
// those from the i-th up to the first required one. Their texts are read by a trie, and
// the trie at (i, c) is that at (i+1, c) with one more name: all but the path of that name
// is shared (Driscoll et al. 1989, path copying). So the automaton grows with the text of
// the names and not with the square of their number, and it is deterministic as it is.
type objectBody struct {
	s         *schemas
	m         *members
	counts    int
	end       int32   // the state before the closing brace
	undecl    []int32 // by count: where the undeclared properties begin, or -1
	canEnd    bool    // all declared properties from the i-th on may be left out
	places    []int32 // by count: the place (i+1, count), or -1 if there is none
	names     []int32 // by count: the trie of the names at (i+1, count), or -1 if there are none
	mandatory []int32 // by i: the number of required properties before the i-th
	bare      string  // what follows names without quotes; "": they are strings
}

// body reads an object with the properties of m.
func (s *schemas) body(from int32, m *members) int32 {
	o := &objectBody{s: s, m: m, bare: s.spell.bare}
	return s.b.lit(o.properties(s.ws(s.b.lit(from, "{"))), "}")
}

// properties reads what is between the braces of the object.
func (o *objectBody) properties(from int32) int32 {
	s, m := o.s, o.m
	if o.bare != "" {
		m.refuseBare()
	}
	if m.least <= int64(m.required) {
		m.least = 0 // the required properties are enough
	}
	o.counts, o.end, o.canEnd = countsToTell(m), s.b.state(), true
	o.countMandatory()
	o.undeclared()
	o.names = slices.Repeat([]int32{-1}, o.counts+1)
	o.places = slices.Clone(o.names)
	for i := len(m.declared); i >= 0; i-- {
		o.prepend(i)
	}
	if o.places[0] >= 0 {
		s.b.eps(from, o.places[0])
	}
	return o.end
}

func (o *objectBody) countMandatory() {
	o.mandatory = make([]int32, len(o.m.declared)+1)
	for i, p := range o.m.declared {
		o.mandatory[i+1] = o.mandatory[i]
		if p.required {
			o.mandatory[i+1]++
		}
	}
}

// full reports whether there can be no property after count ones.
func (o *objectBody) full(count int) bool { return o.m.most >= 0 && int64(count) >= o.m.most }

func (o *objectBody) comma(at int32) int32 { return o.s.sep(o.s.b.lit(at, ",")) }

// prepend makes the places (i, count) out of the places (i+1, count).
func (o *objectBody) prepend(i int) {
	least, most := min(int(o.mandatory[i]), o.counts), min(i, o.counts)
	o.s.b.spend(o.counts)
	if i < len(o.m.declared) {
		p := &o.m.declared[i]
		if p.required {
			o.canEnd = false
		}
		o.addName(p, least, most)
	}
	for count := range o.places {
		o.places[count] = -1
		if count >= least && count <= most {
			o.places[count] = o.place(count)
		}
	}
}

// addName adds the property p, the first of those that can come next, to the tries of all
// counts from least to most.
func (o *objectBody) addName(p *member, least, most int) {
	b := o.s.b
	value := func(at int32) int32 { return b.distinctValue(at, p.distinct) }
	if p.distinct == nil {
		rule := o.s.value(p.set)
		value = func(at int32) int32 { return b.call(at, rule) }
	}
	read := make([]int32, o.counts+1) // by the count after it: the state between name and colon; 0: none yet
	text := p.spelled
	switch {
	case o.bare != "":
		text = p.name + o.bare
	case text == "":
		text = quoteJSON(p.name)
	}
	for count := range o.names {
		if p.required {
			o.names[count] = -1
		}
		to := min(count+1, o.counts)
		if count < least || count > most || o.full(count) || o.places[to] < 0 {
			continue
		}
		if read[to] == 0 {
			read[to] = b.state()
			at := read[to]
			if o.bare == "" {
				at = o.s.sep(b.lit(o.s.ws(at), ":"))
			}
			b.eps(o.s.ws(value(at)), o.places[to])
		}
		o.names[count] = b.withWord(o.names[count], text, read[to])
	}
}

// place makes the place before the properties that o.names and o.canEnd describe.
func (o *objectBody) place(count int) int32 {
	b := o.s.b
	at := b.state()
	if o.canEnd && int64(count) >= o.m.least {
		b.eps(at, o.end)
	}
	more := o.canEnd && o.undecl[count] >= 0
	if o.names[count] < 0 && !more {
		return at
	}
	next := at
	if count > 0 {
		next = o.comma(at)
	}
	if o.names[count] >= 0 {
		b.eps(next, o.names[count])
	}
	if more {
		b.eps(next, o.undecl[count])
	}
	return at
}

// undeclared makes what reads the undeclared properties, which come last, for each number
// of properties before them.
func (o *objectBody) undeclared() {
	b, m := o.s.b, o.m
	o.undecl = slices.Repeat([]int32{-1}, o.counts+1)
	if len(m.undeclared) == 0 {
		return
	}
	if m.differ > 0 {
		o.differing()
		return
	}
	rule := int32(0)
	if o.bare != "" {
		rule = o.s.undeclaredBare(m, o.bare)
	} else {
		rule = o.s.undeclaredRule(m)
	}
	for count := range o.undecl {
		if o.full(count) || int64(count)+1 < m.least {
			continue
		}
		left := int32(-1)
		if m.most >= 0 {
			left = int32(m.most) - int32(count) - 1
		}
		o.undecl[count] = b.state()
		at := b.call(o.undecl[count], rule)
		b.eps(b.repeat(at, 0, left, 24, func(at int32) int32 { return b.call(o.comma(at), rule) }), o.end)
	}
}

// differing is undeclared for properties with different names, which all count.
func (o *objectBody) differing() {
	b, m := o.s.b, o.m
	rule := o.s.differingRule(m)
	for count := range o.undecl {
		need, left := max(0, m.least-int64(count)-1), int64(-1)
		if m.most >= 0 {
			left = m.most - int64(count) - 1
		}
		left = tighter(left, m.differ-1)
		if o.full(count) || left >= 0 && need > left {
			continue
		}
		o.undecl[count] = b.state()
		b.eps(b.callN(o.undecl[count], rule, int32(need), int32(left)), o.end)
	}
}

// withWord returns a trie with the words of the trie at root, or of none if root is -1, and
// the given one, which leads to the state to. No word may be the beginning of another. The
// trie at root stays as it was: the new one shares its other branches.
func (b *builder) withWord(root int32, word string, to int32) int32 {
	top := b.copyNode(root)
	for at, i := top, 0; i < len(word); i++ {
		next, edges := to, b.states[at].edges
		k, found := slices.BinarySearchFunc(edges, word[i], func(e edge, c byte) int { return int(e.lo) - int(c) })
		if i < len(word)-1 {
			old := int32(-1)
			if found {
				old = edges[k].to
			}
			next = b.copyNode(old)
		}
		if found {
			b.states[at].edges[k].to = next
		} else {
			b.states[at].edges = slices.Insert(b.states[at].edges, k, edge{word[i], word[i], next})
		}
		at = next
	}
	return top
}

// copyNode makes a state with the edges of s, or with none if s is -1.
func (b *builder) copyNode(s int32) int32 {
	n := b.state()
	if s >= 0 {
		b.states[n].edges = slices.Clone(b.states[s].edges)
		b.spend(len(b.states[n].edges) / 4)
	}
	return n
}
