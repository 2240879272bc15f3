//go:build cuda && linux && amd64

package cuda

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/model"
)

// activation is one buffer, [rows, ld] elements of which width are used; the
// rest of a row is zero.
type activation struct {
	ptr       uint64
	width, ld int
	model.ActShape
}

func (a *activation) size() int {
	if a.Sum {
		return 4
	}
	return 2
}

const (
	// drawRows is the most rows whose logits exist at a time.
	drawRows = 256
	// partBytes bounds the partial results of attention that exist at a time. A step
	// with more is computed in several turns. Those of one token always fit.
	partBytes = 256 << 20
	// actAlign is the multiple of elements that rows of activations are apart.
	actAlign = 64
)

// workspace is scratch memory of the kernels.
type workspace struct {
	gemm, counters  uint64 // of the few-row products
	parts           uint64 // of attention
	slots           int    // partial results that fit
	comers          uint64 // counters of attn_whole, zero between launches
	logits, z, near uint64 // [rows, ld] float32
	rows, ld        int
	drawn           uint64 // [MaxTokens] int32: what the newest step drew
	rounded         uint64 // [MaxTokens, roundedLD] bf16: what products read of float32 rows
	roundedLD       int
	aside           uint64 // asideBytes: see multiplyAside
	mix             mixtures
	states          states
}

// cache is the KV pool, [block][cache]{K, V}.
type cache struct {
	base        uint64
	blockStride int // elements
	blocks      int
}

// rope has the rotations of all positions: [MaxSeqTokens, half, 2] float32.
type rope struct {
	table  uint64
	half   int
	offset int // the first dimension that turns
}

// checkShape compares s with the contract and with what the kernels are compiled for.
func checkShape(s model.Shape) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := Refuses(s); err != nil {
		return err
	}
	for _, kv := range s.KV {
		if err := checkHeads(kv); err != nil {
			return err
		}
	}
	if len(s.Windows) == 0 {
		return fmt.Errorf("%w: no attention window is named", ErrConfig)
	}
	for i, a := range s.Acts {
		if a.Width%2 != 0 && a.Factor && !a.Sum {
			return fmt.Errorf("%w: activation buffer %d has %d columns, but their number must be even where products read bfloat16", ErrConfig, i, a.Width)
		}
	}
	return checkExperts(s.Experts)
}

// computed are the pieces that there are kernels for.
const computed = model.PieceLayerNorm | model.PieceGroupNorm | model.PieceActivations | model.PieceElements | model.PieceHead |
	model.PieceRopeKinds | model.PieceHeadNorms | model.PieceExperts | model.PieceDelta | model.PieceScan | model.PieceConv |
	model.PieceSinks | model.PieceSoftcap | model.PieceChunks | model.PieceTemper | model.PieceHeadSizes | model.PieceSharedKV

// Refuses is the error of Plan for a network with pieces that the kernels do not compute; nil: it
// has none.
func Refuses(s model.Shape) error {
	if p := s.Pieces &^ computed; p != 0 {
		return fmt.Errorf("%w: this network has %s, which a GPU does not compute yet", ErrConfig, p)
	}
	return nil
}

// Plan implements model.Device.
func (d *Device) Plan(s model.Shape) error {
	if len(d.heads) > 0 {
		return fmt.Errorf("%w: Plan was called before", ErrConfig)
	}
	if err := checkShape(s); err != nil {
		return err
	}
	d.shape = s
	d.planHeads()
	sp := s.Spec

	d.work.ld = int(roundUp(int64(sp.VocabSize), actAlign))
	d.work.rows = min(drawRows, sp.MaxTokens)
	perToken := maxParts(sp.MaxSeqTokens)
	slot, comers := 0, 0
	for _, kv := range s.KV {
		slot = max(slot, kernels.PartFloats(kv.Heads, kv.ValueDim)*4)
		comers = max(comers, kv.KVHeads*cdiv(kv.Heads/kv.KVHeads, kernels.GroupRows))
	}
	d.work.slots = max(perToken, min(partBytes/slot, sp.MaxSeqs*perToken))

	if s.Pieces != 0 { // products may read the residual stream, or views that are not aligned
		for _, a := range s.Acts {
			d.work.roundedLD = max(d.work.roundedLD, int(roundUp(int64(a.Width), actAlign)))
		}
	}

	// One allocation for all, so the sizes come first.
	var parts []part
	want := func(at *uint64, factors ...int) error {
		n, err := product(factors...)
		parts = append(parts, part{at, roundUp(max(n, 1), align)})
		return err
	}
	d.acts = make([]activation, len(s.Acts))
	for i, a := range s.Acts {
		b := &d.acts[i]
		*b = activation{width: a.Width, ld: int(roundUp(int64(a.Width), actAlign)), ActShape: a}
		if err := want(&b.ptr, sp.MaxTokens, b.ld, b.size()); err != nil {
			return err
		}
	}
	d.ropes = make([]rope, len(s.Ropes))
	for i, r := range s.Ropes {
		d.ropes[i].half, d.ropes[i].offset = len(r.InvFreq), r.Offset
		if err := want(&d.ropes[i].table, sp.MaxSeqTokens, max(len(r.InvFreq), 1), 2, 4); err != nil {
			return err
		}
	}
	for _, p := range slices.Concat([]sized{
		{&d.work.parts, []int{d.work.slots, slot}},
		{&d.work.comers, []int{sp.MaxTokens, comers, 4}},
		{&d.work.logits, []int{d.work.rows, d.work.ld, 4}},
		{&d.work.z, []int{d.work.rows, d.work.ld, 4}},
		{&d.work.near, []int{d.work.rows, d.work.ld, 4}},
		{&d.work.drawn, []int{sp.MaxTokens, 4}},
		{&d.work.rounded, []int{sp.MaxTokens, d.work.roundedLD, 2}},
		{&d.work.aside, []int{asideBytes * flag(s.Pieces != 0)}},
	}, d.work.mix.plan(s), d.work.states.plan(s)) {
		if err := want(p.at, p.size...); err != nil {
			return err
		}
	}
	if err := d.lay(parts); err != nil {
		return err
	}
	for i, r := range s.Ropes {
		if err := d.fillRope(&d.ropes[i], r); err != nil {
			return err
		}
	}
	if err := d.planStep(); err != nil {
		return err
	}
	return d.ResizeKV(sp.NumBlocks)
}

