package grammar

import (
	"math/bits"
	"slices"
)

// Most keywords say what holds for all elements or properties. Their negations say that
// there is one for which something else holds: a witness. The rule for such a value keeps in
// its states which of these demands have been met, and each element or property either meets
// a demand or does not.

// someItem demands an element, the from-th or a later one, that satisfies is.
type someItem struct {
	from int
	is   any
}

// someProperty demands a property whose value satisfies is, and whose name matches all that
// is given of names, a schema, and patterns, and none of notNames and notPatterns.
type someProperty struct {
	path        string // of the schema that it is from
	names       any
	patterns    []string
	notNames    []string
	notPatterns []string
	is          any
	language    *dfa // the names, once they are needed
}

// maxDemands bounds the demands for a witness in one value: the states are multiplied by two
// for each.
const maxDemands = 5

func (a alternative) someItems() []*someItem {
	var res []*someItem
	for _, n := range a {
		if n.array.some != nil {
			res = append(res, n.array.some)
		}
	}
	if len(res) > maxDemands {
		fail(ErrTooComplex, a[0].path, "not needs more than %d different elements in an array", maxDemands)
	}
	return res
}

// demands reports whether a demands a property that violates a schema.
func (a alternative) demands() bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.props.some != nil })
}

// someProperties are the demands for a property of the objects of a, whose properties are m.
// Those are left out that a required property meets, whatever its value.
func (s *schemas) someProperties(a alternative, m *members) []*someProperty {
	var res []*someProperty
	for _, n := range a {
		p := n.props.some
		if p != nil && !(p.is == true && s.meets(m, p)) {
			res = append(res, p)
		}
	}
	if len(res) > maxDemands {
		fail(ErrTooComplex, a[0].path, "not needs more than %d different properties in an object", maxDemands)
	}
	return res
}

// meets reports whether a required property has a name that p is about.
func (s *schemas) meets(m *members, p *someProperty) bool {
	names := s.witnessNames(p)
	return slices.ContainsFunc(m.declared, func(d member) bool { return d.required && names.match(d.name) })
}

// witnessNames is the language of the names that p is about.
func (s *schemas) witnessNames(p *someProperty) *dfa {
	if p.language != nil {
		return p.language
	}
	names := allDFA()
	if p.names != nil {
		names = s.namesThat(p.names, p.path)
	}
	for _, t := range p.patterns {
		names = s.combine(names, s.search(t, p.path), false, p.path)
	}
	for _, t := range p.notPatterns {
		names = s.combine(names, s.search(t, p.path), true, p.path)
	}
	if len(p.notNames) > 0 {
		words, ok := wordsDFA(p.notNames, s.b.meter)
		if !ok {
			fail(ErrTooComplex, p.path, "too many names")
		}
		names = s.combine(names, words, true, p.path)
	}
	p.language = names
	return names
}

// hasItem reports whether v has an element that some demands.
func (s *schemas) hasItem(v []any, some *someItem, depth int) bool {
	return some.from < len(v) && slices.ContainsFunc(v[some.from:], func(e any) bool { return s.holdsNode(e, s.d.node(some.is), depth+1) })
}

// hasProperty reports whether v has a property that some demands.
func (s *schemas) hasProperty(v *object, some *someProperty, depth int) bool {
	names := s.witnessNames(some)
	return slices.ContainsFunc(v.keys, func(k string) bool {
		return names.match(k) && s.holdsNode(v.m[k], s.d.node(some.is), depth+1)
	})
}

// noItem reports whether certainly no array of a has the elements that it demands.
func (s *schemas) noItem(a alternative) bool {
	for _, n := range a {
		some := n.array.some
		if some == nil {
			continue
		}
		prefix, rest, _, most := a.items()
		found := most < 0 || most > int64(max(len(prefix), some.from))
		found = found && !s.empty(append(slices.Clip(rest), some.is))
		for i := some.from; i < len(prefix) && (most < 0 || int64(i) < most) && !found; i++ {
			found = !s.empty(append(slices.Clip(prefix[i]), some.is))
		}
		if !found {
			return true
		}
	}
	return false
}

// noWitness reports whether certainly no object of a has the properties that it demands.
func (s *schemas) noWitness(a alternative) bool {
	for _, n := range a {
		some := n.props.some
		if some == nil {
			continue
		}
		if s.noWitnessOf(a, some) {
			return true
		}
	}
	return false
}

func (s *schemas) noWitnessOf(a alternative, some *someProperty) bool {
	m := s.members(a)
	if m.most == 0 {
		return true
	}
	names := s.witnessNames(some)
	for _, p := range m.declared {
		if !p.barred && names.match(p.name) && !s.empty(append(slices.Clip(p.set), some.is)) {
			return false
		}
	}
	if !slices.ContainsFunc(a, func(n *schemaNode) bool { return len(n.props.patterns) > 0 || n.props.keys != nil }) {
		// All undeclared names are alike. That there is one that the demand is about is not
		// worth a look.
		set, ok := (&nameClasses{s: s, a: a}).under(nil)
		return !ok || s.empty(append(slices.Clip(set), some.is))
	}
	for _, class := range s.undeclared(a, m) {
		if class.names != nil && s.combine(class.names, names, false, some.path).empty() {
			continue
		}
		if !s.empty(append(slices.Clip(class.set), some.is)) {
			return false
		}
	}
	return true
}

// outcome is one way to read an element or a property: the schemas that its value satisfies,
// and the demands that are met afterwards, a bit for each.
type outcome struct {
	set []any
	met int
}

// unmet is how many of the demands in all are not met. So many more elements or properties
// are enough to meet them: where fewer are left, a text could not be completed.
func unmet(met, all int) int32 { return int32(bits.OnesCount(uint(all &^ met))) }

