//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"unsafe"

	"weir/backend"
	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// A rowRate times a kernel that works row by row, in Llama-3.1-8B's shape.
type rowRate struct {
	kernel string
	bytes  int // read and written by a row
	run    func(c *checker, m rowMemory, rows int) error
}

// rowMemory is what such kernels read and write.
type rowMemory struct{ x, y, w, tokens, kv uint64 }

const hidden8B, mlp8B, heads8B, kvHeads8B, dim8B = 4096, 14336, 32, 8, 128

var rowRates = []rowRate{
	{"rmsnorm", hidden8B * 6, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("rmsnorm", rows, 1, 1, m.y, m.x, m.w, hidden8B, hidden8B, hidden8B, float32(1e-5))
	}},
	{"add", hidden8B * 10, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("add", rows, 1, 1, m.y, m.x, hidden8B, hidden8B, hidden8B)
	}},
	{"norm_heads", hidden8B * 4, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("norm_heads", rows, heads8B/4, 1, m.y, m.x, m.w, heads8B, dim8B, hidden8B, hidden8B, float32(1e-5))
	}},
	{"silu_gate", mlp8B * 6, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("silu_gate", rows, (mlp8B+2047)/2048, 1, m.y, m.x, mlp8B, 2*mlp8B, mlp8B)
	}},
	{"gather", hidden8B * 8, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("gather", rows, 1, 1, m.y, m.x, m.tokens, hidden8B*4, hidden8B*4, hidden8B*4)
	}},
	{"embed", hidden8B * 6, func(c *checker, m rowMemory, rows int) error {
		return c.lab.Launch("embed", rows, 1, 1, m.y, m.x, m.tokens, m.tokens, hidden8B, hidden8B, max(rows, 64))
	}},
	{"rope_kv", (heads8B + 2*kvHeads8B) * dim8B * 4, func(c *checker, m rowMemory, rows int) error {
		const width = (heads8B + 2*kvHeads8B) * dim8B
		return c.lab.Launch("rope_kv", rows, (heads8B+2*kvHeads8B+3)/4, 1, m.x, m.x+heads8B*dim8B*2, m.x+(heads8B+kvHeads8B)*dim8B*2, m.kv, m.y, m.tokens, m.tokens, uint64(0), uint64(0), uint64(0),
			heads8B, kvHeads8B, dim8B, dim8B/2, 0, width, 16, kernels.KVBlock(kvHeads8B, dim8B, dim8B, 16), 0, float32(1e-5), float32(1e-5), float32(1e-5))
	}},
}

func (c *checker) rowRate(r rowRate) error {
	batches := pick(c, []int{1, 2}, []int{1, 64, 8192})
	most := batches[len(batches)-1]
	var m rowMemory
	var err error
	tokens := make([]int32, most)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	for _, a := range []struct {
		p     *uint64
		bytes int
	}{{&m.x, max(most, 1024) * 2 * mlp8B * 2}, {&m.y, max(most*mlp8B*2, most*hidden8B*4)}, {&m.w, hidden8B * 4}, {&m.kv, (most + 16) * 2 * kvHeads8B * dim8B * 2}} {
		if *a.p, err = c.lab.Alloc(pick(c, min(a.bytes, 16<<20), a.bytes)); err != nil {
			return err
		}
		if err := c.lab.Fill(*a.p, 0x3c, pick(c, min(a.bytes, 16<<20), a.bytes)); err != nil {
			return err
		}
	}
	if m.tokens, err = cuda.Put(c.lab, tokens); err != nil {
		return err
	}
	for _, n := range batches {
		sec, err := c.seconds(pick(c, 1, 20), func(int) error { return r.run(c, m, n) })
		if err != nil {
			return err
		}
		c.measured(fmt.Sprintf("%s, %d rows", r.kernel, n), "", sec, float64(n*r.bytes), 0)
	}
	return nil
}

// pickRate times draws: the most likely token, and one of the nucleus.
func (c *checker) pickRate() error {
	vocab := pick(c, 1000, 128256)
	ld := stride(vocab)
	rows := pick(c, []int{1, 2}, []int{1, 64, 256})
	most := rows[len(rows)-1]
	logits := make([]float32, most*ld)
	for i := range logits {
		logits[i] = float32(c.rng.NormFloat64() * 3)
	}
	dl, err := cuda.Put(c.lab, logits)
	if err != nil {
		return err
	}
	var out [6]uint64
	for i, n := range []int{most * 4, most * int(unsafe.Sizeof(kernels.PickResult{})), 8, most * ld * 4, most * ld * 4, 16} {
		if out[i], err = c.lab.Alloc(n); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		name string
		draw backend.Draw
	}{
		{"greedy", backend.Draw{TopP: 1}},
		{"temperature 1", backend.Draw{TopP: 1, Temperature: 1}},
		{"top-p 0.9", backend.Draw{TopP: 0.9, Temperature: 1}},
	} {
		list := make([]backend.Draw, most)
		for i := range list {
			list[i] = s.draw
			list[i].Seed, list[i].Mask, list[i].Allow, list[i].Target = uint64(i), -1, -1, -1
		}
		dr, err := cuda.Put(c.lab, list)
		if err != nil {
			return err
		}
		for _, n := range rows {
			sec, err := c.seconds(pick(c, 1, 20), func(int) error {
				return c.lab.Launch("pick", n, 1, 1, out[0], out[1], out[2], dl, out[3], out[4], dr, out[5], out[5], 0, vocab, ld)
			})
			if err != nil {
				return err
			}
			c.measured(fmt.Sprintf("pick of %d, %d rows, %s", vocab, n, s.name), "", sec, float64(4*n*vocab), 0)
		}
	}
	return nil
}

// packRates times what the device does when a model is loaded.
func (c *checker) packRates() error {
	n, k := pick(c, 64, 28672), pick(c, 64, 4096)
	src, err := c.lab.Alloc(n * k * 2)
	if err != nil {
		return err
	}
	if err := c.noise(src, n*k, 1); err != nil {
		return err
	}
	for _, as := range []cuda.Format{cuda.BF16, cuda.Q8, cuda.Q4} {
		tiles := cuda.TileBytes(as, n, k)
		w, err := c.lab.Alloc(tiles)
		if err != nil {
			return err
		}
		sec, err := c.seconds(pick(c, 1, 3), func(int) error {
			return c.lab.Launch("pack_"+as.String(), (n+63)/64, (k+63)/64, 1, w, src, n, k, 0, n, 0, 0, 0)
		})
		if err != nil {
			return err
		}
		c.measured(fmt.Sprintf("pack_%s of %dx%d", as, n, k), "", sec, float64(2*n*k+tiles), 0)
	}
	return nil
}
