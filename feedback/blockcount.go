package feedback

import (
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
)

// A block is how many records match a query among those that were written from one
// millisecond to another, both inclusive. A query that many records match counts
// and passes over blocks; it goes only over the keys of those that its page is in.
//
// Blocks are kept in memory, as queries find them, and are exact: a record never
// changes but is replaced by a later one, so what was counted changes by deletions
// alone, of which changes has a list, and blocks end before the newest record, where
// new ones come.
type block struct {
	from, until int64
	matches     int
	keys        int // places that were looked at; what it takes to count again
}

const (
	blockKeys       = 512     // places of a block, or more if they are of one millisecond
	maxDeletions    = 1 << 16 // deletions that are remembered
	maxCountedPlans = 256     // queries of which blocks are kept
	maxBlocks       = 1 << 18 // and how many of all of them
)

// bounds are those constants; tests have smaller ones.
type countLimits struct{ blockKeys, deletions, plans, blocks int }

// marks are the blocks of one plan, in order.
type planCounts struct {
	blocks  []block // never changed in place
	seen    uint64  // deletions that they know of
	version uint64  // counts what was published
	used    uint64
}

// changes is which records were deleted, and the marks that go by it.
type countCache struct {
	mu        sync.Mutex
	seed      maphash.Seed
	deletions []deletion // the newest; number i is at i modulo its length
	next      uint64     // number of the next one
	running   map[uint64]int
	plans     map[[sha256.Size]byte]*planCounts
	blocks    int
	uses      uint64
	opening   uint64 // of the database
	limits    countLimits
}

// change is a deletion from a project; project 0 is a change to anything.
type deletion struct {
	project   uint64
	createdAt int64 // created_at of what was deleted
}

func (c *countCache) init() {
	c.seed = maphash.MakeSeed()
	c.limits = countLimits{blockKeys, maxDeletions, maxCountedPlans, maxBlocks}
	c.running, c.plans = map[uint64]int{}, map[[sha256.Size]byte]*planCounts{}
}

func (c *countCache) hash(project string) uint64 { return max(maphash.String(c.seed, project), 1) }

// begin is called before an update that may delete, and what it returns when that is
// seen by who begins to read, or never will be.
func (c *countCache) beginUpdate() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.next
	c.running[at]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running[at]--; c.running[at] == 0 {
			delete(c.running, at)
		}
	}
}

// deleted is called by the update that deletes a record.
func (c *countCache) deleted(project string, at int64) { c.add(deletion{c.hash(project), at}) }

// anything is called by an update that changes indexes in another way.
func (c *countCache) invalidateAll() { c.add(deletion{}) }

func (c *countCache) add(x deletion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deletions) < c.limits.deletions {
		c.deletions = append(c.deletions, x)
	} else {
		c.deletions[c.next%uint64(c.limits.deletions)] = x
	}
	c.next++
}

// seen is the number up to which who begins to read then sees all deletions.
func (c *countCache) seen() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	for at := range c.running {
		n = min(n, at)
	}
	return n
}

// find returns the blocks that are true of a snapshot, which has all deletions before
// seen and perhaps some more, and a number for keep.
func (c *countCache) find(key [sha256.Size]byte, project string, seen, opening uint64) (list []block, edit uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if opening != c.opening { // an update that failed may have taken effect after all
		clear(c.plans)
		c.opening, c.blocks = opening, 0
	}
	m := c.plans[key]
	if m == nil {
		return nil, 0
	}
	c.uses++
	m.used = c.uses
	since := min(m.seen, seen)
	if c.next-since > uint64(len(c.deletions)) {
		c.drop(key)
		return nil, 0
	}
	list = m.blocks
	var stale []bool
	name := c.hash(project)
	for i := since; i < c.next; i++ {
		x := c.deletions[i%uint64(c.limits.deletions)]
		if x.project == 0 {
			c.drop(key)
			return nil, 0
		}
		if x.project != name {
			continue
		}
		k := sort.Search(len(list), func(k int) bool { return list[k].until >= x.createdAt })
		if k < len(list) && list[k].from <= x.createdAt {
			if stale == nil {
				stale = make([]bool, len(list))
			}
			stale[k] = true
		}
	}
	if stale != nil {
		list = make([]block, 0, len(m.blocks))
		for k, b := range m.blocks {
			if !stale[k] {
				list = append(list, b)
			}
		}
	}
	if seen >= m.seen {
		c.blocks += len(list) - len(m.blocks)
		m.blocks, m.seen = list, seen
	}
	return list, m.version
}

func (c *countCache) drop(key [sha256.Size]byte) {
	if m := c.plans[key]; m != nil {
		c.blocks -= len(m.blocks)
		delete(c.plans, key)
	}
}

// keep keeps what a query has counted beside the blocks that find returned with edit.
func (c *countCache) put(key [sha256.Size]byte, seen, opening, edit uint64, counted []block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.plans[key]
	switch {
	case opening != c.opening || m == nil && edit > 0 || m != nil && (edit != m.version || seen < m.seen):
		return // somebody else was faster
	case c.next-seen > uint64(c.limits.deletions)/2:
		return // they would not last
	}
	if m == nil {
		m = &planCounts{seen: seen}
		c.plans[key] = m
	}
	c.blocks -= len(m.blocks)
	m.blocks = mergeBlocks(m.blocks, counted, c.limits.blockKeys)
	c.blocks += len(m.blocks)
	m.version++
	c.uses++
	m.used = c.uses
	for len(c.plans) > c.limits.plans || c.blocks > c.limits.blocks && len(c.plans) > 0 {
		c.drop(c.oldest())
	}
}

func (c *countCache) oldest() (key [sha256.Size]byte) {
	least := ^uint64(0)
	for k, m := range c.plans {
		if m.used < least {
			key, least = k, m.used
		}
	}
	return key
}

// joined is two lists in one; neighbours of together no more than steps become one
// block.
func mergeBlocks(a, b []block, steps int) []block {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.from, b.from) })
	out := all[:0]
	for _, x := range all {
		if n := len(out) - 1; n >= 0 && out[n].until+1 == x.from && out[n].keys+x.keys <= steps {
			out[n].until, out[n].matches, out[n].keys = x.until, out[n].matches+x.matches, out[n].keys+x.keys
			continue
		}
		out = append(out, x)
	}
	return out
}
