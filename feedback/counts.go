package feedback

import (
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
)

// A block says how many records match a query among those that were written from one
// millisecond to another, both inclusive. A query that matches many records adds up
// the blocks in front of its page and after it, and reads only the keys of the blocks
// that the page lies in.
//
// Blocks are kept in memory as queries count them, and they are exact. A record never
// changes in place: it is replaced by a later one. So a count changes only when a
// record is deleted, and countCache has a list of deletions. New records are no older
// than the newest one, and every block ends before it.
type block struct {
	from, until int64
	matches     int
	keys        int // keys that were read: the cost of counting again; -1: not counted yet
}

const (
	blockKeys       = 512     // keys of a block; more if they are of one millisecond
	maxDeletions    = 1 << 16 // deletions that are remembered
	maxCountedPlans = 256     // plans that have blocks
	maxBlocks       = 1 << 18 // blocks of all plans together
)

// countLimits has these constants as fields, because tests use smaller ones.
type countLimits struct{ blockKeys, deletions, plans, blocks int }

// planCounts has the blocks of one plan, in order of time.
type planCounts struct {
	blocks  []block // never changed in place
	seen    uint64  // the deletions below this number are accounted for
	version uint64  // grows with every change of blocks
	used    uint64  // when it was last used, by countCache.uses
}

// countCache has the blocks of all plans, and the deletions that make blocks invalid.
type countCache struct {
	mu        sync.Mutex
	seed      maphash.Seed
	deletions []deletion     // a ring: the deletion with number i is at i modulo its length
	next      uint64         // the number of the next deletion
	running   map[uint64]int // updates that have not ended, by the value of next when they began
	plans     map[[sha256.Size]byte]*planCounts
	blocks    int // of all plans
	uses      uint64
	opening   uint64 // how often the database was opened when the plans were counted
	limits    countLimits
}

// deletion is a record that was deleted. Its project is a hash; 0 stands for a change
// that may have touched any record.
type deletion struct {
	project   uint64
	createdAt int64
}

func (c *countCache) init() {
	c.seed = maphash.MakeSeed()
	c.limits = countLimits{blockKeys, maxDeletions, maxCountedPlans, maxBlocks}
	c.running, c.plans = map[uint64]int{}, map[[sha256.Size]byte]*planCounts{}
}

func (c *countCache) hash(project string) uint64 { return max(maphash.String(c.seed, project), 1) }

// beginUpdate is called before an update that may delete records. The function that it
// returns is called when the update has ended: from then on a new snapshot has its
// deletions, or they never happened.
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

// deleted is called inside the update that deletes a record.
func (c *countCache) deleted(project string, at int64) { c.add(deletion{c.hash(project), at}) }

// invalidateAll is called inside an update that changes indexes in any other way.
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

// seen returns a number of a deletion: a snapshot that is taken afterwards has all
// deletions below it. It may have later ones too.
func (c *countCache) seen() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	for at := range c.running {
		n = min(n, at)
	}
	return n
}

// find returns the blocks of a plan that hold for a snapshot, in order of time, and
// their version for put. The snapshot has all deletions below seen, and perhaps some
// later ones. Therefore a block with any deletion since is left out.
func (c *countCache) find(key [sha256.Size]byte, project string, seen, opening uint64) (list []block, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if opening != c.opening { // an update whose commit failed may have taken effect after all
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

// put adds the blocks that a query has counted to those that find returned to it, with
// their version. It does nothing if another query has changed the blocks since.
func (c *countCache) put(key [sha256.Size]byte, seen, opening, version uint64, counted []block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.plans[key]
	switch {
	case opening != c.opening || m == nil && version > 0 || m != nil && (version != m.version || seen < m.seen):
		return // another query was faster
	case c.next-seen > uint64(c.limits.deletions)/2:
		return // so many deletions since then would make them invalid soon
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

// oldest is the plan that was used least recently.
func (c *countCache) oldest() (key [sha256.Size]byte) {
	least := ^uint64(0)
	for k, m := range c.plans {
		if m.used < least {
			key, least = k, m.used
		}
	}
	return key
}

// mergeBlocks sorts two lists of blocks into one. Adjacent blocks that together have at
// most maxKeys keys become one block.
func mergeBlocks(a, b []block, maxKeys int) []block {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.from, b.from) })
	out := all[:0]
	for _, x := range all {
		if n := len(out) - 1; n >= 0 && out[n].until+1 == x.from && out[n].keys+x.keys <= maxKeys {
			out[n].until, out[n].matches, out[n].keys = x.until, out[n].matches+x.matches, out[n].keys+x.keys
			continue
		}
		out = append(out, x)
	}
	return out
}
