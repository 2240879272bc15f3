package kvcache

import "weir/backend"

// Key says what a copy of a block or of a state holds, so that it is of use for any sequence whose tokens begin
// in the same way, also in another pool: in that of the same server after a restart.
type Key struct {
	Hash  Hash // of the chain up to its end; of a block, with the number of its group
	State bool // it is a state at the end of a block
}

// A Copy names what a block or a state slot holds that is to be copied.
type Copy struct {
	Key Key
	ID  int32 // the block or the state slot
}

// unsaved are the entries of a pool that were published and not yet copied elsewhere, in the order in which they were
// published. An entry is in the ring once at most, and whether what it holds now is to be copied is a matter of
// the entry itself.
type unsaved struct {
	ring        []int32 // nil: nothing is copied
	first, size int
	lost        uint64 // entries that were handed out again before they had been copied
}

// Copies has blocks and states that are published from now on listed for [Manager.NextCopy].
func (m *Manager) Copies() {
	for _, p := range []*pool{&m.blocks, &m.states} {
		p.unsaved.ring = make([]int32, len(p.entries))
	}
}

// NextCopy is what is to be copied next of what was published and can still be found. The caller copies it before the
// pool hands it out again, which no call but those of this package's Manager does, and then calls Copied. ok is false
// if there is nothing. What was copied before comes again when it is found, in case its copy is gone. States come first: there are few of them, and they are handed out again soon.
func (m *Manager) NextCopy() (c Copy, ok bool) {
	if id := m.states.nextUnsaved(); id != 0 {
		return Copy{Key{m.states.entries[id].hash, true}, id}, true
	}
	if id := m.blocks.nextUnsaved(); id != 0 {
		return Copy{Key{m.blocks.entries[id].hash, false}, id}, true
	}
	return Copy{}, false
}

// Copied takes what NextCopy has returned off its list.
func (m *Manager) Copied(c Copy) {
	p := &m.blocks
	if c.Key.State {
		p = &m.states
	}
	p.saved(c.ID)
}

// Uncopied is the number of blocks and states that were handed out again before they had been copied.
func (m *Manager) Uncopied() uint64 { return m.blocks.unsaved.lost + m.states.unsaved.lost }

// nextUnsaved is the first entry that is to be copied; 0: there is none.
func (p *pool) nextUnsaved() int32 {
	u := &p.unsaved
	for u.size > 0 {
		i := u.ring[u.first]
		if p.entries[i].unsaved {
			return i
		}
		p.entries[i].listed = false
		u.first, u.size = (u.first+1)%len(u.ring), u.size-1
	}
	return 0
}

// saved notes that entry i was copied.
func (p *pool) saved(i int32) { p.entries[i].unsaved, p.entries[i].saved = false, true }

// save notes that entry i, which has just been published or found, is to be copied, unless its copy is still there.
func (p *pool) save(i int32) {
	u, e := &p.unsaved, &p.entries[i]
	if u.ring == nil || !e.published {
		return
	}
	if e.unsaved = true; !e.listed {
		e.listed = true
		u.ring[(u.first+u.size)%len(u.ring)] = i
		u.size++
	}
}

// unsave notes that entry i is not found any more.
func (p *pool) unsave(i int32) {
	if e := &p.entries[i]; e.unsaved {
		if e.unsaved = false; !e.saved {
			p.unsaved.lost++
		}
	}
}

// Missing appends to dst what has to be copied back into the pool, so that a sequence of these tokens, which has the
// same salt, finds a longer prefix there than Share would find now. kept reports whether there is a copy.
// gain is how many tokens longer the prefix then is. The copies come in the order of positions, and the state at their
// end is the last of them. What of the prefix is in the pool already, and not in use, is evicted after everything else from then
// on, so that what is copied back does not take its place. If there are not enough free blocks, nothing is missing.
func (m *Manager) Missing(dst []Key, tokens []int32, salt Hash, kept func(Key) bool) (missing []Key, gain int) {
	if !m.Caching() {
		return dst, 0
	}
	m.boundWanted()
	w := walk{m: m, kept: kept, runs: make([]runOfBlocks, len(m.groups))}
	h, have, most, first := salt, 0, 0, len(dst)
	var at Hash // the chain up to most
	for n := m.blockTokens; n < len(tokens); n += m.blockTokens {
		h = m.hash(h, tokens[n-m.blockTokens:n])
		there, copied, ends := w.step(h, n)
		if ends {
			break
		}
		state := true // there is a state, or none is needed
		if m.Stateful() {
			_, state = m.states.byHash[h]
		}
		if there && state {
			have = n
		}
		if copied && (state || kept(Key{h, true})) {
			most, at = n, h
		}
	}
	if most <= have {
		return dst, 0
	}
	dst = w.append(dst, salt, tokens, most)
	if len(dst)-first+len(w.there) > m.blocks.free {
		return dst[:first], 0
	}
	for _, id := range w.there {
		m.blocks.refresh(id)
	}
	if m.Stateful() {
		if id, ok := m.states.byHash[at]; !ok {
			dst = append(dst, Key{at, true})
		} else if m.states.entries[id].refs == 0 {
			m.states.refresh(id)
		}
	}
	return dst, most - have
}

