//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// attnCase is attention to be timed: a prompt of n tokens, or one query for each
// of seqs sequences of n positions.
type attnCase struct {
	model                        string
	heads, kvHeads, dim, seqs, n int
	prefill                      bool
	value                        int  // dimensions of a value, if they are not dim
	sunk                         bool // there are sinks
}

// key names the shape alone, because torch does not know the models. What torch does not compute in the same way
// has none.
func (a attnCase) key() string {
	if a.value > 0 || a.sunk {
		return ""
	}
	return a.shape()
}

func (a attnCase) shape() string {
	if a.prefill {
		return fmt.Sprintf("prefill attention, %d/%d heads of %d, %d tokens", a.heads, a.kvHeads, a.dim, a.n)
	}
	return fmt.Sprintf("decode attention, %d/%d heads of %d, %d sequences of %d", a.heads, a.kvHeads, a.dim, a.seqs, a.n)
}

func (a attnCase) name() string { return a.model + ": " + a.shape() }

func (c *checker) attentionCases() (list []attnCase) {
	models := []attnCase{
		{model: "Llama-3.2-1B", heads: 32, kvHeads: 8, dim: 64},
		{model: "Qwen3-0.6B", heads: 16, kvHeads: 8, dim: 128},
		{model: "Llama-3.1-8B", heads: 32, kvHeads: 8, dim: 128},
		{model: "gpt-oss-20b", heads: 64, kvHeads: 8, dim: 64, sunk: true},
		{model: "Gemma-3-12B", heads: 16, kvHeads: 8, dim: 256},
		{model: "DeepSeek-V2-Lite", heads: 16, kvHeads: 1, dim: 576, value: 512},
	}
	if c.o.Quick {
		models = []attnCase{{model: "tiny", heads: 2, kvHeads: 1, dim: 64}, {model: "tiny", heads: 2, kvHeads: 1, dim: 128}, {model: "tiny with sinks", heads: 2, kvHeads: 1, dim: 64, sunk: true},
			{model: "tiny, large heads", heads: 2, kvHeads: 1, dim: 576, value: 512}}
	}
	for _, m := range models {
		for _, n := range pick(c, []int{70}, []int{512, 2048, 8192}) {
			m.prefill, m.seqs, m.n = true, 1, n
			list = append(list, m)
		}
		m.prefill = false
		for _, s := range pick(c, [][2]int{{2, 544}}, [][2]int{{1, 2048}, {1, 32768}, {64, 2048}, {256, 2048}}) {
			m.seqs, m.n = s[0], s[1]
			list = append(list, m)
		}
	}
	return list
}

const attnBlock = 16 // tokens of a block

// blocks is the number of blocks of the cache that a sequence has.
func (a attnCase) blocks() int {
	if a.prefill {
		return (a.n + attnBlock - 1) / attnBlock
	}
	return a.n / attnBlock
}

// tokens is the number of tokens that are computed.
func (a attnCase) tokens() int {
	if a.prefill {
		return a.n
	}
	return a.seqs
}

func (a attnCase) values() int {
	if a.value > 0 {
		return a.value
	}
	return a.dim
}
func (a attnCase) elements() int { return kernels.KVBlock(a.kvHeads, a.dim, a.values(), attnBlock) }
func (a attnCase) width() int    { return a.heads * a.dim }
func (a attnCase) out() int      { return a.heads * a.values() }

// more reports whether the kernels are those of attnx.cu.
func (a attnCase) more() bool { return a.dim > 128 || a.value > 0 || a.sunk }

// suffix ends the names of the kernels for heads of this size.
func (a attnCase) suffix() string {
	if a.more() {
		return fmt.Sprintf("_x%d", kernels.SizeOf(a.dim, a.values()).KeyDim)
	}
	if a.dim <= 64 {
		return "_d64"
	}
	return "_d128"
}

// attnMemory is what a case has on the device.
type attnMemory struct {
	kv, q, out, sinks                         uint64
	tables, pos, tiles, items, merges, counts uint64

	numTiles, numItems, numMerges, slots int
}

// attentionRate times one case, and decoding in both ways if there are two. The work of
// a prompt is counted as the half of the square below the diagonal, that of decoding as
// the keys and values that are read.
func (c *checker) attentionRate(a attnCase) error {
	m, err := c.attentionMemory(a)
	if err != nil {
		return err
	}
	if a.prefill {
		return c.prefillRate(a, m)
	}
	return c.decodeRate(a, m)
}

func (c *checker) attentionMemory(a attnCase) (m attnMemory, err error) {
	blocks := a.seqs * a.blocks()
	for _, n := range []struct {
		at    *uint64
		count int
	}{{&m.kv, blocks * a.elements()}, {&m.q, a.tokens() * a.width()}, {&m.out, a.tokens() * a.out()}} {
		if *n.at, err = c.lab.Alloc(n.count * 2); err != nil {
			return m, err
		}
	}
	if err := c.noise(m.kv, blocks*a.elements(), 1); err != nil {
		return m, err
	}
	if err := c.noise(m.q, a.tokens()*a.width(), 2); err != nil {
		return m, err
	}
	if a.sunk {
		s, _ := c.floats(a.heads)
		if m.sinks, err = cuda.Put(c.lab, s); err != nil {
			return m, err
		}
	}
	return m, c.attentionLists(a, &m)
}

