package grammar

import (
	"math/big"
	"slices"
	"sync"
)

// Values that must differ from each other. They are compared by their texts
// (record.go), so each value has one spelling here: numbers without exponent, trailing
// zeros and -0, strings with the escapes that quoteJSON writes.

// valueTexts is a language of such texts.
type valueTexts struct {
	dfa   *dfa
	ways  []uint32 // by state: how many texts can be completed from there, or endless
	whole bool     // it has all values that were asked for
}

// newValueTexts counts the texts of d.
func newValueTexts(d *dfa, whole bool) *valueTexts {
	return &valueTexts{dfa: d, ways: d.ways(), whole: whole}
}

// total is how many texts there are.
func (t *valueTexts) total() int64 {
	if t.dfa.empty() {
		return 0
	}
	return int64(t.ways[0])
}

// ways is for each state how many texts can be completed from there, or endless.
func (d *dfa) ways() []uint32 {
	res := make([]uint32, len(d.states))
	open := make([]int, len(d.states)) // edges to states that are not counted yet
	before := make([][]int32, len(d.states))
	var list []int32
	for i := range d.states {
		open[i] = len(d.states[i].edges)
		for _, e := range d.states[i].edges {
			before[e.to] = append(before[e.to], int32(i))
		}
		if res[i] = endless; open[i] == 0 {
			list = append(list, int32(i))
		}
	}
	for i := 0; i < len(list); i++ {
		s := list[i]
		n := uint64(0)
		if d.states[s].accept {
			n = 1
		}
		for _, e := range d.states[s].edges {
			n = min(endless, n+uint64(e.hi-e.lo+1)*uint64(res[e.to]))
		}
		res[s] = uint32(n)
		for _, p := range before[s] {
			if open[p]--; open[p] == 0 {
				list = append(list, p)
			}
		}
	}
	return res // states from which a loop can be reached are never counted
}

// distinctValue reads a value of t that differs from those that the running rule has
// read before.
func (b *builder) distinctValue(from int32, t *valueTexts) int32 {
	first := int32(len(b.states))
	for range t.dfa.states {
		b.state()
	}
	end, to := b.state(), b.state()
	for i := range t.dfa.states {
		s := &b.states[first+int32(i)]
		s.ways = t.ways[i]
		for _, e := range t.dfa.states[i].edges {
			s.edges = append(s.edges, edge{e.lo, e.hi, first + e.to})
		}
		if t.dfa.states[i].accept {
			b.eps(first+int32(i), end)
		}
	}
	if len(t.dfa.states) > 0 {
		b.step(from, step{kind: stepRecord, to: first})
	}
	b.step(end, step{kind: stepRecorded, to: to})
	return to
}

// distinctItems are the elements of an array with uniqueItems: scalar values, and
// objects that differ in one property.
type distinctItems struct {
	s          *schemas
	texts      *valueTexts
	objects    []alternative
	key        string // the name of the property in which objects differ
	set        []any
	containers bool // texts has arrays and objects
	alone      bool // elements cannot be compared, so there is no other one
}

// distinctItems returns the elements that satisfy set. path is that of uniqueItems.
func (s *schemas) distinctItems(set []any, path string) *distinctItems {
	key := s.key(set)
	if d := s.distinct[key]; d != nil {
		return d
	}
	d := &distinctItems{s: s, set: set}
	c := s.newTextCollector()
	for _, a := range s.expand(set, true) {
		c.add(a)
		if a.kinds()&kindObject != 0 && !c.listed(a) && !s.emptyObjects(a) {
			d.objects = append(d.objects, a)
		}
	}
	d.texts, d.containers = c.texts(path), c.containers
	if len(d.objects) > 0 && (c.containers || !d.chooseKey()) {
		d.objects, d.texts.whole = nil, false
	}
	if !d.texts.whole {
		if d.texts.total() == 0 && len(d.objects) == 0 {
			d.alone = true
			s.b.warn(path, "the array has at most one element, because elements of this kind cannot be compared")
		} else {
			s.b.warn(path, "elements that cannot be compared are not written: arrays, and objects without a property with a string or number in which they could differ")
		}
	}
	if d.key != "" {
		s.b.warn(path, "objects differ in their property %s", quoteJSON(d.key))
	}
	if s.distinct == nil {
		s.distinct = make(map[string]*distinctItems)
	}
	s.distinct[key] = d
	return d
}

