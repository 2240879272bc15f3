package grammar

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// trieWalk builds one shape by a walk through the trie of the vocabulary. Its slices
// are used again for other walks.
type trieWalk struct {
	m          *machine
	blurred    bool           // the walk begins at a position with blurred records
	bits       []uint32       // tokens decided to be legal; nil while list is enough
	list       []int32        // the same tokens, as long as they are few
	popping    []poppingToken // tokens that pop the base
	keyed      []keyedToken   // scratch of sort
	suffix     []suffixNode   // scratch of suffixTrie
	cost, pops int64          // of the shape

	// If the walk starts from the shape of a template:
	changed []uint32       // tokens that were decided anew
	kept    []poppingToken // the template's other popping tokens, in order

	known   []*known // of positions
	pacer   pacer
	reached []reachedAt // scratch of searchLive
}

var walks = sync.Pool{New: func() any { return new(trieWalk) }}

func (w *trieWalk) release() {
	w.forgetKnown()
	*w = trieWalk{list: w.list[:0], popping: w.popping[:0], keyed: w.keyed[:0], suffix: w.suffix[:0], known: w.known, reached: w.reached[:0]}
	walks.Put(w)
}

// build makes the shape of the relative position x. If most tokens do the same from
// another position, the template, then the walk starts from the template's shape and
// enters only the subtrees in which the two differ.
func (m *machine) build(x *position, nested int) *shape {
	w := walks.Get().(*trieWalk)
	defer w.release()
	w.m, w.blurred = m, x.blurred
	template := m.template(x, nested)
	var from *projection
	if template != nil {
		from = m.projectionOf(template, nested+1)
	}
	if from == nil || from.cost > int64(m.bounds.step) {
		w.walkAll(x)
		return w.done()
	}
	w.bits = make([]uint32, m.voc.words())
	w.changed = make([]uint32, m.voc.words())
	copy(w.bits, from.legal)
	w.cost, w.pops = from.cost, from.pops
	if w.walkDifference(x, template) {
		for _, p := range from.popping {
			if w.changed[p.tok>>5]>>(p.tok&31)&1 == 0 {
				w.kept = append(w.kept, p)
			}
		}
	}
	return w.done()
}

// path is where a walk is after each byte on the path from the root of a trie to the
// current node. The root is at index 0, and a node at the index of its depth.
type path struct {
	at       [maxTokenLen + 1]*position
	pops     [maxTokenLen + 1]bool  // whether that byte could pop the base
	popsUpTo [maxTokenLen + 1]uint8 // how many bytes up to that one could
	mostPops uint8                  // the largest that popsUpTo has been
	cost     int32                  // the most visits that a step has taken
	spent    int64                  // visits of the steps that nobody had taken before
}

// step is where byte b leads from the node at depth d-1.
func (p *path) step(m *machine, d, b uint8) *position {
	q := p.at[d-1]
	if len(q.tops) == 0 {
		return dead
	}
	s := p.take(m, q, m.net.class[b])
	p.cost = max(p.cost, q.cost.Load())
	return s
}

// take is the position that the bytes of class k lead to from q.
func (p *path) take(m *machine, q *position, k uint8) *position {
	if s := q.next[k].Load(); s != nil {
		return s
	}
	s, visits := m.slowStep(q, k)
	p.spent += int64(visits)
	return s
}

// hopeless reports whether no token below a node of depth d, which leads to s, can be
// legal.
func (p *path) hopeless(d uint8, s *position) bool { return s == dead && p.popsUpTo[d-1] == 0 }

// enter goes on to a node of depth d, which leads to s.
func (p *path) enter(d uint8, s *position) {
	p.at[d], p.pops[d], p.popsUpTo[d] = s, s.pops, p.popsUpTo[d-1]
	if s.pops {
		p.popsUpTo[d]++
		p.mostPops = max(p.mostPops, p.popsUpTo[d])
	}
}

// walkAll walks the whole trie from x.

