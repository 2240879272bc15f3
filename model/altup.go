package model

import (
	"fmt"
	"math"
)

// AltUp is a residual stream of several parts, of which each layer computes one and corrects all (Baykal et al.,
// "Alternating Updates for Efficient Transformers", 2023), with a learned residual of low rank beside attention,
// as in Gemma 3n (transformers/models/gemma3n, Gemma3nTextDecoderLayer). With streams x0 to x3 and
// route(v) = tanh(Router(RouterNorm(v)/D)), a layer is
//
//	p[i] = x[i] + sum of x[j] * Predict(route(x0))[i*n+j]
//	h    = InNorm(p0)
//	y    = (p0 + MixNorm(mixers(h)) + h + LaurelNorm(LaurelRight(LaurelLeft(h)))) / sqrt(2)
//	z    = y + OutNorm(feeds(FeedNorm(y)))
//	x[i] = p[i] + (z - p0) * (1 + Correct(route(z))[i])
//
// and PerLayer reads x0 times CorrectScale, and is added to all streams but x0. The other streams begin as
// products of the embedding with its magnitude, and the mean of all, projected back in the same way, is what the
// final norm reads.
type AltUp struct {
	Streams                int    // n; 0: there is one stream, and no other field is used
	Projections, Unembed   string // products of D by D, with %d in place of their number from 0 on
	Router, Predict        string // below Layer.At
	Correct                string
	CorrectScale           string // a tensor without suffix; "": none
	LaurelLeft, LaurelBack string
	LaurelRank             int
	RouterNorm, LaurelNorm NormSpec
}

// altUp is built of an AltUp.
type altUp struct {
	n                    int
	projections, unembed []Weight
	x, p                 []rows // the streams; x[0] is the decoder's
	low, laurel          rows
	z                    rows
	routed, modes, coefs rows
	part                 rows
	layers               []altUpLayer
	scaleDown            float32 // of what the router reads
}

type altUpLayer struct {
	routerNorm, laurelNorm   *Norm
	router, predict, correct Weight
	left, back               Weight
	scale                    *Norm // times CorrectScale; nil: 1
}

func newAltUp(b *builder, n *decoder, s *AltUp) *altUp {
	d, count := b.c.Hidden, s.Streams
	m := &altUp{n: count, projections: make([]Weight, count-1), unembed: make([]Weight, count-1), scaleDown: 1 / float32(d), layers: make([]altUpLayer, b.c.Layers)}
	for i := range count - 1 {
		b.linear(&m.projections[i], Linear, "", d, false, part{fmt.Sprintf(s.Projections, i), d})
		b.linear(&m.unembed[i], Linear, "", d, false, part{fmt.Sprintf(s.Unembed, i), d})
	}
	m.x = []rows{n.x}
	for i := range count {
		if i > 0 {
			m.x = append(m.x, b.act(fmt.Sprintf("stream %d", i), d, sumBuf))
		}
		m.p = append(m.p, b.act(fmt.Sprintf("predicted stream %d", i), d, sumBuf))
	}
	m.low, m.laurel = b.act("laurel low", s.LaurelRank, factorBuf), b.act("laurel", d, sumBuf)
	m.z, m.part = b.act("activated", d, sumBuf), b.act("part", d, sumBuf)
	m.routed, m.modes, m.coefs = b.act("stream router", d, sumBuf), b.act("stream modes", count, sumBuf), b.act("stream coefficients", count*count, sumBuf)
	for i := range m.layers {
		l, at := &m.layers[i], b.c.Network.Layers[i].At
		b.normOf(&l.routerNorm, at, s.RouterNorm, d)
		b.linear(&l.router, Exact, at, d, false, part{s.Router, count})
		b.linear(&l.predict, Exact, at, count, false, part{s.Predict, count * count})
		b.linear(&l.correct, Exact, at, count, false, part{s.Correct, count})
		b.linear(&l.left, Linear, at, d, false, part{s.LaurelLeft, s.LaurelRank})
		b.linear(&l.back, Linear, at, s.LaurelRank, false, part{s.LaurelBack, d})
		b.normOf(&l.laurelNorm, at, s.LaurelNorm, d)
		if s.CorrectScale != "" {
			l.scale = &Norm{Kind: Weighted, B: NoWeight}
			b.vector(&l.scale.W, at+s.CorrectScale, d, view{})
		}
	}
	b.needs(PieceStreams|PieceElements, true)
	return m
}

