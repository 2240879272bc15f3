//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// layer is one case of the attention of attn_*_x*.
type layer struct {
	heads, kvHeads, key, value, block int
	lens                              []int
	window, chunk                     int
	bound                             float64
	sunk                              bool
}

// layers are cases of each size that kernels are compiled for, and with each option.
func layers(c *checker) (list []task) {
	small := []layer{
		{4, 2, 32, 32, 16, []int{5, 70}, 0, 0, 0, true}, {4, 1, 112, 80, 16, []int{40}, 0, 16, 0, false}, {2, 1, 192, 128, 16, []int{530}, 24, 0, 0, true},
		{2, 1, 256, 256, 32, []int{70}, 0, 0, 20, false}, {18, 1, 576, 512, 16, []int{40}, 0, 0, 0, false},
	}
	full := []layer{
		{64, 8, 64, 64, 16, []int{1500, 33}, 128, 0, 0, true},       // gpt-oss
		{64, 8, 64, 64, 16, []int{1025}, 0, 0, 0, true},             // gpt-oss, its other layers
		{64, 8, 192, 128, 16, []int{700}, 128, 0, 0, true},          // MiMo
		{16, 8, 256, 256, 16, []int{1500, 513}, 0, 0, 50, false},    // Gemma 2
		{8, 4, 256, 256, 64, []int{1030}, 1024, 0, 0, false},        // Gemma 3
		{16, 2, 512, 512, 16, []int{600}, 0, 0, 0, false},           // Gemma 4
		{40, 8, 128, 128, 16, []int{1600, 1025}, 0, 1024, 0, false}, // Llama 4, with shorter chunks
		{128, 1, 576, 512, 16, []int{520}, 0, 0, 0, false},          // DeepSeek-V3
	}
	for _, l := range pick(c, small, append(small, full...)) {
		list = append(list, task{l.String(), func(c *checker) error {
			if err := c.open(cuda.MMA); err != nil {
				return err
			}
			return c.attendLayer(l)
		}})
	}
	return list
}

func (l layer) String() string {
	return fmt.Sprintf("attention %d/%d heads of %d and %d, %v, window %d, chunk %d, bound %g, sinks %v", l.heads, l.kvHeads, l.key, l.value, l.lens, l.window, l.chunk, l.bound, l.sunk)
}

func (l layer) elements() int { return kernels.KVBlock(l.kvHeads, l.key, l.value, l.block) }
func (l layer) group() int    { return l.heads / l.kvHeads }

// low is the first position that position p sees.
func (l layer) low(p int) int {
	lo := 0
	if l.window > 0 {
		lo = max(0, p+1-l.window)
	}
	if l.chunk > 0 {
		lo = max(lo, p/l.chunk*l.chunk)
	}
	return lo
}

// filled is a case's cache and its work on the device.
type filled struct {
	kv, q, tiles, items, merges, tables, pos, counts, sinks, parts uint64

	numTiles, numItems, numMerges int
	cache, queries, sink          []float64 // rounded as on the device
	blocks                        [][]int32 // of each sequence
	runs                          []kernels.Run
	at                            []int32 // positions of the tokens
}

func (c *checker) fill(l layer) (s *filled, err error) {
	s = &filled{}
	const run = 5 // queries at the end of each sequence
	var tables []int32
	blocks := 0
	for _, n := range l.lens {
		blocks += (n + l.block - 1) / l.block
	}
	for _, b := range c.rng.Perm(blocks) {
		tables = append(tables, int32(b))
	}
	first := 0
	for _, n := range l.lens {
		q, own := min(run, n), (n+l.block-1)/l.block
		s.runs = append(s.runs, kernels.Run{First: int32(len(s.at)), Tokens: int32(q), Pos: int32(n - q), Table: int32(first)})
		for p := n - q; p < n; p++ {
			s.at = append(s.at, int32(p))
		}
		s.blocks = append(s.blocks, tables[first:first+own])
		first += own
	}
	var tiles []kernels.AttnTile
	var items []kernels.AttnItem
	var merges []kernels.AttnMerge
	slots := int32(0)
	for _, r := range s.runs {
		tiles = kernels.AppendTiles(tiles, r, kernels.TileTokens(l.key, l.value, l.group()))
		items, merges, slots = kernels.AppendItems(items, merges, r, l.window, slots)
	}
	s.numTiles, s.numItems, s.numMerges = len(tiles), len(items), len(merges)

	h, f := c.normals(blocks * l.elements())
	keys := l.kvHeads * l.block * kernels.KVRow(l.key)
	for i := range h { // rows end with zeros
		dim := l.key
		at := i % l.elements()
		if at >= keys {
			at, dim = at-keys, l.value
		}
		if at%kernels.KVRow(dim) >= dim {
			h[i], f[i] = 0, 0
		}
	}
	q, qf := c.normals(len(s.at) * l.heads * l.key)
	sinks, sf := c.floats(l.heads)
	s.cache, s.queries, s.sink = f, qf, sf
	for _, p := range []struct {
		at  *uint64
		put func() (uint64, error)
	}{
		{&s.kv, func() (uint64, error) { return cuda.Put(c.lab, h) }},
		{&s.q, func() (uint64, error) { return cuda.Put(c.lab, padded(q, l.heads*l.key, stride(l.heads*l.key))) }},
		{&s.tiles, func() (uint64, error) { return cuda.Put(c.lab, tiles) }},
		{&s.items, func() (uint64, error) { return cuda.Put(c.lab, items) }},
		{&s.merges, func() (uint64, error) { return cuda.Put(c.lab, merges) }},
		{&s.tables, func() (uint64, error) { return cuda.Put(c.lab, tables) }},
		{&s.pos, func() (uint64, error) { return cuda.Put(c.lab, s.at) }},
		{&s.counts, func() (uint64, error) { return cuda.Put(c.lab, []int32{int32(len(items)), int32(len(merges))}) }},
		{&s.sinks, func() (uint64, error) { return cuda.Put(c.lab, sinks) }},
		{&s.parts, func() (uint64, error) { return c.lab.Alloc(int(slots) * kernels.PartFloats(l.heads, l.value) * 4) }},
	} {
		if *p.at, err = p.put(); err != nil {
			return nil, err
		}
	}
	if !l.sunk {
		s.sinks = 0
	}
	return s, nil
}