// ways is how many elements there can be, or endless.
func (d *distinctItems) ways() int64 {
	if d.alone {
		return 1
	}
	if len(d.objects) > 0 {
		return endless
	}
	return d.texts.total()
}

// read reads an element that differs from those before it.
func (d *distinctItems) read(from int32) int32 {
	b := d.s.b
	if d.alone {
		return b.call(from, d.s.value(d.set))
	}
	to := b.state()
	if !d.texts.dfa.empty() {
		b.eps(b.distinctValue(from, d.texts), to)
	}
	for _, a := range d.objects {
		b.eps(d.s.objectBy(from, a, d.key), to)
	}
	return to
}

// preferred are the names of properties that tell objects apart, if there is a choice.
var preferred = []string{"id", "name", "key", "uri", "url", "path", "title"}

// chooseKey chooses the property in which the objects differ: a required one or, if
// there is none, one that is required then. It is the same in all of d.objects, because
// otherwise two of them could be equal, as one differs from those before it in one
// property and the other in another one. chooseKey reports false if there is none.
func (d *distinctItems) chooseKey() bool {
	var names []string
	count := make(map[string]int) // 2 for an object that has to have it, 1 for one that can
	possible := make(map[string]int)
	for _, a := range d.objects {
		for _, p := range d.s.members(a).declared {
			if p.barred || !d.s.tells(p.set) {
				continue
			}
			if possible[p.name] == 0 {
				names = append(names, p.name)
			}
			possible[p.name]++
			if count[p.name]++; p.required {
				count[p.name]++
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return possible[name] < len(d.objects) })
	rank := func(name string) int {
		if i := slices.Index(preferred, name); i >= 0 {
			return i
		}
		return len(preferred)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return rank(a) - rank(b)
	})
	if len(names) == 0 {
		return false
	}
	d.key = names[0]
	return true
}

// tells reports whether the values that satisfy set are all scalar and there is no end of
// them.
func (s *schemas) tells(set []any) bool {
	t := s.scalars(set)
	return t != nil && t.whole && t.total() == endless
}

// scalars are the texts of the scalar values that satisfy set, or nil if they need too
// many states.
func (s *schemas) scalars(set []any) *valueTexts {
	key := s.key(set)
	if t, ok := s.scalarTexts[key]; ok {
		return t
	}
	c := s.newTextCollector()
	for _, a := range s.expand(set, true) {
		if c.add(a); a.kinds()&kindObject != 0 && !c.listed(a) {
			c.whole = false
		}
	}
	t := c.texts("")
	if s.scalarTexts == nil {
		s.scalarTexts = make(map[string]*valueTexts)
	}
	s.scalarTexts[key] = t
	return t
}

// objectBy reads an object of a that differs from those before it in the property key.
func (s *schemas) objectBy(from int32, a alternative, key string) int32 {
	required := &object{keys: []string{"required"}, m: map[string]any{"required": []any{key}}}
	a = append(slices.Clip(a), s.d.node(required))
	return s.objectWith(from, a, nil, func(p *member) {
		if p.name == key {
			p.distinct = s.scalars(p.set)
		}
	})
}

// textCollector collects the texts of scalar values.
type textCollector struct {
	s          *schemas
	b          *builder
	start, end int32
	words      map[string]string // constants by their canonical texts
	order      []string          // their canonical texts
	containers bool              // there are arrays and objects among the constants
	whole      bool              // there is no other value
	big        bool              // there would be too many states
}

func (s *schemas) newTextCollector() *textCollector {
	b := newBuilder(nil, 8*dfaLimit, s.b.meter)
	return &textCollector{s: s, b: b, start: b.state(), end: b.state(), words: make(map[string]string), whole: true}
}

// listed reports whether the values of a are constants.
func (c *textCollector) listed(a alternative) bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil })
}

