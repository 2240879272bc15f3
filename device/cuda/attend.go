//go:build cuda && linux && amd64

package cuda

import (
	"fmt"

	"weir/backend"
	"weir/device/cuda/kernels"
	"weir/model"
)

// lists is the work of attention in one step, for one window. The host makes it from
// lengths alone. Runs of several queries are cut into tiles. A single query is a list of
// partial results and one merge, in segments whose results fit the scratch memory.
type lists struct {
	window   int
	apart    bool // attn_decode and attn_merge, not attn_whole
	tiles    uint64
	numTiles int
	segments []segment

	// These are kept to use their memory again.
	tileList  []kernels.AttnTile
	itemList  []kernels.AttnItem
	mergeList []kernels.AttnMerge
}

// segment is a launch of attn_whole, or of attn_decode and attn_merge.
type segment struct {
	items, merges, counts uint64 // device addresses; counts are of items and merges
	numItems, numMerges   int    // blocks to launch

	item, merge int // ends in the lists
}

// pack makes the lists of a batch and writes them to in. For a graph, rows and items are
// its sizes, and there is one segment of these sizes.
func (l *lists) pack(d *Device, in *pinned, b *backend.Batch, window, rows, items int) {
	l.window = window
	l.apart = d.long(b) && (window == 0 || window >= d.cfg.MergeFrom)
	l.tileList, l.itemList, l.mergeList, l.segments = l.tileList[:0], l.itemList[:0], l.mergeList[:0], l.segments[:0]
	group := d.net.Heads / d.net.KVHeads
	row, table, slot := int32(0), int32(0), int32(0)
	for s := range b.QueryEnd {
		n := b.QueryEnd[s] - row
		r := kernels.Run{First: row, Tokens: n, Pos: b.KVLen[s] - n, Table: table}
		row, table = b.QueryEnd[s], b.TableEnd[s]
		if n > 1 {
			l.tileList = kernels.AppendTiles(l.tileList, r, group)
			continue
		}
		was, merged := len(l.itemList), len(l.mergeList)
		l.itemList, l.mergeList, slot = kernels.AppendItems(l.itemList, l.mergeList, r, window, slot)
		if int(slot) > d.work.slots { // start a segment with this token
			l.segments = append(l.segments, segment{item: was, merge: merged})
			l.itemList, l.mergeList = l.itemList[:was], l.mergeList[:merged]
			l.itemList, l.mergeList, slot = kernels.AppendItems(l.itemList, l.mergeList, r, window, 0)
		}
	}
	if len(l.mergeList) > 0 || items > 0 {
		l.segments = append(l.segments, segment{item: len(l.itemList), merge: len(l.mergeList)})
	}
	base := d.step.input
	item, merge := 0, 0
	for i := range l.segments {
		s := &l.segments[i]
		s.numItems, s.numMerges = s.item-item, s.merge-merge
		counts, at := take[int32](in, 4)
		counts[0], counts[1], s.counts = int32(s.numItems), int32(s.numMerges), base+uint64(at)
		roomItems, roomMerges := s.numItems, s.numMerges
		if items > 0 {
			roomItems, roomMerges = items, rows
		}
		merges, at := take[kernels.AttnMerge](in, roomMerges)
		copy(merges, l.mergeList[merge:s.merge])
		s.merges = base + uint64(at)
		list, at := take[kernels.AttnItem](in, roomItems)
		copy(list, l.itemList[item:s.item])
		s.items = base + uint64(at)
		item, merge = s.item, s.merge
		s.numItems, s.numMerges = roomItems, roomMerges
	}
	tiles, at := take[kernels.AttnTile](in, len(l.tileList))
	copy(tiles, l.tileList)
	l.tiles, l.numTiles = base+uint64(at), len(tiles)
}

// long reports whether a sequence of the batch is as long as Config.MergeFrom. Together
// with the window this decides how parts are merged, so it is a part of a graph's key.
func (d *Device) long(b *backend.Batch) bool {
	for _, kv := range b.KVLen {
		if int(kv) >= d.cfg.MergeFrom {
			return true
		}
	}
	return false
}

// items is the number of partial results of a batch of single queries, for the window
// that has the most.
func (d *Device) items(b *backend.Batch) int {
	most := 0
	for _, w := range d.shape.Windows {
		n := 0
		for _, kv := range b.KVLen {
			pos, lo := int(kv)-1, 0
			if w > 0 {
				lo = max(0, pos+1-w)
			}
			n += pos/kernels.PartTokens - lo/kernels.PartTokens + 1
		}
		most = max(most, n)
	}
	return most
}

// Attend implements model.Device.
func (d *Device) Attend(dst, q model.Act, layer int, a model.Attention) {
	width := d.net.Heads * d.net.KeyDim
	if !(dst.Width == width && q.Width == width) {
		panic(fmt.Sprintf("cuda: Attend of rows of %d into rows of %d", q.Width, dst.Width))
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
	sh := &d.net
	out, ldo := d.act(dst)
	in, ldq := d.act(q)
	kv := d.cache.base + uint64(layer*d.cache.layer)
	prefill, decode, whole := "attn_prefill_d128", "attn_decode_d128", "attn_whole_d128"
	if sh.KeyDim <= 64 {
		prefill, decode, whole = "attn_prefill_d64", "attn_decode_d64", "attn_whole_d64"
	}
	heads, kvHeads, dim, block, stride := i32(sh.Heads), i32(sh.KVHeads), i32(sh.KeyDim), i32(d.shape.Spec.BlockTokens), uint64(d.cache.blockStride)
	if l.numTiles > 0 {
		d.launch(prefill, l.numTiles, sh.KVHeads, 1, out, in, kv, l.tiles, d.step.at.tables, d.step.at.pos,
			i32(ldo), i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
	}
	for i := range l.segments {
		s := &l.segments[i]
		groups := cdiv(sh.Heads/sh.KVHeads, kernels.GroupRows)
		if !l.apart {
			d.launch(whole, s.numItems, sh.KVHeads, groups, out, i32(ldo), d.work.comers, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos,
				i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
			continue
		}
		d.launch(decode, s.numItems, sh.KVHeads, groups, d.work.parts, in, kv, s.items, s.counts, d.step.at.tables, d.step.at.pos,
			i32(ldq), heads, kvHeads, dim, block, stride, f32(a.Scale), i32(a.Window))
		d.launch("attn_merge", s.numMerges, sh.Heads, 1, out, d.work.parts, s.merges, s.counts+4, i32(ldo), heads, dim, f32(a.Scale))
	}
}
