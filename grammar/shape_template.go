package grammar

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// A walk through the trie of a large vocabulary takes milliseconds. Many relative
// positions differ from one another in few tokens: they have other counters, or they
// soon lead to the same loop. One of them can be the template of another.

// template looks for a relative position, over the same bottom, that does the same as
// x with most tokens and whose shape is likely to be known: x with counters that are
// far from their limits, or the loop that x gets into on most bytes (the rest of a
// string, free text). It is nil if there is none.
func (m *machine) template(x *position, nested int) *position {
	if nested > 2 || x.blurred {
		return nil
	}
	var z *position
	votes, open := 0, 0
	for _, b := range [...]byte{'e', 'Z', '4', ' ', ';', 'q'} {
		c := m.step(x, b)
		if c == dead {
			continue
		}
		open++
		if c == x || len(c.tops) == 0 || m.step(c, b) != c {
			continue
		}
		if z == nil || c == z {
			z = c
			votes++
		}
	}
	if open < 2 {
		return nil // so little is legal that a walk of its own is cheaper
	}
	if z, near := m.farFromLimits(x); z != x && !near {
		return z
	}
	if votes < 3 || z.pops {
		return nil
	}
	return z
}

// farFromLimits is x with counters that no token exhausts. near reports that x is so
// close to the end of a counter that few tokens fit, and a walk of its own is cheaper.
func (m *machine) farFromLimits(x *position) (z *position, near bool) {
	counted := false
	for _, f := range x.tops {
		for ; f.depth > 0; f = f.parent {
			counted = counted || f.need > 0 || f.left >= 0
			near = near || f.left >= 0 && f.left <= 8
		}
	}
	if !counted {
		return x, near
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	base := x.tops[0]
	for base.depth > 0 {
		base = base.parent
	}
	r := rebasing{m: m, base: base, counters: func(k frameKey) frameKey {
		if !m.loose(k) {
			return k
		}
		if k.left = -1; k.need <= 4 {
			k.need = 0
		} else {
			k.need = never
		}
		return k
	}}
	return m.position(r.all(x.tops), false, false), near
}

// agreement is a number of bytes within which s and t accept the same and pop at the
// same places, or -1 if they differ at once. Positions that differ in counters alone
// agree until the first of the counters runs out.
func (w *trieWalk) agreement(s, t *position) int {
	if s == dead || t == dead || s.pops != t.pops || len(s.tops) != len(t.tops) {
		return -1
	}
	k := w.knownOf(s)
	if k.other != t {
		k.other, k.agreed = t, w.m.agreeingBytes(s, t)
	}
	return k.agreed
}

func (m *machine) agreeingBytes(s, t *position) int {
	a, ok1 := stacksOf(s)
	b, ok2 := stacksOf(t)
	if !ok1 || !ok2 {
		return -1
	}
	n := math.MaxInt32
	for i := range a {
		if a[i].states != b[i].states {
			return -1
		}
		f, g := a[i].top, b[i].top
		for ; f.depth > 0; f, g = f.parent, g.parent {
			if f.rec != g.rec {
				return -1
			}
			if f.need == g.need && f.left == g.left {
				continue
			}
			if !m.loose(f.frameKey) || !m.loose(g.frameKey) { // their steps may take different numbers of visits
				return -1
			}
			n = min(n, max(0, agreeingCounters(f, g)-int(m.net.at(f.st).slack)))
		}
	}
	return n
}

// agreeingCounters is how often both frames can tick before their counters can make
// a difference.
func agreeingCounters(f, g *frame) int {
	n := math.MaxInt32
	if f.need != g.need {
		n = max(0, int(min(f.need, g.need))-1)
	}
	if f.left != g.left {
		if f.left >= 0 {
			n = min(n, int(f.left))
		}
		if g.left >= 0 {
			n = min(n, int(g.left))
		}
	}
	return n
}

// stackStates is a stack with its states, from the top down, as a text.
type stackStates struct {
	states string
	top    *frame
}

// stacksOf are the stacks of p, ordered by their states. It reports false if two
// stacks have the same states, and differ only in counters.
func stacksOf(p *position) ([]stackStates, bool) {
	res := make([]stackStates, len(p.tops))
	for i, f := range p.tops {
		var states []byte
		for g := f; g.depth > 0; g = g.parent {
			states = binary.LittleEndian.AppendUint32(states, uint32(g.st))
		}
		res[i] = stackStates{string(states), f}
	}
	slices.SortFunc(res, func(a, b stackStates) int { return strings.Compare(a.states, b.states) })
	for i := 1; i < len(res); i++ {
		if res[i].states == res[i-1].states {
			return nil, false
		}
	}
	return res, true
}

// projection is what a relative position allows over its own symbolic bottom. The
// base of its shape may be a frame above that.
type projection struct {
	legal   []uint32
	popping []poppingToken // in order
	cost    int64          // as those of a shape
	pops    int64
}

// projections are those of templates that were used lately.
type projections struct {
	of    map[*position]*projection
	bytes int64
}

// projectionOf returns the projection of z. A template resembles many positions, so
// the projections are kept. The caller holds building.
func (m *machine) projectionOf(z *position, nested int) *projection {
	m.mu.Lock()
	p := m.templates.of[z]
	m.mu.Unlock()
	if p != nil {
		return p
	}
	p = &projection{legal: make([]uint32, m.voc.words())}
	m.project(z, nested, p)
	order := m.voc.order
	if !slices.IsSortedFunc(p.popping, order) {
		slices.SortFunc(p.popping, order)
	}
	m.mu.Lock()
	t := &m.templates
	if len(t.of) >= 64 || t.of == nil {
		*t = projections{of: make(map[*position]*projection)}
	}
	t.of[z] = p
	t.bytes += int64(4*cap(p.legal)+8*cap(p.popping)) + shapeEntryBytes
	m.mu.Unlock()
	return p
}

// project fills in the projection of z.
func (m *machine) project(z *position, nested int, to *projection) {
	sp := m.splitOf(z)
	sh := m.makeShape(sp.rel, nested)
	sh.load(to.legal)
	var p path
	p.at[0], p.pops[0] = sp.cont, sp.cont.pops || sp.base == symbolicBottom
	if p.pops[0] {
		p.popsUpTo[0] = 1
	}
	for i := 0; i < len(sh.suffix); {
		n := &sh.suffix[i]
		s := p.step(m, n.depth, n.b)
		if p.hopeless(n.depth, s) {
			i += int(n.skip)
			continue
		}
		p.enter(n.depth, s)
		for _, tok := range sh.tokens[n.from:n.to] {
			if s != dead {
				m.voc.set(to.legal, tok)
				continue
			}
			start := uint8(len(m.voc.tokens[tok])) - n.depth // of the suffix in the token
			for k := range n.depth {
				if p.pops[k] {
					to.popping = append(to.popping, poppingToken{tok, start + k})
				}
			}
		}
		i++
	}
	to.cost = sp.merged*sh.cost + sh.pops*(sp.cost+int64(p.cost))
	to.pops = max(sh.pops, 1) * max(int64(p.mostPops), 1)
}
