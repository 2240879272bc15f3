package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// reference is the cache at its simplest, which Manager is compared with: a
// prefix is known by its salt and token ids, written out as a string, and the
// free list is a slice.
type reference struct {
	blockTokens int
	content     map[BlockID]string // of published blocks
	refs        map[BlockID]int
	free        []BlockID
}

// referenceTable is a Table of the reference.
type referenceTable struct {
	blocks    []BlockID
	published int
	salt      byte
}

func newReference(blocks, blockTokens int) *reference {
	r := &reference{blockTokens: blockTokens, content: map[BlockID]string{}, refs: map[BlockID]int{}}
	for b := 1; b < blocks; b++ {
		r.free = append(r.free, BlockID(b))
	}
	return r
}

// content names a prefix.
func content(salt byte, tokens []int32) string { return fmt.Sprint(salt, tokens) }

// find is the block that is published with this content, or 0.
func (r *reference) find(content string) BlockID {
	for b, c := range r.content {
		if c == content {
			return b
		}
	}
	return 0
}

func (r *reference) share(salt byte, tokens []int32) *referenceTable {
	t := &referenceTable{salt: salt}
	for n := r.blockTokens; n < len(tokens); n += r.blockTokens {
		hit := r.find(content(salt, tokens[:n]))
		if hit == 0 {
			break
		}
		r.take(t, hit)
	}
	t.published = len(t.blocks)
	return t
}

func (r *reference) fork(src *referenceTable, n int) *referenceTable {
	t := &referenceTable{salt: src.salt}
	for _, b := range src.blocks[:n/r.blockTokens] {
		r.take(t, b)
	}
	return t
}

func (r *reference) take(t *referenceTable, b BlockID) {
	if r.refs[b]++; r.refs[b] == 1 {
		r.free = slices.DeleteFunc(r.free, func(x BlockID) bool { return x == b })
	}
	t.blocks = append(t.blocks, b)
}

func (r *reference) grow(t *referenceTable, n int) bool {
	need := (n+r.blockTokens-1)/r.blockTokens - len(t.blocks)
	if need > len(r.free) {
		return false
	}
	for range need {
		b := r.free[0]
		delete(r.content, b)
		r.take(t, b)
	}
	return true
}

func (r *reference) publish(t *referenceTable, tokens []int32, computed int) {
	for ; (t.published+1)*r.blockTokens <= computed; t.published++ {
		c := content(t.salt, tokens[:(t.published+1)*r.blockTokens])
		if r.find(c) == 0 {
			r.content[t.blocks[t.published]] = c
		}
	}
}

func (r *reference) release(t *referenceTable) {
	for _, b := range slices.Backward(t.blocks) {
		if r.refs[b]--; r.refs[b] > 0 {
			continue
		}
		if r.content[b] != "" {
			r.free = append(r.free, b)
		} else {
			r.free = slices.Insert(r.free, 0, b)
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
		if tables = append(tables, q.table); !slices.Equal(q.table.Blocks, q.want.blocks) {
			return fmt.Errorf("blocks %v, want %v", q.table.Blocks, q.want.blocks)
		}
	}
	if free := c.m.blocks.freeList(); !slices.Equal(free, c.ref.free) || c.m.Free() != len(free) {
		return fmt.Errorf("free list %v of length %d, want %v", free, c.m.Free(), c.ref.free)
	}
	return c.m.Check(tables...)
}

// TestReference: over random operations, every hit, every block id and every
// refusal is the reference's.
func TestReference(t *testing.T) {
	for seed := range uint64(60) {
		g := rand.New(rand.NewPCG(seed, 1))
		blocks, blockTokens := 3+g.IntN(20), 1+g.IntN(4)
		c := &comparison{Rand: g, m: New(blocks, blockTokens, 0, true), ref: newReference(blocks, blockTokens)}
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
