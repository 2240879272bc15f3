package grammar

import (
	"slices"
	"strings"
)

// A grammar can name tokens: special ones, which add no text, and others where it matters
// that a text is one token. The network reads a named token as its marker: the byte 0xFF,
// which occurs nowhere in UTF-8, and the id in three bytes. So a named token is read like
// any other text, in rules, repetitions and free text, while no token of the vocabulary
// can be a part of a marker: tokens with the byte 0xFF are never legal. Markers are not in
// the trie. Where a position can read 0xFF, the tokens whose markers can follow are found
// one by one and kept with the position that the 0xFF leads to.
// (llguidance marks special tokens with the same byte; its docs/special_tokens.md.)

// marker is the first byte of all markers.
const marker = 0xFF

// markerIDs is the number of ids that fit into a marker.
const markerIDs = 1 << 24

// Special is a token that adds no text to the output, with its name in the tokenizer.
type Special struct {
	ID   int32
	Name string
}

// idRange is an inclusive range of token ids.
type idRange struct{ lo, hi int32 }

// nameTokens prepares v for grammars that name tokens. What can be named has a text or is
// special. End tokens cannot: they end a text wherever they come.
func (v *Vocabulary) nameTokens(special []Special, ends map[int32]bool) {
	v.names = make(map[string]int32, len(special))
	named := make(map[int32]bool, len(special))
	for _, s := range special {
		if s.ID < 0 || int(s.ID) >= v.size {
			continue
		}
		if _, twice := v.names[s.Name]; !twice {
			v.names[s.Name] = s.ID
		}
		named[s.ID] = true
	}
	for i := range int32(min(v.size, markerIDs)) {
		if ends[i] || len(v.tokens[i]) == 0 && !named[i] {
			continue
		}
		if n := len(v.nameable); n > 0 && v.nameable[n-1].hi == i-1 {
			v.nameable[n-1].hi = i
		} else {
			v.nameable = append(v.nameable, idRange{i, i})
		}
	}
}

// withoutMarkers is tokens without those that have the byte of markers in them.
func withoutMarkers(tokens [][]byte) [][]byte {
	bad := func(t []byte) bool { return slices.Contains(t, marker) }
	if !slices.ContainsFunc(tokens, bad) {
		return tokens
	}
	tokens = slices.Clone(tokens)
	for i, t := range tokens {
		if bad(t) {
			tokens[i] = nil
		}
	}
	return tokens
}

// lookUp is the token called name: a special token, or the first one with this text.
func (v *Vocabulary) lookUp(name string) (int32, bool) {
	if id, ok := v.names[name]; ok {
		return id, true
	}
	i, ok := slices.BinarySearchFunc(v.sorted, name, func(id int32, name string) int { return strings.Compare(string(v.tokens[id]), name) })
	if !ok {
		return 0, false
	}
	return v.sorted[i], true
}

// tokenSet is the set of tokens in ranges or, with not, of all others.
type tokenSet struct {
	ranges []idRange
	not    bool
}

