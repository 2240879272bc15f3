package kvcache

import (
	"fmt"

	"weir/internal/invariants"
)

// entry is what the books say about one thing of a pool, a block or a state slot.
type entry struct {
	refs       int32 // number of tables that list it
	published  bool  // byHash[hash] is this entry
	unsaved    bool  // it is published, and to be copied
	saved      bool  // it has been copied since it was published
	listed     bool  // it is in unsaved.ring
	hash       Hash
	prev, next int32 // neighbours on the free list; -1 if it is in use
}

// pool has the books of things that are handed out by number: who uses them, which are
// published, and in which order they are handed out again.
//
// Between calls, every entry except entry 0 is either on the free list and has no references,
// or is off the list and has at least one.
type pool struct {
	name    string         // of one of the things, for errors
	entries []entry        // by number; entry 0 is the head of the free list
	byHash  map[Hash]int32 // published entries; nil if prefix caching is off
	free    int            // length of the free list
	kept    int            // entries of it that are published
	unsaved unsaved        // entries that are to be copied, see Manager.NextCopy

	removed func(i int32, h Hash) // is told of entries that are not found any more; nil: nobody is, see Manager.Watch
}

// newPool returns the books of n things, all of them free. Number 0 counts as one of them but is
// never handed out. With n 0 there are none at all.
func newPool(name string, n int, caching bool) pool {
	p := pool{name: name, entries: make([]entry, n), free: max(0, n-1)}
	if caching {
		p.byHash = make(map[Hash]int32, n) // which does not grow then, within a step
	}
	for i := range p.entries { // the free list is a ring through entry 0
		p.entries[i].prev = int32((i + n - 1) % n)
		p.entries[i].next = int32((i + 1) % n)
	}
	return p
}

// total is the number of things that can be handed out when none is in use.
func (p *pool) total() int { return max(0, len(p.entries)-1) }

// unlink takes i off the free list.
func (p *pool) unlink(i int32) {
	e := &p.entries[i]
	p.entries[e.prev].next, p.entries[e.next].prev = e.next, e.prev
	e.prev, e.next = -1, -1
	p.free--
	if e.published {
		p.kept--
	}
}

// link inserts i into the free list after prev. Entry 0 stands at the front of the list.
func (p *pool) link(i, prev int32) {
	e, next := &p.entries[i], p.entries[prev].next
	e.prev, e.next = prev, next
	p.entries[prev].next, p.entries[next].prev = i, i
	p.free++
	if e.published {
		p.kept++
	}
}

// take hands out the first entry of the free list. Its old content is going to be overwritten, so
// it cannot be found any more.
func (p *pool) take() int32 {
	i := p.entries[0].next
	p.unlink(i)
	p.unpublish(i)
	p.entries[i].refs = 1
	return i
}

// ref adds a reference to i, which leaves the free list with the first one.
func (p *pool) ref(i int32) {
	if p.entries[i].refs == 0 {
		p.save(i)
		p.unlink(i)
	}
	p.entries[i].refs++
}

// unref takes a reference away. With the last one, an entry that is published goes to the end of
// the free list, and any other to its front, because nothing is lost with it.
func (p *pool) unref(i int32) {
	e := &p.entries[i]
	invariants.Check(e.refs > 0, "kvcache: %s %d released twice", p.name, i)
	if e.refs--; e.refs > 0 {
		return
	}
	if e.published {
		p.link(i, p.entries[0].prev)
	} else {
		p.link(i, 0)
	}
}

// lastUnpublished is the last entry of the free list before those that are published, or 0.
func (p *pool) lastUnpublished() (last int32) {
	for i := p.entries[0].next; i != 0 && !p.entries[i].published; i = p.entries[i].next {
		last = i
	}
	return last
}

// publish lets i be found under h. It reports false if another entry is found there already.
func (p *pool) publish(i int32, h Hash) bool {
	if _, dup := p.byHash[h]; dup {
		return false
	}
	e := &p.entries[i]
	invariants.Check(!e.published, "kvcache: %s %d published under two hashes", p.name, i)
	p.byHash[h] = i
	e.hash, e.published, e.saved = h, true, false
	p.save(i)
	if e.next >= 0 {
		p.kept++
	}
	return true
}

// unpublish makes sure that i is not found.
func (p *pool) unpublish(i int32) {
	if e := &p.entries[i]; e.published {
		delete(p.byHash, e.hash)
		e.published = false
		if p.removed != nil {
			p.removed(i, e.hash)
		}
		p.unsave(i)
		if e.next >= 0 {
			p.kept--
		}
	}
}

// forget makes sure that nothing is found.
func (p *pool) forget() {
	clear(p.byHash)
	p.kept = 0
	for i := range p.entries {
		p.entries[i].published, p.entries[i].unsaved = false, false
	}
}

// check recounts the books. refs are the references that tables hold.
func (p *pool) check(refs []int32) error {
	if len(p.entries) == 0 {
		return nil
	}
	if err := p.checkFreeList(); err != nil {
		return err
	}
	used, published, kept := 0, 0, 0
	for i := 1; i < len(p.entries); i++ {
		e := &p.entries[i]
		if e.refs != refs[i] {
			return fmt.Errorf("kvcache: %s %d has %d references, but tables hold %d", p.name, i, e.refs, refs[i])
		}
		if e.refs > 0 {
			used++
		}
		if e.unsaved && (!e.published || !e.listed) {
			return fmt.Errorf("kvcache: %s %d is to be copied, and is not published or not listed", p.name, i)
		}
		if !e.published {
			continue
		}
		published++
		if e.refs == 0 {
			kept++
		}
		if p.byHash[e.hash] != int32(i) {
			return fmt.Errorf("kvcache: %s %d is published, but its hash does not find it", p.name, i)
		}
	}
	if kept != p.kept {
		return fmt.Errorf("kvcache: %d entries, each a %s, are published and not used, but %d are counted", kept, p.name, p.kept)
	}
	if published != len(p.byHash) {
		return fmt.Errorf("kvcache: %d entries, each a %s, are published under %d hashes", published, p.name, len(p.byHash))
	}
	if used+p.free != p.total() {
		return fmt.Errorf("kvcache: %d used and %d free entries, each a %s, do not make %d", used, p.free, p.name, p.total())
	}
	return nil
}

// checkFreeList walks the free list.
func (p *pool) checkFreeList() error {
	free := 0
	for i := p.entries[0].next; i != 0; i = p.entries[i].next {
		if p.entries[i].refs != 0 {
			return fmt.Errorf("kvcache: %s %d is on the free list and has %d references", p.name, i, p.entries[i].refs)
		}
		if free++; free > p.total() {
			return fmt.Errorf("kvcache: the free list has a loop")
		}
	}
	if free != p.free {
		return fmt.Errorf("kvcache: the free list has %d entries, each a %s, but %d are counted", free, p.name, p.free)
	}
	return nil
}
