package model

import (
	"fmt"
	"slices"

	"weir/backend"
)

// decoder is a network whose weights are on a device: the pieces that a Network describes.
type decoder struct {
	embed            Weight // [V, D]
	embedScale       float32
	embedNorm        *Norm
	positions, types Weight // [., D], or NoWeight
	firstPos         int
	layers           []layer
	norm             *Norm // before the head
	head             Head
	perLayer         *perLayer
	altUp            *altUp
	x                rows // [., D] the residual stream
	h                rows // [., D] normed input of a part
	y                rows // [., D] what a part gives, where it is not added at once
	part             rows // [., D] what a part of y gives
	side             rows // [., D] normed input of feeds beside mixers, where they have a norm of their own
	scratch          rows // [., D] scratch of a part's last product; h where that is not needed any more
	pass             pass // the one that is queued, kept here because it must not be allocated
	params           []parameter
	after            []func() // to be called when all values are loaded
	shape            Shape
}

type layer struct {
	inNorm, mixNorm, feedNorm, outNorm *Norm
	mixers                             []mixer
	feeds                              []feed
	residual                           float32
	scalar                             float32
	parallel, postNorms                bool
}

// A mixer is built of a Mixer.
type mixer interface {
	// mix queues the operations up to what the output product reads, and returns that. If
	// p.cacheOnly is set it need only do what later steps read.
	mix(p *pass, in rows) rows
	// out queues the output product of m, which mix returned: it writes to dst, or adds to it.
	out(p *pass, dst, m rows, add bool)
}

// A feed is built of a Feed.
type feed interface {
	// run writes what the network makes of in to dst, or adds it. x is the residual stream.
	run(p *pass, dst, in, x rows, add bool)
}

// pass is one forward pass.
type pass struct {
	Device
	n         *decoder
	drawn     bool // only the drawn rows are computed from here on
	cacheOnly bool // nothing is needed but what later steps read
}

// of is the part of r that the pass computes now.
func (p *pass) of(r rows) Act {
	if p.drawn {
		return r.drawn
	}
	return r.all
}

// gather copies the drawn rows of r.
func (p *pass) gather(r rows) { p.Gather(r.drawn, r.all) }

// product writes src·wᵀ to dst or adds it. Not more than dst and scratch may be changed.
func (p *pass) product(dst rows, w Weight, src rows, add bool) {
	if add {
		p.MatMulAdd(p.of(dst), w, p.of(src), p.of(p.n.scratch).Cols(0, dst.all.Width))
		return
	}
	p.MatMul(p.of(dst), w, p.of(src))
}

// scaled is product with a factor on the product, for which y is used.
func (p *pass) scaled(dst rows, w Weight, src rows, add bool, scale float32) {
	switch {
	case scale == 1:
		p.product(dst, w, src, add)
	case !add:
		p.product(dst, w, src, false)
		p.Scale(p.of(dst), p.of(dst), scale)
	default:
		s := p.of(p.n.scratch).Cols(0, dst.all.Width)
		p.MatMul(s, w, p.of(src))
		p.Add(p.of(dst), s, scale)
	}
}

// normed queues a norm, if there is one.
func (p *pass) normed(dst, src rows, n *Norm) {
	if n != nil {
		p.Norm(p.of(dst), p.of(src), *n)
	}
}

// forward queues a step up to the input of the head, which lies in n.h.drawn.
func (n *decoder) forward(d Device, b *backend.Batch) {
	p := &n.pass
	*p = pass{Device: d, n: n}
	p.begin(b)
	for i := range n.layers {
		last := i == len(n.layers)-1
		p.cacheOnly = last && len(b.At) == 0
		n.layers[i].forward(p, i, last)
		if p.cacheOnly {
			d.EndForward() // no row is drawn: the cache is all that the step was for
			return
		}
	}
	if n.altUp != nil {
		n.altUp.end(p)
	}
	if n.norm != nil {
		d.Norm(n.h.drawn, n.x.drawn, *n.norm)
	} else {
		d.Scale(n.h.drawn, n.x.drawn, 1)
	}
	d.EndForward()
}

// begin queues what comes before the layers.
func (p *pass) begin(b *backend.Batch) {
	n := p.n
	p.Begin(b)
	p.Embed(n.x.all, n.embed, n.embedScale)
	if n.positions != NoWeight {
		p.EmbedAdd(n.x.all, n.positions, ByPosition, n.firstPos)
	}
	if n.types != NoWeight {
		p.EmbedAdd(n.x.all, n.types, ByType, 0)
	}
	p.normed(n.x, n.x, n.embedNorm)
	if n.perLayer != nil {
		n.perLayer.begin(p)
	}
	if n.altUp != nil {
		n.altUp.begin(p)
	}
}

