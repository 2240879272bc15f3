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
}

// key is by shape alone: torch does not know our models.
func (a attnCase) key() string {
	if a.prefill {
		return fmt.Sprintf("prefill attention, %d/%d heads of %d, %d tokens", a.heads, a.kvHeads, a.dim, a.n)
	}
	return fmt.Sprintf("decode attention, %d/%d heads of %d, %d sequences of %d", a.heads, a.kvHeads, a.dim, a.seqs, a.n)
}

func (a attnCase) name() string { return a.model + ": " + a.key() }

func (c *checker) attentionCases() (list []attnCase) {
	models := []attnCase{
		{model: "Llama-3.2-1B", heads: 32, kvHeads: 8, dim: 64},
		{model: "Qwen3-0.6B", heads: 16, kvHeads: 8, dim: 128},
		{model: "Llama-3.1-8B", heads: 32, kvHeads: 8, dim: 128},
	}
	if c.o.Quick {
		models = []attnCase{{model: "tiny", heads: 2, kvHeads: 1, dim: 64}, {model: "tiny", heads: 2, kvHeads: 1, dim: 128}}
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

// attentionRate times one case, where decoding has two ways both of them. A
// prompt's work is counted as the half of the square below the diagonal, decoding's
// by the keys and values that it reads.
func (c *checker) attentionRate(a attnCase) error {
	const block = 16
	elems := kernels.KVBlock(a.kvHeads, a.dim, block)
	per := a.n / block
	blocks := a.seqs * per
	tokens := a.seqs
	if a.prefill {
		per = (a.n + block - 1) / block
		blocks, tokens = per, a.n
	}
	width := a.heads * a.dim
	kv, err := c.lab.Alloc(blocks * elems * 2)
	if err != nil {
		return err
	}
	q, err := c.lab.Alloc(tokens * width * 2)
	if err != nil {
		return err
	}
	out, err := c.lab.Alloc(tokens * width * 2)
	if err != nil {
		return err
	}
	if err := c.noise(kv, blocks*elems, 1); err != nil {
		return err
	}
	if err := c.noise(q, tokens*width, 2); err != nil {
		return err
	}
	var tables, pos []int32
	for _, b := range c.rng.Perm(blocks) {
		tables = append(tables, int32(b))
	}
	var tiles []kernels.AttnTile
	var items []kernels.AttnItem
	var merges []kernels.AttnMerge
	slots := int32(0)
	for i := range a.seqs {
		r := kernels.Run{First: int32(i), Tokens: 1, Pos: int32(per*block - 1), Table: int32(i * per)}
		if a.prefill {
			r = kernels.Run{Tokens: int32(a.n)}
			tiles = kernels.AppendTiles(tiles, r, a.heads/a.kvHeads)
			for t := range a.n {
				pos = append(pos, int32(t))
			}
			break
		}
		pos = append(pos, r.Pos)
		items, merges, slots = kernels.AppendItems(items, merges, r, 0, slots)
	}
	var put [6]uint64 // tables, pos, tiles, items, merges, counts
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, tables) },
		func() (uint64, error) { return cuda.Put(c.lab, pos) },
		func() (uint64, error) { return cuda.Put(c.lab, tiles) },
		func() (uint64, error) { return cuda.Put(c.lab, items) },
		func() (uint64, error) { return cuda.Put(c.lab, merges) },
		func() (uint64, error) { return cuda.Put(c.lab, []int32{int32(len(items)), int32(len(merges))}) },
	} {
		if put[i], err = f(); err != nil {
			return err
		}
	}
	scale := float32(1 / math.Sqrt(float64(a.dim)))
	size := "128"
	if a.dim <= 64 {
		size = "64"
	}
	if a.prefill {
		flop := 2 * float64(a.heads*a.dim) * float64(a.n) * float64(a.n+1)
		sec, err := c.seconds(pick(c, 1, max(2, min(20, int(1e11/flop)))), func(int) error {
			return c.lab.Launch("attn_prefill_d"+size, len(tiles), a.kvHeads, 1, out, q, kv, put[2], put[0], put[1],
				width, width, a.heads, a.kvHeads, a.dim, block, elems, scale, 0)
		})
		if err != nil {
			return err
		}
		c.measured(a.name(), a.key(), sec, 0, flop)
		return nil
	}
	parts, err := c.lab.Alloc(int(slots) * kernels.PartFloats(a.heads, a.dim) * 4)
	if err != nil {
		return err
	}
	groups := (a.heads/a.kvHeads + kernels.GroupRows - 1) / kernels.GroupRows
	bytes := float64(blocks * elems * 2)
	reps := pick(c, 1, max(2, min(20, int(4e10/bytes))))
	sec, err := c.seconds(reps, func(int) error {
		err := c.lab.Launch("attn_decode_d"+size, len(items), a.kvHeads, groups, parts, q, kv, put[3], put[5], put[0], put[1],
			width, a.heads, a.kvHeads, a.dim, block, elems, scale, 0)
		if err != nil {
			return err
		}
		return c.lab.Launch("attn_merge", len(merges), a.heads, 1, out, parts, put[4], put[5]+4, width, a.heads, a.dim, scale)
	})
	if err != nil {
		return err
	}
	c.measured(a.name(), a.key(), sec, bytes, 0)
	if !has("attn_whole_d" + size) {
		return nil
	}
	counters, err := cuda.Put(c.lab, make([]int32, tokens*a.kvHeads*groups))
	if err != nil {
		return err
	}
	sec, err = c.seconds(reps, func(int) error {
		return c.lab.Launch("attn_whole_d"+size, len(items), a.kvHeads, groups, out, width, counters, parts, q, kv, put[3], put[5], put[0], put[1],
			width, a.heads, a.kvHeads, a.dim, block, elems, scale, 0)
	})
	if err != nil {
		return err
	}
	c.measured(a.name()+", in one", a.key(), sec, bytes, 0)
	return nil
}
