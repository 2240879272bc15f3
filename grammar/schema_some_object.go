package grammar

// objectWith builds the automaton of an object that has the properties that are demanded.
// It is at a place for each number of declared properties that have been read or left out,
// number of properties (as objectBody counts them), and set of demands that are met.
//
// An undeclared name may come up twice, and then readers take the last value. So once an
// undeclared property has met a demand, all further ones with names that the demand is about
// must meet it, too.
type objectWith struct {
	s      *schemas
	m      *members
	is     []any
	names  []*dfa // of each demand
	all    int    // all demands
	counts int
	end    int32
	rules  map[int]int32 // for the undeclared properties, by the demands that are met before them

	// Of each class of undeclared names: the demands that it is about, and the rule that
	// reads such a name; -1: none yet.
	classes   []int
	nameRules []int32
}

// demanding reads an object with the properties of m and those that some demands.
func (s *schemas) demanding(from int32, m *members, some []*someProperty) int32 {
	if m.least <= int64(m.required) {
		m.least = 0
	}
	o := &objectWith{s: s, m: m, counts: countsToTell(m), end: s.b.state(), all: 1<<len(some) - 1, rules: make(map[int]int32)}
	for _, p := range some {
		o.is = append(o.is, p.is)
		o.names = append(o.names, s.witnessNames(p))
	}
	o.splitUndeclared()
	var places []int32
	for i := len(m.declared); i >= 0; i-- {
		places = o.prepend(i, places)
	}
	s.b.eps(s.ws(s.b.lit(from, "{")), places[0])
	return s.b.lit(o.end, "}")
}

// splitUndeclared splits the classes of undeclared names by the demands that they are about.
func (o *objectWith) splitUndeclared() {
	classes := o.m.undeclared
	o.classes = make([]int, len(classes))
	for j, names := range o.names {
		var split []undeclaredNames
		var bits []int
		for k, c := range classes {
			if c.names == nil {
				c.names = allDFA()
			}
			for _, minus := range []bool{false, true} {
				part := o.s.combine(c.names, names, minus, "")
				if part.empty() {
					continue
				}
				split, bits = append(split, undeclaredNames{names: part, set: c.set}), append(bits, o.classes[k])
				if !minus {
					bits[len(bits)-1] |= 1 << j
				}
			}
		}
		classes, o.classes = split, bits
	}
	o.m.undeclared = classes
	for range classes {
		o.nameRules = append(o.nameRules, -1)
	}
}

// name reads the rest of a name of the k-th class, after the opening quote. With several
// demands, names are read in many places, so each class has a rule; with one, all names that
// can follow are read as one automaton.
func (o *objectWith) name(from int32, k int) int32 {
	b := o.s.b
	if len(o.is) == 1 {
		return b.jsonString(from, o.m.undeclared[k].names)
	}
	if o.nameRules[k] < 0 {
		r := b.rule()
		o.nameRules[k] = r
		b.accept(b.jsonString(b.start(r), o.m.undeclared[k].names))
	}
	return b.call(from, o.nameRules[k])
}

// about are the demands that name is about.
func (o *objectWith) about(name string) int {
	bits := 0
	for j, names := range o.names {
		if names.match(name) {
			bits |= 1 << j
		}
	}
	return bits
}

func (o *objectWith) full(count int) bool { return o.m.most >= 0 && int64(count) >= o.m.most }

// place is the index of a place.
func (o *objectWith) place(count, met int) int { return count*(o.all+1) + met }

// prepend makes the places before the i-th declared property out of those after it.
func (o *objectWith) prepend(i int, after []int32) []int32 {
	b := o.s.b
	places := make([]int32, (o.counts+1)*(o.all+1))
	for k := range places {
		places[k] = b.state()
	}
	if i == len(o.m.declared) {
		for count := range o.counts + 1 {
			for met := range o.all + 1 {
				o.last(places[o.place(count, met)], count, met)
			}
		}
		return places
	}
	p := &o.m.declared[i]
	text := quoteJSON(p.name)
	bits := o.about(p.name)
	for count := range min(i, o.counts) + 1 {
		for met := range o.all + 1 {
			k := o.place(count, met)
			if !p.required {
				b.eps(places[k], after[k])
			}
			if o.full(count) {
				continue
			}
			at := o.comma(places[k], count)
			at = o.s.sep(b.lit(o.s.ws(b.lit(at, text)), ":"))
			for _, c := range o.s.outcomes(p.set, met, bits, 0, o.is) {
				b.eps(o.s.ws(b.call(at, o.s.value(c.set))), after[o.place(min(count+1, o.counts), c.met)])
			}
		}
	}
	return places
}

