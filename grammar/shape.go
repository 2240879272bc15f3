package grammar

import (
	"cmp"
	"slices"
)

// A shape is what the masks of many positions have in common.
//
// Which tokens are legal depends on the frames that one token can reach, not on what
// lies below them. So a position is split: its stacks are cut at the deepest frame
// that all of them share, the base. What is above the base, put on a symbolic bottom,
// is the relative position. All positions with the same relative position have one
// shape, and the trie of the vocabulary is walked once for it. In that walk,
//
//   - a token that stays above the base is decided for good, and
//   - a token that pops the base is kept, with the bytes that follow the pop. These
//     bytes form a second, small trie, which is walked from the base for each mask.
//
// The inside of a JSON string, for instance, is one shape wherever the string is.
//
// xgrammar (arXiv:2411.15100) tells the same two sorts of tokens apart. It does so in
// advance, for every state of a grammar.
type shape struct {
	bits   []uint32 // the tokens that are legal wherever the shape is; nil if they are few
	list   []int32  // the same tokens, if bits is nil
	suffix []suffixNode
	tokens []int32 // those that pop the base, in the order of suffix

	cost int64 // the most visits of a step of the walk that has built the shape
	pops int64 // at how many of its bytes a token can pop the base
}

// suffixNode is a byte of the trie of suffixes, which is laid out like the trie of
// tokens. The tokens that end here are tokens[from:to] of the shape.
type suffixNode struct {
	skip, from, to int32
	b, depth       uint8
}

// split is a position in two parts.
type split struct {
	rel  *position
	base *frame
	cont *position // where a text is when base has been popped; dead if base is a bottom
	cost int64     // visits that it takes to get to cont
	// merged is how many frames of the position at most have become one frame of rel,
	// because clip made them equal.
	merged int64

	contested *frame      // the frame whose values machine.subtract takes out of the mask; nil: none
	parts     []*position // the mask is the union of theirs; nil: it is made from rel
}

// poppingToken is a token that pops the base. The bytes from cut on follow the pop.
// A token is listed once for each place where it can pop the base.
type poppingToken struct {
	tok int32
	cut uint8
}

func (s *shape) bytes() int64 {
	return int64(4*len(s.bits)+4*len(s.list)+16*len(s.suffix)+4*len(s.tokens)) + 128
}

// load sets mask to the tokens that are legal wherever s is.
func (s *shape) load(mask []uint32) {
	if s.bits != nil {
		copy(mask, s.bits)
		return
	}
	clear(mask)
	for _, t := range s.list {
		mask[t>>5] |= 1 << (t & 31)
	}
}

// fill writes the mask of p except for the end tokens. The length of mask is
// voc.words(). A pace may end it with a panic, which catch turns into an error.
// undecided reports that tokens are missing because they take too many visits.
func (m *machine) fill(p *position, mask []uint32, pace Pace) (undecided bool) {
	if len(p.tops) == 0 {
		clear(mask)
		return false
	}
	if m.fillShaped(p, mask, pace) > int64(m.bounds.step) {
		undecided = m.fillDirectly(p, mask, pace)
		return m.fillNamed(p, mask, pace) || undecided
	}
	undecided = m.fillNamed(p, mask, pace)
	if !p.filled.Load() { // reading is cheaper than writing, for the other processors too
		p.filled.Store(true)
	}
	return undecided
}

// fillShaped writes the mask of p, without named tokens, by its shape or those of its parts.
// It returns the most visits that a step over a byte of a token may take. If a step may not
// take so many, the mask is not valid.
func (m *machine) fillShaped(p *position, mask []uint32, pace Pace) (cost int64) {
	sp := m.splitOf(p)
	if sp.parts != nil {
		return m.fillParts(sp.parts, mask, pace)
	}
	sh := m.shapeOf(sp.rel, pace)
	if sh.cost > int64(m.bounds.step) {
		return sh.cost
	}
	sh.load(mask)
	cost = sp.merged*sh.cost + sh.pops*sp.cost
	if sp.rel.blurred { // its walk did not go on where a value was complete
		cost *= 1 + sh.pops
	}
	if sp.contested != nil {
		m.subtract(sp.contested, mask)
	}
	if len(sp.cont.tops) > 0 {
		cost += max(sh.pops, 1) * m.fillSuffixes(sp, sh, mask, pace)
	}
	return cost
}

// fillSuffixes sets the bits of the tokens that pop the base of sp and are legal after
// it. It returns the most visits that a step has taken.
func (m *machine) fillSuffixes(sp *split, sh *shape, mask []uint32, pace Pace) (cost int64) {
	every := paceEvery(m, pace)
	var at [maxTokenLen + 1]*position // after each byte of the path to node i
	at[0] = sp.cont
	most := int32(0)
	for i := 0; i < len(sh.suffix); {
		every.call()
		n := &sh.suffix[i]
		from := at[n.depth-1]
		s := m.step(from, n.b)
		most = max(most, from.cost.Load())
		if s == dead {
			i += int(n.skip)
			continue
		}
		at[n.depth] = s
		for _, t := range sh.tokens[n.from:n.to] {
			m.voc.set(mask, t)
		}
		i++
		if len(s.tops) == 0 { // only the end of the text can follow
			i += int(n.skip) - 1
		}
	}
	return int64(most)
}

