package grammar

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// trieWalk builds one shape.
type trieWalk struct {
	m       *machine
	acc     []uint32
	out     []popped
	kept    []popped // those of the twin that stay, in order
	changed []uint32 // tokens decided anew, where a twin was the starting point
	pairs   map[[2]*config]int
	until   int64 // machine.visits at which the walk is given up
}

// lost gives the walk up if it takes too long: then nothing is legal here, and
// Fill says why.
func (w *trieWalk) lost() bool {
	if w.m.visits.Load() < w.until {
		return false
	}
	w.m.crowded.Store(true)
	clear(w.acc)
	w.out, w.kept = nil, nil
	return true
}

// build walks the trie for x. Where most tokens do the same from another config,
// its twin, the walk starts from the twin's shape and enters only the subtrees in
// which the two differ.
func (m *machine) build(x *config, nested int) *shape {
	w := &trieWalk{m: m, acc: make([]uint32, m.voc.words()), until: m.visits.Load() + m.patience}
	twin := m.twin(x, nested)
	if twin == nil {
		w.whole(x)
		return w.done()
	}
	w.changed = make([]uint32, m.voc.words())
	w.pairs = make(map[[2]*config]int)
	flat := m.flat(twin, nested+1)
	copy(w.acc, flat.acc)
	w.difference(x, twin)
	for _, p := range flat.out {
		if w.until > 0 && w.changed[p.tok>>5]>>(p.tok&31)&1 == 0 {
			w.kept = append(w.kept, p)
		}
	}
	return w.done()
}

func (w *trieWalk) whole(x *config) {
	m := w.m
	var xs [maxTokenLen + 1]*config
	var pops [maxTokenLen + 1]bool
	var popsN [maxTokenLen + 1]uint8
	xs[0] = x
	nodes := m.voc.nodes
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		d := n.depth
		s := dead
		if p := xs[d-1]; len(p.tops) > 0 {
			s = m.step(p, n.b)
		}
		if s == dead && popsN[d-1] == 0 {
			i += int(n.skip)
			continue
		}
		if w.lost() {
			return
		}
		xs[d], pops[d], popsN[d] = s, s.esc, popsN[d-1]
		if s.esc {
			popsN[d]++
		}
		if n.tok >= 0 {
			w.decide(n, s, &pops)
		}
		i++
	}
}

// decide records what becomes of the token that ends at n, in state s.
func (w *trieWalk) decide(n *node, s *config, pops *[maxTokenLen + 1]bool) {
	if s != dead {
		w.m.voc.set(w.acc, n.tok)
		return
	}
	for d := uint8(1); d < n.depth; d++ {
		if pops[d] {
			w.out = append(w.out, popped{n.tok, d})
		}
	}
}

func (w *trieWalk) difference(x, z *config) {
	m := w.m
	var xs, zs [maxTokenLen + 1]*config
	var pops, differ [maxTokenLen + 1]bool // differ: x and z have popped at different depths
	var popsN [maxTokenLen + 1]uint8
	xs[0], zs[0] = x, z
	nodes := m.voc.nodes
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		d := n.depth
		s, t := dead, dead
		if p := xs[d-1]; len(p.tops) > 0 {
			s = m.step(p, n.b)
		}
		if p := zs[d-1]; len(p.tops) > 0 {
			t = m.step(p, n.b)
		}
		if !differ[d-1] && (s == t || w.alike(s, t) >= int(n.height)) {
			i += int(n.skip)
			continue
		}
		if s == dead && popsN[d-1] == 0 {
			for k := i; k < i+int(n.skip); k++ {
				if tok := nodes[k].tok; tok >= 0 {
					w.reset(tok)
				}
			}
			i += int(n.skip)
			continue
		}
		if w.lost() {
			w.until = 0
			return
		}
		xs[d], zs[d], pops[d], popsN[d] = s, t, s.esc, popsN[d-1]
		differ[d] = differ[d-1] || s.esc != t.esc
		if s.esc {
			popsN[d]++
		}
		if n.tok >= 0 {
			w.reset(n.tok)
			w.decide(n, s, &pops)
		}
		i++
	}
}

func (w *trieWalk) reset(tok int32) {
	w.m.voc.unset(w.acc, tok)
	w.changed[tok>>5] |= 1 << (tok & 31)
}

