package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"weir/internal/invariants"
)

// BlockID names a block of the device's pool. 0 is the null block.
type BlockID = int32

// Hash is a chain hash, or the salt that a chain begins with.
type Hash [16]byte

// block is what the books say about one block of the pool.
type block struct {
	refs       int32 // number of tables that list the block
	published  bool  // byHash[hash] is this block
	hash       Hash
	prev, next BlockID // neighbours on the free list; -1 if the block is in use
}

// Table lists the blocks of one sequence. The zero Table is empty. A table
// belongs to one Manager and must be released exactly once. With B tokens to a
// block:
//
//	position  0 ................ chained*B ................ len(Blocks)*B
//	          | hashed into chain | being filled, or not yet published |
type Table struct {
	Blocks  []BlockID // entry i covers positions [i*B, (i+1)*B)
	chained int       // number of leading blocks that chain covers
	chain   Hash      // chain hash of Blocks[:chained]; the salt if chained is 0
	rooted  bool      // the salt is set, so the table can be published
}

// Manager keeps the books of one pool.
//
// Between calls, every block except block 0 is either on the free list and has
// no references, or is off the list and has at least one.
type Manager struct {
	blockTokens int
	blocks      []block          // by id; entry 0 is the head of the free list
	byHash      map[Hash]BlockID // published blocks; nil if prefix caching is off
	free        int              // length of the free list
	buf         []byte           // scratch for hash: the parent, then token ids
}

// Caching reports whether prefixes are cached.
func (m *Manager) Caching() bool { return m.byHash != nil }

// New returns the books of a pool of numBlocks blocks of blockTokens slots each,
// all of them free. Block 0 counts as one of them but is never handed out. With
// caching, full blocks can be published and found again.
func New(numBlocks, blockTokens int, caching bool) *Manager {
	m := &Manager{blockTokens: blockTokens, blocks: make([]block, numBlocks), free: numBlocks - 1,
		buf: make([]byte, len(Hash{})+4*blockTokens)}
	if caching {
		m.byHash = make(map[Hash]BlockID, numBlocks) // which does not grow then, within a step
	}
	for i := range m.blocks { // the free list is a ring through block 0
		m.blocks[i].prev = BlockID((i + numBlocks - 1) % numBlocks)
		m.blocks[i].next = BlockID((i + 1) % numBlocks)
	}
	return m
}

// BlockTokens is the number of slots in a block.
func (m *Manager) BlockTokens() int { return m.blockTokens }

// Free is the number of blocks that Grow can still hand out, including published
// blocks that no table lists.
func (m *Manager) Free() int { return m.free }

// Total is the number of blocks that can be handed out when none is in use.
func (m *Manager) Total() int { return len(m.blocks) - 1 }

// Need is the number of blocks that n tokens take.
func (m *Manager) Need(n int) int { return (n + m.blockTokens - 1) / m.blockTokens }

// unlink takes b off the free list.
func (m *Manager) unlink(b BlockID) {
	k := &m.blocks[b]
	m.blocks[k.prev].next, m.blocks[k.next].prev = k.next, k.prev
	k.prev, k.next = -1, -1
	m.free--
}

// link inserts b into the free list after the block prev. Block 0 stands at the
// front of the list.
func (m *Manager) link(b, prev BlockID) {
	k, next := &m.blocks[b], m.blocks[prev].next
	k.prev, k.next = prev, next
	m.blocks[prev].next, m.blocks[next].prev = b, b
	m.free++
}

// ref adds a reference to b, which leaves the free list with the first one.
func (m *Manager) ref(b BlockID) {
	if m.blocks[b].refs == 0 {
		m.unlink(b)
	}
	m.blocks[b].refs++
}

// hash extends the chain that ends in parent by one block of tokens.
func (m *Manager) hash(parent Hash, tokens []int32) Hash {
	n := copy(m.buf, parent[:])
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(m.buf[n:], uint32(t))
		n += 4
	}
	sum := sha256.Sum256(m.buf)
	return Hash(sum[:len(Hash{})])
}

// Share fills the empty table t with the longest published prefix of tokens and
// returns its length in tokens: whole blocks, and never all of tokens, because
// the logits of the last token are needed. If read is false, no prefix is looked
// up. In both cases the blocks of t can be published from then on.
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

// Fork fills the empty table dst with the leading blocks of src that lie wholly
// within positions [0, n), by reference, and returns their length in tokens. It
// works with prefix caching turned off. The step that computes these positions
// for src must be begun before the first step that reads them through dst, or be
// that same step.
func (m *Manager) Fork(dst, src *Table, n int, salt Hash) int {
	invariants.Check(len(dst.Blocks) == 0, "kvcache: Fork into a table of %d blocks", len(dst.Blocks))
	k := min(n/m.blockTokens, len(src.Blocks))
	for _, b := range src.Blocks[:k] {
		m.ref(b)
	}
	dst.Blocks = append(dst.Blocks, src.Blocks[:k]...)
	if dst.chain, dst.chained = src.chain, src.chained; src.chained > k {
		dst.chain, dst.chained = salt, 0 // src.chain covers more than dst has: Publish hashes dst from its start
	}
	dst.rooted = true
	return k * m.blockTokens
}

