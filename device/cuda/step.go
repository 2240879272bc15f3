//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/cu"

	"weir/backend"
	"weir/device/cuda/kernels"
	"weir/internal/invariants"
	"weir/model"
)

// step is the forward pass that is being queued: its sizes, where its input
// lies on the device, and operations that wait for the next one, with which
// they may be one kernel.
type step struct {
	tokens, rows int // with padding
	input        uint64
	at           inputs
	lists        []lists // by Shape.Windows

	product struct { // MatMul, perhaps with an Add or a Gate to come
		dst, src model.Act
		w        model.Weight
		waits    bool
	}
	heads struct { // Norm of heads in place, Rope to come
		act   [2]model.Act
		w     [2]model.Weight
		eps   float32
		waits int
	}
	turn struct { // Rope, StoreKV to come
		q, k  model.Act
		table int
		waits bool
	}
}

// inputs are device addresses of the batch's arrays.
type inputs struct{ tokens, pos, slots, at, tables uint64 }

// flight is one step in flight: its slot of pinned memory and what End has to
// know of it.
type flight struct {
	number uint32
	input  pinned // the batch
	draws  pinned // rows, edits, masks
	out    pinned // results, then top tokens
	host   pinned // logits of rows that the host wants
	flag   pinned // the number of the newest step that has ended
	state  drawn
}

func (f *flight) free() error {
	var err error
	for _, p := range []*pinned{&f.input, &f.draws, &f.out, &f.host, &f.flag} {
		if len(p.mem) > 0 {
			err = errors.Join(err, p.free())
		}
	}
	return err
}

// inputBytes bounds the packed input of a step.
func (d *Device) inputBytes() (int64, error) {
	sp := d.shape.Spec
	tokens, err := product(sp.MaxTokens+16, 4*4)
	if err != nil {
		return 0, err
	}
	// A decoding token has a merge and items, a run has tiles; segments of items
	// have counts. Graphs round the number of items up to a power of two.
	perSeq := 2*maxParts(sp.MaxSeqTokens) + 2
	decode, err := product(min(sp.MaxSeqs, sp.MaxTokens)+16, perSeq, 16)
	if err != nil {
		return 0, err
	}
	tiles, err := product(sp.MaxTokens+sp.MaxSeqs, 16)
	if err != nil {
		return 0, err
	}
	tables, err := product(sp.MaxSeqs+16, cdiv(sp.MaxSeqTokens, sp.BlockTokens)+1, 4)
	if err != nil {
		return 0, err
	}
	return tokens + (decode+tiles+4096)*int64(len(d.shape.Windows)) + tables + 4096, nil
}

// planStep allocates what Begin, Draw and End use.
func (d *Device) planStep() error {
	n, err := d.inputBytes()
	if err != nil {
		return err
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("%w: a step of %d sequences of %d tokens needs %d MiB of block tables", ErrConfig, d.shape.Spec.MaxSeqs, d.shape.Spec.MaxSeqTokens, n>>20)
	}
	if d.step.input, err = d.mem.bytes(n); err != nil {
		return err
	}
	for i := range d.flights {
		f := &d.flights[i]
		if f.input, err = newPinned(int(n)); err != nil {
			return err
		}
		if f.flag, err = newPinned(4); err != nil {
			return err
		}
	}
	d.step.lists = make([]lists, len(d.shape.Windows))
	return d.drawing.plan(d)
}

func (s *step) free() error { *s = step{}; return nil }

// slot is the flight of a step.
func (d *Device) slot(number uint32) *flight { return &d.flights[number%2] }

// Begin implements model.Device.
func (d *Device) Begin(b *backend.Batch) {
	d.finish() // of the step before: it has been queued by now
	if !d.sealed && d.err == nil {
		if err := d.seal(); err != nil {
			d.fail(err)
		}
	}
	if invariants.Enabled {
		inFlight := d.steps.begun - d.steps.ended
		invariants.Check(inFlight < uint32(d.shape.Spec.Depth), "%d steps in flight", inFlight)
		invariants.NoError(b.Check(d.shape.Spec, d.slot(d.steps.begun).state.rows))
	}
	d.steps.begun++
	f := d.slot(d.steps.begun)
	f.number = d.steps.begun
	f.state.reset(len(b.At))
	s := &d.step
	s.product.waits, s.heads.waits, s.turn.waits = false, 0, false
	if d.err != nil {
		return
	}
	key, decode := d.bucket(b)
	s.tokens, s.rows = len(b.Tokens), len(b.At)
	if decode {
		s.tokens, s.rows = key.rows, key.rows
	}
	d.packBatch(f, b, key, decode)
	if err := cu.MemcpyHtoDAsync(cu.DevicePtr(s.input), f.input.pointer(), int64(f.input.n), d.run.stream); err != nil {
		d.fail(deviceError("copy the batch", err))
		return
	}
	if decode {
		if err := d.graphs.start(d, key); err != nil {
			d.fail(err)
		}
	}
}

