package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"weir/backend"
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
//	position  0 ................ chained*B ................ len*B
//	          | hashed into chain | being filled, or not yet published |
//
// With G groups of layers there are G blocks for the same positions.
type Table struct {
	Blocks  []BlockID // entry i*G+g covers positions [i*B, (i+1)*B) in group g; 0: the block was given back, see Slide
	slid    int       // tokens from this position on can be computed: what they see is held
	chained int       // number of leading entries of a group that chain covers
	chain   Hash      // chain hash of the tokens in them; the salt if chained is 0
	rooted  bool      // the salt is set, so the table can be published
	states  tableStates
}

// Manager keeps the books of a pool of blocks and, for a network with a recurrent state, of one of
// state slots.
type Manager struct {
	blockTokens int
	groups      []backend.KVGroup // at least one
	runs        []int             // scratch for Share, by group: published blocks in a row
	blocks      pool
	windowed    int     // blocks in use of groups that do not see all positions
	states      pool    // state slots; empty if there are none
	begun       []int32 // by state slot: how many sequences have begun with what it was published with
	buf         []byte  // scratch for hash: the parent, then token ids
	watch       *watch  // what changes; nil: nobody asks
}

// Caching reports whether prefixes are cached.
func (m *Manager) Caching() bool { return m.blocks.byHash != nil }

// New returns the books of a pool of numBlocks blocks of blockTokens slots each, and of numStates
// state slots, all of them free. Block 0 and state slot 0 count but are never handed out; numStates
// is 0 if sequences have no recurrent state. With caching, full blocks and states at their ends
// can be published and found again. No groups stand for one that sees all positions.
func New(numBlocks, blockTokens, numStates int, caching bool, groups ...backend.KVGroup) *Manager {
	if len(groups) == 0 {
		groups = make([]backend.KVGroup, 1)
	}
	return &Manager{blockTokens: blockTokens, groups: groups, runs: make([]int, len(groups)),
		blocks: newPool("block", numBlocks, caching), states: newPool("state slot", numStates, caching),
		begun: make([]int32, numStates), buf: make([]byte, len(Hash{})+4*blockTokens)}
}

// BlockTokens is the number of slots in a block.
func (m *Manager) BlockTokens() int { return m.blockTokens }

// Free is the number of blocks that Grow can still hand out, including published
// blocks that no table lists.
func (m *Manager) Free() int { return m.blocks.free }

// Total is the number of blocks that can be handed out when none is in use.
func (m *Manager) Total() int { return m.blocks.total() }

// Windowed is the number of blocks in use for groups of layers that see a window or a chunk of positions.
func (m *Manager) Windowed() int { return m.windowed }

// refBlock adds a reference to a block of group g.
func (m *Manager) refBlock(b BlockID, g int) {
	if m.groups[g] != (backend.KVGroup{}) && m.blocks.entries[b].refs == 0 {
		m.windowed++
	}
	m.blocks.ref(b)
}

// unrefBlock takes a reference to a block of group g away.
func (m *Manager) unrefBlock(b BlockID, g int) {
	m.blocks.unref(b)
	if m.groups[g] != (backend.KVGroup{}) && m.blocks.entries[b].refs == 0 {
		m.windowed--
	}
}

// Entries is the number of blocks of a group that n tokens are in.
func (m *Manager) Entries(n int) int { return (n + m.blockTokens - 1) / m.blockTokens }

// Lacks is the number of blocks that Grow takes to make t hold n tokens.
func (m *Manager) Lacks(t *Table, n int) int {
	return max(0, m.Entries(n)*len(m.groups)-len(t.Blocks))
}

// Held is the number of blocks that t holds.
func (m *Manager) Held(t *Table) int { return m.HeldAt(t, t.slid) }

// HeldAt is the number of blocks that t would hold after Slide to pos, which is not before that of an
// earlier call.
func (m *Manager) HeldAt(t *Table, pos int) int {
	n := len(t.Blocks)
	for g := range m.groups {
		n -= min(m.first(g, pos), len(t.Blocks)/len(m.groups))
	}
	return n
}

// Holds is the number of positions for which t has blocks.
func (m *Manager) Holds(t *Table) int { return len(t.Blocks) / len(m.groups) * m.blockTokens }

// first is the first entry of group g that a token at position pos, or a later one, sees.
func (m *Manager) first(g, pos int) int { return m.groups[g].First(pos) / m.blockTokens }

