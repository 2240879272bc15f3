package model

import (
	"fmt"
	"math"
	"strings"
)

// mlp is built of an MLPSpec.
type mlp struct {
	gateUp, down  Weight
	up            Weight // where there is no gate
	norm, outNorm *Norm
	act           Activation
	normedIn      rows // the input, normed
	both, gate    rows // what gateUp gives, and its part
	upper         rows
	mid           rows
	gateScale     float32
	outScale      float32
	apart         bool  // gate and up are a plain product, and what follows it are operations of their own
	above         *Norm // of the gate, what is not among the greatest; nil: all is
}

func (s MLPSpec) feed(b *builder, l *Layer) feed { return s.build(b, l, b.c.Hidden) }

// build makes the network of inputs and outputs with d columns.
func (s *MLPSpec) build(b *builder, l *Layer, d int) *mlp {
	m := &mlp{act: s.Act, gateScale: or1(s.GateScale), outScale: or1(s.OutScale)}
	b.normOf(&m.norm, l.At, s.Norm, d)
	if m.norm != nil {
		m.normedIn = b.act("normed", d, factorBuf)
	}
	m.mid = b.act("mid", s.Inner, factorBuf)
	m.apart = m.gateScale != 1 || s.Sparsity > 0
	if s.Sparsity > 0 {
		m.above = &Norm{Kind: Above, W: NoWeight, B: NoWeight, Cut: float32(math.Sqrt2 * math.Erfinv(2*float64(s.Sparsity)-1))}
		b.needs(PieceStreams, true)
	}
	switch {
	case s.Gate == "" && s.GateUp == "":
		b.linearAs(&m.up, s.Turned, Linear, l.At, d, s.Bias, part{s.Up, s.Inner})
		m.gateUp = NoWeight
	default:
		m.both = b.act("gateUp", 2*s.Inner, plainBuf)
		m.gate, m.upper = m.both.cols(0, s.Inner), m.both.cols(s.Inner, s.Inner)
		use := Gated
		if m.apart {
			use = Linear
		}
		if s.GateUp == "" {
			b.linear(&m.gateUp, use, l.At, d, s.Bias, part{s.Gate, s.Inner}, part{s.Up, s.Inner})
			break
		}
		p := parameter{use: use, into: &m.gateUp}
		for first := range 2 {
			v := view{first: first * s.Inner, count: s.Inner}
			if s.UpFirst {
				v.first = s.Inner - v.first
			}
			p.rows = append(p.rows, stored{l.At + s.GateUp + ".weight", []int{2 * s.Inner, d}, v})
			if s.Bias {
				v.vector = true
				p.bias = append(p.bias, stored{l.At + s.GateUp + ".bias", []int{2 * s.Inner}, v})
			}
		}
		b.params = append(b.params, p)
	}
	if s.XIELU != "" {
		b.xielu(&m.act, l.At+s.XIELU)
	}
	b.linearAs(&m.down, s.Turned, Linear, l.At, s.Inner, s.Bias || s.DownBias, part{s.Down, d})
	b.normOf(&m.outNorm, l.At, s.OutNorm, d)
	b.needs(PieceActivations, s.Act != Activation{Kind: SiLU} || m.gateUp == NoWeight)
	b.needs(PieceElements, m.apart || m.outScale != 1 || m.outNorm != nil)
	return m
}

func (m *mlp) run(p *pass, dst, in, _ rows, add bool) {
	if m.norm != nil {
		p.normed(m.normedIn, in, m.norm)
		in = m.normedIn
	}
	m.inner(p, in)
	if m.outNorm == nil {
		p.scaled(dst, m.down, m.mid, add, m.outScale)
		return
	}
	to := dst
	if add {
		to = p.n.part
	}
	p.scaled(to, m.down, m.mid, false, m.outScale)
	p.normed(to, to, m.outNorm)
	if add {
		p.Add(p.of(dst), p.of(to), 1)
	}
}

// inner queues everything before the last product.
func (m *mlp) inner(p *pass, in rows) {
	switch {
	case m.gateUp == NoWeight:
		p.MatMul(p.of(m.mid), m.up, p.of(in))
		p.Activate(p.of(m.mid), p.of(m.mid), m.act)
	case m.apart:
		p.MatMul(p.of(m.both), m.gateUp, p.of(in))
		if m.gateScale != 1 {
			p.Scale(p.of(m.gate), p.of(m.gate), m.gateScale)
		}
		p.normed(m.gate, m.gate, m.above)
		p.Gate(p.of(m.mid), p.of(m.upper), p.of(m.gate), m.act)
	default:
		p.MatMulGate(p.of(m.mid), m.gateUp, p.of(in), p.of(m.both), m.act)
	}
}

