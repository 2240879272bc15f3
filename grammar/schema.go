package grammar

import (
	"encoding/binary"
	"slices"
)

// schemas lowers a JSON schema. A rule stands for a set of schemas that a value
// must satisfy all at once, so allOf, $ref and siblings of anyOf need no merging
// of keywords: the parts of a value are subject to the sets of the parts' schemas.
// There are finitely many sets, so recursion ends.
type schemas struct {
	b          *builder
	d          *document
	ws         frag
	tight      bool // ws is nothing: the common rules without whitespace fit
	loose      bool // ws is the default: the common rules with whitespace fit
	rules      map[string]int32
	verdicts   map[string]verdict
	languages  map[string]*language
	valueRules map[string]int32
	depth      int
}

// maxAlternatives bounds the combinations of anyOf and oneOf in one value.
const maxAlternatives = 4000

// schemaRule lowers schema to a rule.
func (b *builder) schemaRule(schema any, path string, o Options) int32 {
	s := &schemas{b: b, d: newDocument(schema, path, o, b.meter), rules: make(map[string]int32),
		verdicts: make(map[string]verdict), languages: make(map[string]*language), valueRules: make(map[string]int32)}
	switch {
	case o.WhitespacePattern != "":
		s.ws = b.whitespace(o.WhitespacePattern)
	case o.DisableAnyWhitespace:
		s.ws, s.tight = tight, true
	default:
		s.ws, s.loose = b.flexible, true
	}
	return s.value([]any{schema})
}

