//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// paged is one case of attention.
type paged struct {
	heads, kvHeads, dim, block int
	lens                       []int
	window                     int
}

// attention checks single queries and runs of them against float64.
func attention(c *checker) (list []task, err error) {
	small := []paged{{4, 2, 32, 16, []int{1, 5, 40}, 0}, {6, 1, 64, 16, []int{70, 3}, 24}, {2, 2, 128, 32, []int{530}, 0}}
	full := []paged{{32, 8, 128, 16, []int{33, 1500, 2048, 511, 513}, 0}, {16, 8, 128, 64, []int{4097, 15}, 0}, {32, 8, 64, 16, []int{1025, 600}, 0},
		{28, 4, 128, 16, []int{1000, 999}, 128}, {12, 2, 80, 16, []int{1100}, 0}}
	for _, p := range pick(c, small, append(small, full...)) {
		list = append(list, task{p.String(), func(c *checker) error {
			if err := c.open(cuda.MMA); err != nil {
				return err
			}
			return c.attend(p)
		}})
	}
	return append(list, layers(c)...), nil
}

func (p paged) String() string {
	return fmt.Sprintf("attention %d/%d heads of %d, %v, window %d", p.heads, p.kvHeads, p.dim, p.lens, p.window)
}

// cached is a filled KV cache.
type cached struct {
	kv     uint64
	k, v   []float64 // rounded as in the cache
	tables []int32
	first  []int32 // entry of each sequence
	elems  int
}

func (c *checker) cache(p paged) (s cached, err error) {
	s.elems = kernels.KVBlock(p.kvHeads, p.dim, p.dim, p.block)
	blocks := 0
	for _, n := range p.lens {
		s.first = append(s.first, int32(blocks))
		blocks += (n + p.block - 1) / p.block
	}
	for _, b := range c.rng.Perm(blocks) {
		s.tables = append(s.tables, int32(b))
	}
	h, f := c.normals(blocks * s.elems)
	row := kernels.KVRow(p.dim)
	for i := range h {
		if i%row >= p.dim {
			h[i], f[i] = 0, 0
		}
	}
	s.k, s.v = f, f
	s.kv, err = cuda.Put(c.lab, h)
	return s, err
}

// at is where head h of position t of a sequence starts.
func (s *cached) at(p paged, seq, h, t int) (k, v int) {
	row := kernels.KVRow(p.dim)
	k = int(s.tables[int(s.first[seq])+t/p.block])*s.elems + (h*p.block+t%p.block)*row
	return k, k + p.kvHeads*p.block*row
}

