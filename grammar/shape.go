package grammar

import (
	"encoding/binary"
	"slices"
	"strings"
)

// A mask depends on the frames that one token can touch, not on what lies below
// them. So a config is seated: its stacks are cut at their deepest common frame,
// the base, and what is above it, over a symbolic bottom, is the relative config.
// The token trie is walked once per relative config. Tokens that stay above the
// base are decided there and then; tokens that pop it are kept with the bytes
// that follow the pop, as a second small trie, and those bytes alone are walked
// from the base for each mask. The body of a JSON string is one shape wherever
// it stands. (xgrammar, arXiv:2411.15100, splits tokens in the same two kinds,
// ahead of time for each position of a grammar.)
type shape struct {
	bits   []uint32 // decided legal; nil if few are
	list   []int32  // the same as a list, where bits is nil
	suffix []suffixNode
	toks   []int32
}

// suffixNode is a byte of the trie of suffixes, laid out like the tokens' trie.
// The tokens that end here are toks[lo:hi] of the shape.
type suffixNode struct {
	skip, lo, hi int32
	b, depth     uint8
}

type seat struct {
	rel  *config
	base *frame
	cont *config // what follows once base is returned to
}

// popped is a token that pops the base; what follows the pop starts at cut.
type popped struct {
	tok int32
	cut uint8
}

func (s *shape) bytes() int64 {
	return int64(4*len(s.bits)+4*len(s.list)+16*len(s.suffix)+4*len(s.toks)) + 128
}

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

// fill writes the mask of c but for the end tokens; len(mask) == voc.words().
func (m *machine) fill(c *config, mask []uint32) {
	if len(c.tops) == 0 {
		clear(mask)
		return
	}
	st := m.seatOf(c)
	sh := m.shapeOf(st.rel)
	sh.load(mask)
	if len(st.cont.tops) == 0 {
		return
	}
	var at [maxTokenLen + 1]*config
	at[0] = st.cont
	for i := 0; i < len(sh.suffix); {
		n := &sh.suffix[i]
		s := m.step(at[n.depth-1], n.b)
		if s == dead {
			i += int(n.skip)
			continue
		}
		at[n.depth] = s
		for _, t := range sh.toks[n.lo:n.hi] {
			m.voc.set(mask, t)
		}
		i++
		if len(s.tops) == 0 { // only the end of the text can follow
			i += int(n.skip) - 1
		}
	}
}

// walk is fill without shapes: the whole trie from c. Tests compare the two.
func (m *machine) walk(c *config, mask []uint32) {
	clear(mask)
	var at [maxTokenLen + 1]*config
	at[0] = c
	nodes := m.voc.nodes
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		s := dead
		if p := at[n.depth-1]; len(p.tops) > 0 {
			s = m.step(p, n.b)
		}
		if s == dead {
			i += int(n.skip)
			continue
		}
		at[n.depth] = s
		if n.tok >= 0 {
			m.voc.set(mask, n.tok)
		}
		i++
	}
}

func (m *machine) seatOf(c *config) *seat {
	if st := c.seat.Load(); st != nil {
		return st
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	base := c.tops[0].parent
	for _, f := range c.tops[1:] {
		p := f.parent
		for base != p {
			if base.depth >= p.depth && base.depth > 0 {
				base = base.parent
			} else if p.depth > 0 {
				p = p.parent
			} else {
				base = p // different bottoms do not meet; not reachable
			}
		}
	}
	tops := make([]*frame, len(c.tops))
	for i, f := range c.tops {
		tops[i] = m.rebase(f, base, m.clip)
	}
	slices.SortFunc(tops, func(a, b *frame) int { return int(a.id) - int(b.id) })
	tops = slices.Compact(tops) // clipped counters may have made two the same
	st := &seat{rel: m.config(tops, false, false), base: base, cont: dead}
	if base.depth > 0 {
		st.cont = m.close(append(m.work[:0], base))
	}
	c.seat.Store(st)
	return st
}

// rebase copies the frames of f above base onto the symbolic bottom, with other
// counters. Caller holds mu.
func (m *machine) rebase(f, base *frame, counters func(frameKey) frameKey) *frame {
	if f == base {
		if base == bottom { // what pops it is over: nothing can follow
			return bottom
		}
		return symBottom
	}
	k := counters(f.frameKey)
	k.parent = m.rebase(f.parent, base, counters)
	return m.frame(k)
}

// clip makes counters alike that no single token can tell apart: it is shorter
// than what they still count.
func (m *machine) clip(k frameKey) frameKey {
	far := m.voc.maxLen + 1
	k.need = min(k.need, far)
	if k.left > far {
		k.left = -1
	}
	return k
}

func (m *machine) shapeOf(rel *config) *shape {
	if sh := rel.shape.Load(); sh != nil {
		return sh
	}
	m.building.Lock()
	defer m.building.Unlock()
	return m.makeShape(rel, 0)
}

// makeShape returns the shape of rel, building it if nobody has. Caller holds
// building: others that need a shape would mostly need the same one.
func (m *machine) makeShape(rel *config, nested int) *shape {
	if sh := rel.shape.Load(); sh != nil {
		return sh
	}
	key := m.commonKey(rel)
	if key != "" {
		if sh := m.voc.shared.find(key); sh != nil {
			rel.shape.Store(sh)
			return sh
		}
	}
	sh := m.build(rel, nested)
	rel.shape.Store(sh)
	if key != "" {
		m.voc.shared.keep(key, sh)
	} else {
		m.mu.Lock()
		m.bytes += sh.bytes()
		m.mu.Unlock()
	}
	return sh
}

// commonKey names a relative config of common states across grammars; "" if it
// has others.
func (m *machine) commonKey(rel *config) string {
	var parts []string
	for _, f := range rel.tops {
		var p []byte
		for ; f.depth > 0; f = f.parent {
			if f.st >= m.net.common {
				return ""
			}
			p = binary.LittleEndian.AppendUint32(p, uint32(f.st))
			p = binary.LittleEndian.AppendUint32(p, uint32(f.need))
			p = binary.LittleEndian.AppendUint32(p, uint32(f.left))
		}
		parts = append(parts, string(binary.LittleEndian.AppendUint32(p, uint32(f.st)))) // which bottom
	}
	slices.Sort(parts)
	return strings.Join(parts, "")
}
