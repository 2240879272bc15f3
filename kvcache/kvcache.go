// Package kvcache keeps the books of the paged KV cache: which block belongs
// to which sequence, and which full blocks hold a prefix that others can
// share. It holds no tensor memory, takes no locks and reads no clock; one
// goroutine owns a Manager.
//
// A block is BlockTokens consecutive positions of one sequence. Full blocks
// whose content is settled are published under a chain hash: SHA-256, cut to
// 128 bits, over the hash of the block before and the block's token ids. The
// chain starts from the sequence's salt, so equal hashes mean equal salts and
// equal whole prefixes. Salts that outsiders cannot choose freely (keyed
// hashes) keep them from finding collisions offline.
//
// Identical blocks of two sequences are not merged: a table only ever grows at
// its end, which lets a step in flight and the books name the same blocks.
// (The chain, the free list that doubles as eviction order and the tail-first
// release are vLLM's, vllm/v1/core/block_pool.py and kv_cache_utils.py.)
package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"weir/internal/invariants"
)

// BlockID names a block of the device's pool. 0 is the null block.
type BlockID = int32

// Hash is a chain hash, or a salt: the chain's root.
type Hash [16]byte

// block is one entry of the pool's books.
type block struct {
	refs       int32 // tables that list this block
	published  bool  // hash is set and byHash[hash] is this block
	hash       Hash
	prev, next BlockID // free list; -1 when not on it
}

// Table is one sequence's claim on the pool. The zero Table is empty. A table
// belongs to one Manager and must be released exactly once.
//
//	positions   0 ............ chained*B ............ len(Blocks)*B
//	            | hash is known |  filling, or not yet published |
type Table struct {
	Blocks  []BlockID // entry i covers positions [i*B, (i+1)*B)
	chained int       // leading blocks that chain covers
	chain   Hash      // chain hash of Blocks[:chained], or the salt
	rooted  bool      // chain holds the salt or more
}

// Manager owns the books of one pool.
//
// Between calls: every block but 0 is either on the free list with refs == 0,
// or off it with refs > 0. A free block that is published can still be found
// until it is handed out again, so the free list is the eviction order: blocks
// without content worth keeping first, then the least recently released.
type Manager struct {
	blockTokens int
	blocks      []block
	byHash      map[Hash]BlockID // nil when prefix caching is off
	free        int
	buf         []byte // hash input: parent, then token ids
}

// New returns the books of a pool of numBlocks blocks of blockTokens positions
// each. Block 0 is never handed out.
func New(numBlocks, blockTokens int, caching bool) *Manager {
	m := &Manager{blockTokens: blockTokens, blocks: make([]block, numBlocks), free: numBlocks - 1,
		buf: make([]byte, len(Hash{})+4*blockTokens)}
	if caching {
		m.byHash = make(map[Hash]BlockID)
	}
	for i := range m.blocks { // the ring 0, 1, ..., n-1; block 0 is its sentinel
		m.blocks[i].prev = BlockID((i + numBlocks - 1) % numBlocks)
		m.blocks[i].next = BlockID((i + 1) % numBlocks)
	}
	return m
}

// BlockTokens is the number of positions in a block.
func (m *Manager) BlockTokens() int { return m.blockTokens }

// Free is the number of blocks that Grow can still hand out. Published blocks
// that nobody uses count as free.
func (m *Manager) Free() int { return m.free }

// Total is the number of blocks that can be handed out at all.
func (m *Manager) Total() int { return len(m.blocks) - 1 }

// Need is the number of blocks that n positions take.
func (m *Manager) Need(n int) int { return (n + m.blockTokens - 1) / m.blockTokens }

func (m *Manager) unlink(b BlockID) {
	k := &m.blocks[b]
	m.blocks[k.prev].next, m.blocks[k.next].prev = k.next, k.prev
	k.prev, k.next = -1, -1
	m.free--
}

// link puts b on the free list behind block after.
func (m *Manager) link(b, after BlockID) {
	k, next := &m.blocks[b], m.blocks[after].next
	k.prev, k.next = after, next
	m.blocks[after].next, m.blocks[next].prev = b, b
	m.free++
}

// hash extends a chain by one block of tokens.
func (m *Manager) hash(parent Hash, tokens []int32) Hash {
	n := copy(m.buf, parent[:])
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(m.buf[n:], uint32(t))
		n += 4
	}
	sum := sha256.Sum256(m.buf)
	return Hash(sum[:len(Hash{})])
}

// Share starts the empty table t with the longest published prefix of tokens
// and returns how many tokens that is: whole blocks, and never all of tokens,
// because the last one's logits are needed. With read false it only roots the
// chain, so that what t computes can be published.
func (m *Manager) Share(t *Table, tokens []int32, salt Hash, read bool) int {
	invariants.Check(len(t.Blocks) == 0, "kvcache: Share into a table of %d blocks", len(t.Blocks))
	t.chain, t.chained, t.rooted = salt, 0, true
	if m.byHash == nil || !read {
		return 0
	}
	n := 0
	for n+m.blockTokens < len(tokens) {
		h := m.hash(t.chain, tokens[n:n+m.blockTokens])
		b, ok := m.byHash[h]
		if !ok {
			break
		}
		m.ref(b)
		t.Blocks = append(t.Blocks, b)
		t.chain, n = h, n+m.blockTokens
	}
	t.chained = len(t.Blocks)
	return n
}

