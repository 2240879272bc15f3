package grammar

import "slices"

// Arrays whose elements are compared: with each other (uniqueItems), or with a schema
// of which only some numbers may satisfy it (contains).

// containsRule is contains with its bounds.
type containsRule struct {
	schema      any
	least, most int64 // how many elements satisfy schema; most -1: no bound
	path        string
}

// maxContains bounds the numbers of elements that contains tells apart: they are
// spelled out, because an array has one pair of counters, for all its elements.
const maxContains = 64

// maxDistinct bounds the elements of an array with uniqueItems, and the properties whose names
// are compared: each mask may have to look at all values before.
const maxDistinct = 1000

// counted reads the keywords that compare elements.
func (p nodeParser) counted(a *arrayRules) {
	switch v := p.o.m["uniqueItems"].(type) {
	case bool:
		a.unique = v
	default:
		if _, ok := p.o.m["uniqueItems"]; ok {
			p.bad("uniqueItems", "true or false")
		}
	}
	v, ok := p.o.m["contains"]
	if !ok {
		return
	}
	p.schema("contains", -1, v)
	c := &containsRule{schema: v, least: p.size("minContains", 1), most: p.size("maxContains", -1), path: p.at("contains")}
	if c.least > 0 || c.most >= 0 {
		a.contains = c
	}
}

// compared reports whether elements of arrays of a are compared.
func (a alternative) compared() bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.array.unique || n.array.contains != nil })
}

