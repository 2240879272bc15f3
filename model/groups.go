package model

import (
	"slices"

	"weir/backend"
)

// KVPlace says in which blocks the keys and values of a cache are. A block belongs to one group of layers, and
// has room for the caches of all indices, so that caches of different groups with the same index use the
// same part of different blocks.
type KVPlace struct{ Group, Index int }

// maxKVGroups bounds the block tables of a sequence.
const maxKVGroups = 16

// GroupKV puts caches whose layers look back equally far into groups with block tables of their own, so that
// blocks that a window has left can return (backend.Spec.Groups). A window, or a chunk, of at least below
// positions counts as if the layer saw all. Many caches of a kind make several groups, so that all groups
// have about as many caches: where a group has fewer, the rest of its blocks is not used. That caches of all
// kinds share one pool, in groups of equal size, is the idea of vLLM's hybrid KV cache manager
// (vllm/v1/core/kv_cache_utils.py).
func (s *Shape) GroupKV(below int) {
	var kinds []backend.KVGroup
	var members [][]int // caches by kind
	for i := range s.KV {
		see := s.Sees[i]
		if see.Window >= below {
			see.Window = 0
		}
		if see.Chunk >= below {
			see.Chunk = 0
		}
		k := slices.Index(kinds, see)
		if k < 0 {
			k = len(kinds)
			kinds, members = append(kinds, see), append(members, nil)
		}
		members[k] = append(members[k], i)
	}
	if len(kinds) == 1 && kinds[0] == (backend.KVGroup{}) {
		return
	}
	size := groupSize(members)
	s.Spec.Groups, s.Places = nil, make([]KVPlace, len(s.KV))
	for k, list := range members {
		for len(list) > 0 {
			n := min(size, len(list))
			for index, i := range list[:n] {
				s.Places[i] = KVPlace{len(s.Spec.Groups), index}
			}
			s.Spec.Groups, list = append(s.Spec.Groups, kinds[k]), list[n:]
		}
	}
	s.Pieces |= PieceGroups
}

// groupSize is the number of caches of a group: that which wastes little room with few groups.
func groupSize(members [][]int) int {
	best, least := 0, 0
	most := 0
	for _, list := range members {
		most = max(most, len(list))
	}
	for size := 1; size <= most; size++ {
		groups := 0
		for _, list := range members {
			groups += (len(list) + size - 1) / size
		}
		// Two percent for a group: tables and slots of each are made anew in every step.
		if cost := groups * size * (50 + groups); (groups <= maxKVGroups || size == most) && (best == 0 || cost < least) {
			best, least = size, cost
		}
	}
	return best
}

// Place is where cache i is.
func (s *Shape) Place(i int) KVPlace {
	if s.Places == nil {
		return KVPlace{0, i}
	}
	return s.Places[i]
}

// checkPlaces checks that no two caches are in the same place.
func (s *Shape) checkPlaces() error {
	if s.Places == nil {
		if len(s.Spec.Groups) > 0 {
			return broken("%d groups of layers, but no cache has a place in one", len(s.Spec.Groups))
		}
		return nil
	}
	if len(s.Places) != len(s.KV) {
		return broken("%d caches have %d places", len(s.KV), len(s.Places))
	}
	for i, p := range s.Places {
		if p.Group < 0 || p.Group >= s.Spec.NumGroups() || p.Index < 0 || p.Index >= len(s.KV) {
			return broken("cache %d is number %d of group %d, of %d groups", i, p.Index, p.Group, s.Spec.NumGroups())
		}
		if slices.Index(s.Places, p) < i {
			return broken("caches %d and %d have the same place", slices.Index(s.Places, p), i)
		}
	}
	return nil
}

// widen is what a group of layers sees that see a or b.
func widen(a, b backend.KVGroup) backend.KVGroup {
	wider := func(x, y int) int {
		if x == 0 || y == 0 {
			return 0
		}
		return max(x, y)
	}
	if a.Chunk != b.Chunk { // neither divides the other for sure
		a.Chunk, b.Chunk = 0, 0
	}
	return backend.KVGroup{Window: wider(a.Window, b.Window), Chunk: wider(a.Chunk, b.Chunk)}
}
