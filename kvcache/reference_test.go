package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// reference is the cache at its simplest, which Manager is compared with: a
// prefix is known by its salt and token ids, written out as a string, and the
// free list is a slice.
type reference struct {
	blockTokens int
	groups      []backend.KVGroup
	content     map[BlockID]string // of published blocks
	refs        map[BlockID]int
	free        []BlockID
}

// referenceTable is a Table of the reference.
type referenceTable struct {
	blocks    [][]BlockID // by entry and group; 0: given back
	published int
	salt      byte
}

func newReference(blocks, blockTokens int, groups []backend.KVGroup) *reference {
	r := &reference{blockTokens: blockTokens, groups: groups, content: map[BlockID]string{}, refs: map[BlockID]int{}}
	for b := 1; b < blocks; b++ {
		r.free = append(r.free, BlockID(b))
	}
	return r
}

// content names a prefix.
func content(g int, salt byte, tokens []int32) string { return fmt.Sprint(g, salt, tokens) }

// find is the block that is published with this content, or 0.
func (r *reference) find(content string) BlockID {
	for b, c := range r.content {
		if c == content {
			return b
		}
	}
	return 0
}

// sees are the entries of group g that a token at position pos sees before its own block.
func (r *reference) sees(g, pos, entry int) bool {
	for p := pos; p >= 0; p-- {
		if w := r.groups[g]; w.Window > 0 && p <= pos-w.Window || w.Chunk > 0 && p/w.Chunk != pos/w.Chunk {
			break
		}
		if p/r.blockTokens == entry {
			return true
		}
	}
	return false
}

// share tries all lengths, the longest first.
func (r *reference) share(salt byte, tokens []int32) *referenceTable {
	for n := (len(tokens) - 1) / r.blockTokens; n > 0; n-- {
		t := &referenceTable{salt: salt, published: n}
		if r.begin(t, n, func(g, i int) BlockID { return r.find(content(g, salt, tokens[:(i+1)*r.blockTokens])) }) {
			return t
		}
	}
	return &referenceTable{salt: salt}
}

func (r *reference) fork(src *referenceTable, n int) *referenceTable {
	t := &referenceTable{salt: src.salt}
	if !r.begin(t, n/r.blockTokens, func(g, i int) BlockID { return src.blocks[i][g] }) {
		return &referenceTable{salt: src.salt}
	}
	if src.published <= len(t.blocks) {
		t.published = src.published // what was found to be published twice is not published later
	}
	return t
}

// begin takes the first n entries of a table from a source, as far as the token after them sees them. It
// reports false if one is missing.
func (r *reference) begin(t *referenceTable, n int, from func(g, entry int) BlockID) bool {
	for i := range n {
		entry := make([]BlockID, len(r.groups))
		for g := range r.groups {
			b := from(g, i)
			seen := r.sees(g, n*r.blockTokens, i)
			if (seen || t.published > 0 && i == n-1) && b == 0 {
				return false
			}
			if seen {
				entry[g] = b
			}
		}
		t.blocks = append(t.blocks, entry)
	}
	for _, entry := range t.blocks {
		for _, b := range entry {
			r.ref(b)
		}
	}
	return true
}

func (r *reference) ref(b BlockID) {
	if r.refs[b]++; r.refs[b] == 1 && b > 0 {
		r.free = slices.DeleteFunc(r.free, func(x BlockID) bool { return x == b })
	}
}

func (r *reference) grow(t *referenceTable, n int) bool {
	need := (n+r.blockTokens-1)/r.blockTokens - len(t.blocks)
	if need*len(r.groups) > len(r.free) {
		return false
	}
	for range need {
		entry := make([]BlockID, len(r.groups))
		for g := range entry {
			entry[g] = r.free[0]
			delete(r.content, entry[g])
			r.ref(entry[g])
		}
		t.blocks = append(t.blocks, entry)
	}
	return true
}

func (r *reference) publish(t *referenceTable, tokens []int32, computed int) {
	for ; (t.published+1)*r.blockTokens <= computed; t.published++ {
		for g, b := range t.blocks[t.published] {
			c := content(g, t.salt, tokens[:(t.published+1)*r.blockTokens])
			if b > 0 && r.find(c) == 0 {
				r.content[b] = c
			}
		}
	}
}

// slide gives back what no token from pos on sees. A chunk's positions are seen until it ends.
func (r *reference) slide(t *referenceTable, pos int) {
	for g := range r.groups {
		for i, entry := range t.blocks {
			seen := (i+1)*r.blockTokens > pos
			for p := pos; p < pos+r.blockTokens; p++ {
				seen = seen || r.sees(g, p, i)
			}
			if !seen {
				r.unref(entry[g])
				entry[g] = 0
			}
		}
	}
}

func (r *reference) unref(b BlockID) {
	if b == 0 {
		return
	}
	if r.refs[b]--; r.refs[b] > 0 {
		return
	}
	if r.content[b] != "" {
		r.free = append(r.free, b)
	} else {
		r.free = slices.Insert(r.free, 0, b)
	}
}