// input queues what the mixers or the feeds read.
func (p *pass) input(norm *Norm) rows {
	n := p.n
	if norm == nil {
		p.Scale(p.of(n.h), p.of(n.x), 1)
	} else {
		p.Norm(p.of(n.h), p.of(n.x), *norm)
	}
	return n.h
}

func (l *layer) forward(p *pass, index int, last bool) {
	n := p.n
	if n.altUp != nil {
		n.altUp.layer(p, l, index, last)
		return
	}
	var mids [2]rows
	if len(l.mixers) > 0 {
		in := p.input(l.inNorm)
		for i, m := range l.mixers {
			mids[i] = m.mix(p, in)
		}
	}
	if p.cacheOnly {
		return
	}
	if last {
		// From here on no token sees another, so only the drawn rows are computed.
		p.gather(n.x)
		if l.parallel && l.feedNorm == nil {
			p.gather(n.h)
		}
		for i := range l.mixers {
			p.gather(mids[i])
		}
		if n.perLayer != nil {
			p.gather(n.perLayer.in)
		}
		p.drawn = true
	}
	if l.parallel {
		p.normed(n.side, n.x, l.feedNorm)
	}
	if len(l.mixers) > 0 {
		l.sum(p, l.mixNorm, len(l.mixers), func(i int, dst rows, add bool) { l.mixers[i].out(p, dst, mids[i], add) })
	}
	if len(l.feeds) > 0 {
		in := n.h
		switch {
		case !l.parallel:
			in = p.input(l.feedNorm)
		case l.feedNorm != nil:
			in = n.side
		}
		l.sum(p, l.outNorm, len(l.feeds), func(i int, dst rows, add bool) { l.feeds[i].run(p, dst, in, n.x, add) })
	}
	if n.perLayer != nil {
		n.perLayer.add(p, index)
	}
	if l.scalar != 1 {
		p.Scale(p.of(n.x), p.of(n.x), l.scalar)
	}
}

// sum adds what parts give to the residual stream, at once if nothing is done with it before.
func (l *layer) sum(p *pass, norm *Norm, parts int, part func(i int, dst rows, add bool)) {
	n := p.n
	if (norm == nil || l.postNorms) && l.residual == 1 {
		for i := range parts {
			part(i, n.x, true)
		}
		p.normed(n.x, n.x, norm)
		return
	}
	for i := range parts {
		part(i, n.y, i > 0)
	}
	if !l.postNorms {
		p.normed(n.y, n.y, norm)
	}
	p.Add(p.of(n.x), p.of(n.y), l.residual)
	if l.postNorms {
		p.normed(n.x, n.x, norm)
	}
}

// fill queues a step that writes keys and values, and other states, that the layers make of the
// embeddings alone.
func (n *decoder) fill(d Device, b *backend.Batch) {
	p := &n.pass
	*p = pass{Device: d, n: n, cacheOnly: true}
	p.begin(b)
	for i := range n.layers {
		l := &n.layers[i]
		for _, m := range l.mixers {
			m.mix(p, p.input(l.inNorm))
		}
	}
	d.EndForward()
}

// newDecoder lays out c's network.
func newDecoder(c *Config) *decoder {
	net := &c.Network
	b := &builder{c: c, bufs: map[bufName]int{}, caches: map[int]int{}}
	b.shape.Ropes = slices.Clone(net.Ropes)
	n := &decoder{layers: make([]layer, len(net.Layers)), embedScale: or1(net.EmbedScale), firstPos: net.FirstPos, positions: NoWeight, types: NoWeight,
		head: Head{W: NoWeight, Scale: or1(net.LogitScale), Softcap: net.LogitCap}}
	n.x, n.h = b.act("x", c.Hidden, sumBuf), b.act("h", c.Hidden, factorBuf)
	n.scratch = n.h
	b.needs(PieceElements, n.embedScale != 1)
	b.needs(PieceHead, n.head.Scale != 1 || net.HeadBias)
	b.needs(PieceHead, n.head.Softcap != 0)

	b.params = append(b.params, parameter{use: Embedding, rows: []stored{{c.embedName(), []int{c.VocabSize, c.Hidden}, view{}}}, into: &n.embed})
	n.embeddings(b, net)
	if net.PerLayer.Width > 0 {
		n.perLayer = newPerLayer(b, &net.PerLayer)
	}
	if net.AltUp.Streams > 0 {
		n.altUp = newAltUp(b, n, &net.AltUp)
	}
	for i := range net.Layers {
		b.layer = i
		b.build(n, &n.layers[i], &net.Layers[i])
	}
	if len(b.shape.KV) == 0 {
		// Blocks are what sequences hold, what prefixes are found by and what memory is counted in, also of a network
		// that has no attention. The least head that all devices take stands for it, and nothing reads it.
		const least = 16
		b.cache(KVShape{Heads: 1, KVHeads: 1, KeyDim: least, ValueDim: least}, backend.KVGroup{})
		b.window(0)
	}
	b.normOf(&n.norm, "", net.Final, c.Hidden)
	if net.Head != NoHead {
		p := parameter{use: Linear, rows: []stored{{c.headName(), []int{c.VocabSize, c.Hidden}, view{}}}, into: &n.head.W}
		if net.HeadBias {
			p.bias = []stored{{biasOf(c.headName()), []int{c.VocabSize}, view{}}}
		}
		b.params = append(b.params, p)
	}
	if _, _, uniform := b.shape.Uniform(); !uniform {
		b.needs(PieceHeadSizes, true)
	}
	for _, r := range b.shape.Ropes {
		b.needs(PieceRopeKinds, r.Interleaved || r.Offset != 0)
	}
	n.params, n.shape, n.after = b.params, b.shape, b.after
	return n
}