// whitespace is a pattern for what may stand between JSON's tokens.
func (b *builder) whitespace(pattern string) frag {
	n := parseRegex(pattern)
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

// alternative is a set of schemas without choices left.
type alternative []*schemaNode

func (a alternative) kinds() kinds {
	k := kinds(kindAll)
	for _, n := range a {
		k &= n.kinds
	}
	return k
}

type choice struct {
	of   *schemaNode
	one  bool // oneOf
	from []any
}

// expand follows references and allOf and multiplies out the choices. exact says
// that oneOf must be proven to be a choice of exactly one; otherwise it is read as
// anyOf, which is good enough to prove that nothing satisfies a set.
func (s *schemas) expand(set []any, exact bool) []alternative {
	e := &expansion{s: s, exact: exact}
	e.grow(nil, set, nil)
	return e.res
}

type expansion struct {
	s     *schemas
	exact bool
	res   []alternative
}

func (e *expansion) grow(have alternative, set []any, open []choice) {
	have = slices.Clone(have)
	open = slices.Clone(open)
	for i := 0; i < len(set); i++ {
		e.s.b.spend(1)
		n := e.s.d.node(set[i])
		if n.never {
			return
		}
		if n == e.s.d.trueSchema || slices.Contains(have, n) {
			continue
		}
		have = append(have, n)
		set = append(slices.Clip(set), n.also...)
		if n.anyOf != nil {
			open = append(open, choice{n, false, n.anyOf})
		}
		if n.oneOf != nil {
			open = append(open, choice{n, true, n.oneOf})
		}
	}
	if have.kinds() == 0 {
		return
	}
	if len(open) == 0 {
		if e.res = append(e.res, have); len(e.res) > maxAlternatives {
			fail(ErrTooComplex, have[0].path, "more than %d combinations of anyOf and oneOf", maxAlternatives)
		}
		return
	}
	c := open[0]
	open = open[1:]
	if !c.one && slices.ContainsFunc(c.from, func(v any) bool {
		n := e.s.d.node(v)
		return n == e.s.d.trueSchema || slices.Contains(have, n)
	}) {
		e.grow(have, nil, open) // satisfied already
		return
	}
	from := c.from
	if c.one && e.exact {
		from = e.s.disjoint(have, c)
	}
	for _, v := range from {
		e.grow(have, []any{v}, open)
	}
}

// disjoint returns the alternatives of a oneOf that can match together with have,
// and refuses it unless no two of them can match the same value.
func (s *schemas) disjoint(have alternative, c choice) []any {
	var with []any
	for _, n := range have {
		if n != c.of {
			with = append(with, s.local(n))
		}
	}
	with = append(with, s.local(c.of))
	var res []any
	var at []int
	for i, v := range c.from {
		if !s.empty(append(slices.Clip(with), v)) {
			res, at = append(res, v), append(at, i)
		}
	}
	for i := range res {
		for j := range i {
			if !s.empty(append(slices.Clip(with), res[i], res[j])) {
				fail(ErrUnsupported, stepPath(c.of.path, "oneOf"), "oneOf cannot be enforced: its alternatives %d and %d may match the same value", at[j], at[i])
			}
		}
	}
	return res
}

// local is JSON for what n asks for itself, without its choices.
func (s *schemas) local(n *schemaNode) any {
	if n.anyOf == nil && n.oneOf == nil {
		return n.json
	}
	if o, ok := s.d.localJSON[n]; ok {
		return o
	}
	l := *n
	o := &object{}
	l.anyOf, l.oneOf, l.json = nil, nil, o
	s.d.nodes[o] = s.d.add(&l)
	s.d.localJSON[n] = o
	return o
}

// key names a set of schemas.
func (s *schemas) key(set []any) string {
	ids := make([]int32, 0, len(set))
	for _, v := range set {
		if n := s.d.node(v); n != s.d.trueSchema {
			ids = append(ids, n.id)
		}
	}
	slices.Sort(ids)
	var key []byte
	for _, id := range slices.Compact(ids) {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}

// value is the rule for values that satisfy every schema of set.
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
	for _, a := range s.expand(set, true) {
		s.b.eps(s.alternative(s.b.start(r), a), end)
	}
	return r
}

// common is one of the rules that all grammars share, if whitespace is as there.
func (s *schemas) common(loose, tight int32) (int32, bool) {
	switch {
	case s.loose:
		return loose, true
	case s.tight:
		return tight, true
	}
	return 0, false
}

// alternative reads a value of a.
func (s *schemas) alternative(from int32, a alternative) int32 {
	to := s.b.state()
	for _, n := range a {
		if n.enum != nil {
			for _, v := range n.enum {
				if s.holdsAll(v, a) {
					s.b.eps(s.b.literal(from, v, s.ws), to)
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
	has(kindNull, func(at int32) int32 { return s.b.lit(at, "null") })
	has(kindBool, func(at int32) int32 {
		return s.b.alt(at, func(at int32) int32 { return s.b.lit(at, "true") }, func(at int32) int32 { return s.b.lit(at, "false") })
	})
	has(kindNumber, func(at int32) int32 { return s.number(at, a) })
	has(kindString, func(at int32) int32 { return s.string(at, a) })
	has(kindArray, func(at int32) int32 { return s.array(at, a) })
	has(kindObject, func(at int32) int32 { return s.object(at, a) })
	return to
}

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
	}
	return n
}

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

// items describes the arrays of a: the schemas at each position that has its own,
// those of the rest, and the bounds.
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

// tighter is the smaller of two bounds, of which -1 is none.
func tighter(a, b int64) int64 {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

func (s *schemas) array(from int32, a alternative) int32 {
	b := s.b
	prefix, rest, least, most := a.items()
	if len(prefix) == 0 && s.key(rest) == "" && least == 0 && most < 0 {
		if r, ok := s.common(ruleArray, ruleTightArray); ok {
			return b.call(from, r)
		}
	}
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
			at = s.ws(b.lit(at, ","))
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
		at = b.repeat(at, lo, hi, 24, func(at int32) int32 { return item(s.ws(b.lit(at, ",")), rest) })
		b.eps(at, end)
	}
	return b.lit(end, "]")
}

type verdict uint8

const (
	unknown verdict = iota
	checking
	inhabited
	uninhabited
)

// empty is true only if no value satisfies all of set. It looks no deeper than it
// must, and a set that depends on itself counts as inhabited.
func (s *schemas) empty(set []any) bool {
	key := s.key(set)
	switch s.verdicts[key] {
	case checking, inhabited:
		return false
	case uninhabited:
		return true
	}
	s.verdicts[key] = checking
	v := uninhabited
	for _, a := range s.expand(set, false) {
		if !s.emptyAlternative(a) {
			v = inhabited
			break
		}
	}
	s.verdicts[key] = v
	return v == uninhabited
}

func (s *schemas) emptyAlternative(a alternative) bool {
	s.b.spend(len(a))
	for _, n := range a {
		if n.enum != nil {
			return !slices.ContainsFunc(n.enum, func(v any) bool { return s.holdsAll(v, a) })
		}
	}
	k := a.kinds()
	return k&(kindNull|kindBool) == 0 &&
		(k&kindNumber == 0 || a.numbers().empty()) &&
		(k&kindString == 0 || s.emptyStrings(a)) &&
		(k&kindArray == 0 || s.emptyArrays(a)) &&
		(k&kindObject == 0 || s.emptyObjects(a))
}

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
	return least > int64(len(prefix)) && s.empty(rest)
}

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
	return false
}