func (c *checker) attend(p paged) error {
	s, err := c.cache(p)
	if err != nil {
		return err
	}
	const run = 5 // queries at the end of each sequence
	var runs []kernels.Run
	var pos []int32
	tokens := 0
	for i, n := range p.lens {
		q := min(run, n)
		runs = append(runs, kernels.Run{First: int32(tokens), Tokens: int32(q), Pos: int32(n - q), Table: s.first[i]})
		for j := n - q; j < n; j++ {
			pos = append(pos, int32(j))
		}
		tokens += q
	}
	width := p.heads * p.dim
	ld, scale := stride(width), float32(1/math.Sqrt(float64(p.dim)))
	q, qf := c.normals(tokens * width)
	var tiles []kernels.AttnTile
	var items []kernels.AttnItem
	var merges []kernels.AttnMerge
	slots := int32(0)
	for _, r := range runs {
		tiles = kernels.AppendTiles(tiles, r, kernels.TileTokens(p.dim, p.dim, p.heads/p.kvHeads))
		items, merges, slots = kernels.AppendItems(items, merges, r, p.window, slots)
	}
	var put [7]uint64
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, padded(q, width, ld)) },
		func() (uint64, error) { return cuda.Put(c.lab, tiles) },
		func() (uint64, error) { return cuda.Put(c.lab, items) },
		func() (uint64, error) { return cuda.Put(c.lab, merges) },
		func() (uint64, error) { return cuda.Put(c.lab, s.tables) },
		func() (uint64, error) { return cuda.Put(c.lab, pos) },
		func() (uint64, error) { return cuda.Put(c.lab, []int32{int32(len(items)), int32(len(merges))}) },
	} {
		if put[i], err = f(); err != nil {
			return err
		}
	}
	parts, err := c.lab.Alloc(int(slots) * kernels.PartFloats(p.heads, p.dim) * 4)
	if err != nil {
		return err
	}
	size := "128"
	if p.dim <= 64 {
		size = "64"
	}
	name := p.String()
	want := make([]float64, tokens*width)
	parallel(tokens*p.heads, func(at int) {
		t, h := at/p.heads, at%p.heads
		i := sort.Search(len(runs), func(i int) bool { return int(runs[i].First) > t }) - 1
		copy(want[at*p.dim:], s.query(p, i, h*p.kvHeads/p.heads, int(pos[t]), qf[at*p.dim:][:p.dim]))
	})
	prefill, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		return c.lab.Launch("attn_prefill_d"+size, len(tiles), p.kvHeads, 1, out, put[0], s.kv, put[1], put[4], put[5],
			ld, ld, p.heads, p.kvHeads, p.dim, p.block, s.elems, scale, p.window)
	})
	if err != nil {
		return err
	}
	first := columns(prefill, width, ld)
	c.compare("runs: "+name, first, want, bfLimit)
	same := func(how string, got []uint16) {
		b := columns(got, width, ld)
		c.compare(how+": "+name, b, want, bfLimit)
		c.record(how+" has the bits of runs: "+name, verdict(slices.Equal(first, b)))
	}
	groups := (p.heads/p.kvHeads + kernels.GroupRows - 1) / kernels.GroupRows
	decode, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		err := c.lab.Launch("attn_decode_d"+size, len(items), p.kvHeads, groups, parts, put[0], s.kv, put[2], put[6], put[4], put[5],
			ld, p.heads, p.kvHeads, p.dim, p.block, s.elems, scale, p.window)
		if err != nil {
			return err
		}
		return c.lab.Launch("attn_merge", len(merges), p.heads, 1, out, parts, put[3], put[6]+4, ld, p.heads, p.dim, scale)
	})
	if err != nil {
		return err
	}
	same("single", decode)
	if !has("attn_whole_d" + size) {
		return nil
	}
	counters, err := cuda.Put(c.lab, make([]int32, tokens*p.kvHeads*groups))
	if err != nil {
		return err
	}
	whole, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		return c.lab.Launch("attn_whole_d"+size, len(items), p.kvHeads, groups, out, ld, counters, parts, put[0], s.kv, put[2], put[6], put[4], put[5],
			ld, p.heads, p.kvHeads, p.dim, p.block, s.elems, scale, p.window)
	})
	if err != nil {
		return err
	}
	same("single in one", whole)
	return nil
}

// query is the attention of one head's query at a position.
func (s *cached) query(p paged, seq, kvHead, pos int, q []float64) []float64 {
	lo := 0
	if p.window > 0 {
		lo = max(0, pos+1-p.window)
	}
	scores := make([]float64, pos+1)
	top := math.Inf(-1)
	for t := lo; t <= pos; t++ {
		k, _ := s.at(p, seq, kvHead, t)
		for d := range p.dim {
			scores[t] += q[d] * s.k[k+d]
		}
		scores[t] /= math.Sqrt(float64(p.dim))
		top = max(top, scores[t])
	}
	out, sum := make([]float64, p.dim), 0.0
	for t := lo; t <= pos; t++ {
		_, v := s.at(p, seq, kvHead, t)
		e := math.Exp(scores[t] - top)
		sum += e
		for d := range p.dim {
			out[d] += e * s.v[v+d]
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out
}
