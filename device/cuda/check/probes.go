//go:build cuda && linux && amd64

package check

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
)

// words checks tick and set_flag, which write one word.
func (c *checker) words() error {
	c.begin()
	p, err := cuda.Put(c.lab, []int32{5, 6, 7})
	if err != nil {
		return err
	}
	if err := errors.Join(c.lab.Launch("tick", 1, 1, 1, p), c.lab.Launch("tick", 1, 1, 1, p), c.lab.Launch("set_flag", 1, 1, 1, p+8, 77)); err != nil {
		return err
	}
	got, err := cuda.Take[int32](c.lab, p, 3)
	c.record("tick and set_flag", verdict(slices.Equal(got, []int32{7, 6, 77})), "words", got)
	return err
}

// hashed is number i of fill_bf16's stream.
func hashed(i, seed int) float64 {
	h := uint32(i)*0x9e3779b9 + uint32(i>>32)*0x7f4a7c15 + uint32(seed)
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	h ^= h >> 16
	return float64(int(h&255)*2-255) / 256
}

func (c *checker) filled() error {
	n, seed := pick(c, 1001, 1<<20+3), 5
	got, err := repeat[uint16](c, "fill_bf16", n, func(p uint64) error { return c.lab.Launch("fill_bf16", pick(c, 2, 264), 1, 1, p, n, seed) })
	if err != nil {
		return err
	}
	want := make([]float64, n)
	for i := range want {
		want[i] = hashed(i, seed)
	}
	c.compare("fill_bf16", columns(got, n, n), want, 0)
	return nil
}

// streams checks the kernels that measure the ceilings of memory: one that reads less
// than everything would be too fast.
func (c *checker) streams() error {
	const threads = 512
	// Vectors of 16 bytes, some of them after the last whole group of steps.
	n, blocks := pick(c, 40000, 30*264*threads+70001), pick(c, 3, 264)
	src := make([]int32, 4*n)
	all := int32(0)
	for i := range src {
		src[i] = int32(c.rng.Uint32())
		all ^= src[i]
	}
	p, err := cuda.Put(c.lab, src)
	if err != nil {
		return err
	}
	q, err := repeat[int32](c, "stream_copy", len(src), func(q uint64) error { return c.lab.Launch("stream_copy", blocks, 1, 1, q, p, n) })
	if err != nil {
		return err
	}
	c.record("stream_copy", verdict(slices.Equal(q, src)), "bytes", 16*n)
	out, err := repeat[int32](c, "stream_read", blocks*threads, func(out uint64) error { return c.lab.Launch("stream_read", blocks, 1, 1, out, p, n) })
	if err != nil {
		return err
	}
	for _, v := range out {
		all ^= v
	}
	c.record("stream_read", verdict(all == 0), "bytes", 16*n)
	return nil
}

// approximations measures the error of the approximate instructions that the
// kernels use. The ISA promises 2^-22 or better for each. Twice that is called wrong,
// although it would still not show in a bf16.
func (c *checker) approximations() error {
	const limit = 0x1p-21
	n := pick(c, 600, 1<<20)
	inf := float32(math.Inf(1))
	for which, f := range []struct {
		name    string
		lo, hi  float64 // exponents of the arguments, or the arguments of ex2
		f       func(float64) float64
		special map[float32]float32 // exact
	}{
		{"ex2", -126, 127, math.Exp2, map[float32]float32{0: 1, -inf: 0, inf: inf, -1000: 0, 1000: inf}},
		{"rsqrt", -120, 120, func(x float64) float64 { return 1 / math.Sqrt(x) }, map[float32]float32{1: 1, inf: 0, 4: 0.5}},
		{"rcp", -120, 120, func(x float64) float64 { return 1 / x }, map[float32]float32{1: 1, inf: 0, 2: 0.5}},
	} {
		var x, exact []float32
		for arg, v := range f.special {
			x, exact = append(x, arg), append(exact, v)
		}
		for len(x) < n {
			v := f.lo + (f.hi-f.lo)*c.rng.Float64()
			if f.name != "ex2" {
				v = math.Exp2(v)
			} else if len(x)%2 == 0 {
				v /= 64 // scores of attention are near 0
			}
			x = append(x, float32(v))
		}
		src, err := cuda.Put(c.lab, x)
		if err != nil {
			return err
		}
		name := "approx: " + f.name
		y, err := repeat[float32](c, name, n, func(y uint64) error { return c.lab.Launch("approx", (n+255)/256, 1, 1, y, src, n, which) })
		if err != nil {
			return err
		}
		same, ulps, rel, sum := true, 0.0, 0.0, 0.0
		for i, v := range y {
			if i < len(exact) {
				same = same && v == exact[i]
				continue
			}
			want := f.f(float64(x[i]))
			e := math.Abs(float64(v) - want)
			if !(e/want <= rel) {
				rel = e / want
			}
			ulps = max(ulps, e/math.Ldexp(1, math.Ilogb(want)-23))
			sum += e / want
		}
		c.record(name, verdict(same && rel <= limit), "rel", finite(rel), "mean_rel", finite(sum/float64(n)), "ulps", finite(ulps), "limit", limit, "exact_where_it_must", same)
	}
	return nil
}

