package tokenizer

// wideMerge merges a piece of very many symbols, such as a text of 30 MB of one letter, in
// little memory: at most 8 bytes a symbol. A heap of all pairs, as longMerge has it, takes
// 30 and more.
//
// The symbols stay where they are: each is kept in the first of the places that it was
// merged from, with the number of these places in the first and the last of them, so that
// both neighbours are found without links. Pairs are merged in the same order as by
// longMerge, the lowest rank first and of equal ones the leftmost, but only the first part
// of this order is kept at a time, up to a limit. A round scans the symbols for the pairs
// below the limit, which gives them in their order; merges in it make new pairs, of which
// those below the limit go on a heap. When all of them are merged, or the heap is full,
// the next round scans what is left. Every round but the last merges a fixed part of all
// pairs, so there are few of them.
type wideMerge struct {
	m       *mergeTable
	symbols []int32 // see packed
	most    int     // pairs that a round may merge, and twice those that its heap may hold
	first   []int32 // pairs of the round by rank and position: positions
	ends    []int32 // by rank: where its pairs end in first
	limit   uint64  // the round has all pairs below this key
	heap    []uint64
	allow   *allowance
}

// A place of wideMerge.symbols holds the id of a token in its low bits and above them the
// number of places that the symbol takes. longSymbol stands for a number that is kept in
// the place after the first one and again in the place before the last one. Places within
// a symbol hold noID, or such a number, for which the bits of the number are zero.
const (
	noID       = maxIDs
	longSymbol = 1<<(32-idBits) - 1
	// mostPlaces bounds the places of a symbol, so that a number of them looks like no
	// symbol.
	mostPlaces = 1<<idBits - 1
)

// wideFrom is the number of symbols from which on memory matters more than time.
const wideFrom = 1 << 15

func packed(id int32, size int) int32 {
	return int32(uint32(id) | uint32(min(size, longSymbol))<<idBits)
}

func idAt(packed int32) int32 { return packed & maxIDs }

// size returns the number of places of the symbol that begins at p.
func (w *wideMerge) size(p int) int {
	n := int(uint32(w.symbols[p]) >> idBits)
	if n == longSymbol {
		n = int(w.symbols[p+1])
	}
	return n
}

// before returns where the symbol begins that ends before p, or -1.
func (w *wideMerge) before(p int) int {
	if p == 0 {
		return -1
	}
	n := int(uint32(w.symbols[p-1]) >> idBits)
	if n == longSymbol {
		n = int(w.symbols[p-2])
	}
	return p - n
}

// begins reports whether a symbol begins at p.
func (w *wideMerge) begins(p int) bool {
	s := w.symbols[p]
	return idAt(s) != noID && uint32(s)>>idBits != 0
}

// set puts a symbol that was merged into its places.
func (w *wideMerge) set(p int, id int32, size int) {
	end := p + size - 1
	w.symbols[p], w.symbols[end] = packed(id, size), packed(noID, size)
	if size >= longSymbol {
		w.symbols[p+1], w.symbols[end-1] = int32(size), int32(size)
	}
}

// rank returns the rank of the merge of the symbol at p, which takes size places, with the
// one after it.
func (w *wideMerge) rank(p, size int) uint32 {
	next := p + size
	if next == len(w.symbols) {
		return noRank
	}
	return w.m.rank(idAt(w.symbols[p]), idAt(w.symbols[next]))
}

// merge merges ids, which it overwrites, and appends the result to dst. most bounds the
// pairs of a round. If the allowance ends, the result is not complete.
func (w *wideMerge) merge(dst, ids []int32, most int) []int32 {
	for i, id := range ids {
		ids[i] = packed(id, 1)
	}
	w.symbols, w.most = ids, most
	w.ends = make([]int32, len(w.m.merged))
	for w.collect() && w.round() {
	}
	count := 0
	for p := 0; p < len(ids); p += w.size(p) {
		count++
	}
	if cap(dst)-len(dst) < count {
		dst = append(make([]int32, 0, len(dst)+count), dst...)
	}
	for p := 0; p < len(ids); p += w.size(p) {
		dst = append(dst, idAt(ids[p]))
	}
	return dst
}