// packBatch writes the batch into the flight's slot. Its layout depends on nothing
// but the key where the forward pass is a graph, which holds its addresses; so
// the block tables, whose length is their own, come last.
func (d *Device) packBatch(f *flight, b *backend.Batch, key graphKey, decode bool) {
	s, in := &d.step, &f.input
	in.n = 0
	column := func(values []int32, n int, pad int32) uint64 {
		to, at := take[int32](in, n)
		copy(to, values)
		for i := len(values); i < n; i++ {
			to[i] = pad
		}
		return s.input + uint64(at)
	}
	s.at.tokens = column(b.Tokens, s.tokens, 0)
	s.at.pos = column(b.Pos, s.tokens, 0)
	s.at.slots = column(b.Slots, s.tokens, -1) // padding is stored nowhere
	s.at.at = column(b.At, s.rows, 0)
	for i, window := range d.shape.Windows {
		items := 0
		if decode {
			items = key.items
		}
		s.lists[i].pack(d, in, b, window, s.rows, items)
	}
	s.at.tables = column(b.Tables, len(b.Tables), 0)
}

// act is a view's address, and the row stride in elements.
func (d *Device) act(a model.Act) (ptr uint64, ld int) {
	b := &d.acts[a.Buf]
	if a.Off < 0 || a.Width <= 0 || a.Off+a.Width > b.width {
		panic(fmt.Sprintf("cuda: columns [%d, %d) of an activation that has %d", a.Off, a.Off+a.Width, b.width))
	}
	return b.ptr + uint64(a.Off*b.size()), b.ld
}

func (d *Device) rows(a model.Act) int {
	if d.acts[a.Buf].Drawn {
		return d.step.rows
	}
	return d.step.tokens
}

func (d *Device) sum(a model.Act) bool { return d.acts[a.Buf].Sum }

// Embed implements model.Device.
func (d *Device) Embed(dst model.Act, w model.Weight) {
	p := &d.params[w]
	if !(dst.Width == p.k && d.sum(dst)) {
		panic(fmt.Sprintf("cuda: Embed of rows of %d into rows of %d", p.k, dst.Width))
	}
	x, ld := d.act(dst)
	d.launch("embed", d.step.tokens, 1, 1, x, p.data, d.step.at.tokens, d.work.drawn, i32(p.k), i32(ld), i32(p.n))
}

// Norm implements model.Device. The norms of heads in place wait for the
// rotation that follows them.
func (d *Device) Norm(dst, src model.Act, w model.Weight, eps float32) {
	p := &d.params[w]
	if !(dst.Width == src.Width && dst.Width%p.n == 0 && !d.sum(dst)) {
		panic(fmt.Sprintf("cuda: Norm of rows of %d into rows of %d by groups of %d", src.Width, dst.Width, p.n))
	}
	d.flushProduct()
	if d.sum(src) {
		if !(dst.Width == p.n) {
			panic("cuda: Norm of heads of the residual stream")
		}
		d.flush()
		x, ldx := d.act(src)
		y, ldy := d.act(dst)
		d.launch("rmsnorm", d.rows(dst), 1, 1, y, x, p.data, i32(p.n), i32(ldx), i32(ldy), f32(eps))
		return
	}
	if h := &d.step.heads; dst == src && h.waits < 2 && !d.step.turn.waits && (h.waits == 0 || h.eps == eps) {
		h.act[h.waits], h.w[h.waits], h.eps = dst, w, eps
		h.waits++
		return
	}
	d.flush()
	d.normHeads(dst, src, w, eps)
}

func (d *Device) normHeads(dst, src model.Act, w model.Weight, eps float32) {
	p := &d.params[w]
	x, ldx := d.act(src)
	y, ldy := d.act(dst)
	heads := dst.Width / p.n
	d.launch("norm_heads", d.rows(dst), cdiv(heads, 4), 1, y, x, p.data, i32(heads), i32(p.n), i32(ldx), i32(ldy), f32(eps))
}

// MatMul implements model.Device. It waits for what comes next: an Add of the
// product becomes part of it, and so does a Gate.
func (d *Device) MatMul(dst model.Act, w model.Weight, src model.Act) {
	p := &d.params[w]
	if !(src.Width == p.k && (dst.Width == p.n || p.gated && dst.Width <= p.n) && !d.sum(src)) {
		panic(fmt.Sprintf("cuda: MatMul of [%d, %d] with rows of %d into rows of %d", p.n, p.k, src.Width, dst.Width))
	}
	d.flush()
	m := &d.step.product
	m.dst, m.src, m.w, m.waits = dst, src, w, true
}

// Add implements model.Device.
func (d *Device) Add(dst, src model.Act) {
	if !(dst.Width == src.Width && d.sum(dst) && !d.sum(src)) {
		panic(fmt.Sprintf("cuda: Add of rows of %d to rows of %d", src.Width, dst.Width))
	}
	if m := &d.step.product; m.waits && m.dst == src {
		m.waits = false
		d.multiply(dst, m.src, m.w, kernels.AddF32)
		return
	}
	d.flush()
	x, ldx := d.act(dst)
	h, ldh := d.act(src)
	d.launch("add", d.rows(dst), 1, 1, x, h, i32(dst.Width), i32(ldx), i32(ldh))
}