// add adds the scalar values of a, and constants of any kind.
func (c *textCollector) add(a alternative) {
	for _, n := range a {
		if n.enum == nil {
			continue
		}
		for _, v := range n.enum {
			if c.s.holdsAll(v, a) {
				c.constant(v)
			}
		}
		return
	}
	k := a.kinds()
	if k&kindNull != 0 {
		c.constant(nil)
	}
	if k&kindBool != 0 {
		c.constant(false)
		c.constant(true)
	}
	if k&kindNumber != 0 {
		c.numbers(a)
	}
	if k&kindString != 0 {
		c.strings(a)
	}
	if k&kindArray != 0 && !c.s.emptyArrays(a) {
		c.whole = false
	}
}

// constant adds one value.
func (c *textCollector) constant(v any) {
	c.s.b.spend(1)
	name := canonicalJSON(v)
	if _, ok := c.words[name]; ok {
		return
	}
	text := ""
	switch v := v.(type) {
	case []any, *object:
		text, c.containers = tightJSON(v), true
	case numeral:
		r, ok := parseNumber(string(v))
		if !ok {
			c.whole = false // there may be another spelling of it among the others
			return
		}
		if text = decimalOf(new(big.Rat).Abs(r)).String(); r.Sign() < 0 {
			text = "-" + text
		}
	default:
		text = dumpJSON(v)
	}
	c.words[name] = text
	c.order = append(c.order, name)
}

// include adds the texts of d, unless ok is false.
func (c *textCollector) include(d *dfa, ok bool) {
	if c.big = c.big || !ok; ok && !d.empty() {
		c.b.eps(c.b.embed(c.start, d), c.end)
	}
}

// plainNumbers are the numbers in the spelling that is compared: without exponent,
// trailing zeros and -0.
var plainNumbers = sync.OnceValue(func() *dfa {
	d, _ := regexDFA(parseRegex(`-?(0\.[0-9]*[1-9]|[1-9][0-9]*(\.[0-9]*[1-9])?)|0`, unmetered()), false, newBuilder(nil, 1000, unmetered()))
	return d
})

var plainIntegers = sync.OnceValue(func() *dfa {
	d, _ := regexDFA(parseRegex(`-?[1-9][0-9]*|0`, unmetered()), false, newBuilder(nil, 1000, unmetered()))
	return d
})

func (c *textCollector) numbers(a alternative) {
	n := a.numbers()
	if n.empty() {
		return
	}
	plain := plainNumbers()
	if n.integer {
		plain = plainIntegers()
	}
	if n.free() {
		c.include(plain, true)
		return
	}
	own := newBuilder(nil, 8*dfaLimit, c.s.b.meter)
	start := own.state()
	own.accept(own.numbers(start, n))
	d, ok := makeDFA(own, start, -1)
	if ok {
		c.s.b.spend(len(d.states))
		d, ok = d.intersect(plain)
	}
	c.include(d, ok)
}

// longestCompared bounds the characters of a string that is compared, if its length has
// a bound at all: an automaton that counts them has several states for each.
const longestCompared = 1000

func (c *textCollector) strings(a alternative) {
	r := c.s.stringRules(a)
	if r.impossible() {
		return
	}
	if r.most > longestCompared && r.least <= longestCompared {
		r.most = longestCompared
	}
	d, ok := c.s.stringDFA(&r)
	if !ok {
		c.big = true
		return
	}
	if d == nil {
		d = allDFA()
	}
	c.quoted(d)
}

// quoted adds the JSON strings whose decoded texts are in d.
func (c *textCollector) quoted(d *dfa) {
	spelled := *d
	spelled.all = -1 // jsonString would read the rest with all its spellings
	own := newBuilder(nil, 8*dfaLimit, c.s.b.meter)
	start := own.state()
	own.accept(own.jsonString(own.lit(start, `"`), &spelled))
	c.include(makeDFA(own, start, -1))
}

// texts returns what was collected. Without a path, it is nil if that needs too many
// states; with one, that is refused.
func (c *textCollector) texts(path string) *valueTexts {
	list := make([]string, len(c.order))
	for i, name := range c.order {
		list[i] = c.words[name]
	}
	c.include(wordsDFA(list, c.s.b.meter))
	var d *dfa
	if !c.big {
		c.b.accept(c.end)
		var ok bool
		d, ok = makeDFA(c.b, c.start, -1)
		c.big = !ok
	}
	if !c.big {
		return newValueTexts(d, c.whole)
	}
	if path != "" {
		fail(ErrUnsupported, path, "the elements need too many states to be compared")
	}
	return nil
}
