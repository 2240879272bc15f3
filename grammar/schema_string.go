package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// language is the set of texts that a pattern or a format allows.
type language struct {
	name string // unique
	ast  *rx    // of a pattern, which may match anywhere in a text; nil for a format
	rule int32  // of a format: the common rule for the rest of such a string
	dfa  *dfa   // nil: not made yet, or too big
	wide *dfa   // of a format: what a proof counts to it, see formatRule; nil: not made yet
	big  bool   // the dfa would have too many states
}

// pattern is the language of texts that contain a match of p.
func (s *schemas) pattern(p, path string) *language {
	name := "p:" + p
	l := s.languages[name]
	if l == nil {
		l = &language{name: name, ast: parseAt(p, path, s.b.meter)}
		s.languages[name] = l
	}
	return l
}

// parseAt is parseRegex with the path of the keyword in its refusals.
func parseAt(p, path string, m *meter) *rx {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			r.Path = path
			panic(r)
		default:
			panic(r)
		}
	}()
	return parseRegex(p, m)
}

// format is the language of a format, or nil if JSON Schema does not define it. Such a
// format is an annotation: it tells the reader what is meant, and demands nothing.
func (s *schemas) format(f string) *language {
	i, ok := slices.BinarySearch(formatNames, f)
	if !ok {
		return nil
	}
	name := "f:" + f
	l := s.languages[name]
	if l == nil {
		l = &language{name: name, rule: ruleFormat + int32(i), dfa: formatDFA(f)}
		s.languages[name] = l
	}
	return l
}

// wide has all texts that any validator may take for one of the format l.
func (s *schemas) wide(l *language) *dfa {
	if l.wide == nil {
		l.wide = wideFormatDFA(strings.TrimPrefix(l.name, "f:"))
	}
	return l.wide
}

// automaton is the dfa of l, or nil if it would have too many states. In a proof that no
// value satisfies some schemas, a format is wider than what is written for it.
func (s *schemas) automaton(l *language) *dfa {
	if s.proving > 0 && l.rule != 0 {
		return s.wide(l)
	}
	if l.dfa != nil || l.big {
		return l.dfa
	}
	d, ok := regexDFA(l.ast, true, s.b)
	if l.big = !ok; !ok {
		return nil
	}
	l.dfa = d
	return d
}

// search is the dfa of the texts that contain a match of p.
func (s *schemas) search(p, path string) *dfa {
	d := s.automaton(s.pattern(p, path))
	if d == nil {
		fail(ErrUnsupported, path, "the pattern %q needs too many states here", p)
	}
	return d
}

// stringRules are what an alternative requires of strings.
type stringRules struct {
	least, most int64 // characters; most -1: no bound
	langs       []*language
	path        string // of the keyword of one of langs
	grammar     string // x-grammar; "": none
	at          string // the path of that
}

func (s *schemas) stringRules(a alternative) stringRules {
	r := stringRules{most: -1}
	add := func(l *language, path string) {
		if !slices.Contains(r.langs, l) {
			r.langs, r.path = append(r.langs, l), path
		}
	}
	for _, n := range a {
		r.least = max(r.least, n.text.least)
		r.most = tighter(r.most, n.text.most)
		if n.text.hasPattern {
			add(s.pattern(n.text.pattern, stepPath(n.path, "pattern")), stepPath(n.path, "pattern"))
		}
		if n.text.format != "" {
			path := stepPath(n.path, "format")
			if l := s.format(demandedFormat(&n.text)); l != nil {
				add(l, path)
			} else {
				s.b.warn(path, "the format %s is not enforced: JSON Schema does not define it", quoteValue(n.text.format))
			}
		}
	}
	s.exclude(&r, a)
	r.take(a)
	return r
}

func (r *stringRules) impossible() bool { return r.most >= 0 && r.least > r.most }

