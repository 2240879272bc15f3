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
	n           int
	steps       int // places that were looked at; what it takes to count again
}

const (
	blockSteps = 512     // places of a block, or more if they are of one millisecond
	maxChanges = 1 << 16 // deletions that are remembered
	maxMarks   = 256     // queries of which blocks are kept
	maxBlocks  = 1 << 18 // and how many of all of them
)

// bounds are those constants; tests have smaller ones.
type bounds struct{ steps, changes, marks, blocks int }

// marks are the blocks of one plan, in order.
type marks struct {
	blocks []block // never changed in place
	at     uint64  // deletions that they know of
	edit   uint64  // counts what was published
	used   uint64
}

// changes is which records were deleted, and the marks that go by it.
type changes struct {
	mu      sync.Mutex
	seed    maphash.Seed
	list    []change // the newest; number i is at i modulo its length
	next    uint64   // number of the next one
	open    map[uint64]int
	marks   map[[sha256.Size]byte]*marks
	blocks  int
	uses    uint64
	opening uint64 // of the database
	most    bounds
}

// change is a deletion from a project; project 0 is a change to anything.
type change struct {
	project uint64
	at      int64 // created_at of what was deleted
}

func (c *changes) init() {
	c.seed = maphash.MakeSeed()
	c.most = bounds{blockSteps, maxChanges, maxMarks, maxBlocks}
	c.open, c.marks = map[uint64]int{}, map[[sha256.Size]byte]*marks{}
}

func (c *changes) name(project string) uint64 { return max(maphash.String(c.seed, project), 1) }

// begin is called before an update that may delete, and what it returns when that is
// seen by who begins to read, or never will be.
func (c *changes) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.next
	c.open[at]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open[at]--; c.open[at] == 0 {
			delete(c.open, at)
		}
	}
}

// deleted is called by the update that deletes a record.
func (c *changes) deleted(project string, at int64) { c.add(change{c.name(project), at}) }

// anything is called by an update that changes indexes in another way.
func (c *changes) anything() { c.add(change{}) }

func (c *changes) add(x change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) < c.most.changes {
		c.list = append(c.list, x)
	} else {
		c.list[c.next%uint64(c.most.changes)] = x
	}
	c.next++
}

// seen is the number up to which who begins to read then sees all deletions.
func (c *changes) seen() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	for at := range c.open {
		n = min(n, at)
	}
	return n
}

// find returns the blocks that are true of a snapshot, which has all deletions before
// seen and perhaps some more, and a number for keep.
func (c *changes) find(key [sha256.Size]byte, project string, seen, opening uint64) (list []block, edit uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if opening != c.opening { // an update that failed may have taken effect after all
		clear(c.marks)
		c.opening, c.blocks = opening, 0
	}
	m := c.marks[key]
	if m == nil {
		return nil, 0
	}
	c.uses++
	m.used = c.uses
	since := min(m.at, seen)
	if c.next-since > uint64(len(c.list)) {
		c.drop(key)
		return nil, 0
	}
	list = m.blocks
	var stale []bool
	name := c.name(project)
	for i := since; i < c.next; i++ {
		x := c.list[i%uint64(c.most.changes)]
		if x.project == 0 {
			c.drop(key)
			return nil, 0
		}
		if x.project != name {
			continue
		}
		k := sort.Search(len(list), func(k int) bool { return list[k].until >= x.at })
		if k < len(list) && list[k].from <= x.at {
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
	if seen >= m.at {
		c.blocks += len(list) - len(m.blocks)
		m.blocks, m.at = list, seen
	}
	return list, m.edit
}

func (c *changes) drop(key [sha256.Size]byte) {
	if m := c.marks[key]; m != nil {
		c.blocks -= len(m.blocks)
		delete(c.marks, key)
	}
}

// keep keeps what a query has counted beside the blocks that find returned with edit.
func (c *changes) keep(key [sha256.Size]byte, seen, opening, edit uint64, counted []block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.marks[key]
	switch {
	case opening != c.opening || m == nil && edit > 0 || m != nil && (edit != m.edit || seen < m.at):
		return // somebody else was faster
	case c.next-seen > uint64(c.most.changes)/2:
		return // they would not last
	}
	if m == nil {
		m = &marks{at: seen}
		c.marks[key] = m
	}
	c.blocks -= len(m.blocks)
	m.blocks = joined(m.blocks, counted, c.most.steps)
	c.blocks += len(m.blocks)
	m.edit++
	c.uses++
	m.used = c.uses
	for len(c.marks) > c.most.marks || c.blocks > c.most.blocks && len(c.marks) > 0 {
		c.drop(c.oldest())
	}
}

func (c *changes) oldest() (key [sha256.Size]byte) {
	least := ^uint64(0)
	for k, m := range c.marks {
		if m.used < least {
			key, least = k, m.used
		}
	}
	return key
}

// joined is two lists in one; neighbours of together no more than steps become one
// block.
func joined(a, b []block, steps int) []block {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.from, b.from) })
	out := all[:0]
	for _, x := range all {
		if n := len(out) - 1; n >= 0 && out[n].until+1 == x.from && out[n].steps+x.steps <= steps {
			out[n].until, out[n].n, out[n].steps = x.until, out[n].n+x.n, out[n].steps+x.steps
			continue
		}
		out = append(out, x)
	}
	return out
}