// multiply queues a product of activations.
func (d *Device) multiply(dst, src model.Act, w model.Weight, epilogue int) {
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	if epilogue == kernels.StoreBF16 && d.sum(dst) {
		epilogue = kernels.StoreF32
	}
	d.gemm(&d.params[w], y, ldy, x, ldx, d.rows(dst), epilogue)
}

// Rope implements model.Device. It waits for StoreKV.
func (d *Device) Rope(q, k model.Act, table int) {
	if !(q.Width%d.shape.HeadDim == 0 && k.Width%d.shape.HeadDim == 0) {
		panic(fmt.Sprintf("cuda: Rope of rows of %d and %d with heads of %d", q.Width, k.Width, d.shape.HeadDim))
	}
	d.flushProduct()
	if d.step.turn.waits {
		panic("cuda: Rope twice before StoreKV")
	}
	t := &d.step.turn
	t.q, t.k, t.table, t.waits = q, k, table, true
}

// StoreKV implements model.Device: norm of the heads, rotation and store are
// one kernel.
func (d *Device) StoreKV(layer int, k, v model.Act) {
	width := d.shape.KVHeads * d.shape.HeadDim
	if !(k.Width == width && v.Width == width && k.Buf == v.Buf && layer >= 0 && layer < d.shape.Layers) {
		panic(fmt.Sprintf("cuda: StoreKV of rows of %d and %d in layer %d", k.Width, v.Width, layer))
	}
	d.flushProduct()
	s := &d.step
	q, heads, half, table := k, 0, 0, d.ropes[0].table
	if s.turn.waits {
		if !(s.turn.k == k && s.turn.q.Buf == k.Buf) {
			panic("cuda: StoreKV of other keys than Rope's")
		}
		q, heads = s.turn.q, s.turn.q.Width/d.shape.HeadDim
		half, table = d.ropes[s.turn.table].half, d.ropes[s.turn.table].table
		s.turn.waits = false
	}
	var qw, kw uint64
	for i := range s.heads.waits {
		p := &d.params[s.heads.w[i]]
		switch {
		case s.heads.act[i] == k && p.n == d.shape.HeadDim && kw == 0:
			kw = p.data
		case s.heads.act[i] == q && p.n == d.shape.HeadDim && qw == 0 && heads > 0:
			qw = p.data
		default:
			panic("cuda: Norm in place of what is not rotated next")
		}
	}
	s.heads.waits = 0
	qp, ld := d.act(q)
	kp, _ := d.act(k)
	vp, _ := d.act(v)
	d.launch("rope_kv", s.tokens, cdiv(heads+2*d.shape.KVHeads, 4), 1, qp, kp, vp, d.cache.base+uint64(layer*d.cache.layer), table, s.at.pos, s.at.slots, qw, kw,
		i32(heads), i32(d.shape.KVHeads), i32(d.shape.HeadDim), i32(half), i32(ld), i32(d.shape.Spec.BlockTokens), uint64(d.cache.blockStride), f32(s.heads.eps))
}

// Gate implements model.Device. Where the product's matrix was packed for it, it
// is the product's epilogue.
func (d *Device) Gate(dst, gateUp model.Act) {
	if !(gateUp.Width == 2*dst.Width && !d.sum(dst) && !d.sum(gateUp)) {
		panic(fmt.Sprintf("cuda: Gate of rows of %d into rows of %d", gateUp.Width, dst.Width))
	}
	if m := &d.step.product; m.waits && m.dst == gateUp && d.params[m.w].gated {
		m.waits = false
		d.multiply(dst, m.src, m.w, kernels.SwiGLU)
		return
	}
	d.flush()
	y, ldy := d.act(dst)
	g, ldg := d.act(gateUp)
	d.launch("silu_gate", d.rows(dst), cdiv(dst.Width, 2048), 1, y, g, i32(dst.Width), i32(ldg), i32(ldy))
}

// Gather implements model.Device. Whole rows are copied, with the zeros behind
// them.
func (d *Device) Gather(dst, src model.Act) {
	if !(dst.Width == src.Width && d.sum(dst) == d.sum(src) && dst.Off == 0 && src.Off == 0) {
		panic(fmt.Sprintf("cuda: Gather of rows of %d into rows of %d", src.Width, dst.Width))
	}
	d.flush()
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	size := d.acts[dst.Buf].size()
	d.launch("gather", d.step.rows, 1, 1, y, x, d.step.at.at, i32(ldy*size), uint64(ldy*size), uint64(ldx*size))
}

func (d *Device) flushProduct() {
	if m := &d.step.product; m.waits {
		m.waits = false
		if d.params[m.w].gated {
			panic("cuda: a gated product without Gate")
		}
		d.multiply(m.dst, m.src, m.w, kernels.StoreBF16)
	}
}

// flush queues what waits.
func (d *Device) flush() {
	d.flushProduct()
	if d.step.turn.waits {
		panic("cuda: Rope without StoreKV: keys are rotated on their way to the cache")
	}
	h := &d.step.heads
	for i := range h.waits {
		d.normHeads(h.act[i], h.act[i], h.w[i], h.eps)
	}
	h.waits = 0
}
