package model

// delta is built of a DeltaSpec.
type delta struct {
	in        [3]Weight // products of the input
	into      []Act     // what they give
	ups       [2]Weight
	lows      Act
	convs     []Conv
	convOn    []Act
	q, k, v   Act
	a, b, z   Act
	d         []Delta // one, or one for each value head of a key head
	norm      Norm
	outWeight Weight
	mid       rows
}

func (s DeltaSpec) mixer(b *builder, l *Layer) mixer {
	m := &delta{}
	keys, values := s.KeyHeads*s.KeyDim, s.ValueHeads*s.ValueDim
	decays := s.ValueHeads
	if s.PerChannel {
		decays *= s.KeyDim
	}
	all := b.whole("delta", 2*keys+2*values+s.ValueHeads+decays, plainBuf)
	m.q, m.k, m.v = all.Cols(0, keys), all.Cols(keys, keys), all.Cols(2*keys, values)
	m.z = all.Cols(2*keys+values, values)
	m.b = all.Cols(2*keys+2*values, s.ValueHeads)
	m.a = all.Cols(2*keys+2*values+s.ValueHeads, decays)
	s.products(b, l, m, all)
	s.convolutions(b, l, m, all)

	s.rules(b, l, m, decays)
	b.norm(&m.norm, l.At, s.Norm, s.ValueDim)
	m.norm.Size, m.norm.Gate, m.norm.GateBy = s.ValueDim, m.z, Activation{Kind: s.GateBy}
	m.mid = b.act("attn", values, factorBuf)
	b.linear(&m.outWeight, Linear, l.At, values, false, part{s.O, b.c.Hidden})
	b.needs(PieceDelta|PieceConv|PieceGroupNorm, true)
	b.needs(PieceBoundedDecay, s.Lower != 0)
	return m
}

// rules declares the delta rule. If value heads are tiled, those that stand first among the heads of their key
// heads follow each other, and then the second ones, so that each of these rows is a rule with a value head
// for each key head.
func (s *DeltaSpec) rules(b *builder, l *Layer, m *delta, decays int) {
	each := 1
	if s.Tiled {
		each = s.ValueHeads / s.KeyHeads
	}
	heads := s.ValueHeads / each
	m.d = make([]Delta, each)
	for i := range m.d {
		m.d[i] = Delta{State: b.state(heads * s.KeyDim * s.ValueDim), KeyHeads: s.KeyHeads, ValueHeads: heads, KeyDim: s.KeyDim,
			ValueDim: s.ValueDim, PerChannel: s.PerChannel, Scale: inverseRoot(s.KeyDim), L2Eps: 1e-6, BetaScale: or1(s.BetaScale), Lower: s.Lower}
		a, dt := view{vector: true, each: s.AForm}, view{}
		if each > 1 {
			a = view{first: i * heads, count: heads, vector: true}
			dt = view{first: i * decays / each, count: decays / each, vector: true}
		}
		b.params = append(b.params, parameter{use: Vector, rows: []stored{{l.At + s.ALog, s.aShape(), a}}, into: &m.d[i].A})
		b.vector(&m.d[i].DtBias, l.At+s.DtBias, decays, dt)
	}
}

// aShape is the shape of the tensor ALog.
func (s *DeltaSpec) aShape() []int {
	if s.AShape != nil {
		return s.AShape
	}
	return []int{s.ValueHeads}
}

// products declares the products of the input.
func (s *DeltaSpec) products(b *builder, l *Layer, m *delta, all Act) {
	hidden := b.c.Hidden
	keys, values := s.KeyHeads*s.KeyDim, s.ValueHeads*s.ValueDim
	one := func(into Act, p parameter) {
		p.use, p.into = Linear, &m.in[len(m.into)]
		m.into = append(m.into, into)
		b.params = append(b.params, p)
	}
	tensor := func(name string, rows, columns int, v view) stored {
		return stored{l.At + name + ".weight", []int{rows, columns}, v}
	}
	if s.QKVZ != "" {
		one(all.Cols(0, 2*keys+2*values+2*s.ValueHeads), parameter{rows: s.fused(tensor, hidden)})
		return
	}
	var list []stored
	switch {
	case s.QKV != "":
		list = append(list, tensor(s.QKV, 2*keys+values, hidden, view{}))
	default:
		list = append(list, tensor(s.Q, keys, hidden, view{}), tensor(s.K, keys, hidden, view{}), tensor(s.V, values, hidden, view{}))
	}
	if s.ZUp == "" {
		list = append(list, tensor(s.Z, values, hidden, view{}))
		if s.BA != "" {
			list = append(list, s.fusedBA(tensor, hidden)...)
		} else {
			list = append(list, tensor(s.B, s.ValueHeads, hidden, view{}), tensor(s.A, m.a.Width, hidden, view{}))
		}
		one(all.Cols(0, all.Width), parameter{rows: list})
		return
	}
	one(all.Cols(0, 2*keys+values), parameter{rows: list})
	one(m.b, parameter{rows: []stored{tensor(s.B, s.ValueHeads, hidden, view{})}})
	low := b.whole("delta low", 2*s.LowRank, factorBuf)
	one(low, parameter{rows: []stored{tensor(s.Z, s.LowRank, hidden, view{}), tensor(s.A, s.LowRank, hidden, view{})}})
	m.lows = low
	b.params = append(b.params,
		parameter{use: Linear, rows: []stored{tensor(s.ZUp, values, s.LowRank, view{})}, into: &m.ups[0]},
		parameter{use: Linear, rows: []stored{tensor(s.AUp, m.a.Width, s.LowRank, view{})}, into: &m.ups[1]})
}

