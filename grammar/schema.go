package grammar

import (
	"math/big"
	"slices"
)

// schemas lowers a JSON schema. A rule stands for a set of schemas that hold for a
// value at once. So allOf, $ref and keywords beside anyOf are lowered without merging
// keywords: for each part of the value, the set of what the schemas say about that
// part holds. There are finitely many sets, so recursive schemas end.
type schemas struct {
	b           *builder
	d           *document
	ws          frag // what may be between JSON's tokens
	sep         frag // what may follow a comma or a colon
	tight       bool // ws is nothing, so the common rules without whitespace can be used
	spaced      bool // the same for those with a space after commas and colons
	spell       *spelling
	loose       bool             // ws is the default, so the common rules with whitespace can be used
	rules       map[string]int32 // of each set of schemas, by its key
	verdicts    map[string]verdict
	languages   map[string]*language
	valueRules  map[string]int32
	depth       int
	negative    int                       // negations around the schema that a constant is validated against
	oneOfAny    bool                      // every oneOf may be read as anyOf
	relaxed     bool                      // those that may be are
	relaxable   bool                      // there are some
	distinct    map[string]*distinctItems // of each set of schemas, by its key
	scalarTexts map[string]*valueTexts
	emptyTexts  map[string]bool  // whether no string satisfies rules, by their keys
	proving     int              // proofs under way that no value satisfies a set
	texts       map[textKey]*dfa // see textsOf
}

// maxAlternatives bounds the combinations of anyOf and oneOf for one value.
const maxAlternatives = 4000

// schemaRule lowers schema, a parsed JSON value, to a rule. path is where it is in
// the request.
func (b *builder) schemaRule(schema any, path string, o Options) int32 {
	s := newSchemas(b, schema, path, o)
	var res int32
	if s.attempt(func() { res = s.value([]any{schema}) }) {
		return res
	}
	s = newSchemas(b, schema, path, o)
	s.relaxed = true
	return s.value([]any{schema})
}

// attempt calls f. It reports false if f has refused the schema, and reading oneOf as anyOf
// may help. Where that is possible, the attempt may take half of the work that is left.
func (s *schemas) attempt(f func()) (ok bool) {
	b := s.b
	if !s.oneOfAny && !s.d.anyForOne {
		f()
		return true
	}
	states, rules, kept := len(b.states), len(b.starts), b.left/2
	b.left -= kept
	defer func() {
		r := recover()
		if r == nil {
			b.left += kept
			ok = true
			return
		}
		if e, refused := r.(*Error); !refused || !s.relaxable || e.Kind != ErrUnsupported && e.Kind != ErrTooComplex {
			panic(r)
		}
		b.left = max(b.left, 0) + kept
		b.free(int64(len(b.states)-states) * stateBytes)
		clear(b.states[states:]) // nothing refers to them
		b.states, b.starts, b.rests = b.states[:states], b.starts[:rules], nil
	}()
	f()
	return ok
}

// newSchemas prepares to lower the schemas of one document.
func newSchemas(b *builder, schema any, path string, o Options) *schemas {
	s := &schemas{b: b, d: newDocument(schema, path, o, b.meter), rules: make(map[string]int32),
		verdicts: make(map[string]verdict), languages: make(map[string]*language), valueRules: make(map[string]int32),
		texts: make(map[textKey]*dfa), emptyTexts: make(map[string]bool), oneOfAny: o.OneOfAny, spell: &jsonSpelling}
	switch {
	case o.WhitespacePattern != "":
		s.ws = b.whitespace(o.WhitespacePattern)
	case o.DisableAnyWhitespace:
		s.ws, s.tight = tight, true
	default:
		s.ws, s.loose = b.flexible, true
	}
	s.sep = s.ws
	if o.spaced {
		s.ws, s.sep, s.tight, s.loose, s.spaced = tight, b.space, false, false, true
	}
	return s
}

