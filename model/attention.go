package model

import "weir/backend"

// attention is built of an AttentionSpec.
type attention struct {
	qkv           Weight // [H*K + G*K + G*W (+ gate), D]
	norms         [2]*Norm
	heads         Heads
	kv            int
	outWeight     Weight // [D, H*W]
	a             Attention
	all           Act // what qkv gives
	q, k, v, gate Act
	ownGate       Weight // NoWeight: gate is a part of qkv, or there is none
	attn          rows
	scaledIn      rows // the input times inScale
	inScale       float32
	clip          float32
	keyScale      float32
	valueScale    float32
	outScale      float32
}

// sees is how far the layer looks back. One that looks ahead, too, has no steps before its own.
func (s AttentionSpec) sees() backend.KVGroup {
	if s.Bidirectional {
		return backend.KVGroup{}
	}
	return backend.KVGroup{Window: s.Window, Chunk: s.Chunk}
}

func (s AttentionSpec) mixer(b *builder, l *Layer) mixer {
	m := &attention{ownGate: NoWeight, inScale: or1(s.InScale), keyScale: or1(s.KeyScale), valueScale: or1(s.ValueScale), outScale: or1(s.OutScale)}
	q, k, v := s.Heads*s.KeyDim, s.KVHeads*s.KeyDim, s.KVHeads*s.ValueDim
	if s.ShareWith >= 0 {
		k, v = 0, 0
	}
	stored := v
	if s.KEqualsV {
		stored = 0
	}
	gate := s.gateWidth()
	m.all = b.whole("qkv", q+k+stored+gate, plainBuf)
	m.q, m.k, m.v = m.all.Cols(0, q), m.all.Cols(q, k), m.all.Cols(q+k, v)
	if s.KEqualsV {
		m.v = m.k
	}
	m.gate = m.all.Cols(q+k+stored, gate)
	s.products(b, l, m, k, stored)
	s.norms(b, l, m)

	shape := KVShape{Heads: s.Heads, KVHeads: s.KVHeads, KeyDim: s.KeyDim, ValueDim: s.ValueDim}
	if s.ShareWith >= 0 {
		m.kv = b.caches[s.ShareWith]
		b.shape.Sees[m.kv] = widen(b.shape.Sees[m.kv], s.sees())
		b.needs(PieceSharedKV, true)
	} else {
		m.kv = b.cache(shape, s.sees())
	}
	m.a = Attention{Scale: s.Scale, Window: s.Window, Chunk: s.Chunk, Softcap: s.Softcap, Sinks: NoWeight, Bidirectional: s.Bidirectional, Slopes: s.Slopes}
	m.clip = s.Clip
	if s.Scale == 0 {
		m.a.Scale = inverseRoot(s.KeyDim)
	}
	if s.Sinks != "" {
		b.vector(&m.a.Sinks, l.At+s.Sinks, s.Heads, view{})
	}
	s.distances(b, m)
	b.window(s.Window)
	m.attn = b.act("attn", s.Heads*s.ValueDim, factorBuf)
	b.linearAs(&m.outWeight, s.Turned, Linear, l.At, s.Heads*s.ValueDim, s.OutBias, part{s.O, b.c.Hidden})
	if m.inScale != 1 {
		m.scaledIn = rows{all: b.whole("scaled", b.c.Hidden, factorBuf)}
	}
	s.pieces(b, m)
	return m
}

// distances declares the numbers of distances, if there are some.
func (s *AttentionSpec) distances(b *builder, m *attention) {
	if s.Buckets != nil {
		m.a.Buckets = s.Buckets
		b.params = append(b.params, parameter{use: Vector, rows: []stored{{s.Bias + ".weight", []int{s.BiasRows, s.Heads}, view{vector: true}}}, into: &m.a.Bias})
	}
}

// pieces says what the layer needs of a device.
func (s *AttentionSpec) pieces(b *builder, m *attention) {
	b.needs(PieceSinks, s.Sinks != "")
	b.needs(PieceSoftcap, s.Softcap != 0)
	b.needs(PieceChunks, s.Chunk != 0)
	b.needs(PieceBidirectional, s.Bidirectional)
	b.needs(PieceTemper, s.Temper.Beta != 0)
	b.needs(PieceSlopes, s.Slopes != nil)
	b.needs(PieceClip, s.Clip != 0)
	b.needs(PieceBuckets, s.Buckets != nil)
	b.needs(PieceHeadNorms, s.VNorm.Is() || s.NormAfterRope && s.QNorm.Is())
	b.needs(PieceElements, s.gateWidth() > 0 || m.inScale != 1 || m.keyScale != 1 || m.valueScale != 1 || m.outScale != 1)
}

// gateWidth is the number of columns of the output gate.
func (s *AttentionSpec) gateWidth() int {
	switch {
	case s.Gate.InQ || s.Gate.Name != "" && s.Gate.Wide:
		return s.Heads * s.ValueDim
	case s.Gate.Name != "":
		return s.Heads
	}
	return 0
}