// each calls f for all pairs that have a merge, from left to right, and reports whether it
// came to the end.
func (w *wideMerge) each(f func(p int, rank uint32)) bool {
	for p := 0; p < len(w.symbols); {
		size := w.size(p)
		if r := w.rank(p, size); r != noRank {
			f(p, r)
		}
		if !w.allow.work(1) {
			return false
		}
		p += size
	}
	return true
}

// collect finds the pairs of the next round: as many of the lowest ranks as there is room
// for or, if the lowest rank alone has more, the leftmost of it. It reports whether there
// are any.
func (w *wideMerge) collect() bool {
	clear(w.ends)
	if !w.each(func(_ int, r uint32) { w.ends[r]++ }) {
		return false
	}
	total, rank := 0, 0
	for ; rank < len(w.ends) && total+int(w.ends[rank]) <= w.most; rank++ {
		total += int(w.ends[rank])
		w.ends[rank] = int32(total) - w.ends[rank] // where its pairs begin
	}
	part := total == 0 && rank < len(w.ends) // the rank that has more than there is room for
	if part {
		total, w.ends[rank] = w.most, 0
	}
	if total == 0 {
		return false
	}
	if cap(w.first) < total {
		w.first = make([]int32, total)
	}
	w.first = w.first[:total]
	w.limit = uint64(rank) << 32
	return w.each(func(p int, r uint32) {
		switch {
		case int(r) < rank || part && int(r) == rank && int(w.ends[r]) < total:
			w.first[w.ends[r]] = int32(p)
			w.ends[r]++
			if int(r) == rank {
				w.limit = uint64(r)<<32 | uint64(p+1)
			}
		}
	})
}

// round merges the pairs below the limit, and reports whether it was not stopped.
func (w *wideMerge) round() bool {
	w.heap = w.heap[:0]
	rank, i := uint32(0), 0
	for {
		for i < len(w.first) && i == int(w.ends[rank]) {
			rank++
		}
		var key uint64
		switch {
		case i < len(w.first) && (len(w.heap) == 0 || uint64(rank)<<32|uint64(w.first[i]) <= w.heap[0]):
			key = uint64(rank)<<32 | uint64(w.first[i])
			i++
		case len(w.heap) > 0:
			key = w.heap[0]
			last := len(w.heap) - 1
			w.heap[0] = w.heap[last]
			if w.heap = w.heap[:last]; last > 1 {
				siftDown(w.heap, 0)
			}
		default:
			return true
		}
		w.pair(uint32(key>>32), int(uint32(key)))
		if !w.allow.work(1) {
			return false
		}
		if len(w.heap) > w.most/2 {
			return true // the symbols say what is still to be merged
		}
	}
}

// pair merges the pair at p, if it still has this rank.
func (w *wideMerge) pair(rank uint32, p int) {
	if !w.begins(p) {
		return
	}
	size := w.size(p)
	if w.rank(p, size) != rank {
		return
	}
	right := p + size
	merged := w.m.result(rank, idAt(w.symbols[p]), idAt(w.symbols[right]))
	size += w.size(right)
	w.symbols[right] = noID
	if right > 0 && right-1 > p {
		w.symbols[right-1] = noID // the end of the left one
	}
	w.set(p, merged, size)
	w.add(p, w.rank(p, size))
	if q := w.before(p); q >= 0 {
		w.add(q, w.rank(q, p-q))
	}
}

// add puts a new pair on the heap if it belongs to this round.
func (w *wideMerge) add(p int, rank uint32) {
	if key := uint64(rank)<<32 | uint64(p); rank != noRank && key < w.limit {
		w.heap = push(w.heap, key)
	}
}
