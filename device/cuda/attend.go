//go:build cuda && linux && amd64

package cuda

import (
	"weir/backend"
	"weir/device/cuda/kernels"
)

// lists is the work of attention on single queries in one step, for one window. The host makes it from
// lengths alone: each is a list of partial results and one merge, in segments whose results
// fit the scratch memory.
type lists struct {
	window   int
	apart    bool // attn_decode and attn_merge, not attn_whole
	segments []segment

	// These are kept to use their memory again.
	itemList  []kernels.AttnItem
	mergeList []kernels.AttnMerge
}

// tiles is the work of attention on runs of several queries in one step, for one way to cut them.
type tiles struct {
	at   uint64 // device address
	list []kernels.AttnTile
}

// pack makes the tiles of a batch, of so many tokens each, and writes them to in.
func (l *tiles) pack(d *Device, in *pinned, b *backend.Batch, tokens int) {
	l.list = l.list[:0]
	row, table := int32(0), int32(0)
	for s, end := range b.QueryEnd {
		if n := end - row; n > 1 {
			l.list = kernels.AppendTiles(l.list, kernels.Run{First: row, Tokens: n, Pos: b.KVLen[s] - n, Table: table}, tokens)
		}
		row, table = end, b.TableEnd[s]
	}
	list, at := take[kernels.AttnTile](in, len(l.list))
	copy(list, l.list)
	l.at = d.step.input + uint64(at)
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
	l.itemList, l.mergeList, l.segments = l.itemList[:0], l.mergeList[:0], l.segments[:0]
	row, table, slot := int32(0), int32(0), int32(0)
	for s := range b.QueryEnd {
		n := b.QueryEnd[s] - row
		r := kernels.Run{First: row, Tokens: n, Pos: b.KVLen[s] - n, Table: table}
		row, table = b.QueryEnd[s], b.TableEnd[s]
		if n > 1 {
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