// embeddings declares what is added to the embeddings of tokens.
func (n *decoder) embeddings(b *builder, net *Network) {
	table := func(into *Weight, name string, size int, piece Pieces) {
		if name != "" {
			b.needs(piece, true)
			b.params = append(b.params, parameter{use: Embedding, rows: []stored{{name + ".weight", []int{size, b.c.Hidden}, view{}}}, into: into})
		}
	}
	table(&n.positions, net.Positions, net.NumPositions, PiecePositions)
	table(&n.types, net.Types, net.NumTypes, PieceEncoder)
	b.normOf(&n.embedNorm, "", net.EmbedNorm, b.c.Hidden)
}

// normOf declares a norm, if there is one.
func (b *builder) normOf(into **Norm, prefix string, s NormSpec, n int) {
	if s.Is() {
		*into = new(Norm)
		b.norm(*into, prefix, s, n)
	}
}

// build makes a layer of its description.
func (b *builder) build(n *decoder, l *layer, s *Layer) {
	l.residual, l.scalar, l.parallel, l.postNorms = or1(s.Residual), 1, s.Parallel, s.PostNorms
	if (s.Parallel || len(s.Feeds) > 1) && n.scratch == n.h {
		n.scratch = b.act("scratch", b.c.Hidden, plainBuf) // h is read again after a product was added
	}
	b.normOf(&l.inNorm, s.At, s.InNorm, b.c.Hidden)
	for _, m := range s.Mixers {
		l.mixers = append(l.mixers, m.mixer(b, s))
	}
	b.normOf(&l.mixNorm, s.At, s.MixNorm, b.c.Hidden)
	b.normOf(&l.feedNorm, s.At, s.FeedNorm, b.c.Hidden)
	if s.Parallel && l.feedNorm != nil {
		n.side = b.act("side", b.c.Hidden, factorBuf)
	}
	for _, f := range s.Feeds {
		l.feeds = append(l.feeds, f.feed(b, s))
	}
	b.normOf(&l.outNorm, s.At, s.OutNorm, b.c.Hidden)
	later := l.residual != 1 || !s.PostNorms && (l.mixNorm != nil || l.outNorm != nil)
	if later || len(s.Mixers) > 1 || len(s.Feeds) > 1 || b.c.Network.PerLayer.Width > 0 {
		n.y = b.act("y", b.c.Hidden, sumBuf)
	}
	if len(s.Feeds) > 1 {
		n.part = b.act("part", b.c.Hidden, sumBuf)
	}
	b.needs(PieceElements, later || s.Scalar != "" || len(s.Mixers) > 0 && l.inNorm == nil || len(s.Feeds) > 0 && l.feedNorm == nil && !s.Parallel)
	if s.Scalar != "" {
		b.params = append(b.params, parameter{rows: []stored{{s.At + s.Scalar, []int{1}, view{}}}, value: &l.scalar})
	}
}

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight" // may be absent where Config.TiedHead
)

// embedName is the name of the embedding's tensor.
func (c *Config) embedName() string {
	if c.Network.Embed != "" {
		return c.Network.Embed + ".weight"
	}
	return embedName
}

// headName is the name of the head's tensor.
func (c *Config) headName() string {
	if c.Network.Head != "" && c.Network.Head != NoHead {
		return c.Network.Head + ".weight"
	}
	return headName
}

func biasOf(weight string) string { return fmt.Sprintf("%sbias", weight[:len(weight)-len("weight")]) }
