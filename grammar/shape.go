package grammar

import "slices"

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
func (m *machine) fill(p *position, mask []uint32, pace Pace) {
	if len(p.tops) == 0 {
		clear(mask)
		return
	}
	sp := m.splitOf(p)
	if sp.parts != nil {
		m.fillParts(sp.parts, mask, pace)
		p.filled.Store(true)
		return
	}
	sh := m.shapeOf(sp.rel, pace)
	sh.load(mask)
	if sp.contested != nil {
		m.subtract(sp.contested, mask)
	}
	if len(sp.cont.tops) > 0 {
		m.fillSuffixes(sp, sh, mask, pace)
	}
	m.fillNamed(p, mask, pace)
	if !p.filled.Load() { // reading is cheaper than writing, for the other processors too
		p.filled.Store(true)
	}
}

// fillSuffixes sets the bits of the tokens that pop the base of sp and are legal after it.
func (m *machine) fillSuffixes(sp *split, sh *shape, mask []uint32, pace Pace) {
	every := paceEvery(m, pace)
	var at [maxTokenLen + 1]*position // after each byte of the path to node i
	at[0] = sp.cont
	for i := 0; i < len(sh.suffix); {
		every.call()
		n := &sh.suffix[i]
		s := m.step(at[n.depth-1], n.b)
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
	tops := make([]*frame, len(p.tops))
	for i, f := range p.tops {
		tops[i] = m.rebase(f, base, m.clip)
	}
	slices.SortFunc(tops, func(a, b *frame) int { return int(a.id) - int(b.id) })
	tops = slices.Compact(tops) // clip may have made two of them equal
	sp.rel, sp.contested = m.position(tops, false, false), contested(p.tops)
	if sp.rel.blurred {
		sp.cont = p // the tokens that pop are walked as a whole
	} else if base.depth > 0 {
		sp.cont = m.close(append(m.pending[:0], base))
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

// rebase copies the frames of the stack f that are above base onto the symbolic
// bottom, with the counters that counters returns for theirs. The caller holds mu.
func (m *machine) rebase(f, base *frame, counters func(frameKey) frameKey) *frame {
	if f == base {
		if base == bottom { // nothing can follow a pop, so no token needs to be kept for it
			return bottom
		}
		return symbolicBottom
	}
	k := counters(f.frameKey)
	k.parent = m.rebase(f.parent, base, counters)
	return m.frame(k)
}

// clip makes counters equal that no single token can tell apart, because it has fewer
// characters than either still counts, before they can decide about a step.
func (m *machine) clip(k frameKey) frameKey {
	far := m.voc.longest + 1 + m.net.at(k.st).slack
	k.need = min(k.need, far)
	if k.left > far {
		k.left = -1
	}
	return blurRecord(k)
}