func (w *trieWalk) walkAll(x *position) {
	nodes := w.m.voc.nodes
	w.pacer = paceEvery(w.m, w.m.pace)
	var p path
	p.at[0] = x
	defer w.count(&p)
	for i := 0; i < len(nodes); {
		w.pacer.call()
		n := &nodes[i]
		s := p.step(w.m, n.depth, n.b)
		switch {
		case p.hopeless(n.depth, s):
			i += int(n.skip)
			continue
		case w.allLive(&p, s, i):
			for _, tok := range w.m.voc.tokensBelow(i) {
				w.legal(tok)
			}
			i += int(n.skip)
			continue
		case w.giveUp(&p):
			return
		}
		p.enter(n.depth, s)
		if n.token >= 0 {
			w.decide(n, &p)
		}
		i++
	}
}

// walkDifference walks those parts of the trie in which x and its template differ. It
// reports false if it was given up.
func (w *trieWalk) walkDifference(x, template *position) bool {
	nodes := w.m.voc.nodes
	w.pacer = paceEvery(w.m, w.m.pace)
	c := &comparison{w: w}
	c.x.at[0], c.template[0] = x, template
	defer w.count(&c.x)
	for i := 0; i < len(nodes); {
		w.pacer.call()
		n := &nodes[i]
		s, t, same := c.step(n)
		switch {
		case same:
			i += int(n.skip)
			continue
		case c.x.hopeless(n.depth, s):
			for _, tok := range w.m.voc.tokensBelow(i) {
				w.undecide(tok)
			}
			i += int(n.skip)
			continue
		case w.allLive(&c.x, s, i):
			for _, tok := range w.m.voc.tokensBelow(i) {
				w.undecide(tok)
				w.legal(tok)
			}
			i += int(n.skip)
			continue
		case w.giveUp(&c.x):
			return false
		}
		c.enter(n.depth, s, t)
		if n.token >= 0 {
			w.undecide(n.token)
			w.decide(n, &c.x)
		}
		i++
	}
	return true
}

// comparison is where walkDifference is after each byte on the path to the current
// node, from x and from the template.
type comparison struct {
	w        *trieWalk
	x        path
	template [maxTokenLen + 1]*position
	differ   [maxTokenLen + 1]bool // the two have popped at different depths
	agree    [maxTokenLen + 1]int  // the two are known to agree on so many bytes from here on
}

// step takes the byte of n from both. same reports that they agree on all tokens of
// the subtree of n.
func (c *comparison) step(n *node) (s, t *position, same bool) {
	d := n.depth
	agree := c.agree[d-1] - 1
	if agree >= int(n.height) {
		return nil, nil, true
	}
	s, t = c.x.step(c.w.m, d, n.b), dead
	if p := c.template[d-1]; len(p.tops) > 0 {
		t = c.x.take(c.w.m, p, c.w.m.net.class[n.b])
	}
	c.agree[d] = 0
	if !c.differ[d-1] {
		if agree <= 0 && s != t {
			agree = c.w.agreement(s, t)
		}
		c.agree[d] = agree
		same = s == t || agree >= int(n.height)
	}
	return s, t, same
}

func (c *comparison) enter(d uint8, s, t *position) {
	c.x.enter(d, s)
	c.template[d] = t
	c.differ[d] = c.differ[d-1] || s.pops != t.pops
}

// giveUp ends a walk along p that takes too many visits. Then the mask is made without
// a shape.
func (w *trieWalk) giveUp(p *path) bool {
	w.m.spendVisits()
	if p.spent <= w.m.bounds.mask && p.cost <= w.m.bounds.step {
		return false
	}
	w.cost = tooMany
	clear(w.bits)
	w.list, w.popping = w.list[:0], w.popping[:0]
	return true
}

// count takes what a walk along p has cost over to the shape.
func (w *trieWalk) count(p *path) {
	w.cost, w.pops = max(w.cost, int64(p.cost)), max(w.pops, int64(p.mostPops))
}

// decide records what becomes of the token that ends at n, the end of the path p.
func (w *trieWalk) decide(n *node, p *path) {
	if w.blurred {
		w.decideBlurred(n, p)
		return
	}
	if p.at[n.depth] != dead {
		w.legal(n.token)
		return
	}
	for d := uint8(1); d < n.depth; d++ {
		if p.pops[d] {
			w.popping = append(w.popping, poppingToken{n.token, d})
		}
	}
}