// fused are the rows of two tensors in which those of a key head stand together, in the order q, k,
// v, z, b, a.
func (s *DeltaSpec) fused(tensor func(name string, rows, columns int, v view) stored, hidden int) []stored {
	each := s.ValueHeads / s.KeyHeads
	head := 2*s.KeyDim + 2*each*s.ValueDim
	var list []stored
	for _, part := range []struct{ first, count int }{{0, s.KeyDim}, {s.KeyDim, s.KeyDim}, {2 * s.KeyDim, each * s.ValueDim}, {2*s.KeyDim + each*s.ValueDim, each * s.ValueDim}} {
		for h := range s.KeyHeads {
			list = append(list, tensor(s.QKVZ, s.KeyHeads*head, hidden, view{first: h*head + part.first, count: part.count}))
		}
	}
	return append(list, s.fusedBA(tensor, hidden)...)
}

// fusedBA are the rows of b and a, of which those of a key head stand together.
func (s *DeltaSpec) fusedBA(tensor func(name string, rows, columns int, v view) stored, hidden int) (list []stored) {
	each := s.ValueHeads / s.KeyHeads
	for first := range 2 {
		for h := range s.KeyHeads {
			list = append(list, tensor(s.BA, 2*s.ValueHeads, hidden, view{first: (2*h + first) * each, count: each}))
		}
	}
	return list
}

// convolutions declares the convolutions of queries, keys and values.
func (s *DeltaSpec) convolutions(b *builder, l *Layer, m *delta, all Act) {
	on := []struct {
		name string
		act  Act
	}{{s.Conv, all.Cols(0, m.q.Width+m.k.Width+m.v.Width)}}
	if s.ConvQ != "" {
		on = on[:0]
		for i, name := range []string{s.ConvQ, s.ConvK, s.ConvV} {
			on = append(on, struct {
				name string
				act  Act
			}{name, []Act{m.q, m.k, m.v}[i]})
		}
	}
	m.convs = make([]Conv, len(on))
	for i, c := range on {
		m.convs[i] = Conv{State: b.state((s.ConvWidth - 1) * c.act.Width), B: NoWeight, Width: s.ConvWidth, Act: Activation{Kind: SiLU}}
		b.convWeight(&m.convs[i].W, l.At+c.name+".weight", c.act.Width, s.ConvWidth)
		m.convOn = append(m.convOn, c.act)
	}
}

// convWeight declares the weights of a convolution, [columns, 1, width].
func (b *builder) convWeight(into *Weight, name string, columns, width int) {
	b.params = append(b.params, parameter{use: Vector, rows: []stored{{name, []int{columns, 1, width}, view{vector: true}}}, into: into})
}

func (m *delta) mix(p *pass, in rows) rows {
	for i, to := range m.into {
		p.MatMul(to, m.in[i], in.all)
	}
	if m.lows.Width > 0 {
		half := m.lows.Width / 2
		p.MatMul(m.z, m.ups[0], m.lows.Cols(0, half))
		p.MatMul(m.a, m.ups[1], m.lows.Cols(half, half))
	}
	for i := range m.convs {
		p.Conv(m.convOn[i], m.convOn[i], &m.convs[i])
	}
	values, decays, heads := m.v.Width/len(m.d), m.a.Width/len(m.d), m.b.Width/len(m.d)
	for i := range m.d {
		p.Delta(m.mid.all.Cols(i*values, values), m.q, m.k, m.v.Cols(i*values, values), m.a.Cols(i*decays, decays), m.b.Cols(i*heads, heads), &m.d[i])
	}
	if !p.cacheOnly {
		p.Norm(m.mid.all, m.mid.all, m.norm)
	}
	return m.mid
}

func (m *delta) out(p *pass, dst, mid rows, add bool) { p.product(dst, m.outWeight, mid, add) }

// mamba is built of a MambaSpec.
type mamba struct {
	in, outWeight Weight
	inScale       float32
	outScale      float32
	scales        [5]float32
	all           Act
	parts         [5]Act // z, x, B, C, dt
	conv          Conv
	convOn        Act
	scan          Scan
	norm          *Norm
	mid           rows
	scaledIn      Act
}