// sized writes src·wᵀ, with the magnitude of the row of like, to dst.
func (m *altUp) sized(p *pass, dst rows, w Weight, src, like rows) {
	const eps = 1e-5 // below which a magnitude is not taken to be 0
	p.Scale(p.of(p.n.h), p.of(src), 1)
	p.MatMul(p.of(dst), w, p.of(p.n.h))
	p.Norm(p.of(dst), p.of(dst), Norm{Kind: Matched, Eps: eps, W: NoWeight, B: NoWeight, Gate: p.of(like)})
}

// begin makes the streams of the embeddings.
func (m *altUp) begin(p *pass) {
	for i, w := range m.projections {
		m.sized(p, m.x[i+1], w, m.x[0], m.x[0])
	}
}

// end makes one of the streams.
func (m *altUp) end(p *pass) {
	x := p.of(m.x[0])
	for i, w := range m.unembed {
		m.sized(p, m.p[i+1], w, m.x[i+1], m.x[0])
	}
	for i := 1; i < m.n; i++ {
		p.Add(x, p.of(m.p[i]), 1)
	}
	p.Scale(x, x, 1/float32(m.n))
}

// route writes what the coefficients are made of.
func (m *altUp) route(p *pass, l *altUpLayer, src rows) {
	p.Norm(p.of(m.routed), p.of(src), *l.routerNorm)
	p.Scale(p.of(m.routed), p.of(m.routed), m.scaleDown)
	p.MatMul(p.of(m.modes), l.router, p.of(m.routed))
	p.Activate(p.of(m.modes), p.of(m.modes), Activation{Kind: Tanh})
}

// addTimes adds src times coefficient number i to dst.
func (m *altUp) addTimes(p *pass, dst, src rows, i int) {
	part := p.of(m.part)
	p.Gate(part, p.of(src), p.of(m.coefs).Cols(i, 1), Activation{})
	p.Add(p.of(dst), part, 1)
}

// layer is layer.forward for a network with several streams.
func (m *altUp) layer(p *pass, l *layer, index int, last bool) {
	n, own := p.n, &m.layers[index]
	m.route(p, own, m.x[0])
	p.MatMul(p.of(m.coefs), own.predict, p.of(m.modes))
	for i := range m.p {
		p.Scale(p.of(m.p[i]), p.of(m.x[i]), 1)
		for j := range m.x {
			m.addTimes(p, m.p[i], m.x[j], i*m.n+j)
		}
	}
	p.Norm(p.of(n.h), p.of(m.p[0]), *l.inNorm)
	mid := l.mixers[0].mix(p, n.h)
	if p.cacheOnly {
		return
	}
	if last {
		p.gather(mid)
		p.gather(n.h)
		for i := range m.p {
			p.gather(m.p[i])
		}
		p.gather(n.perLayer.in)
		p.drawn = true
	}
	p.MatMul(p.of(m.low), own.left, p.of(n.h))
	p.MatMul(p.of(m.laurel), own.back, p.of(m.low))
	p.normed(m.laurel, m.laurel, own.laurelNorm)
	p.Add(p.of(m.laurel), p.of(n.h), 1)

	y, z := p.of(n.y), p.of(m.z)
	l.mixers[0].out(p, n.y, mid, false)
	p.normed(n.y, n.y, l.mixNorm)
	p.Add(y, p.of(m.p[0]), 1)
	p.Add(y, p.of(m.laurel), 1)
	p.Scale(y, y, float32(1/math.Sqrt2))
	p.Norm(p.of(n.h), y, *l.feedNorm)
	l.feeds[0].run(p, m.z, n.h, n.y, false)
	p.normed(m.z, m.z, l.outNorm)
	p.Add(z, y, 1)
	m.correct(p, own)
	m.addPerLayer(p, own, index)
}

// correct makes the streams of the predicted ones and of what was computed, in m.z.
func (m *altUp) correct(p *pass, own *altUpLayer) {
	m.route(p, own, m.z)
	p.MatMul(p.of(m.coefs).Cols(0, m.n), own.correct, p.of(m.modes))
	z := p.of(m.z)
	p.Add(z, p.of(m.p[0]), -1)
	for i := range m.x {
		x := p.of(m.x[i])
		p.Scale(x, p.of(m.p[i]), 1)
		p.Add(x, z, 1)
		m.addTimes(p, m.x[i], m.z, i)
	}
}

// addPerLayer adds what the embedding of the layer makes of the first stream to the others.
func (m *altUp) addPerLayer(p *pass, own *altUpLayer, index int) {
	n, e := p.n, p.n.perLayer
	if own.scale != nil {
		p.Norm(p.of(n.h), p.of(m.x[0]), *own.scale)
	} else {
		p.Scale(p.of(n.h), p.of(m.x[0]), 1)
	}
	e.part(p, index)
	for i := 1; i < m.n; i++ {
		p.Add(p.of(m.x[i]), p.of(n.y), 1)
	}
}