// string reads a string of a.
func (s *schemas) string(from int32, a alternative) int32 {
	r := s.stringRules(a)
	if r.impossible() {
		return s.b.state()
	}
	if r.grammar != "" {
		return s.b.lit(s.b.call(s.b.lit(from, `"`), s.grammarRule(&r, "")), `"`)
	}
	if len(r.langs) == 0 {
		return s.b.callN(s.b.lit(from, `"`), ruleTail, int32(r.least), int32(r.most))
	}
	if len(r.langs) == 1 && r.langs[0].rule != 0 && r.least == 0 && r.most < 0 {
		return s.b.call(s.b.lit(from, `"`), r.langs[0].rule)
	}
	key := r.key()
	rule, ok := s.valueRules[key]
	if !ok {
		rule = s.b.rule()
		s.valueRules[key] = rule
		s.b.accept(s.restricted(s.b.lit(s.b.start(rule), `"`), &r))
	}
	return s.b.call(from, rule)
}

// restricted reads the rest of a string, after the opening quote, that satisfies r.
// There is at least one language in r.
func (s *schemas) restricted(from int32, r *stringRules) int32 {
	if at, ok := s.spelled(from, r); ok {
		return at
	}
	d, ok := s.intersection(r)
	if ok && r.bounds(d) {
		if max(r.least, r.most) > fewCharacters {
			if at, ok := s.b.countedString(from, d, r.least, r.most); ok {
				return at
			}
		}
		d, ok = s.cut(d, r)
	}
	if !ok {
		if narrow, found := s.lengthsForLooks(r); found {
			return s.restricted(from, &narrow)
		}
		with := ""
		if len(r.langs) > 1 || r.least > 0 || r.most >= 0 {
			with = " together with the other demands on this string"
		}
		fail(ErrUnsupported, r.path, "the pattern needs too many states%s", with)
	}
	return s.b.jsonString(from, d)
}

// fewCharacters is the length up to which a language with a bound on its length is an
// automaton that counts by its states. Its masks are a little cheaper than those with
// counters, but each state has its own.
const fewCharacters = 16

// stringDFA is the language of all texts that satisfy r, or nil for all texts. It
// reports false if it would have too many states.
func (s *schemas) stringDFA(r *stringRules) (*dfa, bool) {
	d, ok := s.intersection(r)
	if ok && r.bounds(d) {
		return s.cut(d, r)
	}
	return d, ok
}

// intersection is the language of all texts that satisfy the languages of r, whatever
// their length, or nil if there are none. It reports false if it would have too many states.
func (s *schemas) intersection(r *stringRules) (*dfa, bool) {
	var d *dfa
	for _, l := range r.langs {
		e := s.automaton(l)
		if e == nil {
			return nil, false
		}
		if d == nil {
			d = e
			continue
		}
		var ok bool
		if d, ok = s.product(d, e); !ok {
			return nil, false
		}
	}
	return d, true
}

// product is the intersection of d and e, with its work accounted for.
func (s *schemas) product(d, e *dfa) (*dfa, bool) {
	res, ok := d.intersect(e)
	if !ok {
		s.b.spend(4 * dfaLimit)
		return nil, false
	}
	s.b.spend(4 * (1 + len(res.states)))
	return res, true
}

// bounds reports whether the bounds of r on the length of a text forbid any texts of d, or
// of all texts if d is nil.
func (r *stringRules) bounds(d *dfa) bool {
	if r.least == 0 && r.most < 0 || d != nil && d.empty() {
		return false
	}
	if d == nil {
		return true
	}
	fewest, most := d.lengths()
	return int64(fewest) < r.least || r.most >= 0 && (most < 0 || int64(most) > r.most)
}

