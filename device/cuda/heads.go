//go:build cuda && linux && amd64

package cuda

import (
	"fmt"
	"slices"

	"weir/device/cuda/kernels"
	"weir/model"
)

// heads is a cache of keys and values with the kernels for the sizes of its heads.
type heads struct {
	model.KVShape
	at    uint64 // bytes from the start of a block to this cache's part of it
	tiles int    // of step.tiles

	plain *attention // reads caches whose keys and values have one size of up to 128, and knows windows alone; or nil
	more  attention  // has everything else, too
}

// attention names kernels.
type attention struct{ prefill, decode, whole, merge string }

var (
	plain64  = &attention{"attn_prefill_d64", "attn_decode_d64", "attn_whole_d64", "attn_merge"}
	plain128 = &attention{"attn_prefill_d128", "attn_decode_d128", "attn_whole_d128", "attn_merge"}
)

// checkHeads refuses heads that there is no kernel for.
func checkHeads(kv model.KVShape) error {
	if kernels.SizeOf(kv.KeyDim, kv.ValueDim) == nil || kv.KeyDim%2 != 0 || kv.ValueDim%2 != 0 {
		most := kernels.HeadSizes[len(kernels.HeadSizes)-1]
		return fmt.Errorf("%w: the head sizes %d of keys and %d of values are not even numbers up to %d and %d", ErrConfig, kv.KeyDim, kv.ValueDim, most.KeyDim, most.ValueDim)
	}
	return nil
}

// planHeads lays the caches out within a block and chooses their kernels.
func (d *Device) planHeads() {
	at := uint64(0)
	for _, kv := range d.shape.KV {
		group := kv.Heads / kv.KVHeads
		size, tokens := kernels.SizeOf(kv.KeyDim, kv.ValueDim).KeyDim, kernels.TileTokens(kv.KeyDim, kv.ValueDim, group)
		h := heads{KVShape: kv, at: at, tiles: slices.Index(d.groups, tokens), more: attention{fmt.Sprintf("attn_prefill_x%d", size), fmt.Sprintf("attn_decode_x%d", size),
			fmt.Sprintf("attn_whole_x%d", size), "attn_merge_x"}}
		switch {
		case kv.KeyDim != kv.ValueDim || size > 128 || group > kernels.QueryRows:
		case size == 64:
			h.plain = plain64
		default:
			h.plain = plain128
		}
		if h.tiles < 0 {
			h.tiles = len(d.groups)
			d.groups = append(d.groups, tokens)
		}
		at += 2 * uint64(kernels.KVBlock(kv.KVHeads, kv.KeyDim, kv.ValueDim, d.shape.Spec.BlockTokens))
		d.heads = append(d.heads, h)
	}
}

// of is the number of heads that a layer which reads the cache has, in queries of a width.
func (h *heads) of(width int) int {
	n := width / h.KeyDim
	if !(n*h.KeyDim == width && n > 0 && n <= h.Heads && n%h.KVHeads == 0) {
		panic(fmt.Sprintf("cuda: queries of %d for %d KV heads of %d, %d heads at most", width, h.KVHeads, h.KeyDim, h.Heads))
	}
	return n
}

// Attend implements model.Device.
func (d *Device) Attend(dst, q model.Act, kv int, a model.Attention) {
	h := &d.heads[kv]
	n := h.of(q.Width)
	if !(dst.Width == n*h.ValueDim && !a.Bidirectional) {
		panic(fmt.Sprintf("cuda: Attend of rows of %d into rows of %d, in both directions: %v", q.Width, dst.Width, a.Bidirectional))
	}
	var l *lists
	for i := range d.step.lists {
		if d.step.lists[i].window == a.Window {
			l = &d.step.lists[i]
		}
	}
	if !(l != nil) {
		panic(fmt.Sprintf("cuda: a window of %d that the shape does not name", a.Window))
	}
	if h.plain != nil && a.Chunk == 0 && a.Softcap == 0 && a.Sinks == model.NoWeight {
		d.attendPlain(dst, q, h, n, l, a)
		return
	}
	d.attendMore(dst, q, h, n, l, a)
}