// attentionLists makes what the host writes for a step: block tables, positions and
// the work of attention.
func (c *checker) attentionLists(a attnCase, m *attnMemory) (err error) {
	var tables, pos []int32
	for _, b := range c.rng.Perm(a.seqs * a.blocks()) {
		tables = append(tables, int32(b))
	}
	var tiles []kernels.AttnTile
	var items []kernels.AttnItem
	var merges []kernels.AttnMerge
	slots := int32(0)
	if a.prefill {
		tiles = kernels.AppendTiles(tiles, kernels.Run{Tokens: int32(a.n)}, kernels.TileTokens(a.dim, a.values(), a.heads/a.kvHeads))
		for t := range a.n {
			pos = append(pos, int32(t))
		}
	} else {
		for i := range a.seqs {
			r := kernels.Run{First: int32(i), Tokens: 1, Pos: int32(a.blocks()*attnBlock - 1), Table: int32(i * a.blocks())}
			pos = append(pos, r.Pos)
			items, merges, slots = kernels.AppendItems(items, merges, r, 0, slots)
		}
	}
	m.numTiles, m.numItems, m.numMerges, m.slots = len(tiles), len(items), len(merges), int(slots)
	for _, f := range []struct {
		at  *uint64
		put func() (uint64, error)
	}{
		{&m.tables, func() (uint64, error) { return cuda.Put(c.lab, tables) }},
		{&m.pos, func() (uint64, error) { return cuda.Put(c.lab, pos) }},
		{&m.tiles, func() (uint64, error) { return cuda.Put(c.lab, tiles) }},
		{&m.items, func() (uint64, error) { return cuda.Put(c.lab, items) }},
		{&m.merges, func() (uint64, error) { return cuda.Put(c.lab, merges) }},
		{&m.counts, func() (uint64, error) { return cuda.Put(c.lab, []int32{int32(len(items)), int32(len(merges))}) }},
	} {
		if *f.at, err = f.put(); err != nil {
			return err
		}
	}
	return nil
}

func (a attnCase) scale() float32 { return float32(1 / math.Sqrt(float64(a.dim))) }

// with adds what launches of all kernels end with, after what they begin with and the strides of rows.
func (a attnCase) with(m *attnMemory, params ...any) []any {
	if a.more() {
		return append(params, attnBlock, a.elements(), a.heads, a.kvHeads, a.dim, a.values(), 0, 0, a.scale(), float32(0), m.sinks)
	}
	return append(params, a.heads, a.kvHeads, a.dim, attnBlock, a.elements(), a.scale(), 0)
}

// merge launches the merge of parts.
func (c *checker) merge(a attnCase, m *attnMemory, parts uint64) error {
	if a.more() {
		return c.lab.Launch("attn_merge_x", m.numMerges, a.heads, 1, m.out, parts, m.merges, m.counts+4, m.pos, a.out(), a.heads, a.kvHeads, a.dim, a.values(), 0, 0, a.scale(), float32(0), m.sinks)
	}
	return c.lab.Launch("attn_merge", m.numMerges, a.heads, 1, m.out, parts, m.merges, m.counts+4, a.out(), a.heads, a.dim, a.scale())
}

func (c *checker) prefillRate(a attnCase, m attnMemory) error {
	flop := float64(a.width()+a.out()) * float64(a.n) * float64(a.n+1)
	groups := (a.heads/a.kvHeads + kernels.SizeOf(a.dim, a.values()).Rows - 1) / kernels.SizeOf(a.dim, a.values()).Rows
	sec, err := c.seconds(pick(c, 1, max(2, min(20, int(1e11/flop)))), func(int) error {
		return c.lab.Launch("attn_prefill"+a.suffix(), m.numTiles, a.kvHeads, groups, a.with(&m, m.out, m.q, m.kv, m.tiles, m.tables, m.pos, a.out(), a.width())...)
	})
	if err != nil {
		return err
	}
	c.measured(a.name(), a.key(), sec, 0, flop)
	return nil
}

func (c *checker) decodeRate(a attnCase, m attnMemory) error {
	parts, err := c.lab.Alloc(m.slots * kernels.PartFloats(a.heads, a.values()) * 4)
	if err != nil {
		return err
	}
	groups := (a.heads/a.kvHeads + kernels.GroupRows - 1) / kernels.GroupRows
	bytes := float64(a.seqs * a.blocks() * a.elements() * 2)
	reps := pick(c, 1, max(2, min(20, int(4e10/bytes))))
	sec, err := c.seconds(reps, func(int) error {
		err := c.lab.Launch("attn_decode"+a.suffix(), m.numItems, a.kvHeads, groups, a.with(&m, parts, m.q, m.kv, m.items, m.counts, m.tables, m.pos, a.width())...)
		if err != nil {
			return err
		}
		return c.merge(a, &m, parts)
	})
	if err != nil {
		return err
	}
	c.measured(a.name(), a.key(), sec, bytes, 0)
	if !has("attn_whole" + a.suffix()) {
		return nil
	}
	counters, err := cuda.Put(c.lab, make([]int32, a.tokens()*a.kvHeads*groups))
	if err != nil {
		return err
	}
	sec, err = c.seconds(reps, func(int) error {
		return c.lab.Launch("attn_whole"+a.suffix(), m.numItems, a.kvHeads, groups, a.with(&m, m.out, a.out(), counters, parts, m.q, m.kv, m.items, m.counts, m.tables, m.pos, a.width())...)
	})
	if err != nil {
		return err
	}
	c.measured(a.name()+", in one", a.key(), sec, bytes, 0)
	return nil
}