// cut is the language of the texts of d, or of all texts if d is nil, whose length is within
// the bounds of r. It reports false if it would have too many states.
func (s *schemas) cut(d *dfa, r *stringRules) (*dfa, bool) {
	least, most := r.least, r.most
	if d != nil {
		fewest, longest := d.lengths()
		if longest >= 0 && int64(longest) < r.least || most >= 0 && int64(fewest) > most {
			return &dfa{all: -1}, true
		}
		if most = tighter(most, int64(longest)); int64(fewest) >= least {
			least = 0
		}
	}
	s.b.spend(dfaLimit)
	e, ok := lengthDFA(int(least), int(most))
	if !ok || d == nil {
		return e, ok
	}
	return s.product(d, e)
}

// spelled lowers a single anchored pattern directly, with counters for its
// repetitions, instead of by a dfa, which would have a state for each count. It does
// so if the pattern has large counts and no bounds on the length, or if it is one
// repeated class, whose counts the bounds can be merged with. All counts that are far
// from their limits share their masks; the states of a dfa do not.
func (s *schemas) spelled(from int32, r *stringRules) (int32, bool) {
	if len(r.langs) != 1 || r.langs[0].ast == nil {
		return 0, false
	}
	core, begin, end, ok := anchored(r.langs[0].ast)
	if !ok || !begin || !end {
		return 0, false
	}
	if r.least > 0 || r.most >= 0 {
		if core.kind != rxRepeat || core.subs[0].kind != rxSet {
			return 0, false
		}
		c := *core
		c.lo = max(c.lo, int32(r.least))
		c.hi = int32(tighter(int64(c.hi), r.most))
		if c.hi >= 0 && c.lo > c.hi {
			return s.b.state(), true
		}
		core = &c
	} else if !core.counts() {
		return 0, false
	}
	return s.b.chain(from, core, lowering{leaf: s.b.jsonLeaf, counted: true}, `"`), true
}

// emptyStrings reports whether certainly no string satisfies a.
func (s *schemas) emptyStrings(a alternative) bool {
	r := s.stringRules(a)
	if r.impossible() {
		return true
	}
	if len(r.langs) == 0 || r.grammar != "" {
		return false
	}
	key := r.key()
	if s.proving > 0 {
		key += " proof" // formats are wider
	}
	empty, known := s.emptyTexts[key]
	if !known {
		d, ok := s.stringDFA(&r)
		if ok {
			s.b.spend(8 * len(d.states))
		} else {
			s.b.spend(dfaLimit)
		}
		empty = ok && d.empty()
		s.emptyTexts[key] = empty
	}
	return empty
}

// key is the same for equal rules.
func (r *stringRules) key() string {
	key := ""
	for _, l := range r.langs {
		key += l.name + "\x00"
	}
	return key + fmt.Sprint(r.least, r.most)
}

// keyNames is the language of the names that the propertyNames of n allow.
func (s *schemas) keyNames(n *schemaNode) *dfa {
	return s.namesThat(n.props.keys, stepPath(n.path, "propertyNames"))
}

// namesThat is the language of the names that satisfy schema, which is from the keyword at
// path.
func (s *schemas) namesThat(schema any, path string) *dfa {
	none := allDFA()
	for _, a := range s.expand([]any{schema}, true) {
		none = s.combine(none, s.namesOf(a, path), true, path)
	}
	return s.combine(allDFA(), none, true, path)
}

// namesOf is the language of the strings of a. path is that of propertyNames.
func (s *schemas) namesOf(a alternative, path string) *dfa {
	a.refuse()
	for _, n := range a {
		if n.enum == nil {
			continue
		}
		var words []string
		for _, v := range n.enum {
			if w, ok := v.(string); ok && s.holdsAll(v, a) {
				words = append(words, w)
			}
		}
		d, ok := wordsDFA(words, s.b.meter)
		if !ok {
			fail(ErrTooComplex, path, "too many names")
		}
		return d
	}
	r := s.stringRules(a)
	if a.kinds()&kindString == 0 || r.impossible() {
		return &dfa{all: -1}
	}
	d, ok := s.stringDFA(&r)
	if !ok {
		fail(ErrUnsupported, path, "propertyNames needs too many states")
	}
	if d == nil {
		return allDFA()
	}
	return d
}
