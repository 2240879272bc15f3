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
	states  tableStates
}

// Manager keeps the books of a pool of blocks and, for a network with a recurrent state, of one of
// state slots.
type Manager struct {
	blockTokens int
	blocks      pool
	states      pool    // state slots; empty if there are none
	begun       []int32 // by state slot: how many sequences have begun with what it was published with
	buf         []byte  // scratch for hash: the parent, then token ids
}

// Caching reports whether prefixes are cached.
func (m *Manager) Caching() bool { return m.blocks.byHash != nil }

// New returns the books of a pool of numBlocks blocks of blockTokens slots each, and of numStates
// state slots, all of them free. Block 0 and state slot 0 count but are never handed out; numStates
// is 0 if sequences have no recurrent state. With caching, full blocks and states at their ends
// can be published and found again.
func New(numBlocks, blockTokens, numStates int, caching bool) *Manager {
	return &Manager{blockTokens: blockTokens, blocks: newPool("block", numBlocks, caching), states: newPool("state slot", numStates, caching),
		begun: make([]int32, numStates), buf: make([]byte, len(Hash{})+4*blockTokens)}
}

// BlockTokens is the number of slots in a block.
func (m *Manager) BlockTokens() int { return m.blockTokens }

// Free is the number of blocks that Grow can still hand out, including published
// blocks that no table lists.
func (m *Manager) Free() int { return m.blocks.free }

// Total is the number of blocks that can be handed out when none is in use.
func (m *Manager) Total() int { return m.blocks.total() }

// Need is the number of blocks that n tokens take.
func (m *Manager) Need(n int) int { return (n + m.blockTokens - 1) / m.blockTokens }

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
// the logits of the last token are needed. With state slots, the prefix also ends where a state
// was kept, from which t goes on. If read is false, no prefix is looked
// up. In both cases the blocks of t can be published from then on.
func (m *Manager) Share(t *Table, tokens []int32, salt Hash, read bool) int {
	invariants.Check(len(t.Blocks) == 0, "kvcache: Share into a table of %d blocks", len(t.Blocks))
	t.chain, t.chained, t.rooted = salt, 0, true
	if !m.Caching() || !read {
		return 0
	}
	h, state := salt, StateID(0)
	for n := m.blockTokens; n < len(tokens); n += m.blockTokens {
		h = m.hash(h, tokens[n-m.blockTokens:n])
		b, ok := m.blocks.byHash[h]
		if !ok {
			break
		}
		t.Blocks = append(t.Blocks, b)
		if m.Stateful() {
			s, ok := m.states.byHash[h]
			if !ok {
				continue
			}
			state = s
		}
		t.chain, t.chained = h, len(t.Blocks)
	}
	if len(t.Blocks) > t.chained { // those are of no use without the state at their end
		t.states.branch = len(t.Blocks) * m.blockTokens
		t.Blocks = t.Blocks[:t.chained]
	}
	for _, b := range t.Blocks {
		m.blocks.ref(b)
	}
	if state != 0 {
		m.startFrom(t, state)
	}
	return t.chained * m.blockTokens
}

// Fork fills the empty table dst with the leading blocks of src that lie wholly
// within positions [0, n), by reference, and returns their length in tokens. With state slots,
// they end where src has kept a state. It
// works with prefix caching turned off. The step that computes these positions
// for src must be begun before the first step that reads them through dst, or be
// that same step.
func (m *Manager) Fork(dst, src *Table, n int, salt Hash) int {
	invariants.Check(len(dst.Blocks) == 0, "kvcache: Fork into a table of %d blocks", len(dst.Blocks))
	k, state := min(n/m.blockTokens, len(src.Blocks)), StateID(0)
	if m.Stateful() {
		k, state = src.states.forkAt(n, m.blockTokens)
	}
	for _, b := range src.Blocks[:k] {
		m.blocks.ref(b)
	}
	dst.Blocks = append(dst.Blocks, src.Blocks[:k]...)
	if dst.chain, dst.chained = src.chain, src.chained; src.chained > k {
		dst.chain, dst.chained = salt, 0 // src.chain covers more than dst has: Publish hashes dst from its start
	}
	dst.rooted = true
	if state != 0 {
		m.startFrom(dst, state)
	}
	return k * m.blockTokens
}

// Grow extends t so that it holds n tokens, and makes sure that it has a state slot of its own, if
// there are any. If there are not enough free blocks, or no free slot, it takes none and
// reports false.
func (m *Manager) Grow(t *Table, n int) bool {
	need := m.Need(n) - len(t.Blocks)
	if need > m.blocks.free || m.Stateful() && !m.ownState(t) {
		return false
	}
	for range need {
		t.Blocks = append(t.Blocks, m.blocks.take())
	}
	return true
}

// Publish lets other sequences find the blocks of t that tokens[:computed] fill
// completely, and the states that were kept at their ends. All of these tokens must be final: if
// one of them could still be discarded, its block would be found under the wrong token ids.
func (m *Manager) Publish(t *Table, tokens []int32, computed int) {
	if !m.Caching() || !t.rooted {
		return
	}
	for (t.chained+1)*m.blockTokens <= computed {
		at := t.chained * m.blockTokens
		t.chain = m.hash(t.chain, tokens[at:at+m.blockTokens])
		m.blocks.publish(t.Blocks[t.chained], t.chain)
		t.chained++
		if len(t.states.kept) > 0 {
			m.publishKept(t, at+m.blockTokens)
		}
	}
}

// Release gives the blocks and states of t back and empties it; the memory of t.Blocks is
// kept for reuse. The last block is released first, so that the end of a prefix
// is evicted before its beginning.
func (m *Manager) Release(t *Table) {
	if m.Stateful() {
		m.releaseStates(t)
	}
	for i := len(t.Blocks) - 1; i >= 0; i-- {
		m.blocks.unref(t.Blocks[i])
	}
	*t = Table{Blocks: t.Blocks[:0], states: tableStates{kept: t.states.kept[:0]}}
}

// Forget empties the prefix cache. If any block or state slot is in use it does nothing and
// reports false.
func (m *Manager) Forget() bool {
	if m.blocks.free != m.blocks.total() || m.states.free != m.states.total() {
		return false
	}
	m.blocks.forget()
	m.states.forget()
	return true
}

// Slot is the KV slot of position pos of the sequence with table t.
func (m *Manager) Slot(t *Table, pos int) int32 {
	return t.Blocks[pos/m.blockTokens]*int32(m.blockTokens) + int32(pos%m.blockTokens)
}

// Check recounts the books. tables are all tables that are in use. The error
// says what is wrong first.
func (m *Manager) Check(tables ...*Table) error {
	refs := make([]int32, len(m.blocks.entries))
	for _, t := range tables {
		if t.chained > len(t.Blocks) {
			return fmt.Errorf("kvcache: the hash of a table of %d blocks covers %d", len(t.Blocks), t.chained)
		}
		for _, b := range t.Blocks {
			if b <= 0 || int(b) >= len(refs) {
				return fmt.Errorf("kvcache: a table lists block %d of a pool of %d", b, len(refs))
			}
			refs[b]++
		}
	}
	if err := m.blocks.check(refs); err != nil {
		return err
	}
	return m.checkStates(tables)
}
