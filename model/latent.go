package model

import "weir/backend"

// latent is built of a LatentSpec. The cache has one key for all heads, the normed latent and the
// rotated part behind it, and the latent in it is the value. Queries are multiplied with the part
// of kv_b_proj that makes keys, so that they meet latents; what attention gives is multiplied with
// the part that makes values. Prefill and decoding are the same, so that no bit depends on which
// of them a position was computed in.
type latent struct {
	qa, q, kva    Weight // [QRank, D]; [H*(Nope+R), QRank or D]; [Rank+R, D]
	qNorm, kvNorm *Norm
	up, down      []Weight // by head: [Rank, Nope] of keys, [Value, Rank] of values
	outWeight     Weight   // [D, H*Value]
	kv            int
	heads         Heads
	a             Attention
	low, queries  Act  // [., QRank], [., H*(Nope+R)]
	key           Act  // [., Rank+R]
	absorbed      Act  // [., H*(Rank+R)]
	attn          rows // [., H*Rank]
	values        rows // [., H*Value]
	s             LatentSpec
	indexer       *indexer // nil: there is none
	gate          Weight   // [H, D], or NoWeight
	gates         Act      // [., H]
}

func (s LatentSpec) mixer(b *builder, l *Layer) mixer {
	m := &latent{s: s, qa: NoWeight, gate: NoWeight, up: make([]Weight, s.Heads), down: make([]Weight, s.Heads)}
	head := s.NopeDim + s.RopeDim
	m.queries = b.whole("latent q", s.Heads*head, factorBuf)
	if s.Q != "" {
		b.linear(&m.q, Linear, l.At, b.c.Hidden, false, part{s.Q, s.Heads * head})
	} else {
		m.low = b.whole("latent low", s.QRank, factorBuf)
		b.linear(&m.qa, Linear, l.At, b.c.Hidden, s.Bias, part{s.QA, s.QRank})
		b.normOf(&m.qNorm, l.At, s.QNorm, s.QRank)
		b.linear(&m.q, Linear, l.At, s.QRank, false, part{s.QB, s.Heads * head})
	}
	b.linear(&m.kva, Linear, l.At, b.c.Hidden, s.Bias, part{s.KVA, s.KVRank + s.RopeDim})
	b.normOf(&m.kvNorm, l.At, s.KVNorm, s.KVRank)
	rows := s.NopeDim + s.ValueDim
	for h := range s.Heads {
		if s.KB != "" {
			b.params = append(b.params,
				parameter{use: Linear, rows: []stored{{l.At + s.KB + ".weight", []int{s.Heads, s.KVRank, s.NopeDim}, view{first: h * s.KVRank, count: s.KVRank}}}, into: &m.up[h]},
				parameter{use: Linear, rows: []stored{{l.At + s.VB + ".weight", []int{s.Heads, s.ValueDim, s.KVRank}, view{first: h * s.ValueDim, count: s.ValueDim}}}, into: &m.down[h]})
			continue
		}
		whole := stored{l.At + s.KVB + ".weight", []int{s.Heads * rows, s.KVRank}, view{first: h * rows, count: s.NopeDim, turned: true}}
		b.params = append(b.params, parameter{use: Linear, rows: []stored{whole}, into: &m.up[h]})
		whole.view = view{first: h*rows + s.NopeDim, count: s.ValueDim}
		b.params = append(b.params, parameter{use: Linear, rows: []stored{whole}, into: &m.down[h]})
	}
	m.key = b.whole("latent key", s.KVRank+s.RopeDim, plainBuf)
	m.absorbed = b.whole("latent absorbed", s.Heads*(s.KVRank+s.RopeDim), plainBuf)
	m.attn = b.act("attn", s.Heads*s.KVRank, factorBuf)
	m.values = b.act("latent values", s.Heads*s.ValueDim, factorBuf)
	b.linear(&m.outWeight, Linear, l.At, s.Heads*s.ValueDim, s.Bias, part{s.O, b.c.Hidden})

	if s.Gate != "" {
		m.gates = b.whole("latent gates", s.Heads, sumBuf)
		b.linear(&m.gate, Linear, l.At, b.c.Hidden, false, part{s.Gate, s.Heads})
	}
	if s.Indexer.Q != "" {
		m.indexer = newIndexer(b, l, &s)
	}
	b.needs(PieceSelect, s.Sparse)
	m.kv = b.cache(KVShape{Heads: s.Heads, KVHeads: 1, KeyDim: s.KVRank + s.RopeDim, ValueDim: s.KVRank, ValueInKey: true}, backend.KVGroup{Window: s.Window})
	m.heads = Heads{Rope: NoRope, Temper: s.Temper}
	if s.Rope != NoRope {
		r := b.shape.Ropes[s.Rope]
		r.Offset = s.KVRank
		m.heads.Rope = b.rope(r)
	}
	m.a = Attention{Scale: s.Scale, Window: s.Window, Sinks: NoWeight, Chosen: s.Sparse}
	b.window(s.Window)
	b.needs(PieceRopeKinds|PieceElements|PieceHeadSizes, true)
	b.needs(PieceTemper, s.Temper.Beta != 0)
	return m
}