func (m *Manager) ref(b BlockID) {
	if m.blocks[b].refs == 0 {
		m.unlink(b)
	}
	m.blocks[b].refs++
}

// Fork starts the empty table dst with the leading blocks of src that hold
// tokens [0, n) in full, by reference, and returns how many tokens that is. It
// needs no prefix cache. src must have computed those positions in a step that
// is begun before, or with, the first that reads them through dst.
func (m *Manager) Fork(dst, src *Table, n int, salt Hash) int {
	invariants.Check(len(dst.Blocks) == 0, "kvcache: Fork into a table of %d blocks", len(dst.Blocks))
	k := min(n/m.blockTokens, len(src.Blocks))
	for _, b := range src.Blocks[:k] {
		m.ref(b)
	}
	dst.Blocks = append(dst.Blocks, src.Blocks[:k]...)
	if dst.chain, dst.chained = src.chain, src.chained; src.chained > k {
		dst.chain, dst.chained = salt, 0 // src is past the fork: dst finds the chain anew when it publishes
	}
	dst.rooted = true
	return k * m.blockTokens
}

// Grow extends t to hold n tokens. It takes all the blocks that needs, or none
// and reports false.
func (m *Manager) Grow(t *Table, n int) bool {
	need := m.Need(n) - len(t.Blocks)
	if need > m.free {
		return false
	}
	for range need {
		b := m.blocks[0].next
		m.unlink(b)
		k := &m.blocks[b]
		if k.published { // handing it out ends the old content's life in the prefix cache
			delete(m.byHash, k.hash)
			k.published = false
		}
		k.refs = 1
		t.Blocks = append(t.Blocks, b)
	}
	return true
}

// Publish makes findable the full blocks of t that tokens[:computed] has
// filled. Every one of these tokens must be settled: the KV of a token that
// may yet be discarded would be found under the wrong ids.
func (m *Manager) Publish(t *Table, tokens []int32, computed int) {
	if m.byHash == nil || !t.rooted {
		return
	}
	for (t.chained+1)*m.blockTokens <= computed {
		at := t.chained * m.blockTokens
		h := m.hash(t.chain, tokens[at:at+m.blockTokens])
		b := t.Blocks[t.chained]
		if _, dup := m.byHash[h]; !dup {
			invariants.Check(!m.blocks[b].published, "kvcache: block %d published under two hashes", b)
			m.byHash[h] = b
			m.blocks[b].hash, m.blocks[b].published = h, true
		}
		t.chain = h
		t.chained++
	}
}

// Release gives t's blocks back and empties it, keeping its memory. The last
// block goes first, so that a prefix outlives its continuations; a block that
// nobody could find again goes to the front of the free list.
func (m *Manager) Release(t *Table) {
	for i := len(t.Blocks) - 1; i >= 0; i-- {
		b := t.Blocks[i]
		k := &m.blocks[b]
		invariants.Check(k.refs > 0, "kvcache: block %d released twice", b)
		if k.refs--; k.refs > 0 {
			continue
		}
		if k.published {
			m.link(b, m.blocks[0].prev)
		} else {
			m.link(b, 0)
		}
	}
	*t = Table{Blocks: t.Blocks[:0]}
}

// Forget drops every published prefix. It does nothing and reports false while
// any block is in use.
func (m *Manager) Forget() bool {
	if m.free != m.Total() {
		return false
	}
	clear(m.byHash)
	for i := range m.blocks {
		m.blocks[i].published = false
	}
	return true
}

// Slot is the KV slot of position pos.
func (m *Manager) Slot(t *Table, pos int) int32 {
	return t.Blocks[pos/m.blockTokens]*int32(m.blockTokens) + int32(pos%m.blockTokens)
}

// Check recounts the books against all live tables.
func (m *Manager) Check(tables ...*Table) error {
	refs := make([]int32, len(m.blocks))
	for _, t := range tables {
		if t.chained > len(t.Blocks) {
			return fmt.Errorf("kvcache: chain of %d blocks in a table of %d", t.chained, len(t.Blocks))
		}
		for _, b := range t.Blocks {
			if b <= 0 || int(b) >= len(refs) {
				return fmt.Errorf("kvcache: block %d in a table", b)
			}
			refs[b]++
		}
	}
	free := 0
	for b := m.blocks[0].next; b != 0; b = m.blocks[b].next {
		if m.blocks[b].refs != 0 {
			return fmt.Errorf("kvcache: block %d is free with %d references", b, m.blocks[b].refs)
		}
		if free++; free > m.Total() {
			return fmt.Errorf("kvcache: the free list has a loop")
		}
	}
	if free != m.free {
		return fmt.Errorf("kvcache: the free list has %d blocks, the count says %d", free, m.free)
	}
	used, published := 0, 0
	for i := 1; i < len(m.blocks); i++ {
		k := &m.blocks[i]
		if k.refs != refs[i] {
			return fmt.Errorf("kvcache: block %d has %d references, tables hold %d", i, k.refs, refs[i])
		}
		if k.refs > 0 {
			used++
		}
		if k.published {
			published++
			if m.byHash[k.hash] != BlockID(i) {
				return fmt.Errorf("kvcache: block %d is published but not found", i)
			}
		}
	}
	if published != len(m.byHash) {
		return fmt.Errorf("kvcache: %d published blocks, %d hashes", published, len(m.byHash))
	}
	if used+free != m.Total() {
		return fmt.Errorf("kvcache: %d used + %d free of %d blocks", used, free, m.Total())
	}
	return nil
}