// paceInterval is the number of visits, or of nodes of a trie, between two calls of a
// Pace: a few microseconds of work.
const paceInterval = 64

// pacer calls a Pace.
type pacer struct {
	m      *machine
	pace   Pace
	nodes  int
	visits int64 // value of machine.visits at the last call
}

func paceEvery(m *machine, pace Pace) pacer {
	p := pacer{m: m, pace: pace}
	if pace != nil {
		p.visits = m.visits.Load()
	}
	return p
}

// call counts a node, and calls the Pace if it is time to. If that ends the fill, call
// panics with an Error of the kind ErrAbandoned.
func (p *pacer) call() {
	if p.pace == nil {
		return
	}
	p.nodes++
	visits := p.m.visits.Load()
	if p.nodes < paceInterval && visits-p.visits < paceInterval {
		return
	}
	p.nodes, p.visits = 0, visits
	if !p.pace(false) {
		fail(ErrAbandoned, "", "nobody waits for the mask any more")
	}
}

// splitOf is the split of p, which has tops.
func (m *machine) splitOf(p *position) *split {
	if sp := p.split.Load(); sp != nil {
		return sp
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	base := p.tops[0].parent
	for _, f := range p.tops[1:] {
		base = commonFrame(base, f.parent)
	}
	sp := &split{base: base, cont: dead}
	for _, tops := range m.recordParts(p.tops, base) {
		sp.parts = append(sp.parts, m.position(tops, false, false))
	}
	if sp.parts != nil {
		p.split.Store(sp)
		return sp
	}
	r := rebasing{m: m, base: base, counters: m.clip}
	tops := r.all(p.tops)
	sp.rel, sp.merged, sp.contested = m.position(tops, false, false), r.merged(), contested(p.tops)
	if sp.rel.blurred {
		sp.cont = p // the tokens that pop are walked as a whole
	} else if base.depth > 0 {
		var visits int32
		sp.cont, visits = m.close(append(m.pending[:0], m.adopt(base)))
		sp.cost = int64(visits)
	}
	p.split.Store(sp)
	return sp
}

// commonFrame is the deepest frame that the stacks under a and b share. All stacks of
// a position have the same bottom.
func commonFrame(a, b *frame) *frame {
	for a != b {
		switch {
		case a.depth >= b.depth && a.depth > 0:
			a = a.parent
		case b.depth > 0:
			b = b.parent
		default:
			return b
		}
	}
	return a
}

// rebasing copies frames that are above base onto the symbolic bottom, with the counters
// that the function counters returns for theirs. The caller holds machine.mu.
type rebasing struct {
	m        *machine
	base     *frame
	counters func(frameKey) frameKey
	changed  bool              // by counters
	copies   map[*frame]*frame // of what has been copied, if there are several stacks
}

// all copies several stacks. Stacks that have become equal are one.
func (r *rebasing) all(stacks []*frame) []*frame {
	if len(stacks) > 1 {
		r.copies = make(map[*frame]*frame, 2*len(stacks))
	}
	tops := make([]*frame, len(stacks))
	for i, f := range stacks {
		tops[i] = r.copy(f)
	}
	slices.SortFunc(tops, func(a, b *frame) int { return cmp.Compare(a.id, b.id) })
	return slices.Compact(tops)
}

func (r *rebasing) copy(f *frame) *frame {
	if f == r.base {
		if r.base == bottom { // nothing can follow a pop, so no token needs to be kept for it
			return bottom
		}
		return symbolicBottom
	}
	if c := r.copies[f]; c != nil {
		return c
	}
	k := r.counters(f.frameKey)
	r.changed = r.changed || k != f.frameKey
	k.parent = r.copy(f.parent)
	c := r.m.frame(k)
	if r.copies != nil {
		r.copies[f] = c
	}
	return c
}

// merged is how many frames have become one, at most.
func (r *rebasing) merged() int64 {
	if !r.changed || r.copies == nil {
		return 1
	}
	most, originals := int64(1), make(map[*frame]int64)
	for _, c := range r.copies {
		originals[c]++
		most = max(most, originals[c])
	}
	return most
}

// clip makes counters equal that no single token can tell apart, because it has fewer
// characters than either still counts, before they can decide about a step. If a text may
// have ticked more or less often, its stacks may have different counts, and they must not
// become one (see ambiguity.go): then a limit becomes a nearer one instead of none. It
// forgets values that must differ, too.
func (m *machine) clip(k frameKey) frameKey {
	far := m.voc.longest + 1 + m.net.at(k.st).slack
	loose := m.loose(k)
	if k.left > far {
		if k.left = far; loose {
			k.left = -1
		}
	}
	if k.need > far {
		if k.need = far; loose {
			k.need = never
		}
	}
	return blurRecord(k)
}
