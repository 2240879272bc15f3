//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"weir/backend"
	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/sampler"
)

// scratch allocates what the few-row products of [n, k] need.
func (c *checker) scratch(n, k int) (work, counters uint64, err error) {
	const most = 64
	if work, err = c.lab.Alloc(max(kernels.GemmWork(most, most, n, k), 4)); err != nil {
		return
	}
	size := max(kernels.GemmCounters(most, most, n)*4, 4)
	if counters, err = c.lab.Alloc(size); err != nil {
		return
	}
	return work, counters, c.lab.Fill(counters, 0, size)
}

// products checks x·wᵀ against float64, and that the bits of a row are the same
// whatever the number of rows.
func products(c *checker) error {
	return c.eachFamily(func(f family) error {
		small := [][3]int{{1, 64, 64}, {7, 96, 256}, {65, 66, 72}, {33, 130, 328}}
		full := [][3]int{{1, 6144, 4096}, {8, 4096, 4096}, {17, 1000, 2048}, {64, 512, 14336}, {129, 514, 4104}, {300, 4096, 1024}}
		for _, s := range pick(c, small, append(small, full...)) {
			if err := c.product(f, s[0], s[1], s[2]); err != nil {
				return err
			}
			if err := c.lab.Free(); err != nil {
				return err
			}
		}
		return c.sameBits(f, pick(c, 130, 2048), pick(c, 192, 4096), pick(c, 320, 4096))
	})
}

func (c *checker) product(f family, rows, n, k int) error {
	x, xf := c.normals(rows * k)
	w, wf := c.normals(n * k)
	round(wf, k, f.weights)
	dw, err := c.matrix(f.weights, w, n, k)
	if err != nil {
		return err
	}
	ldx, ldy := stride(k), stride(n)
	dx, err := cuda.Put(c.lab, padded(x, k, ldx))
	if err != nil {
		return err
	}
	work, counters, err := c.scratch(n, k)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s %dx%dx%d", f.name, rows, n, k)
	y, err := repeat[float32](c, name, rows*ldy, func(y uint64) error {
		return c.lab.Gemm(f.weights, y, ldy, dw, n, k, dx, ldx, rows, kernels.StoreF32, work, counters)
	})
	if err != nil {
		return err
	}
	got := columns(y, n, ldy)
	// All of a small product, a sample of a large one.
	step := max(1, rows*n*k/(1<<28))
	var a, b []float64
	for i := 0; i < rows*n; i += step {
		r, j := i/n, i%n
		var sum float64
		for t := range k {
			sum += xf[r*k+t] * wf[j*k+t]
		}
		a, b = append(a, got[i]), append(b, sum)
	}
	c.compare(name, a, b, f32Limit)
	return nil
}