// attendPlain is for layers that the kernels of attn.cu suit.
func (d *Device) attendPlain(dst, q model.Act, h *heads, n int, l *lists, a model.Attention) {
	out, ldo := d.act(dst)
	in, ldq := d.act(q)
	kv := d.cache.base + h.at
	heads, kvHeads, dim, block, stride := i32(n), i32(h.KVHeads), i32(h.KeyDim), i32(d.shape.Spec.BlockTokens), uint64(d.cache.blockStride)
	if t := &d.step.tiles[h.tiles]; len(t.list) > 0 {
		d.launch(h.plain.prefill, len(t.list), h.KVHeads, 1, out, in, kv, t.at, d.step.at.tables, d.step.at.pos,
			i32(ldo), i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
	}
	groups := cdiv(n/h.KVHeads, kernels.GroupRows)
	for i := range l.segments {
		s := &l.segments[i]
		if !l.apart {
			d.launch(h.plain.whole, s.numItems, h.KVHeads, groups, out, i32(ldo), d.work.comers, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos,
				i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
			continue
		}
		d.launch(h.plain.decode, s.numItems, h.KVHeads, groups, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos,
			i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
		d.launch(h.plain.merge, s.numMerges, n, 1, out, d.work.parts, s.merges, s.counts+4, i32(ldo), heads, dim, f32(a.Scale))
	}
}

// attendMore is for all others, with those of attnx.cu.
func (d *Device) attendMore(dst, q model.Act, h *heads, n int, l *lists, a model.Attention) {
	out, ldo := d.act(dst)
	in, ldq := d.act(q)
	kv, block, stride, sinks := d.cache.base+h.at, i32(d.shape.Spec.BlockTokens), uint64(d.cache.blockStride), uint64(0)
	if a.Sinks != model.NoWeight {
		p := &d.params[a.Sinks]
		if !(p.n == n) {
			panic(fmt.Sprintf("cuda: Attend of %d heads with %d sinks", n, p.n))
		}
		sinks = p.data
	}
	heads, kvHeads, key, value, window, chunk, scale, bound := i32(n), i32(h.KVHeads), i32(h.KeyDim), i32(h.ValueDim), i32(a.Window), i32(a.Chunk), f32(a.Scale), f32(a.Softcap)
	if t := &d.step.tiles[h.tiles]; len(t.list) > 0 {
		rows := kernels.SizeOf(h.KeyDim, h.ValueDim).Rows
		d.launch(h.more.prefill, len(t.list), h.KVHeads, cdiv(n/h.KVHeads, rows), out, in, kv, t.at, d.step.at.tables, d.step.at.pos, i32(ldo), i32(ldq), block, stride,
			heads, kvHeads, key, value, window, chunk, scale, bound, sinks)
	}
	groups := cdiv(n/h.KVHeads, kernels.GroupRows)
	for i := range l.segments {
		s := &l.segments[i]
		if !l.apart {
			d.launch(h.more.whole, s.numItems, h.KVHeads, groups, out, i32(ldo), d.work.comers, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos, i32(ldq), block, stride,
				heads, kvHeads, key, value, window, chunk, scale, bound, sinks)
			continue
		}
		d.launch(h.more.decode, s.numItems, h.KVHeads, groups, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos, i32(ldq), block, stride,
			heads, kvHeads, key, value, window, chunk, scale, bound, sinks)
		d.launch(h.more.merge, s.numMerges, n, 1, out, d.work.parts, s.merges, s.counts+4, d.step.at.pos, i32(ldo), heads, kvHeads, key, value, window, chunk, scale, bound, sinks)
	}
}

// StoreKV implements model.Device. One kernel norms, rotates and stores.
func (d *Device) StoreKV(kv int, q, k, v model.Act, h model.Heads) {
	c := &d.heads[kv]
	n, kvHeads := c.of(q.Width), c.KVHeads
	if k.Width == 0 && v.Width == 0 {
		k, v, kvHeads = q, q, 0
	} else if !(k.Width == kvHeads*c.KeyDim && v.Width == kvHeads*c.ValueDim) {
		panic(fmt.Sprintf("cuda: StoreKV of rows of %d, %d and %d in cache %d", q.Width, k.Width, v.Width, kv))
	}
	how, norms := d.headNorms(c, &h)
	var table rope
	if h.Rope != model.NoRope {
		table = d.ropes[h.Rope]
		how |= kernels.RopePairs * flag(d.shape.Ropes[h.Rope].Interleaved)
	}
	qp, ldq := d.act(q)
	kp, ldk := d.act(k)
	vp, ldv := d.act(v)
	base, block, stride := d.cache.base+c.at, i32(d.shape.Spec.BlockTokens), uint64(d.cache.blockStride)
	if q.Buf == k.Buf && k.Buf == v.Buf && kvHeads > 0 && h.Temper.Beta == 0 && c.KeyDim == c.ValueDim && c.KeyDim <= ropeDims {
		d.launch("rope_kv", d.step.tokens, cdiv(n+2*kvHeads, 4), 1, qp, kp, vp, base, table.table, d.step.at.pos, d.step.at.slots, norms[0], norms[1], norms[2],
			i32(n), i32(kvHeads), i32(c.KeyDim), i32(table.half), i32(table.offset), i32(ldq), block, stride, i32(how), f32(h.QNorm.Eps), f32(h.KNorm.Eps), f32(h.VNorm.Eps))
		return
	}
	d.launch("rope_kv_x", d.step.tokens, cdiv(n+2*kvHeads, 4), 1, qp, kp, vp, base, table.table, d.step.at.pos, d.step.at.slots, norms[0], norms[1], norms[2],
		i32(n), i32(kvHeads), i32(c.KeyDim), i32(c.ValueDim), i32(table.half), i32(table.offset), i32(ldq), i32(ldk), i32(ldv), block, stride,
		i32(how), f32(h.QNorm.Eps), f32(h.KNorm.Eps), f32(h.VNorm.Eps), f32(h.Temper.Beta), f32(h.Temper.Floor), i32(h.Temper.Shift))
}

// ropeDims is the most dimensions of a head that rope_kv takes.
const ropeDims = 256

// headNorms are the weights of the norms of queries, keys and values, and bits that say how they norm.
func (d *Device) headNorms(c *heads, h *model.Heads) (how int, norms [3]uint64) {
	var first *model.HeadNorm
	for i, n := range []*model.HeadNorm{&h.QNorm, &h.KNorm, &h.VNorm} {
		if !n.On {
			continue
		}
		if first == nil {
			first = n
		}
		how |= kernels.NormQ<<i | kernels.NormCentered*flag(n.LayerNorm) | kernels.NormPerHead*flag(n.PerHead)
		if n.LayerNorm != first.LayerNorm || n.PerHead != first.PerHead {
			panic("cuda: StoreKV with norms of queries, keys and values that differ")
		}
		if n.W != model.NoWeight {
			norms[i] = d.headWeights(*n, [3]int{c.KeyDim, c.KeyDim, c.ValueDim}[i])
		}
	}
	return how | kernels.NormAfter*flag(h.NormAfterRope), norms
}

// headWeights are the weights of a norm of heads.
func (d *Device) headWeights(n model.HeadNorm, dim int) uint64 {
	p := &d.params[n.W]
	if !(p.n == dim || n.PerHead && p.n%dim == 0) {
		panic(fmt.Sprintf("cuda: StoreKV norms heads of %d with %d weights", dim, p.n))
	}
	return p.data
}