// operands are two matrices of bf16 [128, k] for the probes of Hopper.
func (c *checker) operands(k int) (boxes []cuda.Box, a, b []float64, err error) {
	for _, f := range []*[]float64{&a, &b} {
		var h []uint16
		h, *f = c.normals(128 * k)
		p, err := cuda.Put(c.lab, h)
		if err != nil {
			return nil, nil, nil, err
		}
		boxes = append(boxes, cuda.Box{Base: p, Rows: 128, Cols: k, LD: k, BoxRows: 128})
	}
	return boxes, a, b, nil
}

// times is element (r, s) of a·bᵀ over columns [lo, hi) of k.
func times(a, b []float64, k, r, s, lo, hi int) (sum float64) {
	for i := lo; i < hi; i++ {
		sum += a[r*k+i] * b[s*k+i]
	}
	return sum
}

// wgmma checks tensor copies, their swizzle, descriptors of shared memory, and
// one product, so that a fault in the products of a model can be assigned to a part.
func (c *checker) wgmma() error {
	const k = 64
	boxes, a, b, err := c.operands(k)
	if err != nil {
		return err
	}
	for _, s := range [][3]int{{0, 0, 1}, {1, 1, 3}, {0, 3, 4}, {1, 0, 4}} {
		half, k0, k1 := s[0], s[1], s[2]
		name := fmt.Sprintf("probe_wgmma: rows %d-%d, columns %d-%d", 64*half, 64*half+63, 16*k0, 16*k1-1)
		got, err := repeat[float32](c, name, 64*128, func(out uint64) error { return c.lab.LaunchBoxes("probe_wgmma", 1, 1, 1, boxes, out, half, k0, k1) })
		if err != nil {
			return err
		}
		var want []float64
		for r := range 64 {
			for j := range 128 {
				want = append(want, times(a, b, k, 64*half+r, j, 16*k0, 16*k1))
			}
		}
		c.compare(name, columns(got, 128, 128), want, f32Limit)
	}
	return nil
}

// ring checks the pipeline of the products for many rows under pauses that
// differ from warp to warp. The products rely on mode 4, in which every warp
// releases a stage for itself. Modes 0 to 3 ask whether one warp may do so for its
// whole warpgroup; no answer to that is wrong.
func (c *checker) ring() error {
	const everyWarp = 4
	p := ringProbe{checker: c, nk: pick(c, 5, 40), blocks: pick(c, 2, 264), seeds: pick(c, 1, 8)}
	k := p.nk * 64
	var a, b []float64
	var err error
	if p.boxes, a, b, err = c.operands(k); err != nil {
		return err
	}
	var want []float64
	for r := range 128 {
		for j := range 128 {
			want = append(want, times(a, b, k, r, j, 0, k))
		}
	}
	for _, mode := range []int{everyWarp, 0, 1, 2, 3} {
		got, err := p.run(mode)
		if err != nil {
			return err
		}
		if mode == everyWarp {
			c.compare("probe_ring: every warp releases", columns(got.first, 128, 128), want, f32Limit)
			c.record("probe_ring: every warp releases, all blocks agree", verdict(got.agree && got.lost == 0), "blocks", p.blocks*p.seeds, "lost", got.lost)
			continue
		}
		worst := 0.0
		for i, v := range got.first {
			worst = max(worst, math.Abs(float64(v)-want[i]))
		}
		c.record(fmt.Sprintf("probe_ring: warp %d releases for all", mode), "", "agree", got.agree, "lost", got.lost, "largest_error", finite(worst))
	}
	return nil
}

// ringProbe is a product of [128, 64 nk] matrices that all blocks compute.
type ringProbe struct {
	*checker
	boxes             []cuda.Box
	nk, blocks, seeds int
}

// ringResult is what the blocks computed.
type ringResult struct {
	first []float32 // of the first block, [128, 128]
	agree bool      // all blocks computed the same
	lost  int       // numbers that were never written
}

// run computes the product with every seed of the pauses.
func (p *ringProbe) run(mode int) (r ringResult, err error) {
	r.agree = true
	for seed := range p.seeds {
		p.begin()
		out, err := p.lab.Alloc(p.blocks * 128 * 128 * 4)
		if err != nil {
			return r, err
		}
		if err := p.lab.LaunchBoxes("probe_ring", p.blocks, 1, 1, p.boxes, out, p.nk, mode, seed); err != nil {
			return r, err
		}
		got, err := cuda.Take[float32](p.lab, out, p.blocks*128*128)
		if err != nil {
			return r, err
		}
		if r.first == nil {
			r.first = got[:128*128]
		}
		for i, v := range got {
			r.agree = r.agree && v == r.first[i%len(r.first)]
			if v == 1e30 {
				r.lost++
			}
		}
	}
	return r, nil
}
