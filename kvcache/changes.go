package kvcache

import "slices"

// ChangeKind says what has changed.
type ChangeKind uint8

// Kinds of changes.
const (
	Stored  ChangeKind = iota // it can be found from now on
	Removed                   // it cannot be found any more
	Cleared                   // nothing can be found any more, nor any copy of it
)

// A Change says what has become of a block, of a state at the end of a block, or of a copy of one of them, for
// somebody who keeps an index of the prefix cache in another place.
type Change struct {
	Kind   ChangeKind
	Copied bool   // it is about a copy outside of the pool
	First  bool   // Stored: the block is the first of its chain, and Parent is the salt
	State  bool   // it is about a state
	Group  uint16 // of a state, the number of groups
	Hash   Hash   // of the chain up to the end of the block, the same in all groups
	Parent Hash   // Stored: of the chain up to its beginning
	Tokens int32  // Stored: where its tokens begin in Changes.Tokens; -1: they are not known any more
}

// Changes are the changes since they were last taken, in their order.
type Changes struct {
	List   []Change
	Tokens []int32
	Lost   bool // there was no room for all: List has none, and whoever keeps an index has to start over
}

// Reset empties c and keeps its memory.
func (c *Changes) Reset() { *c = Changes{List: c.List[:0], Tokens: c.Tokens[:0]} }

// add appends a change, unless there is no room: nothing is allocated in a step.
func (c *Changes) add(ch Change, tokens []int32) {
	if c.Lost || len(c.List) == cap(c.List) || len(c.Tokens)+len(tokens) > cap(c.Tokens) {
		c.Lost, c.List, c.Tokens = true, c.List[:0], c.Tokens[:0]
		return
	}
	if ch.Tokens = -1; len(tokens) > 0 {
		ch.Tokens = int32(len(c.Tokens))
	}
	c.List, c.Tokens = append(c.List, ch), append(c.Tokens, tokens...)
}

// watch is what a Manager knows of blocks so that it can say what they were. nil: nobody asks.
type watch struct {
	changes Changes
	origins []origin // by block
	tokens  []int32  // of all blocks
	wanted  map[Key]wanted
}

// origin is what a published block was published with, except its tokens.
type origin struct {
	parent Hash
	first  bool
	group  uint16
}

// wanted is what a block is that may be copied back.
type wanted struct {
	origin
	tokens []int32
}

// Watch has changes listed from now on, before anything is published, up to so many between two calls of
// Changes.Reset. The first says that nothing can be found.
func (m *Manager) Watch(most int) {
	w := &watch{origins: make([]origin, len(m.blocks.entries)), tokens: make([]int32, len(m.blocks.entries)*m.blockTokens), wanted: map[Key]wanted{}}
	w.changes = Changes{List: make([]Change, 0, most), Tokens: make([]int32, 0, most*m.blockTokens)}
	m.watch = w
	m.blocks.removed = func(i int32, h Hash) {
		g := w.origins[i].group
		w.changes.add(Change{Kind: Removed, Group: g, Hash: inGroup(h, int(g))}, nil)
	}
	m.states.removed = func(_ int32, h Hash) {
		w.changes.add(Change{Kind: Removed, State: true, Group: uint16(len(m.groups)), Hash: h}, nil)
	}
	w.changes.add(Change{Kind: Cleared}, nil)
}

// Changes are the changes that were listed and not taken; nil without Watch. They belong to m, whose next call may add to them.
func (m *Manager) Changes() *Changes {
	if m.watch == nil {
		return nil
	}
	return &m.watch.changes
}

// stored notes that block b was published.
func (m *Manager) stored(b BlockID, h Hash, o origin, tokens []int32) {
	if w := m.watch; w != nil {
		w.origins[b] = o
		copy(w.tokens[int(b)*m.blockTokens:], tokens)
		w.changes.add(Change{Kind: Stored, First: o.first, Group: o.group, Hash: h, Parent: o.parent}, tokens)
	}
}

// storedState notes that a state was published, or copied, at the end of the block with hash h.
func (m *Manager) storedState(h Hash, copied bool) {
	w := m.watch
	if w == nil {
		return
	}
	c := Change{Kind: Stored, Copied: copied, State: true, Group: uint16(len(m.groups)), Hash: h}
	for g := range m.groups {
		if b, ok := m.blocks.byHash[inGroup(h, g)]; ok {
			c.First, c.Parent = w.origins[b].first, w.origins[b].parent
			w.changes.add(c, w.tokens[int(b)*m.blockTokens:][:m.blockTokens])
			return
		}
	}
	w.changes.add(c, nil)
}

// CopyStored lists a copy that can be found from now on: of what is published where c says.
func (m *Manager) CopyStored(c Copy) {
	w := m.watch
	switch {
	case w == nil:
	case c.Key.State:
		m.storedState(c.Key.Hash, true)
	default:
		o := w.origins[c.ID]
		w.changes.add(Change{Kind: Stored, Copied: true, First: o.first, Group: o.group, Hash: inGroup(c.Key.Hash, int(o.group)), Parent: o.parent}, w.tokens[int(c.ID)*m.blockTokens:][:m.blockTokens])
	}
}

// want notes what a block is that may be copied back, because its key does not say it.
func (m *Manager) want(k Key, o origin, tokens []int32) {
	if w := m.watch; w != nil {
		w.wanted[k] = wanted{o, slices.Clone(tokens)}
	}
}

// boundWanted forgets what was noted by want, if it is more than the pool could ever hold.
func (m *Manager) boundWanted() {
	if w := m.watch; w != nil && len(w.wanted) > len(m.blocks.entries) {
		clear(w.wanted)
	}
}

// known reports whether others can be told what a key names. What they cannot be told of had better not be found.
func (m *Manager) known(k Key) bool {
	if m.watch == nil || k.State {
		return true
	}
	_, ok := m.watch.wanted[k]
	return ok
}

// storedAgain notes that what a key names was copied back to a block or a state slot.
func (m *Manager) storedAgain(k Key, id int32) {
	switch w := m.watch; {
	case w == nil:
	case k.State:
		m.storedState(k.Hash, false)
	default:
		was := w.wanted[k]
		delete(w.wanted, k)
		m.stored(id, inGroup(k.Hash, int(was.group)), was.origin, was.tokens)
	}
}