// legal records that a token is legal. Most positions have few legal tokens, and a
// mask for them would cost more than it takes to find them.
func (w *trieWalk) legal(tok int32) {
	v := w.m.voc
	if w.bits != nil {
		v.set(w.bits, tok)
		return
	}
	for w.list = append(w.list, tok); v.duplicates != nil && v.duplicates[tok] >= 0; w.list = append(w.list, tok) {
		tok = v.duplicates[tok]
	}
	if len(w.list) > v.words()/4 {
		w.bits = make([]uint32, v.words())
		for _, t := range w.list {
			w.bits[t>>5] |= 1 << (t & 31)
		}
		w.list = w.list[:0]
	}
}

// undecide takes back what the template says about a token.
func (w *trieWalk) undecide(tok int32) {
	w.m.voc.unset(w.bits, tok)
	w.changed[tok>>5] |= 1 << (tok & 31)
}

// done makes the shape from what the walk has found.
func (w *trieWalk) done() *shape {
	sh := &shape{bits: w.bits, cost: w.cost, pops: w.pops}
	if w.bits == nil {
		sh.list = slices.Clone(w.list)
	} else {
		sh.packList()
	}
	w.sort()
	if len(w.kept) > 0 {
		w.popping = merge(w.kept, w.popping, w.m.voc.order)
	}
	w.popping = slices.Compact(w.popping)
	w.suffixTrie(sh)
	return sh
}

// packList turns the bits into a list if they are few.
func (s *shape) packList() {
	n := 0
	for _, x := range s.bits {
		n += bits.OnesCount32(x)
	}
	if n >= len(s.bits)/4 {
		return
	}
	s.list = make([]int32, 0, n)
	for i, x := range s.bits {
		for ; x != 0; x &= x - 1 {
			s.list = append(s.list, int32(i*32+bits.TrailingZeros32(x)))
		}
	}
	s.bits = nil
}

// order compares two tokens by the bytes that follow the pop.
func (v *Vocabulary) order(a, b poppingToken) int {
	if c := bytes.Compare(v.tokens[a.tok][a.cut:], v.tokens[b.tok][b.cut:]); c != 0 {
		return c
	}
	return int(a.tok) - int(b.tok)
}

// sort puts the popping tokens in order. Mostly the first eight bytes after the pop,
// as a number, decide.
func (w *trieWalk) sort() {
	if len(w.popping) < 2 {
		return
	}
	v := w.m.voc
	keyed := w.keyed[:0]
	for _, p := range w.popping {
		var first [8]byte
		copy(first[:], v.tokens[p.tok][p.cut:])
		keyed = append(keyed, keyedToken{binary.BigEndian.Uint64(first[:]), p})
	}
	slices.SortFunc(keyed, func(a, b keyedToken) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return v.order(a.poppingToken, b.poppingToken)
	})
	for i, k := range keyed {
		w.popping[i] = k.poppingToken
	}
	w.keyed = keyed
}

type keyedToken struct {
	key uint64
	poppingToken
}

// merge joins two sorted slices.
func merge(a, b []poppingToken, order func(a, b poppingToken) int) []poppingToken {
	res := make([]poppingToken, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if order(a[0], b[0]) <= 0 {
			res, a = append(res, a[0]), a[1:]
		} else {
			res, b = append(res, b[0]), b[1:]
		}
	}
	return append(append(res, a...), b...)
}

// suffixTrie gives s the trie of the bytes that follow the pops of popping, which is
// sorted.
func (w *trieWalk) suffixTrie(s *shape) {
	if len(w.popping) == 0 {
		return
	}
	nodes := w.suffix[:0]
	var open [maxTokenLen]int32 // the nodes on the path to the token before
	depth := 0
	var before []byte
	closeTo := func(d int) {
		for ; depth > d; depth-- {
			i := open[depth-1]
			nodes[i].skip = int32(len(nodes)) - i
		}
	}
	s.tokens = make([]int32, len(w.popping))
	for k, p := range w.popping {
		t := w.m.voc.tokens[p.tok][p.cut:]
		same := 0
		for same < len(before) && same < len(t) && before[same] == t[same] {
			same++
		}
		closeTo(same)
		for ; depth < len(t); depth++ {
			open[depth] = int32(len(nodes))
			nodes = append(nodes, suffixNode{b: t[depth], depth: uint8(depth + 1), from: int32(k), to: int32(k)})
		}
		s.tokens[k] = p.tok
		nodes[open[depth-1]].to = int32(k + 1)
		before = t
	}
	closeTo(0)
	s.suffix = slices.Clone(nodes)
	w.suffix = nodes
}
