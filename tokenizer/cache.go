package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// wordCache maps pieces of text to their ids. Its entries are immutable, so any number
// of goroutines can use it without a lock: if two add an entry to a set at the same time,
// the worst that happens is that a piece is encoded once more. A full cache has 65536
// entries of 96 bytes.
type wordCache struct {
	seed maphash.Seed
	sets []cacheSet
}

// cacheSet holds the entries with the same hash, the latest first, in half a cache line.
// If a set had a single entry, some hundred words of any long text would push each other
// out again and again.
type cacheSet [4]atomic.Pointer[cachedWord]

const (
	cacheSets  = 1 << 14 // a power of two
	cacheBytes = 44      // a longer piece is not kept
	cacheIDs   = 12      // nor is one of more ids
)

// cachedWord has no pointers, so an entry is one allocation that the garbage
// collector does not look into.
type cachedWord struct {
	ids  [cacheIDs]int32
	text [cacheBytes]byte
	size uint8 // of text
	n    uint8 // of ids
}

func newWordCache() wordCache {
	return wordCache{maphash.MakeSeed(), make([]cacheSet, cacheSets)}
}

func (c *wordCache) set(s string) *cacheSet {
	return &c.sets[maphash.String(c.seed, s)&uint64(len(c.sets)-1)]
}

// find returns the entry of s, or nil.
func (set *cacheSet) find(s string) *cachedWord {
	for i := range set {
		if e := set[i].Load(); e == nil {
			return nil
		} else if string(e.text[:e.size]) == s {
			return e
		}
	}
	return nil
}

// add adds an entry at the front of the set. If the set was full, its last entry is lost.
func (set *cacheSet) add(s string, ids []int32) {
	e := &cachedWord{size: uint8(len(s)), n: uint8(len(ids))}
	copy(e.text[:], s)
	copy(e.ids[:], ids)
	for i := range set {
		if e = set[i].Swap(e); e == nil {
			return
		}
	}
}