func (o *objectWith) comma(at int32, count int) int32 {
	if count == 0 {
		return at
	}
	return o.s.sep(o.s.b.lit(at, ","))
}

// last makes the place after all declared properties.
func (o *objectWith) last(at int32, count, met int) {
	b := o.s.b
	if met == o.all && int64(count) >= o.m.least {
		b.eps(at, o.end)
	}
	if len(o.m.undeclared) == 0 || o.full(count) || int64(count)+1 < o.m.least {
		return
	}
	left := int32(-1)
	if o.m.most >= 0 {
		left = int32(o.m.most) - int32(count)
	}
	switch at = o.comma(at, count); {
	case left >= 0 && left <= fewLeft:
		b.eps(b.call(at, o.fewRule(met, left)), o.end)
	case left < 0 || left >= unmet(met, o.all):
		b.eps(b.callN(at, o.rule(met), 0, left), o.end)
	}
}

// rule reads undeclared properties, at least one, until all demands are met.
func (o *objectWith) rule(start int) int32 {
	if r, ok := o.rules[start]; ok {
		return r
	}
	b := o.s.b
	r := b.rule()
	o.rules[start] = r
	loops := make([]int32, o.all+1) // after a property, by the demands that are met; 0: no way leads there
	o.property(b.start(r), 0, start, start, loops, false)
	for met := start; met <= o.all; met++ {
		if loops[met] != 0 {
			o.property(loops[met], 1, start, met, loops, false)
		}
	}
	if loops[o.all] != 0 {
		out := b.state()
		b.step(loops[o.all], step{kind: stepGuard, to: out})
		b.accept(out)
	}
	return r
}

// fewRule is rule for at most left properties, each of which has states of its own. So
// whether the demands can be met by what is left is known exactly: what leads nowhere is cut
// off. With counters (rule) each demand is taken to need a property of its own.
func (o *objectWith) fewRule(start int, left int32) int32 {
	key := -1 - (int(left)*(o.all+1) + start)
	if r, ok := o.rules[key]; ok {
		return r
	}
	b := o.s.b
	r := b.rule()
	o.rules[key] = r
	from := make([]int32, o.all+1) // after a property, by the demands that are met; 0: no way leads there
	from[start] = b.start(r)
	for i := range int(left) {
		to := make([]int32, o.all+1)
		for met, at := range from {
			if at != 0 || i == 0 && met == start {
				o.property(at, i, start, met, to, true)
			}
		}
		if to[o.all] != 0 {
			b.accept(to[o.all])
		}
		from = to
	}
	return r
}

// property reads an undeclared property, of which count have been read. Before the first one,
// the demands in start were met, and those in met are now. It leads to the states of to, by
// the demands that are met then. Unless few is set, it is counted.
func (o *objectWith) property(from int32, count, start, met int, to []int32, few bool) {
	b := o.s.b
	open := make(map[int32]int32) // after the quote before the name, by the demands that are unmet after it
	for k, c := range o.m.undeclared {
		bits := o.classes[k]
		names := make(map[int32]int32) // after the colon, likewise
		for _, w := range o.s.outcomes(c.set, met, bits, bits&met&^start, o.is) {
			rest := int32(0)
			if !few && o.m.most >= 0 {
				rest = unmet(w.met, o.all)
			}
			if open[rest] == 0 {
				at := from
				if !few {
					at = b.state()
					b.step(from, step{kind: stepTick, left: rest, to: at})
				}
				open[rest] = b.lit(o.comma(at, count), `"`)
			}
			if names[rest] == 0 {
				names[rest] = o.s.sep(b.lit(o.s.ws(o.name(open[rest], k)), ":"))
			}
			if to[w.met] == 0 {
				to[w.met] = b.state()
			}
			b.eps(o.s.ws(b.call(names[rest], o.s.value(w.set))), to[w.met])
		}
	}
}
