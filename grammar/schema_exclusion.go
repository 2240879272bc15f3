package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// exclusion is a list of values that are not allowed.
type exclusion struct {
	yes, no bool // true, false
	words   []string
	numbers []*big.Rat
}

// has reports whether v is excluded.
func (x *exclusion) has(v any) bool {
	switch v := v.(type) {
	case bool:
		return v && x.yes || !v && x.no
	case string:
		return slices.Contains(x.words, v)
	case numeral:
		r, ok := parseNumber(string(v))
		return ok && slices.ContainsFunc(x.numbers, func(e *big.Rat) bool { return e.Cmp(r) == 0 })
	}
	return false
}

// bools are the booleans that a allows, if it allows any.
func (a alternative) bools() []bool {
	var res []bool
	for _, v := range []bool{true, false} {
		if !slices.ContainsFunc(a, func(n *schemaNode) bool { return n.excluded != nil && n.excluded.has(v) }) {
			res = append(res, v)
		}
	}
	return res
}

// exclude adds to r what the negations in a exclude.
func (s *schemas) exclude(r *stringRules, a alternative) {
	var words []string
	for _, n := range a {
		if n.excluded != nil {
			words = append(words, n.excluded.words...)
			r.path = n.path
		}
		if n.text.in != nil {
			r.langs, r.path = append(r.langs, n.text.in), n.path
		}
		for _, p := range n.text.not {
			var l *language
			if p.format {
				l = s.notFormat(p.pattern)
			} else {
				l = s.others(s.pattern(p.pattern, p.path))
			}
			if !slices.Contains(r.langs, l) {
				r.langs, r.path = append(r.langs, l), p.path
			}
		}
	}
	if len(words) > 0 {
		r.langs = append(r.langs, s.without(words))
	}
}

// others is the language of the texts that are not in l.
func (s *schemas) others(l *language) *language {
	name := "!" + l.name
	c := s.languages[name]
	if c == nil {
		c = &language{name: name, big: true}
		if d := s.automaton(l); d != nil {
			s.b.spend(4 * len(d.states))
			if rest, ok := allDFA().minus(d); ok {
				c.dfa, c.big = rest, false
			}
		}
		s.languages[name] = c
	}
	return c
}

// notFormat is the language of the texts that no validator takes for one of the format f. In
// a proof that no value satisfies some schemas, it has those as well that some validators do
// not take for one.
func (s *schemas) notFormat(f string) *language {
	name, of := "!w:"+f, wideFormatDFA
	if s.proving > 0 {
		name, of = "!n:"+f, formatDFA
	}
	c := s.languages[name]
	if c == nil {
		d := of(f)
		s.b.spend(4 * len(d.states))
		rest, ok := allDFA().minus(d)
		c = &language{name: name, dfa: rest, big: !ok}
		s.languages[name] = c
	}
	return c
}

// without is the language of the texts that are none of words.
func (s *schemas) without(words []string) *language {
	slices.Sort(words)
	words = slices.Compact(words)
	s.b.spend(len(words))
	name := fmt.Sprintf("!%q", words)
	c := s.languages[name]
	if c == nil {
		c = &language{name: name, big: true}
		if d, ok := wordsDFA(words, s.b.meter); ok {
			s.b.spend(4 * len(d.states))
			if rest, ok := allDFA().minus(d); ok {
				c.dfa, c.big = rest, false
			}
		}
		s.languages[name] = c
	}
	return c
}

// exclude narrows the set to numbers that are none of list. Fractions are the numbers that
// are no multiples of 1.
func (n *numbers) exclude(list []*big.Rat) { n.except = append(slices.Clip(n.except), list...) }

func (n *numbers) notTimesOf(list []*big.Rat) { n.not = append(slices.Clip(n.not), list...) }

// excludes reports whether v is excluded by a negation.
func (n *numbers) excludes(v *big.Rat) bool {
	return slices.ContainsFunc(n.except, func(e *big.Rat) bool { return e.Cmp(v) == 0 }) ||
		slices.ContainsFunc(n.not, func(m *big.Rat) bool { return new(big.Rat).Quo(v, m).IsInt() })
}

// fewNumbers is the number of integers in a range up to which they are tried one by one to
// see whether any is left.
const fewNumbers = 64

// allExcluded reports whether certainly negations exclude all numbers of n, which is normal.
func (n *numbers) allExcluded() bool {
	if len(n.except) == 0 && len(n.not) == 0 {
		return false
	}
	step := n.multiple
	if step == nil && n.integer {
		step = big.NewRat(1, 1)
	}
	if step != nil && slices.ContainsFunc(n.not, func(m *big.Rat) bool { return new(big.Rat).Quo(step, m).IsInt() }) {
		return true
	}
	if n.lo == nil || n.hi == nil {
		return false
	}
	if n.lo.Cmp(n.hi) == 0 {
		return n.excludes(n.lo)
	}
	width := new(big.Rat).Sub(n.hi, n.lo)
	if !n.integer || width.Cmp(big.NewRat(fewNumbers, 1)) > 0 {
		return false
	}
	for v := n.lo; v.Cmp(n.hi) <= 0; v = new(big.Rat).Add(v, big.NewRat(1, 1)) {
		if n.contains(v) {
			return false
		}
	}
	return true
}

// remainder is the language of the numbers in d that negations do not exclude. It reports
// false if it would have too many states.
func (n *numbers) remainder(b *builder, d *dfa) (*dfa, bool) {
	for _, m := range n.not {
		mod, ok := multiples(m, n.integer)
		if ok {
			b.spend(4 * (len(d.states) + len(mod.states)))
			d, ok = d.minus(mod)
		}
		if !ok {
			return nil, false
		}
	}
	if len(n.except) == 0 {
		return d, true
	}
	own := newBuilder(nil, 8*dfaLimit, b.meter)
	start, end := own.state(), own.state()
	own.accept(end)
	for _, r := range n.except {
		own.eps(own.spellings(start, r), end)
	}
	gone, ok := makeDFA(own, start, -1)
	if !ok {
		return nil, false
	}
	b.spend(4 * (len(d.states) + len(gone.states)))
	return d.minus(gone)
}

// spellings reads the number r in each way that it can be written without exponent.
func (b *builder) spellings(from int32, r *big.Rat) int32 {
	d := decimalOf(new(big.Rat).Abs(r))
	switch r.Sign() {
	case -1:
		from = b.lit(from, "-")
	case 0:
		from = b.opt(from, func(at int32) int32 { return b.lit(at, "-") })
	}
	zero := func(at int32) int32 { return b.lit(at, "0") }
	at := b.lit(from, d.whole)
	if d.frac != "" {
		return b.star(b.lit(at, "."+d.frac), zero)
	}
	return b.opt(at, func(at int32) int32 { return b.star(zero(b.lit(at, ".")), zero) })
}

// exclusionKey is the part of numbers.key for what negations exclude.
func (n *numbers) exclusionKey() string {
	var s strings.Builder
	for i, list := range [][]*big.Rat{n.except, n.not} {
		s.WriteByte("-/"[i])
		for _, r := range list {
			s.WriteString(r.RatString())
			s.WriteByte(',')
		}
	}
	return s.String()
}
