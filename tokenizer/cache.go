package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// wordCache maps a piece of text to its ids. Its entries are immutable, so any
// number of goroutines use it without a lock: a collision or a race costs one
// encoding. Full, it holds 64 Ki entries of 96 bytes.
type wordCache struct {
	seed maphash.Seed
	sets []cacheSet
}

// cacheSet holds the entries that share a hash, the latest first: half a cache
// line. A set of one would miss some hundred words of any long text every time.
type cacheSet [4]atomic.Pointer[cachedWord]

const (
	cacheSets  = 1 << 14 // a power of two
	cacheBytes = 44      // longest piece kept
	cacheIDs   = 12      // most ids kept
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

// add adds an entry in front of the set; the last one goes.
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