// sameBits compares the rows of products of 1, 7, 64 and many rows.
func (c *checker) sameBits(f family, most, n, k int) error {
	x, _ := c.normals(most * k)
	w, _ := c.normals(n * k)
	dw, err := c.matrix(f.weights, w, n, k)
	if err != nil {
		return err
	}
	ldx, ldy := stride(k), stride(n)
	dx, err := cuda.Put(c.lab, padded(x, k, ldx))
	if err != nil {
		return err
	}
	work, counters, err := c.scratch(n, k)
	if err != nil {
		return err
	}
	y, err := c.lab.Alloc(most * ldy * 4)
	if err != nil {
		return err
	}
	var want []float32
	for _, rows := range []int{most, 64, 17, 7, 1} {
		if err := c.lab.Gemm(f.weights, y, ldy, dw, n, k, dx, ldx, rows, kernels.StoreF32, work, counters); err != nil {
			return err
		}
		got, err := cuda.Take[float32](c.lab, y, rows*ldy)
		if err != nil {
			return err
		}
		if want == nil {
			want = got
			continue
		}
		same := slices.EqualFunc(got, want[:len(got)], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		c.record(fmt.Sprintf("%s: %d rows have the bits of %d", f.name, rows, most), verdict(same))
	}
	return nil
}

// paged is one case of attention.
type paged struct {
	heads, kvHeads, dim, block int
	lens                       []int
	window                     int
}

// attention checks single queries and runs of them against float64.
func attention(c *checker) error {
	return c.withLab(func() error {
		small := []paged{{4, 2, 32, 16, []int{1, 5, 40}, 0}, {6, 1, 64, 16, []int{70, 3}, 24}, {2, 2, 128, 32, []int{530}, 0}}
		full := []paged{{32, 8, 128, 16, []int{33, 1500, 2048, 511, 513}, 0}, {16, 8, 128, 64, []int{4097, 15}, 0}, {28, 4, 128, 16, []int{1000, 999}, 128}, {12, 2, 80, 16, []int{1100}, 0}}
		for _, p := range pick(c, small, append(small, full...)) {
			if err := c.attend(p); err != nil {
				return err
			}
			if err := c.lab.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

// cached is a filled KV cache.
type cached struct {
	kv     uint64
	k, v   []float64 // as the cache holds them
	tables []int32
	first  []int32 // entry of each sequence
	elems  int
}

func (c *checker) cache(p paged) (s cached, err error) {
	s.elems = kernels.KVBlock(p.kvHeads, p.dim, p.block)
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
		tiles = kernels.AppendTiles(tiles, r, p.heads/p.kvHeads)
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
	name := fmt.Sprintf("attention %d/%d heads of %d, %v, window %d", p.heads, p.kvHeads, p.dim, p.lens, p.window)
	prefill, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		return c.lab.Launch("attn_prefill_d"+size, len(tiles), p.kvHeads, 1, out, put[0], s.kv, put[1], put[4], put[5],
			ld, ld, p.heads, p.kvHeads, p.dim, p.block, s.elems, scale, p.window)
	})
	if err != nil {
		return err
	}
	decode, err := repeat[uint16](c, name, tokens*ld, func(out uint64) error {
		err := c.lab.Launch("attn_decode_d"+size, len(items), p.kvHeads, (p.heads/p.kvHeads+15)/16, parts, put[0], s.kv, put[2], put[6], put[4], put[5],
			ld, p.heads, p.kvHeads, p.dim, p.block, s.elems, scale, p.window)
		if err != nil {
			return err
		}
		return c.lab.Launch("attn_merge", len(merges), p.heads, 1, out, parts, put[3], put[6]+4, ld, p.heads, p.dim, scale)
	})
	if err != nil {
		return err
	}
	var want []float64
	for i, r := range runs {
		for t := range r.Tokens {
			for h := range p.heads {
				want = append(want, s.query(p, i, h*p.kvHeads/p.heads, int(r.Pos+t), qf[int(r.First+t)*width+h*p.dim:][:p.dim])...)
			}
		}
	}
	a, b := columns(prefill, width, ld), columns(decode, width, ld)
	c.compare("runs: "+name, a, want, bfLimit)
	c.compare("single: "+name, b, want, bfLimit)
	c.record("the same bits: "+name, verdict(slices.Equal(a, b)))
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

// draws compares pick with sampler.Picker: every bit.
func draws(c *checker) error {
	return c.withLab(func() error {
		for _, vocab := range pick(c, []int{100, 1003}, []int{1003, 32000, 128256, 151936}) {
			if err := c.picks(vocab, pick(c, 6, 24)); err != nil {
				return err
			}
			if err := c.lab.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *checker) picks(vocab, rows int) error {
	ld, words := stride(vocab), (vocab+31)/32
	logits := make([]float32, rows*ld)
	for i := range logits {
		logits[i] = float32(c.rng.NormFloat64() * 4)
	}
	d := &backend.Draws{Masks: make([]uint32, 2*words)}
	for i := range d.Masks {
		d.Masks[i] = c.rng.Uint32()
	}
	tops := 0
	for r := range rows {
		row := backend.Draw{Seed: c.rng.Uint64(), Index: uint32(r), Temperature: 1, TopP: 1, Mask: int32(r%3) - 1, Allow: -1, Target: -1,
			Logprobs: backend.LogprobMode(r % 3), Top: int32(r % 4 * 5)}
		switch r % 6 {
		case 0:
			row.Temperature = 0
		case 1:
			row.TopP = 0.9
		case 2:
			row.TopK = 40
		case 3:
			row.TopK, row.TopP, row.MinP, row.Temperature = 50, 0.8, 0.02, 0.7
		case 4:
			row.Target = int32(c.rng.IntN(vocab))
		}
		for range r % 5 {
			d.Edits = append(d.Edits, backend.Edit{Token: int32(len(d.Edits) * 7 % vocab), Bias: 1, Repeat: 1.3, Minus: 0.5})
		}
		row.EditEnd = int32(len(d.Edits))
		tops += int(row.Top)
		d.Rows = append(d.Rows, row)
	}
	var put [4]uint64
	var err error
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, logits) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Rows) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Edits) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Masks) },
	} {
		if put[i], err = f(); err != nil {
			return err
		}
	}
	var out [5]uint64 // drawn, results, tops, z, near
	for i, n := range []int{rows * 4, rows * int(unsafe.Sizeof(kernels.PickResult{})), max(tops, 1) * int(unsafe.Sizeof(kernels.PickTop{})), rows * ld * 4, rows * ld * 4} {
		if out[i], err = c.lab.Alloc(n); err != nil {
			return err
		}
	}
	if err := c.lab.Launch("pick", rows, 1, 1, out[0], out[1], out[2], put[0], out[3], out[4], put[1], put[2], put[3], 0, vocab, ld); err != nil {
		return err
	}
	results, err := cuda.Take[kernels.PickResult](c.lab, out[1], rows)
	if err != nil {
		return err
	}
	best, err := cuda.Take[kernels.PickTop](c.lab, out[2], tops)
	if err != nil {
		return err
	}
	want := &backend.Out{Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows), TopTokens: make([]int32, tops), TopLogprobs: make([]float32, tops)}
	var p sampler.Picker
	top, bad := 0, ""
	for r := range rows {
		p.Pick(logits[r*ld:r*ld+vocab], d, r, want, top)
		row, got := &d.Rows[r], results[r]
		ok := got.Token == want.Tokens[r]
		if row.Logprobs != backend.NoLogprobs {
			dist := sampler.NewDistribution(got.ZMax, got.Mass)
			ok = ok && got.Rank == want.Ranks[r] && (dist.Logprob(got.Z) == want.Logprobs[r] || math.IsInf(float64(got.Z), -1) && math.IsInf(float64(want.Logprobs[r]), -1))
			for i := top; i < top+int(row.Top); i++ {
				ok = ok && best[i].Token == want.TopTokens[i]
			}
		}
		if top += int(row.Top); !ok && bad == "" {
			bad = fmt.Sprintf("row %d %+v: %+v, want token %d rank %d", r, *row, got, want.Tokens[r], want.Ranks[r])
		}
	}
	c.record(fmt.Sprintf("pick of %d, %d rows", vocab, rows), verdict(bad == ""), "first", bad)
	return nil
}
