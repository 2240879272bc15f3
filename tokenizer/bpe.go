package tokenizer

import "math/bits"

const (
	// Two ids and a rank share the 64 bits of a slot of the merge table.
	idBits    = 21
	rankBits  = 22
	maxIDs    = 1<<idBits - 1 // all ones mark an empty slot
	noRank    = 1<<rankBits - 1
	emptySlot = ^uint64(0)
)

// mergeTable maps a pair of tokens to the rank of their merge. It is an open-addressing
// hash table that is half full, with eight bytes a slot: the lookups for a text that is
// not cached miss the processor's caches, and nearly all of them find nothing. The id of
// the merged token is needed only when a merge happens, so it is kept apart, by rank.
type mergeTable struct {
	slots  []uint64 // left id, right id and rank; linear probing
	shift  uint
	pairs  []uint64         // only while loading
	ranks  []uint32         // of pairs; nil if they are 0, 1, 2, ...
	merged []int32          // by rank; severalTokens if pairs of the same rank make different tokens
	tied   map[uint64]int32 // by pair: what it makes, for those pairs
	// bytes holds the ranks of all pairs of single-byte tokens of a byte-level
	// vocabulary, which are the first lookups for a word. Nil for other vocabularies.
	bytes *[1 << 16]uint32
}

func pairKey(a, b int32) uint64 { return uint64(a)<<idBits | uint64(b) }

func (m *mergeTable) slot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> m.shift }

// add appends the merge of the next rank. It has an effect after build.
func (m *mergeTable) add(a, b, merged int32) {
	m.pairs = append(m.pairs, pairKey(a, b))
	m.merged = append(m.merged, merged)
}

// severalTokens says that the token that a merge makes is in tied.
const severalTokens = -1

// addRank adds a merge whose rank is that of the last one, or the next after it. Pairs of the
// same rank are merged from left to right, whatever tokens they make.
func (m *mergeTable) addRank(rank uint32, a, b, merged int32) {
	key := pairKey(a, b)
	m.pairs, m.ranks = append(m.pairs, key), append(m.ranks, rank)
	if int(rank) == len(m.merged) {
		m.merged = append(m.merged, merged)
		return
	}
	if old := m.merged[rank]; old == merged {
		return
	} else if old != severalTokens {
		for i := len(m.pairs) - 2; i >= 0 && m.ranks[i] == rank; i-- {
			m.tie(m.pairs[i], old)
		}
		m.merged[rank] = severalTokens
	}
	m.tie(key, merged)
}

func (m *mergeTable) tie(key uint64, merged int32) {
	if m.tied == nil {
		m.tied = map[uint64]int32{}
	}
	m.tied[key] = merged
}

// result returns what the merge of a and b makes, which has the rank.
func (m *mergeTable) result(rank uint32, a, b int32) int32 {
	if id := m.merged[rank]; id != severalTokens {
		return id
	}
	return m.tied[pairKey(a, b)]
}

// build makes the table. A pair that is listed twice has the rank of its last place, as
// in Hugging Face's library.
func (m *mergeTable) build() {
	size := bits.Len(uint(2*len(m.pairs) | 15))
	m.slots, m.shift = make([]uint64, 1<<size), uint(64-size)
	for i := range m.slots {
		m.slots[i] = emptySlot
	}
	for rank, key := range m.pairs {
		if m.ranks != nil {
			rank = int(m.ranks[rank])
		}
		i := m.slot(key)
		for m.slots[i] != emptySlot && m.slots[i]>>rankBits != key {
			i = (i + 1) & uint64(len(m.slots)-1)
		}
		m.slots[i] = key<<rankBits | uint64(rank)
	}
	m.pairs, m.ranks = nil, nil
}

// rank returns the rank of the merge of a and b, or noRank.
func (m *mergeTable) rank(a, b int32) uint32 {
	key := pairKey(a, b)
	for i := m.slot(key); ; i = (i + 1) & uint64(len(m.slots)-1) {
		s := m.slots[i]
		if s>>rankBits == key || s == emptySlot {
			return uint32(s & noRank)
		}
	}
}

// shortWord is the number of symbols up to which scanning all pairs for the best one is
// faster than keeping a heap.
const shortWord = 32

// mergeShort merges ids in place; ranks[i] is the rank of ids[i], ids[i+1].
// It takes O(n²) time.
func (m *mergeTable) mergeShort(ids []int32, ranks []uint32) []int32 {
	n := len(ids)
	for {
		best, at := uint32(noRank), -1
		for i, r := range ranks[:n-1] {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids[:n]
		}
		ids[at] = m.result(best, ids[at], ids[at+1])
		copy(ids[at+1:], ids[at+2:n])
		copy(ranks[at+1:], ranks[at+2:n])
		n--
		if at+1 < n {
			ranks[at] = m.rank(ids[at], ids[at+1])
		}
		if at > 0 {
			ranks[at-1] = m.rank(ids[at-1], ids[at])
		}
	}
}

// link is a symbol of a long word.
type link struct {
	id         int32
	rank       uint32 // of the merge with next; noRank if there is none, or this symbol was merged away
	prev, next int32  // -1 at the ends
}

// longMerge is the scratch memory of a merge of many symbols.
type longMerge struct {
	links []link
	heap  []uint64 // rank<<32 | position: a min-heap gives the leftmost of the lowest rank
}

// merge merges ids and appends the result to dst, in O(n log n) time. Entries are never
// removed from the middle of the heap; one whose rank is no longer that of its symbol is
// out of date and skipped.
func (l *longMerge) merge(m *mergeTable, dst, ids []int32, ranks []uint32) []int32 {
	n := len(ids)
	links, heap := l.links[:0], l.heap[:0]
	for i, id := range ids {
		links = append(links, link{id: id, rank: ranks[i], prev: int32(i) - 1, next: int32(i) + 1})
		if ranks[i] != noRank {
			heap = append(heap, uint64(ranks[i])<<32|uint64(i))
		}
	}
	links[n-1].next = -1
	for i := (len(heap) - 2) / 4; i >= 0 && len(heap) > 1; i-- {
		siftDown(heap, i)
	}
	for len(heap) > 0 {
		rank, at := uint32(heap[0]>>32), int32(uint32(heap[0]))
		last := len(heap) - 1
		heap[0] = heap[last]
		heap = heap[:last]
		if last > 1 {
			siftDown(heap, 0)
		}
		left := &links[at]
		if left.rank != rank {
			continue
		}
		right := &links[left.next]
		right.rank = noRank
		left.id, left.rank, left.next = m.result(rank, left.id, right.id), noRank, right.next
		if left.next >= 0 {
			next := &links[left.next]
			next.prev = at
			if left.rank = m.rank(left.id, next.id); left.rank != noRank {
				heap = push(heap, uint64(left.rank)<<32|uint64(at))
			}
		}
		if left.prev >= 0 {
			prev := &links[left.prev]
			if prev.rank = m.rank(prev.id, left.id); prev.rank != noRank {
				heap = push(heap, uint64(prev.rank)<<32|uint64(left.prev))
			}
		}
	}
	for i := int32(0); i >= 0; i = links[i].next {
		dst = append(dst, links[i].id)
	}
	l.links, l.heap = links, heap
	return dst
}

// siftDown restores the order of the heap below h[i]. A node has four children: the heap
// has half the levels of a binary one, and siblings share a cache line.
func siftDown(h []uint64, i int) {
	v := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		best := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c] < h[best] {
				best = c
			}
		}
		if h[best] >= v {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = v
}

func push(h []uint64, v uint64) []uint64 {
	h = append(h, v)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if h[p] <= v {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = v
	return h
}