// distinct reports whether no two elements of v are equal.
func distinct(v []any) bool {
	seen := make(map[string]bool, len(v))
	for _, e := range v {
		text := canonicalJSON(e)
		if seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}

// holdsContains reports whether as many elements of v satisfy c as should.
func (s *schemas) holdsContains(v []any, c *containsRule, depth int) bool {
	count := int64(0)
	for _, e := range v {
		if s.holdsNode(e, s.d.node(c.schema), depth+1) {
			count++
		}
	}
	return count >= c.least && (c.most < 0 || count <= c.most)
}

// arrayBody builds the rule of arrays whose elements are compared. A running rule has one
// pair of counters, need and left. They count the elements that do not have to satisfy
// contains: those that do are counted by states, and there are exactly as many of them as
// the rule says. So the bounds on all elements are bounds on the others.
type arrayBody struct {
	s      *schemas
	prefix [][]any
	rest   []any
	least  int64
	most   int64  // -1: no bound
	unique string // path of uniqueItems; "" without it
	end    int32  // the state before the closing bracket
}

// comparedArray reads an array of a if its elements are compared. Otherwise it reports
// false.
func (s *schemas) comparedArray(from int32, a alternative) (int32, bool) {
	l := &arrayBody{s: s}
	l.prefix, l.rest, l.least, l.most = a.items()
	var contains *containsRule
	for _, n := range a {
		if n.array.unique && (l.most < 0 || l.most > 1) {
			l.unique = stepPath(n.path, "uniqueItems")
		}
		if c := n.array.contains; c != nil {
			if contains != nil && (s.key([]any{c.schema}) != s.key([]any{contains.schema}) || c.least != contains.least || c.most != contains.most) {
				fail(ErrUnsupported, c.path, "contains cannot be enforced beside another contains")
			}
			contains = c
		}
	}
	if l.unique == "" && contains == nil {
		return 0, false
	}
	if s.spell.quote != nil && !s.spell.both {
		fail(ErrUnsupported, a[0].path, "uniqueItems and contains cannot be enforced in this style")
	}
	to := s.b.state()
	if l.unique != "" {
		if !l.boundValues(contains) {
			return to, true
		}
		sets := append(slices.Clip(l.prefix), l.rest)
		if contains != nil {
			sets = append(sets, append(slices.Clip(l.rest), contains.schema))
		}
		l.comparable(sets)
	}
	if contains == nil {
		l.branch(from, to, l.rest, nil, 0)
	} else {
		l.contains(from, to, contains)
	}
	return to, true
}

// boundValues lowers most to the number of values that elements can have, so that there
// is always one that is not used yet. It reports false if there are too few.
func (l *arrayBody) boundValues(contains *containsRule) bool {
	if l.least > maxDistinct {
		fail(ErrTooComplex, l.unique, "uniqueItems compares up to %d elements", maxDistinct)
	}
	l.most = tighter(l.most, maxDistinct)
	for i, set := range l.prefix {
		d := l.s.distinctItems(set, l.unique)
		if ways := d.ways(); ways > int64(i) && !d.alone {
			continue
		} else if ways > int64(i) {
			i++ // it is the first one, and there is no second one
		}
		if l.least > int64(i) {
			fail(ErrUnsupported, l.unique, "uniqueItems cannot be enforced: element %d has too few values", i)
		}
		l.most = tighter(l.most, int64(i))
		break
	}
	if l.most < 0 || l.most > int64(len(l.prefix)) {
		ways := l.s.distinctItems(l.rest, l.unique).ways()
		if ways < endless {
			if contains != nil {
				fail(ErrUnsupported, contains.path, "contains cannot be enforced beside uniqueItems for elements with few values")
			}
			l.most = tighter(l.most, max(ways, int64(len(l.prefix))))
		}
	}
	if l.most < 0 || l.least <= l.most {
		return true
	}
	if slices.ContainsFunc(append(slices.Clip(l.prefix), l.rest), func(set []any) bool { return !l.s.distinctItems(set, l.unique).texts.whole }) {
		fail(ErrUnsupported, l.unique, "uniqueItems cannot be enforced: elements of this kind cannot be compared")
	}
	return false
}

// comparable refuses elements of sets that cannot be compared with each other: objects
// that differ in one property with those that differ in another one, or with constants.
func (l *arrayBody) comparable(sets [][]any) {
	key, constants := "", false
	for i, set := range sets {
		if l.most >= 0 && l.most <= int64(i) && i < len(l.prefix) {
			break
		}
		d := l.s.distinctItems(set, l.unique)
		constants = constants || d.containers
		if len(d.objects) == 0 {
			continue
		}
		if key != "" && key != d.key {
			fail(ErrUnsupported, l.unique, "uniqueItems cannot be enforced: some elements would differ in %s and others in %s", quoteJSON(key), quoteJSON(d.key))
		}
		key = d.key
	}
	if key != "" && constants {
		fail(ErrUnsupported, l.unique, "uniqueItems cannot be enforced: some elements are constants and others objects that differ in %s", quoteJSON(key))
	}
}

// contains adds the branches of arrays in which as many elements satisfy c as should.
func (l *arrayBody) contains(from, to int32, c *containsRule) {
	s := l.s
	if len(l.prefix) > 0 {
		fail(ErrUnsupported, c.path, "contains cannot be enforced beside prefixItems")
	}
	both := append(slices.Clip(l.rest), c.schema)
	most := c.most
	if most >= 0 && l.most >= 0 && most >= l.most {
		most = -1
	}
	if s.key(both) == s.key(l.rest) { // all elements satisfy it
		l.least, l.most = max(l.least, c.least), tighter(l.most, c.most)
		l.branch(from, to, l.rest, nil, 0)
		return
	}
	if max(c.least, most) > maxContains {
		fail(ErrTooComplex, c.path, "contains can tell apart up to %d elements", maxContains)
	}
	if l.unique != "" && s.distinctItems(both, l.unique).ways() < endless {
		fail(ErrUnsupported, c.path, "contains cannot be enforced beside uniqueItems for elements with few values")
	}
	if most < 0 {
		l.branch(from, to, l.rest, both, c.least)
		return
	}
	others := l.rest
	if !s.empty(both) {
		others = append(slices.Clip(l.rest), s.d.negate(c.schema))
	}
	if l.unique != "" && !s.empty(others) && s.distinctItems(others, l.unique).ways() < endless {
		fail(ErrUnsupported, c.path, "contains cannot be enforced beside uniqueItems for elements with few values")
	}
	for n := c.least; n <= most; n++ {
		l.branch(from, to, others, both, n)
	}
}

// branch reads arrays with exactly n elements that satisfy counted and any number of
// others.
func (l *arrayBody) branch(from, to int32, others, counted []any, n int64) {
	b, s := l.s.b, l.s
	if l.most >= 0 && l.least > l.most {
		return
	}
	first := int64(len(l.prefix)) + n // elements that the counters do not count
	need, left := max(0, l.least-first), int64(-1)
	if l.most >= 0 {
		if left = l.most - first; left < 0 && n > 0 {
			return
		}
	}
	rule := b.rule()
	b.eps(b.callN(from, rule, int32(need), int32(max(left, -1))), to)
	l.end = b.state()
	at := s.ws(b.lit(b.start(rule), "["))
	for i, set := range l.prefix {
		if int64(i) >= l.least {
			b.eps(at, l.end)
		}
		if l.most >= 0 && int64(i) >= l.most {
			at = -1
			break
		}
		if i > 0 {
			at = s.sep(b.lit(at, ","))
		}
		at = l.item(at, set)
	}
	if at >= 0 {
		if len(l.prefix) == 0 {
			l.elements(at, others, counted, n)
		} else {
			l.more(at, others, counted, n)
		}
	}
	b.accept(b.lit(l.end, "]"))
}

// elements reads the elements of a branch that are not in prefix, of which there are
// none before.
func (l *arrayBody) elements(at int32, others, counted []any, n int64) {
	b := l.s.b
	after := make([]int32, n+1) // by the number of counted elements: the state after an element
	for i := range after {
		after[i] = b.state()
	}
	for i, s := range after {
		l.next(s, after, i, others, counted, true)
	}
	l.next(at, after, 0, others, counted, false)
}

// more reads the further elements after those of prefix. None of them are counted.
func (l *arrayBody) more(at int32, others, counted []any, n int64) {
	l.next(at, []int32{at}, 0, others, counted, true)
}

// next adds what can follow at: the end of the array, or an element, which leads to one
// of after. i of the elements before are counted.
func (l *arrayBody) next(at int32, after []int32, i int, others, counted []any, comma bool) {
	b, s := l.s.b, l.s
	if i == len(after)-1 {
		b.step(at, step{kind: stepGuard, to: l.end})
	}
	element := func(at int32, set []any, to int32) {
		if comma {
			at = s.sep(b.lit(at, ","))
		}
		b.eps(l.item(at, set), to)
	}
	if i < len(after)-1 {
		element(at, counted, after[i+1])
	}
	tick := b.state()
	b.step(at, step{kind: stepTick, to: tick})
	element(tick, others, after[i])
}

// item reads an element that satisfies set, and the white space after it.
func (l *arrayBody) item(at int32, set []any) int32 {
	s := l.s
	if l.unique == "" {
		return s.ws(s.b.call(at, s.value(set)))
	}
	return s.ws(s.distinctItems(set, l.unique).read(at))
}