// mixture is built of an ExpertsSpec.
type mixture struct {
	router                    Weight // [E, D]
	routerNorm, norm, outNorm *Norm
	fromX                     bool
	routerMul                 float32
	routed                    rows // what the router reads, if it has a norm of its own
	normedIn                  rows
	logits                    rows
	e                         Experts
	sum                       rows
	shared                    *mlp
	sharedGate                Weight
	sharedOut, gate           rows
	latentIn, latentOut       Weight
	latent, latentSum         rows
}

func (s ExpertsSpec) feed(b *builder, l *Layer) feed {
	d := b.c.Hidden
	m := &mixture{fromX: s.FromX, routerMul: or1(s.RouterMul), sharedGate: NoWeight, latentIn: NoWeight}
	b.normOf(&m.routerNorm, l.At, s.RouterNorm, d)
	if m.routerNorm != nil {
		m.routed = b.act("router", d, sumBuf)
	}
	b.normOf(&m.norm, l.At, s.Norm, d)
	if m.norm != nil {
		m.normedIn = b.act("normed", d, factorBuf)
	}
	if !s.FromX && m.routerNorm == nil {
		b.act("h", d, sumBuf) // the router reads it, and a rounding could change its choice
	}
	b.linear(&m.router, Exact, l.At, d, s.RouterBias, part{s.Router, s.Experts})
	m.logits = b.act("router logits", s.Experts, sumBuf)
	m.sum = b.act("experts", d, sumBuf)
	m.e = Experts{Plain: s.Plain, Inner: s.Inner, Act: s.Act, ScoreInput: s.ScoreInput, GateUp: make([]Weight, s.Experts), Down: make([]Weight, s.Experts),
		Router: Router{TopK: s.TopK, Score: s.Score, Bias: NoWeight, Groups: s.Groups, TopGroups: s.TopGroups, GroupBest2: s.GroupBest2, Renorm: s.Renorm,
			Floor: s.Floor, RenormAdd: s.RenormAdd, Jitter: s.Jitter, Scale: or1(s.Scale), PerExpert: NoWeight}}
	if s.Bias != "" {
		shape, v := []int{s.Experts}, view{}
		if s.BiasShape != nil {
			shape, v = s.BiasShape, view{vector: true}
		}
		b.params = append(b.params, parameter{use: Vector, rows: []stored{{l.At + s.Bias, shape, v}}, into: &m.e.Bias})
	}
	if s.PerExpert != "" {
		b.vector(&m.e.PerExpert, l.At+s.PerExpert, s.Experts, view{})
	}
	width := d
	if s.Latent > 0 {
		width = s.Latent
		m.latent, m.latentSum = b.act("experts latent", width, factorBuf), b.act("experts latent sum", width, sumBuf)
		b.linear(&m.latentIn, Linear, l.At, d, false, part{s.LatentIn, width})
		b.linear(&m.latentOut, Linear, l.At, width, false, part{s.LatentOut, d})
	}
	x := &b.shape.Experts
	*x = ExpertShape{max(x.Experts, s.Experts), max(x.TopK, s.TopK), max(x.Width, width), max(x.Inner, s.Inner)}
	for i := range s.Experts {
		b.params = append(b.params, s.gateUp(l.At, i, width, &m.e.GateUp[i]), s.down(l.At, i, width, &m.e.Down[i]))
	}
	if len(s.Shared) > 0 {
		m.shared = s.Shared[0].build(b, l, d)
	}
	if s.SharedGate != "" {
		b.linear(&m.sharedGate, Exact, l.At, d, false, part{s.SharedGate, 1})
		m.sharedOut, m.gate = b.act("shared", d, sumBuf), b.act("shared gate", 1, sumBuf)
	}
	b.normOf(&m.outNorm, l.At, s.OutNorm, d)
	b.needs(PieceExperts|PieceElements, true)
	b.needs(PieceActivations, s.Act != Activation{Kind: SiLU} || s.Plain)
	return m
}

