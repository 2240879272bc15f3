//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"gorgonia.org/cu"

	"weir/backend"
	"weir/device/cuda/kernels"
	"weir/internal/invariants"
	"weir/model"
)

// step is the forward pass that is being queued: its sizes, and where its input
// lies on the device.
type step struct {
	tokens, rows int // with padding
	input        uint64
	at           inputs
	lists        []lists // by Shape.Windows
	runs         int     // sequences, with padding, of a network with states
	tiles        []tiles // by network.groups
}

// inputs are device addresses of the batch's arrays.
type inputs struct{ tokens, pos, slots, at, tables, live, runs uint64 }

// flight is one step in flight: its slot of pinned memory, and what End needs to
// know about it.
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
	tokens, err := product(sp.MaxTokens+16, 4*4+int(unsafe.Sizeof(kernels.StateRun{})))
	if err != nil {
		return 0, err
	}
	// A decoding token has a merge and items, for each window. A run has tiles, for each way to
	// cut it. Segments of items have counts. Graphs round the number of items up to a power of two.
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
	return tokens + (decode+4096)*int64(len(d.shape.Windows)) + tiles*int64(len(d.groups)) + tables + 4096, nil
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
	d.step.lists, d.step.tiles = make([]lists, len(d.shape.Windows)), make([]tiles, len(d.groups))
	return d.drawing.plan(d)
}

func (s *step) free() error { *s = step{}; return nil }

// slot is the flight of a step.
func (d *Device) slot(number uint32) *flight { return &d.flights[number%2] }

// Begin implements model.Device.
func (d *Device) Begin(b *backend.Batch) {
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

// packBatch writes the batch into the flight's slot. A graph holds addresses in it, so
// if the forward pass is a graph, the layout depends on the graph's key alone. The block
// tables, whose length differs from batch to batch, come last.
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
	s.at.slots = column(b.Slots, s.tokens, -1) // padding has no slot
	s.at.at = column(b.At, s.rows, 0)
	live, at := take[int32](in, 4)
	live[0], live[1], s.at.live = int32(len(b.Tokens)), int32(len(b.At)), s.input+uint64(at)
	if len(d.shape.States) > 0 {
		n := len(b.QueryEnd)
		if decode {
			n = key.rows
		}
		s.packRuns(in, b, n)
	}
	for i, window := range d.shape.Windows {
		items := 0
		if decode {
			items = key.items
		}
		s.lists[i].pack(d, in, b, window, s.rows, items)
	}
	for i := range s.tiles {
		s.tiles[i].pack(d, in, b, d.groups[i])
	}
	s.at.tables = column(b.Tables, len(b.Tables), 0)
}

// act is the address of a view, and its row stride in elements.
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
func (d *Device) Embed(dst model.Act, w model.Weight, scale float32) {
	p := &d.params[w]
	if !(dst.Width == p.k && d.sum(dst)) {
		panic(fmt.Sprintf("cuda: Embed of rows of %d into rows of %d", p.k, dst.Width))
	}
	x, ld := d.act(dst)
	d.launch(embeds[p.as], d.step.tokens, 1, 1, x, p.data, d.step.at.tokens, d.work.drawn, i32(p.k), i32(ld), i32(p.n))
	if scale != 1 {
		d.Scale(dst, dst, scale)
	}
}

// embeds are the kernels that read tables of embeddings.
var embeds = [len(formats)]string{BF16: "embed", Q8: "embed_q8", Q4: "embed_q4"}

// MatMul implements model.Device.
func (d *Device) MatMul(dst model.Act, w model.Weight, src model.Act) {
	p := &d.params[w]
	if !(src.Width == p.k && dst.Width == p.n && !p.gated) {
		panic(fmt.Sprintf("cuda: MatMul of [%d, %d] with rows of %d into rows of %d", p.n, p.k, src.Width, dst.Width))
	}
	epilogue := kernels.StoreBF16
	if d.sum(dst) {
		epilogue = kernels.StoreF32
	}
	if p.use == model.Exact {
		d.exact(dst, p, src)
		return
	}
	d.multiply(dst, w, src, epilogue)
}

// MatMulAdd implements model.Device: the product's epilogue adds, and scratch is
// not used.
func (d *Device) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	p := &d.params[w]
	if !(src.Width == p.k && dst.Width == p.n && scratch.Width == p.n && !p.gated && d.sum(dst)) {
		panic(fmt.Sprintf("cuda: MatMulAdd of [%d, %d] with rows of %d to rows of %d", p.n, p.k, src.Width, dst.Width))
	}
	d.multiply(dst, w, src, kernels.AddF32)
}