// alike is a number of bytes within which s and t accept the same and pop at the
// same places: -1 if they differ at once. Configs that differ in counters alone
// are alike until the first of them runs out.
func (w *trieWalk) alike(s, t *config) int {
	if s == dead || t == dead || s.esc != t.esc || len(s.tops) != len(t.tops) {
		return -1
	}
	key := [2]*config{s, t}
	h, ok := w.pairs[key]
	if !ok {
		h = horizon(s, t)
		w.pairs[key] = h
	}
	return h
}

func horizon(s, t *config) int {
	a, ok1 := skeletons(s)
	b, ok2 := skeletons(t)
	if !ok1 || !ok2 {
		return -1
	}
	h := math.MaxInt32
	for i := range a {
		if a[i].states != b[i].states {
			return -1
		}
		f, g := a[i].top, b[i].top
		for ; f.depth > 0; f, g = f.parent, g.parent {
			if f.need != g.need {
				h = min(h, max(0, int(min(f.need, g.need))-1))
			}
			if f.left != g.left {
				if f.left >= 0 {
					h = min(h, int(f.left))
				}
				if g.left >= 0 {
					h = min(h, int(g.left))
				}
			}
		}
	}
	return h
}

type skeleton struct {
	states string
	top    *frame
}

// skeletons are the stacks of c without their counters, in order; false if two
// are the same.
func skeletons(c *config) ([]skeleton, bool) {
	res := make([]skeleton, len(c.tops))
	for i, f := range c.tops {
		var p []byte
		for g := f; g.depth > 0; g = g.parent {
			p = binary.LittleEndian.AppendUint32(p, uint32(g.st))
		}
		res[i] = skeleton{string(p), f}
	}
	slices.SortFunc(res, func(a, b skeleton) int { return strings.Compare(a.states, b.states) })
	for i := 1; i < len(res); i++ {
		if res[i].states == res[i-1].states {
			return nil, false
		}
	}
	return res, true
}

// twin looks for a config over the same bottom that does the same as x with most
// tokens and whose shape is likely known: x with counters that are far from
// their ends, or the loop that x falls into on most bytes (the rest of a string,
// free text). Nil if there is none.
func (m *machine) twin(x *config, nested int) *config {
	if nested > 2 {
		return nil
	}
	if z, near := m.far(x); z != x && !near {
		return z
	}
	var z *config
	votes := 0
	for _, b := range [...]byte{'e', 'Z', '4', ' ', ';', 'q'} {
		c := m.step(x, b)
		if c == dead || c == x || len(c.tops) == 0 || m.step(c, b) != c {
			continue
		}
		if z == nil || c == z {
			z = c
			votes++
		}
	}
	if votes < 3 || z.esc {
		return nil
	}
	return z
}