// outcomes are the ways to read a value that satisfies set when the demands in met have been
// met. open are those that the value can meet, and is what they demand of it. Demands in keep
// were met before, and must still be met by this value.
func (s *schemas) outcomes(set []any, met, open, keep int, is []any) []outcome {
	res := []outcome{{slices.Clip(set), met}}
	for j, v := range is {
		bit := 1 << j
		switch {
		case keep&bit != 0:
			for k := range res {
				res[k].set = append(slices.Clip(res[k].set), v)
			}
		case open&bit != 0 && met&bit == 0:
			for _, o := range slices.Clone(res) {
				o.set, o.met = append(slices.Clip(o.set), v), o.met|bit
				res = append(res, o)
			}
			not := s.d.negate(v)
			for k := range res {
				if res[k].met&bit == 0 {
					res[k].set = append(slices.Clip(res[k].set), not)
				}
			}
		}
	}
	return slices.DeleteFunc(res, func(o outcome) bool { return s.empty(o.set) })
}

// arrayWith reads an array of a that has the elements that are demanded.
func (s *schemas) arrayWith(from int32, a alternative, some []*someItem) int32 {
	b := s.b
	prefix, rest, least, most := a.items()
	w := &arrayWith{s: s, rest: rest, all: 1<<len(some) - 1, some: some}
	spelled := max(len(prefix), 1)
	for _, p := range some {
		w.is = append(w.is, p.is)
		spelled = max(spelled, p.from)
	}
	end := b.state()
	at := make([]int32, w.all+1) // by the demands that are met; 0: no way leads there
	at[0] = s.ws(b.lit(from, "["))
	for i := 0; ; i++ {
		if int64(i) >= least && at[w.all] != 0 {
			b.eps(at[w.all], end)
		}
		if most >= 0 && int64(i) >= most {
			break
		}
		if i == spelled {
			w.further(at, end, least-int64(i), most, int64(i))
			break
		}
		set := rest
		if i < len(prefix) {
			set = prefix[i]
		}
		next := make([]int32, w.all+1)
		for met, from := range at {
			if from == 0 {
				continue
			}
			if i > 0 {
				from = s.sep(b.lit(from, ","))
			}
			w.element(from, set, met, w.open(i), next)
		}
		at = next
	}
	return b.lit(end, "]")
}

type arrayWith struct {
	s    *schemas
	rest []any
	some []*someItem
	is   []any
	all  int // all demands
}

// open are the demands that the i-th element can meet.
func (w *arrayWith) open(i int) int {
	open := 0
	for j, p := range w.some {
		if p.from <= i {
			open |= 1 << j
		}
	}
	return open
}

// element reads an element in each way, and leads to the states of to. It makes those that
// are not there yet.
func (w *arrayWith) element(from int32, set []any, met, open int, to []int32) {
	b := w.s.b
	for _, o := range w.s.outcomes(set, met, open, 0, w.is) {
		if to[o.met] == 0 {
			to[o.met] = b.state()
		}
		b.eps(w.s.ws(b.call(from, w.s.value(o.set))), to[o.met])
	}
}

// further reads elements after the i-th, with a comma before each, as a rule that counts
// them.
func (w *arrayWith) further(at []int32, end int32, least, most, i int64) {
	b := w.s.b
	left := int32(-1)
	if most >= 0 {
		left = int32(most - i)
	}
	if left >= 0 && left <= fewLeft {
		w.few(at, end, least, left)
		return
	}
	for met, from := range at {
		if from != 0 && (left < 0 || left >= unmet(met, w.all)) {
			b.eps(b.callN(from, w.rule(met, left >= 0), int32(max(least, 1)), left), end)
		}
	}
}

// fewLeft is the number of elements or properties up to which those that may still come have
// states of their own instead of a counter.
const fewLeft = 8

// few reads up to left more elements, of which there must be least.
func (w *arrayWith) few(at []int32, end int32, least int64, left int32) {
	b := w.s.b
	for i := range int64(left) {
		to := make([]int32, w.all+1)
		for met, from := range at {
			if from != 0 {
				w.element(w.s.sep(b.lit(from, ",")), w.rest, met, w.all, to)
			}
		}
		if to[w.all] != 0 && i+1 >= least {
			b.eps(to[w.all], end)
		}
		at = to
	}
}

// rule reads elements until all demands are met. Those in start were met before. With bounded,
// the rule has an upper limit.
func (w *arrayWith) rule(start int, bounded bool) int32 {
	b := w.s.b
	r := b.rule()
	loops := make([]int32, w.all+1)
	loops[start] = b.state()
	b.eps(b.start(r), loops[start])
	for met := start; met <= w.all; met++ { // demands are never lost, so met only grows
		if loops[met] == 0 {
			continue
		}
		open := make(map[int32]int32) // after the comma, by the demands that are unmet after the element
		for _, o := range w.s.outcomes(w.rest, met, w.all, 0, w.is) {
			rest := unmet(o.met, w.all)
			if !bounded {
				rest = 0
			}
			if open[rest] == 0 {
				body := b.state()
				b.step(loops[met], step{kind: stepTick, left: rest, to: body})
				open[rest] = w.s.sep(b.lit(body, ","))
			}
			if loops[o.met] == 0 {
				loops[o.met] = b.state()
			}
			b.eps(w.s.ws(b.call(open[rest], w.s.value(o.set))), loops[o.met])
		}
	}
	if loops[w.all] != 0 {
		out := b.state()
		b.step(loops[w.all], step{kind: stepGuard, to: out})
		b.accept(out)
	}
	return r
}
