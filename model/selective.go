package model

import "math"

// selective is built of a SelectiveSpec.
type selective struct {
	in, x, dt, outWeight Weight
	all, inner, gate     Act // what in gives, and its parts
	low                  Act // what x gives: the low rank of dt, B and C
	rank, b, c           Act
	steps                Act
	norms                [3]*Norm // of rank, b and c
	conv                 Conv
	scan                 Scan
	act                  Activation
	mid                  rows
}

func (s SelectiveSpec) mixer(b *builder, l *Layer) mixer {
	m := &selective{act: s.Act}
	m.all = b.whole("selective", 2*s.Inner, factorBuf)
	m.inner, m.gate = m.all.Cols(0, s.Inner), m.all.Cols(s.Inner, s.Inner)
	b.linear(&m.in, Linear, l.At, b.c.Hidden, s.ProjBias, part{s.In, 2 * s.Inner})
	m.conv = Conv{State: b.state((s.ConvWidth - 1) * s.Inner), B: NoWeight, Width: s.ConvWidth, Act: s.Act}
	b.convWeight(&m.conv.W, l.At+s.Conv+".weight", s.Inner, s.ConvWidth)
	if s.ConvBias {
		b.vector(&m.conv.B, l.At+s.Conv+".bias", s.Inner, view{})
	}
	m.low = b.whole("selective low", s.DtRank+2*s.StateDim, factorBuf)
	m.rank, m.b, m.c = m.low.Cols(0, s.DtRank), m.low.Cols(s.DtRank, s.StateDim), m.low.Cols(s.DtRank+s.StateDim, s.StateDim)
	b.linear(&m.x, Linear, l.At, s.Inner, false, part{s.X, m.low.Width})
	for i, n := range []struct {
		norm  NormSpec
		width int
	}{{s.DtNorm, s.DtRank}, {s.BNorm, s.StateDim}, {s.CNorm, s.StateDim}} {
		b.normOf(&m.norms[i], l.At, n.norm, n.width)
	}
	m.steps = b.whole("selective steps", s.Inner, plainBuf)
	b.linear(&m.dt, Linear, l.At, s.DtRank, false, part{s.Dt, s.Inner}) // the scan adds its bias
	m.scan = Scan{State: b.state(s.Inner * s.StateDim), Heads: s.Inner, HeadDim: 1, Groups: 1, StateDim: s.StateDim, DtMax: math.MaxFloat32, PerState: true}
	b.params = append(b.params, parameter{use: Vector, rows: []stored{{l.At + s.ALog, []int{s.Inner, s.StateDim}, view{vector: true, each: s.AForm}}}, into: &m.scan.A})
	b.vector(&m.scan.D, l.At+s.D, s.Inner, view{})
	b.vector(&m.scan.DtBias, l.At+s.Dt+".bias", s.Inner, view{})
	m.mid = b.act("mixed", s.Inner, factorBuf)
	b.linear(&m.outWeight, Linear, l.At, s.Inner, s.ProjBias, part{s.Out, b.c.Hidden})
	b.needs(PieceSelective|PieceConv|PieceElements, true)
	return m
}

func (m *selective) mix(p *pass, in rows) rows {
	p.MatMul(m.all, m.in, in.all)
	p.Conv(m.inner, m.inner, &m.conv)
	p.MatMul(m.low, m.x, m.inner)
	for i, on := range []Act{m.rank, m.b, m.c} {
		if m.norms[i] != nil {
			p.Norm(on, on, *m.norms[i])
		}
	}
	p.MatMul(m.steps, m.dt, m.rank)
	p.Scan(m.mid.all, m.inner, m.b, m.c, m.steps, &m.scan)
	if !p.cacheOnly {
		p.Gate(m.mid.all, m.mid.all, m.gate, m.act)
	}
	return m.mid
}

func (m *selective) out(p *pass, dst, mid rows, add bool) { p.product(dst, m.outWeight, mid, add) }