// Grow extends t so that it holds n tokens. If there are not enough free blocks
// it takes none and reports false.
func (m *Manager) Grow(t *Table, n int) bool {
	need := m.Need(n) - len(t.Blocks)
	if need > m.free {
		return false
	}
	for range need {
		b := m.blocks[0].next
		m.unlink(b)
		k := &m.blocks[b]
		if k.published { // its old content is overwritten, so it must not be found any more
			delete(m.byHash, k.hash)
			k.published = false
		}
		k.refs = 1
		t.Blocks = append(t.Blocks, b)
	}
	return true
}

// Publish lets other sequences find the blocks of t that tokens[:computed] fill
// completely. All of these tokens must be final: if one of them could still be
// discarded, its block would be found under the wrong token ids.
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

// Release gives the blocks of t back and empties it; the memory of t.Blocks is
// kept for reuse. The last block is released first, so that the end of a prefix
// is evicted before its beginning. A block that is not published goes to the
// front of the free list, because nothing is lost with it.
func (m *Manager) Release(t *Table) {
	for i := len(t.Blocks) - 1; i >= 0; i-- {
		b := t.Blocks[i]
		k := &m.blocks[b]
		invariants.Check(k.refs > 0, "kvcache: block %d released twice", b)
		if k.refs--; k.refs > 0 {
			continue
		}
		if k.published {
			m.link(b, m.blocks[0].prev) // the end of the list
		} else {
			m.link(b, 0)
		}
	}
	*t = Table{Blocks: t.Blocks[:0]}
}

// Forget empties the prefix cache. If any block is in use it does nothing and
// reports false.
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

// Slot is the KV slot of position pos of the sequence with table t.
func (m *Manager) Slot(t *Table, pos int) int32 {
	return t.Blocks[pos/m.blockTokens]*int32(m.blockTokens) + int32(pos%m.blockTokens)
}

// Check recounts the books. tables are all tables that are in use. The error
// says what is wrong first.
func (m *Manager) Check(tables ...*Table) error {
	refs, err := m.countReferences(tables)
	if err != nil {
		return err
	}
	if err := m.checkFreeList(); err != nil {
		return err
	}
	return m.checkBlocks(refs)
}

// countReferences returns how many of the tables list each block.
func (m *Manager) countReferences(tables []*Table) ([]int32, error) {
	refs := make([]int32, len(m.blocks))
	for _, t := range tables {
		if t.chained > len(t.Blocks) {
			return nil, fmt.Errorf("kvcache: the hash of a table of %d blocks covers %d", len(t.Blocks), t.chained)
		}
		for _, b := range t.Blocks {
			if b <= 0 || int(b) >= len(refs) {
				return nil, fmt.Errorf("kvcache: a table lists block %d of a pool of %d", b, len(refs))
			}
			refs[b]++
		}
	}
	return refs, nil
}

// checkFreeList walks the free list.
func (m *Manager) checkFreeList() error {
	free := 0
	for b := m.blocks[0].next; b != 0; b = m.blocks[b].next {
		if m.blocks[b].refs != 0 {
			return fmt.Errorf("kvcache: block %d is on the free list and has %d references", b, m.blocks[b].refs)
		}
		if free++; free > m.Total() {
			return fmt.Errorf("kvcache: the free list has a loop")
		}
	}
	if free != m.free {
		return fmt.Errorf("kvcache: the free list has %d blocks, but %d are counted", free, m.free)
	}
	return nil
}

// checkBlocks compares every block with refs, the references that tables hold,
// and with the map of published blocks.
func (m *Manager) checkBlocks(refs []int32) error {
	used, published := 0, 0
	for i := 1; i < len(m.blocks); i++ {
		k := &m.blocks[i]
		if k.refs != refs[i] {
			return fmt.Errorf("kvcache: block %d has %d references, but tables hold %d", i, k.refs, refs[i])
		}
		if k.refs > 0 {
			used++
		}
		if !k.published {
			continue
		}
		published++
		if m.byHash[k.hash] != BlockID(i) {
			return fmt.Errorf("kvcache: block %d is published, but its hash does not find it", i)
		}
	}
	if published != len(m.byHash) {
		return fmt.Errorf("kvcache: %d blocks are published under %d hashes", published, len(m.byHash))
	}
	if used+m.free != m.Total() {
		return fmt.Errorf("kvcache: %d used and %d free blocks do not make %d", used, m.free, m.Total())
	}
	return nil
}