func (m *latent) mix(p *pass, in rows) rows {
	s := &m.s
	x := in.all
	if m.qa != NoWeight {
		p.MatMul(m.low, m.qa, x)
		p.Norm(m.low, m.low, *m.qNorm)
		x = m.low
	}
	p.MatMul(m.queries, m.q, x)
	p.MatMul(m.key, m.kva, in.all)
	value := m.key.Cols(0, s.KVRank)
	p.Norm(value, value, *m.kvNorm)
	for h := range s.Heads {
		q := m.queries.Cols(h*(s.NopeDim+s.RopeDim), s.NopeDim+s.RopeDim)
		to := m.absorbed.Cols(h*(s.KVRank+s.RopeDim), s.KVRank+s.RopeDim)
		p.MatMul(to.Cols(0, s.KVRank), m.up[h], q.Cols(0, s.NopeDim))
		p.Scale(to.Cols(s.KVRank, s.RopeDim), q.Cols(s.NopeDim, s.RopeDim), 1)
	}
	p.StoreKV(m.kv, m.absorbed, m.key, value, m.heads)
	if m.indexer != nil {
		m.indexer.choose(p, in.all, m.low)
	}
	if !p.cacheOnly {
		p.Attend(m.attn.all, m.absorbed, m.kv, m.a)
		if m.gate != NoWeight { // a factor on a head is the same before the product that makes values of it
			p.MatMul(m.gates, m.gate, in.all)
			p.Gate(m.attn.all, m.attn.all, m.gates, Activation{Kind: Sigmoid})
		}
	}
	return m.attn
}

func (m *latent) out(p *pass, dst, mid rows, add bool) {
	s := &m.s
	for h := range s.Heads {
		p.MatMul(p.of(m.values).Cols(h*s.ValueDim, s.ValueDim), m.down[h], p.of(mid).Cols(h*s.KVRank, s.KVRank))
	}
	p.product(dst, m.outWeight, m.values, add)
}

// indexer is built of an Indexer.
type indexer struct {
	q, k, weights Weight // [Heads*Dim, QRank], [Dim, D], [Heads, D]
	kNorm         *Norm
	kv            int
	heads         Heads
	queries, key  Act
	each          Act // [., Heads]
	s             Selection
	share         float32 // factor on weights
}

func newIndexer(b *builder, l *Layer, s *LatentSpec) *indexer {
	x := &s.Indexer
	m := &indexer{s: Selection{TopK: x.TopK, Scale: inverseRoot(x.Dim)}, share: inverseRoot(x.Heads), heads: Heads{Rope: x.Rope}}
	m.queries, m.key = b.whole("indexer q", x.Heads*x.Dim, plainBuf), b.whole("indexer key", x.Dim, plainBuf)
	m.each = b.whole("indexer weights", x.Heads, sumBuf)
	b.linear(&m.q, Linear, l.At, s.QRank, false, part{x.Q, x.Heads * x.Dim})
	b.linear(&m.k, Linear, l.At, b.c.Hidden, false, part{x.K, x.Dim})
	b.normOf(&m.kNorm, l.At, x.KNorm, x.Dim)
	b.linear(&m.weights, Exact, l.At, b.c.Hidden, false, part{x.Weights, x.Heads})
	m.kv = b.cache(KVShape{Heads: x.Heads, KVHeads: 1, KeyDim: x.Dim}, backend.KVGroup{})
	return m
}

// choose stores keys, and queues the choice for what in was made to the low rank of queries.
func (m *indexer) choose(p *pass, in, low Act) {
	p.MatMul(m.queries, m.q, low)
	p.MatMul(m.key, m.k, in)
	p.Norm(m.key, m.key, *m.kNorm)
	p.StoreKV(m.kv, m.queries, m.key, m.key.Cols(0, 0), m.heads)
	if p.cacheOnly {
		return
	}
	p.MatMul(m.each, m.weights, in)
	p.Scale(m.each, m.each, m.share)
	p.Select(m.queries, m.each, m.kv, m.s)
}