// MatMulGate implements model.Device. The gate is the product's epilogue where
// the matrix could be packed for that and the activation is SiLU. Other products go to scratch.
func (d *Device) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	p := &d.params[w]
	if !(src.Width == p.k && scratch.Width == 2*dst.Width && scratch.Width <= p.n && p.use == model.Gated && !d.sum(dst) && !d.sum(scratch)) {
		panic(fmt.Sprintf("cuda: MatMulGate of [%d, %d] with rows of %d into rows of %d", p.n, p.k, src.Width, dst.Width))
	}
	silu := a == model.Activation{Kind: model.SiLU}
	x, ldx := d.factor(src)
	y, ldy := d.act(dst)
	if p.gated && silu {
		d.gemm(p, y, ldy, x, ldx, d.rows(dst), kernels.SwiGLU)
		return
	}
	g, ldg := d.act(scratch)
	if !(scratch.Off+p.n <= ldg) { // parts of whole tiles in turns may be wider
		panic(fmt.Sprintf("cuda: MatMulGate of [%d, %d] with scratch rows of %d", p.n, p.k, ldg))
	}
	d.gemm(p, g, ldg, x, ldx, d.rows(dst), kernels.StoreBF16)
	if !silu {
		apart := dst.Width
		if p.gated {
			apart = 0
		}
		d.launch("act_gate", d.rows(dst), cdiv(dst.Width, elementCols), 1, y, g, i32(dst.Width), i32(ldg), i32(ldy), i32(apart),
			i32(int(a.Kind)), f32(a.Alpha), f32(a.Beta), f32(a.Limit), f32(a.UpPlus))
		return
	}
	d.launch("silu_gate", d.rows(dst), cdiv(dst.Width, 2048), 1, y, g, i32(dst.Width), i32(ldg), i32(ldy))
}

// multiply queues a product of activations.
func (d *Device) multiply(dst model.Act, w model.Weight, src model.Act, epilogue int) {
	y, ldy := d.act(dst)
	x, ldx := d.factor(src)
	if !d.tiled(dst) {
		d.multiplyAside(dst, &d.params[w], x, ldx, epilogue)
		return
	}
	d.gemm(&d.params[w], y, ldy, x, ldx, d.rows(dst), epilogue)
}

// tiled reports whether a product can write whole tiles of columns to a view, as it does: there are no
// other columns behind it, or whole tiles of its own.
func (d *Device) tiled(a model.Act) bool {
	b := &d.acts[a.Buf]
	return d.work.roundedLD == 0 || a.Off%actAlign == 0 && (a.Width%actAlign == 0 || a.Off+a.Width == b.width)
}

// asideBytes is the memory for products that are not written in place.
const asideBytes = 16 << 20

// multiplyAside computes a product in scratch memory, as many rows at a time as fit, and copies or adds its columns, with
// the bits that it has in place.
func (d *Device) multiplyAside(dst model.Act, p *param, x uint64, ldx, epilogue int) {
	y, ldy := d.act(dst)
	ld := int(roundUp(int64(dst.Width), actAlign))
	op := elementsScale
	if epilogue == kernels.AddF32 {
		op = elementsAdd
	}
	total, size, aside := d.rows(dst), d.acts[dst.Buf].size(), d.work.aside
	step := asideBytes / (4 * ld)
	for first := 0; first < total; first += step {
		n := min(step, total-first)
		d.gemm(p, aside, ld, x+uint64(first*ldx*2), ldx, n, kernels.StoreF32)
		d.launch("elements", n, cdiv(dst.Width, elementCols), 1, y+uint64(first*ldy*size), aside, aside, i32(op), i32(dst.Width), i32(1), i32(ldy), i32(ld), i32(ld),
			i32(d.wide(dst, wideDst)|wideSrc), f32(1), i32(0), f32(0), f32(0), f32(0), f32(0))
	}
}

// Gather implements model.Device. Whole rows are copied, with the zeros at their end.
func (d *Device) Gather(dst, src model.Act) {
	if !(dst.Width == src.Width && d.sum(dst) == d.sum(src) && dst.Off == 0 && src.Off == 0) {
		panic(fmt.Sprintf("cuda: Gather of rows of %d into rows of %d", src.Width, dst.Width))
	}
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	size := d.acts[dst.Buf].size()
	d.launch("gather", d.step.rows, 1, 1, y, x, d.step.at.at, i32(ldy*size), uint64(ldy*size), uint64(ldx*size))
}