// inGroup is the hash under which the block of group g is published. Groups have blocks of their own
// for the same tokens.
func inGroup(h Hash, g int) Hash {
	h[len(h)-1] ^= byte(g)
	h[len(h)-2] ^= byte(g >> 8)
	return h
}

// hash extends the chain that ends in parent by one block of tokens.
func (m *Manager) hash(parent Hash, tokens []int32) Hash { return chain(m.buf, parent, tokens) }

// chain is the same with the scratch memory of a caller, which has room for the parent and the token ids.
func chain(buf []byte, parent Hash, tokens []int32) Hash {
	n := copy(buf, parent[:])
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(buf[n:], uint32(t))
		n += 4
	}
	sum := sha256.Sum256(buf)
	return Hash(sum[:len(Hash{})])
}

// Share fills the empty table t with the longest published prefix of tokens and
// returns its length in tokens: whole blocks, and never all of tokens, because
// the logits of the last token are needed. Of a group that does not look back to the start, the blocks
// that the next token sees are enough. With state slots, the prefix also ends where a state
// was kept, from which t goes on. If read is false, no prefix is looked
// up. In both cases the blocks of t can be published from then on.
func (m *Manager) Share(t *Table, tokens []int32, salt Hash, read bool) int {
	invariants.Check(len(t.Blocks) == 0, "kvcache: Share into a table of %d blocks", len(t.Blocks))
	t.chain, t.chained, t.rooted, t.slid = salt, 0, true, 0
	if !m.Caching() || !read {
		return 0
	}
	clear(m.runs)
	h, state, longest := salt, StateID(0), 0
	for n := m.blockTokens; n < len(tokens); n += m.blockTokens {
		h = m.hash(h, tokens[n-m.blockTokens:n])
		there, ends := m.find(t, h, n)
		if ends {
			break
		}
		if !there {
			continue
		}
		longest = n / m.blockTokens
		if m.Stateful() {
			s, ok := m.states.byHash[h]
			if !ok {
				continue
			}
			state = s
		}
		t.chain, t.chained = h, longest
	}
	if longest > t.chained { // those are of no use without the state at their end
		t.states.branch = longest * m.blockTokens
	}
	m.cut(t, t.chained)
	if state != 0 {
		m.startFrom(t, state)
	}
	return t.chained * m.blockTokens
}

// find appends the blocks to t that are published under h, which is the chain hash of the first n
// tokens; 0 for a group that has none. there says that a token after these finds all that it sees, and the last
// block at any rate, so that where nothing is seen is no hit. ends says that none ever will.
func (m *Manager) find(t *Table, h Hash, n int) (there, ends bool) {
	there = true
	for g, group := range m.groups {
		b, ok := m.blocks.byHash[inGroup(h, g)]
		t.Blocks = append(t.Blocks, b)
		if m.runs[g]++; !ok {
			m.runs[g] = 0
			ends = ends || group == (backend.KVGroup{})
		}
		there = there && m.runs[g] >= max(1, n/m.blockTokens-m.first(g, n))
	}
	return there, ends
}

// cut shortens t to so many entries, of which it takes references to what a token after them sees.
func (m *Manager) cut(t *Table, entries int) {
	t.Blocks, t.slid = t.Blocks[:entries*len(m.groups)], entries*m.blockTokens
	for g := range m.groups {
		for i := range entries {
			if b := &t.Blocks[i*len(m.groups)+g]; i < m.first(g, t.slid) {
				*b = 0
			} else {
				m.refBlock(*b, g)
			}
		}
	}
}