// gateUp is the first product of expert i.
func (s *ExpertsSpec) gateUp(at string, i, d int, into *Weight) parameter {
	p := parameter{use: Gated, into: into}
	if s.Plain {
		p.use = Linear
	}
	add := func(name string, shape []int, v view, biasShape []int, bias view) {
		p.rows = append(p.rows, stored{at + name, shape, v})
		if s.ExpertBias {
			p.bias = append(p.bias, stored{at + strings.TrimSuffix(name, ".weight") + s.biasSuffix(), biasShape, bias})
		}
	}
	f := s.Inner
	switch s.Layout {
	case OneByOne:
		for _, name := range []string{s.Gate, s.Up} {
			if name != "" {
				add(fmt.Sprintf(name, i)+".weight", []int{f, d}, view{}, []int{f}, view{})
			}
		}
	case StackedApart:
		for _, name := range []string{s.Gate, s.Up} {
			if name != "" {
				add(name, []int{s.Experts, f, d}, view{first: i * f, count: f}, []int{s.Experts, f}, view{first: i, count: 1, vector: true})
			}
		}
	case Stacked, StackedPairs, Transposed, TransposedPairs:
		width := 2 * f
		if s.Plain {
			width = f
		}
		for first := range width / f {
			v, bias := view{first: i*width + first*f, count: f}, view{first: i, count: 1, turned: true, turnFirst: first * f, turnCount: f, vector: true}
			shape := []int{s.Experts, width, d}
			switch s.Layout {
			case StackedPairs:
				v = view{first: i*width + first, count: f, step: 2}
			case Transposed:
				v, shape = view{first: i * d, count: d, turned: true, turnFirst: first * f, turnCount: f}, []int{s.Experts, d, width}
			case TransposedPairs:
				v, shape = view{first: i * d, count: d, turned: true, turnFirst: first, turnCount: f, turnStep: 2}, []int{s.Experts, d, width}
			}
			if s.Layout == StackedPairs || s.Layout == TransposedPairs {
				bias.turnFirst, bias.turnStep = first, 2
			}
			add(s.GateUp, shape, v, []int{s.Experts, width}, bias)
		}
	}
	return p
}

// biasSuffix is what stands behind the name of an expert's tensor in the name of its bias.
func (s *ExpertsSpec) biasSuffix() string {
	if s.Layout == OneByOne {
		return ".bias"
	}
	return "_bias" // gpt-oss
}

// down is the second product of expert i.
func (s *ExpertsSpec) down(at string, i, d int, into *Weight) parameter {
	x := stored{at + s.DownAll, []int{s.Experts, d, s.Inner}, view{first: i * d, count: d}}
	bias := stored{at + strings.TrimSuffix(s.DownAll, ".weight") + s.biasSuffix(), []int{s.Experts, d}, view{first: i, count: 1, vector: true}}
	switch s.Layout {
	case OneByOne:
		name := at + fmt.Sprintf(s.Down, i)
		x, bias = stored{name + ".weight", []int{d, s.Inner}, view{}}, stored{name + ".bias", []int{d}, view{}}
	case Transposed, TransposedPairs:
		x.shape, x.view = []int{s.Experts, s.Inner, d}, view{first: i * s.Inner, count: s.Inner, turned: true}
	}
	p := parameter{use: Linear, rows: []stored{x}, into: into}
	if s.ExpertBias {
		p.bias = []stored{bias}
	}
	return p
}

func (m *mixture) run(p *pass, dst, in, x rows, add bool) {
	if m.fromX {
		in = x
	}
	routed := in
	if m.routerNorm != nil {
		p.normed(m.routed, routed, m.routerNorm)
		routed = m.routed
	}
	p.MatMul(p.of(m.logits), m.router, p.of(routed))
	if m.routerMul != 1 {
		p.Scale(p.of(m.logits), p.of(m.logits), m.routerMul)
	}
	if m.norm != nil {
		p.normed(m.normedIn, in, m.norm)
		in = m.normedIn
	}
	to := dst
	if add || m.outNorm != nil {
		to = m.sum
	}
	if m.latentIn == NoWeight {
		p.Experts(p.of(to), p.of(in), p.of(m.logits), &m.e)
	} else {
		p.MatMul(p.of(m.latent), m.latentIn, p.of(in))
		p.Experts(p.of(m.latentSum), p.of(m.latent), p.of(m.logits), &m.e)
		p.MatMul(p.of(to), m.latentOut, p.of(m.latentSum))
	}
	m.addShared(p, to, in)
	p.normed(to, to, m.outNorm)
	if add {
		p.Add(p.of(dst), p.of(to), 1)
	} else if to != dst {
		p.Scale(p.of(dst), p.of(to), 1)
	}
}