// refresh makes a free entry the last one to be handed out.
func (p *pool) refresh(i int32) {
	p.unlink(i)
	p.link(i, p.entries[0].prev)
}

// runOfBlocks is how many blocks of a group there are in a row: published ones, and such with copies.
type runOfBlocks struct{ pool, any int }

// walk goes along a chain of blocks and says where a prefix may end.
type walk struct {
	m    *Manager
	kept func(Key) bool
	runs []runOfBlocks

	there []int32 // free blocks in which a part of the prefix is
}

// step takes in the blocks that end after n tokens, whose chain hash is h. there says that a token after these finds
// all that it sees in the pool, and copied that it does if what there are copies of is copied back. ends says that no
// longer prefix can be had.
func (w *walk) step(h Hash, n int) (there, copied, ends bool) {
	m := w.m
	there, copied = true, true
	for g, group := range m.groups {
		key := inGroup(h, g)
		r, need := &w.runs[g], max(1, n/m.blockTokens-m.first(g, n))
		_, published := m.blocks.byHash[key]
		if r.pool++; !published {
			r.pool = 0
		}
		if r.any++; !published && !w.kept(Key{key, false}) {
			r.any = 0
			ends = ends || group == (backend.KVGroup{})
		}
		there, copied = there && r.pool >= need, copied && r.any >= need
	}
	return there, copied, ends
}

// append appends the blocks that a token after the first n sees and that are not in the pool, and notes those that are.
func (w *walk) append(dst []Key, salt Hash, tokens []int32, n int) []Key {
	m, h := w.m, salt
	for end := m.blockTokens; end <= n; end += m.blockTokens {
		parent, block := h, tokens[end-m.blockTokens:end]
		h = m.hash(h, block)
		for g := range m.groups {
			first := min(m.first(g, n), n/m.blockTokens-1) // of a group that sees nothing, the last block at any rate, as for find
			if key := inGroup(h, g); end/m.blockTokens > first {
				id, published := m.blocks.byHash[key]
				if !published {
					dst = append(dst, Key{key, false})
					m.want(Key{key, false}, origin{parent, end == m.blockTokens, uint16(g)}, block)
				} else if m.blocks.entries[id].refs == 0 {
					w.there = append(w.there, id)
				}
			}
		}
	}
	return dst
}

// Content is what a block or a state slot holds, as a backend copies it.
type Content struct {
	Key  Key
	Data []byte

	InMemory bool // of a copy: no disk was read for it
	External bool // it has come from another machine
}

// Published reports whether a block or a state is found in the pool.
func (m *Manager) Published(k Key) bool {
	p := &m.blocks
	if k.State {
		p = &m.states
	}
	_, there := p.byHash[k.Hash]
	return there
}

// Restore hands out a block or a state slot for a copy of what a key says, which the caller writes to it. Then it
// calls Restored. ok is false if none is needed, because there is one already, or none is free: a state slot is left for a
// sequence that may need it.
func (m *Manager) Restore(k Key) (id int32, ok bool) {
	p, least := &m.blocks, 1
	if k.State {
		p, least = &m.states, 2
	}
	if _, there := p.byHash[k.Hash]; there || p.free < least {
		return 0, false
	}
	return p.take(), true
}

// Restored lets what Restore has handed out be found. It is evicted like the blocks of a sequence that has ended.
// With ok false it holds nothing, and is not found.
func (m *Manager) Restored(k Key, id int32, ok bool) {
	p := &m.blocks
	if k.State {
		p = &m.states
		m.begun[id] = 0
	}
	if ok && m.known(k) {
		if p.publish(id, k.Hash) {
			m.storedAgain(k, id)
		}
		p.saved(id)
	}
	p.unref(id)
}

// AppendChain appends the keys of all that may be found of a sequence of these tokens, in the order of positions: at each end of a block
// the blocks of all groups and then, if there are states, the state. What holds the last token is not among them. Other than the methods of a Manager it
// may be called by anybody.
func AppendChain(dst []Key, tokens []int32, salt Hash, blockTokens, groups int, states bool) []Key {
	buf, h := make([]byte, len(Hash{})+4*blockTokens), salt
	for n := blockTokens; n < len(tokens); n += blockTokens {
		h = chain(buf, h, tokens[n-blockTokens:n])
		for g := range groups {
			dst = append(dst, Key{Hash: inGroup(h, g)})
		}
		if states {
			dst = append(dst, Key{Hash: h, State: true})
		}
	}
	return dst
}