// products declares the product of queries, keys and values, which have k and v columns, and of a gate.
func (s *AttentionSpec) products(b *builder, l *Layer, m *attention, k, v int) {
	p := parameter{use: Linear, into: &m.qkv}
	add := func(name string, total, first, count int) {
		if count == 0 {
			return
		}
		w := view{first: first, count: count}
		if first == 0 && count == total {
			w = view{}
		}
		x := stored{l.At + name + ".weight", []int{total, b.c.Hidden}, w}
		if s.Turned {
			x.shape, x.view = []int{b.c.Hidden, total}, view{turned: true, turnFirst: first, turnCount: count}
		}
		p.rows = append(p.rows, x)
		if s.QKVBias {
			if !w.whole() {
				w.vector = true
			}
			p.bias = append(p.bias, stored{l.At + name + ".bias", []int{total}, w})
		}
	}
	q := s.Heads * s.KeyDim
	switch {
	case s.QKV != "":
		for _, r := range s.fusedRows(q, k, v) {
			add(s.QKV, q+k+v, r.first, r.count)
		}
	case s.Gate.InQ:
		total := q + s.Heads*s.ValueDim
		step := s.KeyDim + s.ValueDim
		for h := range s.Heads {
			add(s.Q, total, h*step, s.KeyDim)
		}
		add(s.K, k, 0, k)
		add(s.V, v, 0, v)
		for h := range s.Heads {
			add(s.Q, total, h*step+s.KeyDim, s.ValueDim)
		}
	default:
		add(s.Q, q, 0, q)
		add(s.K, k, 0, k)
		add(s.V, v, 0, v)
	}
	if s.Gate.Name != "" {
		// A product of its own: it has no bias where the others have one.
		b.linear(&m.ownGate, Linear, l.At, b.c.Hidden, false, part{s.Gate.Name, s.gateWidth()})
		m.all.Width -= s.gateWidth()
	}
	b.params = append(b.params, p)
}

// rowRange are rows of a tensor.
type rowRange struct{ first, count int }

// fusedRows are the rows of QKV: those of q rows of queries, of k of keys, and of v of values, one after another.
func (s *AttentionSpec) fusedRows(q, k, v int) (list []rowRange) {
	parts, order := 1, [3]int{0, 1, 2} // where queries, keys and values stand in a part
	switch s.Order {
	case ByKVHead:
		parts = s.KVHeads
	case InQuarters:
		parts, order = 4, [3]int{0, 2, 1}
	}
	sizes := [3]int{q / parts, k / parts, v / parts}
	if parts == 1 {
		return []rowRange{{0, q}, {q, k}, {q + k, v}}
	}
	for kind, at := range order {
		before := 0
		for other, place := range order {
			if place < at {
				before += sizes[other]
			}
		}
		for i := range parts {
			list = append(list, rowRange{i*(sizes[0]+sizes[1]+sizes[2]) + before, sizes[kind]})
		}
	}
	return list
}

// norms declares the norms of queries, keys and values.
func (s *AttentionSpec) norms(b *builder, l *Layer, m *attention) {
	m.heads = Heads{Rope: s.Rope, NormAfterRope: s.NormAfterRope, Temper: s.Temper}
	if s.RowNorm {
		b.normOf(&m.norms[0], l.At, s.QNorm, s.Heads*s.KeyDim)
		if s.ShareWith < 0 {
			b.normOf(&m.norms[1], l.At, s.KNorm, s.KVHeads*s.KeyDim)
		}
		b.needs(PieceGroupNorm, true)
		return
	}
	b.headNorm(&m.heads.QNorm, l.At, s.QNorm, s.KeyDim, s.Heads, s.PerHeadNorm)
	if s.ShareWith < 0 {
		b.headNorm(&m.heads.KNorm, l.At, s.KNorm, s.KeyDim, s.KVHeads, s.PerHeadNorm)
		b.headNorm(&m.heads.VNorm, l.At, s.VNorm, s.ValueDim, s.KVHeads, false)
	}
}

func (m *attention) mix(p *pass, in rows) rows {
	if m.inScale != 1 {
		p.Scale(m.scaledIn.all, in.all, m.inScale)
		in = m.scaledIn
	}
	p.MatMul(m.all, m.qkv, in.all)
	if m.ownGate != NoWeight {
		p.MatMul(m.gate, m.ownGate, in.all)
	}
	if m.norms[0] != nil {
		p.Norm(m.q, m.q, *m.norms[0])
	}
	if m.norms[1] != nil {
		p.Norm(m.k, m.k, *m.norms[1])
	}
	if m.clip != 0 {
		all := m.all.Cols(0, m.all.Width)
		if m.ownGate == NoWeight {
			all.Width -= m.gate.Width
		}
		p.Activate(all, all, Activation{Kind: Clip, Limit: m.clip})
	}
	if m.keyScale != 1 {
		p.Scale(m.k, m.k, m.keyScale)
	}
	if m.valueScale != 1 {
		p.Scale(m.v, m.v, m.valueScale)
	}
	p.StoreKV(m.kv, m.q, m.k, m.v, m.heads)
	if p.cacheOnly {
		return m.attn
	}
	p.Attend(m.attn.all, m.q, m.kv, m.a)
	if m.gate.Width > 0 {
		p.Gate(m.attn.all, m.attn.all, m.gate, Activation{Kind: Sigmoid})
	}
	return m.attn
}

func (m *attention) out(p *pass, dst, mid rows, add bool) {
	p.scaled(dst, m.outWeight, mid, add, m.outScale)
}