// part is a piece of memory and where its address goes.
type part struct {
	at   *uint64
	size int64
}

// lay allocates parts in one piece and fills it with zeros, because the columns after
// an activation's width have to be zero.
func (d *Device) lay(parts []part) error {
	total := int64(0)
	for _, p := range parts {
		total += p.size
	}
	if err := d.mem.reserve(total); err != nil {
		return err
	}
	for _, p := range parts {
		var err error
		if *p.at, err = d.mem.bytes(p.size); err != nil {
			return err
		}
	}
	return d.zero(*parts[0].at, total)
}

func (d *Device) zero(p uint64, n int64) error {
	if err := cu.MemsetD8Async(cu.DevicePtr(p), 0, n, d.run.stream); err != nil {
		return deviceError("clear memory", err)
	}
	return nil
}

// fillRope rounds the angle to float32 before its sine, as device/cpu does.
func (d *Device) fillRope(r *rope, table model.Rope) error {
	t := make([]float32, d.shape.Spec.MaxSeqTokens*r.half*2)
	for i := 0; i < len(t); i += 2 {
		pos, f := float32(i/2/r.half), table.InvFreq[i/2%r.half]
		sin, cos := math.Sincos(float64(float32(pos * f)))
		t[i], t[i+1] = float32(cos)*table.Scale, float32(sin)*table.Scale
	}
	return d.upload(r.table, of(t))
}

// ResizeKV implements model.Resizer.
func (d *Device) ResizeKV(numBlocks int) error {
	if err := d.run.stream.Synchronize(); err != nil {
		return deviceError("wait for the device", err)
	}
	d.graphs.close() // they hold the old addresses
	if err := d.pool.close(); err != nil {
		return deviceError("free the KV pool", err)
	}
	elements := 0
	for _, h := range d.heads {
		elements += kernels.KVBlock(h.KVHeads, h.KeyDim, h.ValueDim, d.shape.Spec.BlockTokens)
	}
	size, err := product(numBlocks, elements, 2)
	if err != nil {
		return err
	}
	if err := d.pool.reserve(size); err != nil {
		return fmt.Errorf("%w (KV cache of %d blocks)", err, numBlocks)
	}
	base, err := d.pool.bytes(size)
	if err != nil {
		return err
	}
	d.cache = cache{base: base, blockStride: elements, blocks: numBlocks}
	d.shape.Spec.NumBlocks = numBlocks
	// A sum also multiplies the values of positions that are not seen, by 0, and a NaN
	// there would spoil it.
	return d.zero(base, size)
}

// BlockBytes is the size of one KV block of a model of this shape.
func BlockBytes(s model.Shape) int64 {
	n := int64(0)
	for _, kv := range s.KV {
		n += 2 * int64(kernels.KVBlock(kv.KVHeads, kv.KeyDim, kv.ValueDim, s.Spec.BlockTokens))
	}
	return n
}

// maxParts is the number of partial results of attention that one token of a
// sequence of n tokens can have.
func maxParts(n int) int { return cdiv(n, kernels.PartTokens) }

// upload copies Go memory to the device and waits.
func (d *Device) upload(to uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := d.run.stream.Synchronize(); err != nil { // the memory may still be being cleared
		return deviceError("wait for the device", err)
	}
	if err := cu.MemcpyHtoD(cu.DevicePtr(to), unsafe.Pointer(unsafe.SliceData(b)), int64(len(b))); err != nil {
		return deviceError("copy to the device", err)
	}
	return nil
}