// far is x with counters that no token exhausts. near says that x is so close to
// the end of a counter that few tokens fit, and a walk of its own is cheaper.
func (m *machine) far(x *config) (z *config, near bool) {
	counted := false
	for _, f := range x.tops {
		for ; f.depth > 0; f = f.parent {
			counted = counted || f.need > 0 || f.left >= 0
			near = near || f.left >= 0 && f.left <= 3
		}
	}
	if !counted {
		return x, near
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tops := make([]*frame, len(x.tops))
	for i, f := range x.tops {
		base := f
		for base.depth > 0 {
			base = base.parent
		}
		tops[i] = m.rebase(f, base, func(k frameKey) frameKey {
			if k.left = -1; k.need <= 4 {
				k.need = 0
			} else {
				k.need = m.voc.maxLen + 1
			}
			return k
		})
	}
	slices.SortFunc(tops, func(a, b *frame) int { return int(a.id) - int(b.id) })
	return m.config(slices.Compact(tops), false, false), near
}

// flat is a config seen from its own symbolic bottom.
type flat struct {
	acc []uint32
	out []popped // in order
}

// flat returns what z, a relative config, allows over its own symbolic bottom. A
// twin has many configs that resemble it, so it is kept.
func (m *machine) flat(z *config, nested int) *flat {
	if f := m.flats[z]; f != nil {
		return f
	}
	f := &flat{acc: make([]uint32, m.voc.words())}
	f.out = m.project(z, nested, f.acc)
	order := m.voc.order
	if !slices.IsSortedFunc(f.out, order) {
		slices.SortFunc(f.out, order)
	}
	if len(m.flats) >= 64 || m.flats == nil {
		m.flats = make(map[*config]*flat)
	}
	m.flats[z] = f
	return f
}

// order sorts tokens by what follows the pop.
func (v *Vocabulary) order(a, b popped) int {
	if c := bytes.Compare(v.tokens[a.tok][a.cut:], v.tokens[b.tok][b.cut:]); c != 0 {
		return c
	}
	return int(a.tok) - int(b.tok)
}

// project writes what z, a relative config, allows over its own symbolic bottom
// to acc and returns the tokens that pop it. The shape of z may sit higher.
func (m *machine) project(z *config, nested int, acc []uint32) []popped {
	st := m.seatOf(z)
	sh := m.makeShape(st.rel, nested)
	sh.load(acc)
	var out []popped
	var at [maxTokenLen + 1]*config
	var pops [maxTokenLen + 1]bool
	var popsN [maxTokenLen + 1]uint8
	at[0], pops[0] = st.cont, st.cont.esc || st.base == symBottom
	if pops[0] {
		popsN[0] = 1
	}
	for i := 0; i < len(sh.suffix); {
		n := &sh.suffix[i]
		d := n.depth
		s := dead
		if p := at[d-1]; len(p.tops) > 0 {
			s = m.step(p, n.b)
		}
		if s == dead && popsN[d-1] == 0 {
			i += int(n.skip)
			continue
		}
		at[d], pops[d], popsN[d] = s, s.esc, popsN[d-1]
		if s.esc {
			popsN[d]++
		}
		for _, tok := range sh.toks[n.lo:n.hi] {
			if s != dead {
				m.voc.set(acc, tok)
				continue
			}
			start := uint8(len(m.voc.tokens[tok])) - d
			for k := uint8(0); k < d; k++ {
				if pops[k] {
					out = append(out, popped{tok, start + k})
				}
			}
		}
		i++
	}
	return out
}

// done packs the result: few legal tokens as a list, the popped ones as a trie.
func (w *trieWalk) done() *shape {
	sh := &shape{}
	n := 0
	for _, x := range w.acc {
		n += bits.OnesCount32(x)
	}
	if n < len(w.acc)/4 {
		sh.list = make([]int32, 0, n)
		for i, x := range w.acc {
			for ; x != 0; x &= x - 1 {
				sh.list = append(sh.list, int32(i*32+bits.TrailingZeros32(x)))
			}
		}
	} else {
		sh.bits = w.acc
	}
	tokens := w.m.voc.tokens
	slices.SortFunc(w.out, w.m.voc.order)
	if len(w.kept) > 0 {
		w.out = merge(w.kept, w.out, w.m.voc.order)
	}
	w.out = slices.Compact(w.out)
	sh.plant(w.out, tokens)
	return sh
}

func merge(a, b []popped, order func(a, b popped) int) []popped {
	res := make([]popped, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if order(a[0], b[0]) <= 0 {
			res, a = append(res, a[0]), a[1:]
		} else {
			res, b = append(res, b[0]), b[1:]
		}
	}
	return append(append(res, a...), b...)
}

func (s *shape) plant(out []popped, tokens [][]byte) {
	var open []int32
	var before []byte
	closeTo := func(depth int) {
		for len(open) > depth {
			i := open[len(open)-1]
			s.suffix[i].skip = int32(len(s.suffix)) - i
			open = open[:len(open)-1]
		}
	}
	s.toks = make([]int32, 0, len(out))
	for _, p := range out {
		t := tokens[p.tok][p.cut:]
		same := 0
		for same < len(before) && same < len(t) && before[same] == t[same] {
			same++
		}
		closeTo(same)
		for d := same; d < len(t); d++ {
			open = append(open, int32(len(s.suffix)))
			at := int32(len(s.toks))
			s.suffix = append(s.suffix, suffixNode{b: t[d], depth: uint8(d + 1), lo: at, hi: at})
		}
		s.toks = append(s.toks, p.tok)
		s.suffix[open[len(open)-1]].hi = int32(len(s.toks))
		before = t
	}
	closeTo(0)
	s.suffix = slices.Clip(s.suffix)
}