func (r *reference) release(t *referenceTable) {
	for _, entry := range slices.Backward(t.blocks) {
		for _, b := range slices.Backward(entry) {
			r.unref(b)
		}
	}
}

// comparison runs the same operations on a Manager and on the reference.
type comparison struct {
	*rand.Rand
	m    *Manager
	ref  *reference
	live []*compared
}

// compared is a sequence with its table in both.
type compared struct {
	table    *Table
	want     *referenceTable
	tokens   []int32
	computed int
}

// share adds a sequence. There are few distinct tokens, so that prefixes meet.
func (c *comparison) share() {
	q := &compared{table: &Table{}}
	salt := byte(c.IntN(2))
	for range 1 + c.IntN(12) {
		q.tokens = append(q.tokens, int32(c.IntN(2)))
	}
	q.computed = c.m.Share(q.table, q.tokens, Hash{salt}, true)
	q.want = c.ref.share(salt, q.tokens)
	c.live = append(c.live, q)
}

// fork adds a sequence that begins with part of what src has computed.
func (c *comparison) fork(src *compared) {
	n := c.IntN(src.computed + 1)
	q := &compared{table: &Table{}, tokens: slices.Clone(src.tokens)}
	q.computed = c.m.Fork(q.table, src.table, n, Hash{src.want.salt})
	q.want = c.ref.fork(src.want, n)
	c.live = append(c.live, q)
}

// compute grows q, sometimes by a new token, and publishes what it has computed.
func (c *comparison) compute(q *compared) error {
	if c.IntN(3) == 0 {
		q.tokens = append(q.tokens, int32(c.IntN(2)))
	}
	n := q.computed + c.IntN(len(q.tokens)-q.computed+1)
	got, want := c.m.Grow(q.table, n), c.ref.grow(q.want, n)
	if got != want {
		return fmt.Errorf("Grow to %d tokens returns %v, want %v", n, got, want)
	}
	if got {
		q.computed = n
		c.m.Publish(q.table, q.tokens, n)
		c.ref.publish(q.want, q.tokens, n)
		if c.IntN(3) > 0 { // the positions of two steps may be in flight
			c.m.Slide(q.table, n)
			c.ref.slide(q.want, n)
		}
	}
	return nil
}

func (c *comparison) release(i int) {
	c.m.Release(c.live[i].table)
	c.ref.release(c.live[i].want)
	c.live = slices.Delete(c.live, i, i+1)
}

// operate runs a random operation on a random sequence.
func (c *comparison) operate() error {
	i := 0
	if len(c.live) > 0 {
		i = c.IntN(len(c.live))
	}
	switch r := c.IntN(10); {
	case r < 3 || len(c.live) == 0:
		c.share()
	case r < 4:
		c.fork(c.live[i])
	case r < 8:
		return c.compute(c.live[i])
	default:
		c.release(i)
	}
	return nil
}

// compare says where the two differ.
func (c *comparison) compare() error {
	var tables []*Table
	for _, q := range c.live {
		if tables = append(tables, q.table); !slices.Equal(q.table.Blocks, slices.Concat(q.want.blocks...)) {
			return fmt.Errorf("blocks %v, want %v", q.table.Blocks, q.want.blocks)
		}
	}
	if free := c.m.blocks.freeList(); !slices.Equal(free, c.ref.free) || c.m.Free() != len(free) {
		return fmt.Errorf("free list %v of length %d, want %v", free, c.m.Free(), c.ref.free)
	}
	for b := range c.m.blocks.entries {
		if found := c.m.blocks.entries[b].published; found != (c.ref.content[BlockID(b)] != "") {
			return fmt.Errorf("block %d can be found: %v, but it holds %q", b, found, c.ref.content[BlockID(b)])
		}
	}
	return c.m.Check(tables...)
}

// TestReference: over random operations, every hit, every block id and every
// refusal is the reference's.
func TestReference(t *testing.T) {
	for seed := range uint64(200) {
		g := rand.New(rand.NewPCG(seed, 1))
		blocks, blockTokens := 3+g.IntN(20), 1+g.IntN(4)
		groups := make([]backend.KVGroup, 1+g.IntN(3))
		for i := range groups {
			switch g.IntN(4) {
			case 0:
				groups[i].Window = 1 + g.IntN(8)
			case 1:
				groups[i].Chunk = 1 + g.IntN(8)
			}
		}
		c := &comparison{Rand: g, m: New(blocks*len(groups), blockTokens, 0, true, groups...), ref: newReference(blocks*len(groups), blockTokens, groups)}
		for op := range 400 {
			err := c.operate()
			if err == nil {
				err = c.compare()
			}
			if err != nil {
				t.Fatalf("seed %d, operation %d: %v", seed, op, err)
			}
		}
	}
}