// normal is the set without not, as ranges that are in order and apart.
func (t tokenSet) normal() []idRange {
	list := slices.Clone(t.ranges)
	slices.SortFunc(list, func(a, b idRange) int { return int(a.lo) - int(b.lo) })
	var res []idRange
	for _, r := range list {
		if n := len(res); n > 0 && r.lo <= res[n-1].hi+1 {
			res[n-1].hi = max(res[n-1].hi, r.hi)
		} else {
			res = append(res, r)
		}
	}
	if !t.not {
		return res
	}
	next := int32(0)
	var others []idRange
	for _, r := range res {
		if r.lo > next {
			others = append(others, idRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	return append(others, idRange{next, markerIDs - 1})
}

// nameableOf are the tokens of t that can be named.
func (b *builder) nameableOf(t tokenSet) []idRange {
	if b.voc == nil {
		return nil
	}
	var res []idRange
	have := b.voc.nameable
	for _, r := range t.normal() {
		b.spend(1)
		for len(have) > 0 && have[0].hi < r.lo {
			have = have[1:]
		}
		for _, h := range have {
			if h.lo > r.hi {
				break
			}
			b.spend(1)
			res = append(res, idRange{max(h.lo, r.lo), min(h.hi, r.hi)})
		}
	}
	return res
}

// token reads one token of t. path is for refusals.
func (b *builder) token(from int32, t tokenSet, path string) int32 {
	set := b.nameableOf(t)
	if len(set) == 0 {
		if !t.not && slices.ContainsFunc(t.ranges, b.endsIn) {
			fail(ErrUnsupported, path, "an end token cannot be a part of the output: leave it out where the output ends")
		}
		fail(ErrInvalid, path, "the vocabulary has no such token")
	}
	b.marked = true
	to := b.state()
	at := b.bytes(from, marker, marker)
	for _, r := range set {
		b.number24(at, to, uint32(r.lo), uint32(r.hi), 3)
	}
	return to
}

// endsIn reports whether r has an end token.
func (b *builder) endsIn(r idRange) bool {
	return b.voc != nil && slices.ContainsFunc(b.voc.eos, func(id int32) bool { return r.lo <= id && id <= r.hi })
}

// number24 adds paths for the numbers from lo to hi in n bytes, the highest one first.
func (b *builder) number24(from, to int32, lo, hi uint32, n int) {
	if n == 1 {
		b.edge(from, byte(lo), byte(hi), to)
		return
	}
	shift := 8 * (n - 1)
	all := uint32(1)<<shift - 1
	part := func(first, last, lo, hi uint32) {
		s := b.state()
		b.edge(from, byte(first), byte(last), s)
		b.number24(s, to, lo, hi, n-1)
	}
	first, last := lo>>shift, hi>>shift
	if first == last {
		part(first, first, lo&all, hi&all)
		return
	}
	if lo&all != 0 {
		part(first, first, lo&all, all)
		first++
	}
	end := last
	if hi&all != all {
		part(last, last, 0, hi&all)
		end--
	}
	if first <= end {
		part(first, end, 0, all)
	}
}

// namedToken is the token called name. path is for refusals.
func (b *builder) namedToken(name, path string) int32 {
	if id, ok := b.tokenCalled(name); ok {
		return id
	}
	fail(ErrInvalid, path, "the vocabulary has no token %s", quoteJSON(name))
	return 0
}

// tokenCalled is the token called name. It reports false if there is none.
func (b *builder) tokenCalled(name string) (int32, bool) {
	if b.voc == nil {
		return 0, false
	}
	return b.voc.lookUp(name)
}

// fillNamed sets the bits of the tokens whose markers can follow p. As in fill, pace may end
// it with a panic, and undecided reports that tokens may be missing.
func (m *machine) fillNamed(p *position, mask []uint32, pace Pace) (undecided bool) {
	if !m.net.marked {
		return false
	}
	q := m.step(p, marker)
	if q == dead && p.cost.Load() <= m.bounds.step {
		return false
	}
	if q != dead {
		if named, ok := m.namedAfter(q, pace); ok {
			for i, w := range named {
				mask[i] |= w
			}
			return false
		}
	}
	m.fillNamedDirectly(p, mask, pace)
	return true
}

// fillNamedDirectly is fillNamed for a position from which some steps would take too many
// visits: it reads the marker of each token as Accept does.
func (m *machine) fillNamedDirectly(p *position, mask []uint32, pace Pace) {
	every := paceEvery(m, pace)
	before := m.visits.Load()
	for _, r := range m.voc.nameable {
		for token := r.lo; token <= r.hi; token++ {
			every.call()
			if m.read(p, markerOf(token)) != dead {
				mask[token>>5] |= 1 << (token & 31)
			}
			m.spendVisits()
			if m.visits.Load()-before > m.bounds.mask {
				p.gaveUp.Store(true)
				fail(ErrTooComplex, "", "too ambiguous: a mask takes too much work")
			}
		}
	}
}

// namedAfter is the mask of the tokens whose markers go on from q, which a 0xFF has led to.
// It reports false if that takes a step with too many visits.
func (m *machine) namedAfter(q *position, pace Pace) (mask []uint32, ok bool) {
	if known := q.named.Load(); known != nil {
		return *known, true
	}
	mask = make([]uint32, m.voc.words())
	every := paceEvery(m, pace)
	var before *position // the position after the first two bytes of the block before
	var block [8]uint32
	for first := 0; first<<8 < m.voc.size; first++ { // 256 tokens at a time
		at, ok := m.cheap(q, byte(first>>8))
		if ok {
			at, ok = m.cheap(at, byte(first))
		}
		if !ok {
			return nil, false
		}
		if at == dead {
			continue
		}
		if at != before {
			before = at
			clear(block[:])
			for b := range 256 {
				every.call()
				to, ok := m.cheap(at, byte(b))
				if !ok {
					return nil, false
				}
				if to != dead {
					block[b>>5] |= 1 << (b & 31)
				}
			}
		}
		copy(mask[first<<3:], block[:])
	}
	if rest := m.voc.size & 31; rest > 0 {
		mask[len(mask)-1] &= 1<<rest - 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.named.CompareAndSwap(nil, &mask) {
		m.bytes += int64(4*len(mask) + 64)
	}
	return mask, true
}

// cheap is step. It reports false if it leads nowhere because it would take too many visits.
func (m *machine) cheap(p *position, b byte) (to *position, ok bool) {
	if p == dead {
		return dead, true
	}
	to = m.step(p, b)
	return to, to != dead || p.cost.Load() <= m.bounds.step
}

// markerOf is the marker of a token.
func markerOf(token int32) []byte {
	return []byte{marker, byte(token >> 16), byte(token >> 8), byte(token)}
}

// accept is where a token leads from p. A grammar that names tokens may read it as its
// text and as itself, and then the text has the parses of both.
func (m *machine) accept(p *position, token int32) *position {
	as := dead
	if t := m.voc.tokens[token]; len(t) > 0 && len(t) <= maxTokenLen {
		as = m.read(p, t)
	}
	if !m.net.marked || token >= markerIDs {
		return as
	}
	named := m.read(p, markerOf(token))
	switch {
	case named == dead || named == as:
		return as
	case as == dead:
		return named
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tops := make([]*frame, 0, len(as.tops)+len(named.tops))
	for _, f := range slices.Concat(as.tops, named.tops) {
		tops = append(tops, m.adopt(f))
	}
	return m.position(tops, as.accept || named.accept, false)
}

// quick reports whether accept and thinned find all that they need for a token.
func (m *machine) quick(p *position, token int32) bool {
	as, ok := m.quickRun(p, m.voc.tokens[token])
	if !ok {
		return false
	}
	if m.net.marked && token < markerIDs {
		named, ok := m.quickRun(p, markerOf(token))
		switch {
		case !ok:
			return false
		case as == dead || len(m.voc.tokens[token]) == 0:
			as = named
		case named != dead:
			return len(as.tops)+len(named.tops) <= m.bounds.stacks
		}
	}
	return len(as.tops) <= m.bounds.stacks || as.thin.Load() != nil
}

// quickRun is read, if all of its steps have been made before.
func (m *machine) quickRun(p *position, t []byte) (to *position, ok bool) {
	for _, b := range t {
		if p == dead {
			break
		}
		before := p
		p = p.next[m.net.class[b]].Load()
		if p == nil || p == dead && before.cost.Load() > m.bounds.step {
			return nil, false
		}
	}
	return p, true
}