// Fork fills the empty table dst with the leading blocks of src that lie wholly
// within positions [0, n), by reference, and returns their length in tokens. With state slots,
// they end where src has kept a state. If src has given blocks back that a token after them sees, there
// are none. It works with prefix caching turned off. The step that computes these positions
// for src must be begun before the first step that reads them through dst, or be
// that same step.
func (m *Manager) Fork(dst, src *Table, n int, salt Hash) int {
	invariants.Check(len(dst.Blocks) == 0, "kvcache: Fork into a table of %d blocks", len(dst.Blocks))
	k, state := min(n, m.Holds(src))/m.blockTokens, StateID(0)
	if m.Stateful() {
		k, state = src.states.forkAt(n, m.blockTokens)
	}
	for g := range m.groups {
		if min(m.first(g, src.slid), k) > m.first(g, k*m.blockTokens) {
			k, state = 0, 0
		}
	}
	dst.Blocks = append(dst.Blocks, src.Blocks[:k*len(m.groups)]...)
	m.cut(dst, k)
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
	need := m.Lacks(t, n)
	if need > m.blocks.free || m.Stateful() && !m.ownState(t) {
		return false
	}
	for range need {
		if m.groups[len(t.Blocks)%len(m.groups)] != (backend.KVGroup{}) {
			m.windowed++
		}
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
		at, parent := t.chained*m.blockTokens, t.chain
		block := tokens[at : at+m.blockTokens]
		t.chain = m.hash(t.chain, block)
		for g := range m.groups {
			if b := t.Blocks[t.chained*len(m.groups)+g]; b != 0 && m.blocks.publish(b, inGroup(t.chain, g)) {
				m.stored(b, t.chain, origin{parent, t.chained == 0, uint16(g)}, block)
			}
		}
		t.chained++
		if len(t.states.kept) > 0 {
			m.publishKept(t, at+m.blockTokens)
		}
	}
}

// Slide gives the blocks of t back that no token at position pos or later sees, for the layers of some
// group. What was published is still found until it is handed out again. All steps that compute
// tokens before pos must have ended, and those tokens must have been published if they are to be.
func (m *Manager) Slide(t *Table, pos int) {
	entries := len(t.Blocks) / len(m.groups)
	for g := range m.groups {
		for i := m.first(g, t.slid); i < min(m.first(g, pos), entries); i++ {
			b := &t.Blocks[i*len(m.groups)+g]
			m.unrefBlock(*b, g)
			*b = 0
		}
	}
	t.slid = max(t.slid, pos)
}

// Release gives the blocks and states of t back and empties it; the memory of t.Blocks is
// kept for reuse. The last block is released first, so that the end of a prefix
// is evicted before its beginning.
func (m *Manager) Release(t *Table) {
	if m.Stateful() {
		m.releaseStates(t)
	}
	for i := len(t.Blocks) - 1; i >= 0; i-- {
		if b := t.Blocks[i]; b != 0 {
			m.unrefBlock(b, i%len(m.groups))
		}
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
	if m.watch != nil {
		m.watch.changes.add(Change{Kind: Cleared}, nil)
	}
	return true
}

// Groups is the number of groups of layers with blocks of their own.
func (m *Manager) Groups() int { return len(m.groups) }

// Slot is the KV slot of position pos of the sequence with table t, for the layers of group g.
func (m *Manager) Slot(t *Table, g, pos int) int32 {
	return t.Blocks[pos/m.blockTokens*len(m.groups)+g]*int32(m.blockTokens) + int32(pos%m.blockTokens)
}

// AppendTable appends the blocks of group g to dst, in the order of positions; 0 for those that were given back.
func (m *Manager) AppendTable(dst []BlockID, t *Table, g int) []BlockID {
	if len(m.groups) == 1 {
		return append(dst, t.Blocks...)
	}
	for i := g; i < len(t.Blocks); i += len(m.groups) {
		dst = append(dst, t.Blocks[i])
	}
	return dst
}

// Check recounts the books. tables are all tables that are in use. The error
// says what is wrong first.
func (m *Manager) Check(tables ...*Table) error {
	refs, windowed := make([]int32, len(m.blocks.entries)), 0
	for _, t := range tables {
		entries := len(t.Blocks) / len(m.groups)
		if t.chained > entries || len(t.Blocks)%len(m.groups) > 0 {
			return fmt.Errorf("kvcache: the hash of a table of %d blocks of %d groups covers %d", len(t.Blocks), len(m.groups), t.chained)
		}
		for i, b := range t.Blocks {
			gone := i/len(m.groups) < m.first(i%len(m.groups), t.slid)
			if gone != (b == 0) || b < 0 || int(b) >= len(refs) {
				return fmt.Errorf("kvcache: a table lists block %d of a pool of %d, and is slid to position %d", b, len(refs), t.slid)
			}
			if refs[b]++; b != 0 && refs[b] == 1 && m.groups[i%len(m.groups)] != (backend.KVGroup{}) {
				windowed++
			}
		}
	}
	refs[0] = 0
	if windowed != m.windowed {
		return fmt.Errorf("kvcache: %d blocks are used by groups with windows, but %d are counted", windowed, m.windowed)
	}
	if err := m.blocks.check(refs); err != nil {
		return err
	}
	return m.checkStates(tables)
}