func (s MambaSpec) mixer(b *builder, l *Layer) mixer {
	inner, bc := s.Heads*s.HeadDim, s.Groups*s.StateDim
	m := &mamba{inScale: or1(s.InScale), outScale: or1(s.OutScale)}
	m.all = b.whole("mamba", 2*inner+2*bc+s.Heads, plainBuf)
	at := 0
	for i, width := range []int{inner, inner, bc, bc, s.Heads} {
		m.parts[i] = m.all.Cols(at, width)
		m.scales[i] = or1(s.Scales[i])
		b.needs(PieceElements, m.scales[i] != 1)
		at += width
	}
	b.linear(&m.in, Linear, l.At, b.c.Hidden, s.ProjBias, part{s.In, m.all.Width})
	m.convOn = m.all.Cols(inner, inner+2*bc)
	m.conv = Conv{State: b.state((s.ConvWidth - 1) * m.convOn.Width), B: NoWeight, Width: s.ConvWidth, Act: Activation{Kind: SiLU}}
	b.convWeight(&m.conv.W, l.At+s.Conv+".weight", m.convOn.Width, s.ConvWidth)
	if s.ConvBias {
		b.vector(&m.conv.B, l.At+s.Conv+".bias", m.convOn.Width, view{})
	}
	m.scan = Scan{State: b.state(inner * s.StateDim), Heads: s.Heads, HeadDim: s.HeadDim, Groups: s.Groups, StateDim: s.StateDim, DtMin: s.DtMin, DtMax: s.DtMax}
	b.vector(&m.scan.A, l.At+s.ALog, s.Heads, view{each: s.AForm})
	b.vector(&m.scan.D, l.At+s.D, s.Heads, view{})
	b.vector(&m.scan.DtBias, l.At+s.DtBias, s.Heads, view{})
	if s.Norm.Is() {
		m.norm = new(Norm)
		b.norm(m.norm, l.At, s.Norm, inner)
		m.norm.Size = inner / max(s.NormGroups, 1)
		m.norm.Gate, m.norm.GateBy, m.norm.GateFirst = m.parts[0], Activation{Kind: SiLU}, !s.NormThenGate
		b.needs(PieceGroupNorm, true)
	}
	m.mid = b.act("mixed", inner, factorBuf) // beside attention's, in networks that have both in a layer
	b.linear(&m.outWeight, Linear, l.At, inner, s.ProjBias, part{s.Out, b.c.Hidden})
	if m.inScale != 1 {
		m.scaledIn = b.whole("scaled", b.c.Hidden, factorBuf)
	}
	b.needs(PieceElements, m.inScale != 1 || m.outScale != 1 || m.norm == nil)
	b.needs(PieceScan|PieceConv, true)
	return m
}

func (m *mamba) mix(p *pass, in rows) rows {
	x := in.all
	if m.inScale != 1 {
		p.Scale(m.scaledIn, x, m.inScale)
		x = m.scaledIn
	}
	p.MatMul(m.all, m.in, x)
	for i, part := range m.parts {
		if m.scales[i] != 1 {
			p.Scale(part, part, m.scales[i])
		}
	}
	p.Conv(m.convOn, m.convOn, &m.conv)
	p.Scan(m.mid.all, m.parts[1], m.parts[2], m.parts[3], m.parts[4], &m.scan)
	switch {
	case p.cacheOnly:
	case m.norm != nil:
		p.Norm(m.mid.all, m.mid.all, *m.norm)
	default:
		p.Gate(m.mid.all, m.mid.all, m.parts[0], Activation{Kind: SiLU})
	}
	return m.mid
}

func (m *mamba) out(p *pass, dst, mid rows, add bool) {
	p.scaled(dst, m.outWeight, mid, add, m.outScale)
}

// shortConv is built of a ConvSpec.
type shortConv struct {
	in, outWeight Weight
	all           Act
	b, c, x       Act
	conv          Conv
	mid           rows
}

func (s ConvSpec) mixer(b *builder, l *Layer) mixer {
	d := b.c.Hidden
	m := &shortConv{all: b.whole("conv", 3*d, plainBuf)}
	m.b, m.c, m.x = m.all.Cols(0, d), m.all.Cols(d, d), m.all.Cols(2*d, d)
	b.linear(&m.in, Linear, l.At, d, s.Bias, part{s.In, 3 * d})
	m.conv = Conv{State: b.state((s.Width - 1) * d), B: NoWeight, Width: s.Width}
	b.convWeight(&m.conv.W, l.At+s.Conv+".weight", d, s.Width)
	if s.Bias {
		b.vector(&m.conv.B, l.At+s.Conv+".bias", d, view{})
	}
	m.mid = b.act("attn", d, factorBuf)
	b.linear(&m.outWeight, Linear, l.At, d, s.Bias, part{s.Out, d})
	b.needs(PieceConv|PieceElements, true)
	return m
}

func (m *shortConv) mix(p *pass, in rows) rows {
	p.MatMul(m.all, m.in, in.all)
	p.Gate(m.x, m.x, m.b, Activation{})
	p.Conv(m.x, m.x, &m.conv)
	p.Gate(m.mid.all, m.x, m.c, Activation{})
	return m.mid
}

func (m *shortConv) out(p *pass, dst, mid rows, add bool) { p.product(dst, m.outWeight, mid, add) }