// whitespace returns a fragment for the pattern of what may be between JSON's tokens.
func (b *builder) whitespace(pattern string) frag {
	n := parseRegex(pattern, b.meter)
	d, ok := regexDFA(n, false, b)
	if !ok {
		fail(ErrTooComplex, "", "whitespace_pattern is too complex")
	}
	blank := runeSet{{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}
	all, _ := regexDFA(&rx{kind: rxRepeat, hi: -1, subs: []*rx{{kind: rxSet, set: blank}}}, false, b)
	if rest, ok := d.minus(all); !ok || !rest.empty() {
		fail(ErrInvalid, "", "whitespace_pattern matches what JSON does not allow between its tokens")
	}
	if d.empty() {
		fail(ErrInvalid, "", "whitespace_pattern matches nothing")
	}
	return func(from int32) int32 { return b.embed(from, d) }
}

// alternative is a set of schemas of which all anyOf and oneOf have been decided: the
// chosen schemas are in the set.
type alternative []*schemaNode

// said are the types that the schemas of a allow, without those that are only implied.
func (a alternative) said() kinds {
	k := kinds(kindAll)
	for _, n := range a {
		k &= n.kinds
	}
	return k
}

func (a alternative) kinds() kinds {
	k := kinds(kindAll)
	said, implied := false, kinds(kindAll)
	for _, n := range a {
		k &= n.kinds
		if said = said || n.kinds != kindAll || n.enum != nil; n.implied != 0 {
			implied &= n.implied
		}
	}
	if said && k&implied == 0 {
		return k // what is only implied does not count against a type that is said
	}
	return k & implied
}

// local is a stand-in for JSON that has the keywords of n without those for which other
// schemas hold for the same value. In an alternative, these have nodes of their own.
func (s *schemas) local(n *schemaNode) any {
	if n.also == nil && n.anyOf == nil && n.oneOf == nil && n.negates == nil {
		return n.json
	}
	if o, ok := s.d.localJSON[n]; ok {
		return o
	}
	l := *n
	o := &object{}
	l.also, l.anyOf, l.oneOf, l.negates, l.json = nil, nil, nil, nil, o
	s.d.nodes[o] = s.d.add(&l)
	s.d.localJSON[n] = o
	return o
}

// key is the same for equal sets of schemas; "" for the set that all values satisfy.
func (s *schemas) key(set []any) string {
	ids := make([]int32, 0, len(set))
	for _, v := range set {
		if n := s.d.node(v); n != s.d.trueSchema {
			ids = append(ids, n.id)
		}
	}
	return keyOf(ids)
}

// value returns the rule for values that satisfy all schemas of set.
func (s *schemas) value(set []any) int32 {
	key := s.key(set)
	if key == "" {
		if r, ok := s.common(ruleAny, ruleTightAny); ok {
			return r
		}
	}
	if r, ok := s.rules[key]; ok {
		return r
	}
	if s.depth++; s.depth > 2000 {
		fail(ErrTooComplex, "", "schemas are nested too deeply")
	}
	defer func() { s.depth-- }()
	r := s.b.rule()
	s.rules[key] = r
	end := s.b.state()
	s.b.accept(end)
	alternatives := s.expand(set, true)
	if n := s.mergeTexts(set, alternatives); n != nil {
		alternatives = []alternative{{n}}
	}
	for _, a := range alternatives {
		s.b.eps(s.alternative(s.b.start(r), a), end)
	}
	return r
}

// common chooses between two of the rules that all grammars share, by the whitespace.
// It reports false if neither has the whitespace of this schema.
func (s *schemas) common(loose, tight int32) (int32, bool) {
	switch {
	case s.loose:
		return loose, true
	case s.tight:
		return tight, true
	case s.spaced:
		return tight + ruleSpacedAny - ruleTightAny, true
	}
	return 0, false
}

// alternative reads a value of a.
func (s *schemas) alternative(from int32, a alternative) int32 {
	to := s.b.state()
	a.refuse()
	for _, n := range a {
		if n.enum != nil {
			for _, v := range n.enum {
				if s.holdsAll(v, a) {
					s.b.eps(s.b.constant(from, v, s.ws, s.sep, s.spell), to)
				}
			}
			return to
		}
	}
	k := a.kinds()
	has := func(kind kinds, f frag) {
		if k&kind != 0 {
			s.b.eps(f(from), to)
		}
	}
	has(kindNull, func(at int32) int32 { return s.spell.nothing(s.b, at) })
	has(kindBool, func(at int32) int32 {
		end := s.b.state()
		for _, v := range a.bools() {
			s.b.eps(s.b.lit(at, s.spell.of(v)), end)
		}
		return end
	})
	has(kindNumber, func(at int32) int32 { return s.number(at, a) })
	has(kindString, func(at int32) int32 {
		return s.spell.string(s.b, at, func(at int32) int32 { return s.string(at, a) }, func(at int32) int32 { return s.spell.texts.text(at, a) })
	})
	has(kindArray, func(at int32) int32 { return s.array(at, a) })
	has(kindObject, func(at int32) int32 { return s.object(at, a) })
	return to
}

// numbers is the set of numbers that the schemas of a allow.
func (a alternative) numbers() numbers {
	var n numbers
	n.integer = a.kinds()&kindFraction == 0
	for _, m := range a {
		if m.lo != nil {
			n.atLeast(m.lo, m.loOpen)
		}
		if m.hi != nil {
			n.atMost(m.hi, m.hiOpen)
		}
		if m.multiple != nil {
			n.timesOf(m.multiple)
			n.multiplePath = m.multiplePath
		}
		if m.not != nil {
			n.notTimesOf(m.not)
			n.multiplePath = m.multiplePath
		}
		if m.excluded != nil {
			n.exclude(m.excluded.numbers)
		}
	}
	if a.kinds()&kindNumber == kindFraction {
		n.notTimesOf([]*big.Rat{big.NewRat(1, 1)})
	}
	return n
}

// number reads a number of a.
func (s *schemas) number(from int32, a alternative) int32 {
	n := a.numbers()
	if n.free() {
		if n.integer {
			return s.b.call(from, ruleInteger)
		}
		return s.b.call(from, ruleNumber)
	}
	key := n.key()
	r, ok := s.valueRules[key]
	if !ok {
		r = s.b.rule()
		s.valueRules[key] = r
		s.b.accept(s.b.numbers(s.b.start(r), n))
	}
	return s.b.call(from, r)
}

// items describes the arrays of a: the schemas that hold for each element that has its
// own, those for all further ones, and the bounds on their number (most -1: none).
func (a alternative) items() (prefix [][]any, rest []any, least, most int64) {
	most = -1
	longest := 0
	for _, n := range a {
		least = max(least, n.array.least)
		most = tighter(most, n.array.most)
		longest = max(longest, len(n.array.prefix))
		if n.array.items != nil {
			rest = append(rest, n.array.items)
		}
	}
	for i := range longest {
		var set []any
		for _, n := range a {
			if i < len(n.array.prefix) {
				set = append(set, n.array.prefix[i])
			} else if n.array.items != nil {
				set = append(set, n.array.items)
			}
		}
		prefix = append(prefix, set)
	}
	return prefix, rest, least, most
}

// tighter is the smaller of two upper bounds; -1 is no bound.
func tighter(a, b int64) int64 {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// array reads an array of a.
func (s *schemas) array(from int32, a alternative) int32 {
	b := s.b
	prefix, rest, least, most := a.items()
	some := a.someItems()
	if len(prefix) == 0 && len(some) == 0 && s.key(rest) == "" && least == 0 && most < 0 && !a.compared() {
		if r, ok := s.common(ruleArray, ruleTightArray); ok {
			return b.call(from, r)
		}
	}
	if most >= 0 && least > most {
		return b.state()
	}
	switch {
	case len(some) > 0 && a.compared():
		fail(ErrUnsupported, a[0].path, "uniqueItems and contains cannot be enforced beside a demand for an element that violates a schema")
	case len(some) > 0:
		return s.arrayWith(from, a, some)
	}
	if at, ok := s.comparedArray(from, a); ok {
		return at
	}
	return s.list(from, prefix, rest, least, most)
}

// list reads an array whose elements satisfy prefix, each its own set of schemas, and
// after them rest. There are least to most of them.
func (s *schemas) list(from int32, prefix [][]any, rest []any, least, most int64) int32 {
	b := s.b
	if most >= 0 && least > most {
		return b.state()
	}
	end := b.state()
	at := s.ws(b.lit(from, "["))
	item := func(at int32, set []any) int32 { return s.ws(b.call(at, s.value(set))) }
	i := int64(0)
	for ; i < int64(len(prefix)) && (most < 0 || i < most); i++ {
		if i >= least {
			b.eps(at, end)
		}
		if i > 0 {
			at = s.sep(b.lit(at, ","))
		}
		at = item(at, prefix[i])
	}
	if i >= least {
		b.eps(at, end)
	}
	if most < 0 || i < most {
		if i == 0 {
			at = item(at, rest)
			i = 1
		}
		lo, hi := int32(max(0, least-i)), int32(-1)
		if most >= 0 {
			hi = int32(most - i)
		}
		at = b.repeat(at, lo, hi, 24, func(at int32) int32 { return item(s.sep(b.lit(at, ",")), rest) })
		b.eps(at, end)
	}
	return b.lit(end, "]")
}

// verdict is what is known of a set of schemas: whether any value satisfies it.
type verdict uint8

const (
	unknown verdict = iota
	checking
	inhabited
	uninhabited
)

// manyTries is the number of alternatives of a set that empty looks at. If there are more,
// it takes the set for one that some value satisfies.
const manyTries = 1000

// empty reports whether certainly no value satisfies all of set. It looks no deeper
// than it must, and a set that depends on itself counts as inhabited.
func (s *schemas) empty(set []any) bool {
	key := s.key(set)
	switch s.verdicts[key] {
	case checking, inhabited:
		return false
	case uninhabited:
		return true
	}
	s.verdicts[key] = checking
	s.proving++
	defer func() { s.proving-- }()
	v := uninhabited
	tried := 0
	s.alternatives(set, false, func(a alternative) bool {
		if tried++; tried > manyTries || !s.emptyAlternative(a) {
			v = inhabited
		}
		return v == uninhabited
	})
	s.verdicts[key] = v
	return v == uninhabited
}

// emptyAlternative is empty for an alternative.
func (s *schemas) emptyAlternative(a alternative) bool {
	s.b.spend(len(a))
	for _, n := range a {
		if n.enum != nil {
			return !slices.ContainsFunc(n.enum, func(v any) bool { return s.holdsAll(v, a) })
		}
	}
	k := a.kinds()
	return k&kindNull == 0 &&
		(k&kindBool == 0 || len(a.bools()) == 0) &&
		(k&kindNumber == 0 || a.numbers().empty()) &&
		(k&kindString == 0 || s.emptyStrings(a)) &&
		(k&kindArray == 0 || s.emptyArrays(a)) &&
		(k&kindObject == 0 || s.emptyObjects(a))
}

// emptyArrays reports whether certainly no array satisfies a.
func (s *schemas) emptyArrays(a alternative) bool {
	prefix, rest, least, most := a.items()
	if most >= 0 && least > most {
		return true
	}
	for i := range int64(len(prefix)) {
		if i < least && s.empty(prefix[i]) {
			return true
		}
	}
	return least > int64(len(prefix)) && s.empty(rest) || s.noItem(a)
}

// emptyObjects reports whether certainly no object satisfies a.
func (s *schemas) emptyObjects(a alternative) bool {
	m := s.members(a)
	if m.most >= 0 && (m.least > m.most || int64(m.required) > m.most) {
		return true
	}
	for _, p := range m.declared {
		if p.required && (p.barred || s.empty(p.set)) {
			return true
		}
	}
	return s.noWitness(a)
}