// addShared adds what the shared expert makes of in, after the sum of the others.
func (m *mixture) addShared(p *pass, to, in rows) {
	switch {
	case m.shared == nil:
	case m.sharedGate == NoWeight:
		m.shared.run(p, to, in, in, true)
	default:
		m.shared.run(p, m.sharedOut, in, in, false)
		p.MatMul(p.of(m.gate), m.sharedGate, p.of(in))
		p.Gate(p.of(m.sharedOut), p.of(m.sharedOut), p.of(m.gate), Activation{Kind: Sigmoid})
		p.Add(p.of(to), p.of(m.sharedOut), 1)
	}
}

// perLayer is built of a PerLayer.
type perLayer struct {
	embed, project Weight
	embedScale     float32
	projScale      float32
	sumScale       float32
	norm           Norm
	gates, outs    []Weight
	outNorms       []*Norm
	in             rows // [., L*P] each layer's part
	projected      Act
	mid            rows
	act            Activation
	width          int
}

func newPerLayer(b *builder, s *PerLayer) *perLayer {
	layers := b.c.Layers
	m := &perLayer{embedScale: or1(s.EmbedScale), projScale: or1(s.ProjScale), sumScale: or1(s.SumScale), act: s.Act, width: s.Width,
		gates: make([]Weight, layers), outs: make([]Weight, layers), outNorms: make([]*Norm, layers)}
	all := layers * s.Width
	m.in = b.act("per layer", all, sumBuf)
	m.projected = b.whole("per layer projected", all, sumBuf)
	m.mid = b.act("per layer mid", s.Width, factorBuf)
	b.params = append(b.params, parameter{use: Embedding, rows: []stored{{s.Embed + ".weight", []int{s.Vocab, all}, view{}}}, into: &m.embed})
	b.linear(&m.project, Linear, "", b.c.Hidden, false, part{s.Project, all})
	b.norm(&m.norm, "", s.Norm, s.Width)
	m.norm.Size = s.Width
	for i := range layers {
		at := b.c.Network.Layers[i].At
		b.linear(&m.gates[i], Linear, at, b.c.Hidden, false, part{s.Gate, s.Width})
		b.linear(&m.outs[i], Linear, at, s.Width, false, part{s.Out, b.c.Hidden})
		b.normOf(&m.outNorms[i], at, s.OutNorm, b.c.Hidden)
	}
	b.needs(PieceElements|PieceGroupNorm|PieceActivations, true)
	return m
}

// begin computes the inputs of all layers.
func (m *perLayer) begin(p *pass) {
	p.Scale(p.n.h.all, p.n.x.all, 1)
	p.MatMul(m.projected, m.project, p.n.h.all)
	p.Scale(m.projected, m.projected, m.projScale)
	p.Norm(m.projected, m.projected, m.norm)
	p.Embed(m.in.all, m.embed, m.embedScale)
	p.Add(m.in.all, m.projected, 1)
	p.Scale(m.in.all, m.in.all, m.sumScale)
}

// add adds a layer's part to the residual stream.
func (m *perLayer) add(p *pass, layer int) {
	n := p.n
	p.Scale(p.of(n.h), p.of(n.x), 1)
	m.part(p, layer)
	p.Add(p.of(n.x), p.of(n.y), 1)
}

// part writes a layer's part, which it makes of the decoder's h, to y.
func (m *perLayer) part(p *pass, layer int) {
	n := p.n
	p.MatMul(p.of(m.mid), m.gates[layer], p.of(n.h))
	p.Gate(p.of(m.mid), p.of(m.in).Cols(layer*m.width, m.width), p.of(m.mid), m.act)
	p.MatMul(p.of(n.y), m.outs[layer], p.of(m.mid))
	p.normed(n.y, n.y, m.outNorms[layer])
}

// xielu reads the parameters of XIELU (Huang and Schlag, "Deriving Activation Functions Using
// Integration", 2024), which are stored so that softplus makes them positive.
func (b *builder) xielu(a *Activation, prefix string) {
	for _, p := range []struct {
		name string
		into *float32
	}{{"alpha_p", &a.Alpha}, {"alpha_n", &a.Beta}, {"beta", &a.Limit}, {"eps", &a.UpPlus}} {
		shape := []int{1}
		if p.name == "beta" || p.name == "eps" {
			shape = []int{}
		}
		b.params = append(b.params, parameter{rows: []stored{{prefix + p.name, shape, view{}}}, value: p.into})
	}
	b.after = append(b.after, func() {
		a.Alpha, a.Beta = float32(softplus(float64(a.Alpha))), a.Limit+float32(softplus(float64(a.Beta)))
	})
}

func softplus(x float64) float64 { return math.Log1p(math.Exp(x)) }