// attendLayer checks runs against float64, and single queries for the bits of runs.
func (c *checker) attendLayer(l layer) error {
	s, err := c.fill(l)
	if err != nil {
		return err
	}
	width, ldq, tokens, name := l.heads*l.value, stride(l.heads*l.key), len(s.at), l.String()
	ld, size := stride(width), kernels.SizeOf(l.key, l.value)
	with := func(params ...any) []any {
		return append(params, l.heads, l.kvHeads, l.key, l.value, l.window, l.chunk, float32(l.scale()), float32(l.bound), s.sinks)
	}
	prefill, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		return c.lab.Launch(fmt.Sprintf("attn_prefill_x%d", size.KeyDim), s.numTiles, l.kvHeads, (l.group()+size.Rows-1)/size.Rows,
			with(out, s.q, s.kv, s.tiles, s.tables, s.pos, ld, ldq, l.block, l.elements())...)
	})
	if err != nil {
		return err
	}
	want := make([]float64, tokens*width)
	parallel(tokens*l.heads, func(i int) { s.query(l, i/l.heads, i%l.heads, want[i*l.value:][:l.value]) })
	first := columns(prefill, width, ld)
	c.compare("runs: "+name, first, want, bfLimit)
	same := func(how string, got []uint16) {
		b := columns(got, width, ld)
		c.compare(how+": "+name, b, want, bfLimit)
		c.record(how+" has the bits of runs: "+name, verdict(slices.Equal(first, b)))
	}
	groups := (l.group() + kernels.GroupRows - 1) / kernels.GroupRows
	decode, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		err := c.lab.Launch(fmt.Sprintf("attn_decode_x%d", size.KeyDim), s.numItems, l.kvHeads, groups,
			with(s.parts, s.q, s.kv, s.items, s.counts, s.tables, s.pos, ldq, l.block, l.elements())...)
		if err != nil {
			return err
		}
		return c.lab.Launch("attn_merge_x", s.numMerges, l.heads, 1, with(out, s.parts, s.merges, s.counts+4, s.pos, ld)...)
	})
	if err != nil {
		return err
	}
	same("single", decode)
	counters, err := cuda.Put(c.lab, make([]int32, tokens*l.kvHeads*groups))
	if err != nil {
		return err
	}
	whole, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		return c.lab.Launch(fmt.Sprintf("attn_whole_x%d", size.KeyDim), s.numItems, l.kvHeads, groups,
			with(out, ld, counters, s.parts, s.q, s.kv, s.items, s.counts, s.tables, s.pos, ldq, l.block, l.elements())...)
	})
	if err != nil {
		return err
	}
	same("single in one", whole)
	return nil
}

// scale is the factor on scores. Bounded ones are made great enough for the bound to matter.
func (l layer) scale() float64 {
	if l.bound > 0 {
		return l.bound / 2 / math.Sqrt(float64(l.key))
	}
	return 1 / math.Sqrt(float64(l.key))
}

// query is the attention of head h of a token.
func (s *filled) query(l layer, token, h int, out []float64) {
	seq := 0
	for seq+1 < len(s.runs) && int(s.runs[seq+1].First) <= token {
		seq++
	}
	pos, head := int(s.at[token]), h/l.group()
	q := s.queries[(token*l.heads+h)*l.key:][:l.key]
	krow, vrow := kernels.KVRow(l.key), kernels.KVRow(l.value)
	keys := l.kvHeads * l.block * krow
	row := func(t int) (k, v []float64) {
		b := s.cache[int(s.blocks[seq][t/l.block])*l.elements():][:l.elements()]
		return b[(head*l.block+t%l.block)*krow:], b[keys+(head*l.block+t%l.block)*vrow:]
	}
	lo, top, sum := l.low(pos), math.Inf(-1), 0.0
	if l.sunk {
		top = s.sink[h]
	}
	scores := make([]float64, pos+1-lo)
	for t := range scores {
		k, _ := row(lo + t)
		for d := range q {
			scores[t] += q[d] * k[d]
		}
		scores[t] *= l.scale()
		if l.bound > 0 {
			scores[t] = l.bound * math.Tanh(scores[t]/l.bound)
		}
		top = max(top, scores[t])
	}
	if l.sunk {
		sum = math.Exp(s.sink[h] - top)
	}
	for t, x := range scores {
		_, v := row(lo + t)
		e := math.Exp(x - top)
		sum += e
		for d := range out {
			out[d] += e * v[d]
		}
	}
	for d := range out {
		out[d] /= sum
	}
}
