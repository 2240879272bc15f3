//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// facts is what the device, the driver and the compiler are. A kernel that
// spills into local memory is wrong.
func facts(c *checker) error {
	err := c.withLab(func() error {
		version, missing := c.lab.Driver()
		free, total, err := c.lab.Memory()
		if err != nil {
			return err
		}
		if c.lab.Emulated() {
			missing = []string{fmt.Sprint(len(missing), " (emulated)")}
		}
		c.record("device", "", "name", c.lab.Info().Name, "capability", fmt.Sprintf("%d.%d", c.lab.Info().Major, c.lab.Info().Minor),
			"driver", version, "free", free, "total", total, "missing", missing)
		for _, a := range []struct {
			n    int
			name string
		}{{16, "multiprocessors"}, {13, "clock kHz"}, {36, "memory clock kHz"}, {37, "memory bus bits"}, {38, "L2 bytes"}, {97, "shared memory per block"},
			{82, "registers per multiprocessor"}, {39, "threads per multiprocessor"}, {32, "ECC"}, {120, "clusters"}, {127, "tensor maps"}} {
			if v, err := c.lab.Attribute(a.n); err == nil {
				c.record(a.name, "", "value", v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	products := cuda.MMA
	list, err := c.families()
	if err != nil {
		return err
	}
	for _, f := range list {
		products = max(products, f.products)
	}
	return c.with(products, func() error {
		for _, e := range kernels.Entries {
			if e.Flavour == kernels.SM90a && products == cuda.MMA {
				continue
			}
			f, err := c.lab.Facts(e.Name)
			if err != nil {
				return err
			}
			c.record(e.Name, verdict(f.Local == 0), "registers", f.Registers, "local", f.Local, "shared", f.Shared)
		}
		return nil
	})
}

// rowKernels checks what works on every row by itself.
func rowKernels(c *checker) error {
	return c.withLab(func() error {
		for _, f := range []func() error{c.norms, c.gate, c.embedding, c.rotation} {
			if err := f(); err != nil {
				return err
			}
			if err := c.lab.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

func rmsnorm(x, w []float64, eps float64) []float64 {
	var q float64
	for _, v := range x {
		q += v * v
	}
	q = 1 / math.Sqrt(q/float64(len(x))+eps)
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] * q * w[i]
	}
	return y
}

func (c *checker) norms() error {
	small := [][2]int{{1, 8}, {3, 48}, {2, 1000}}
	for _, s := range pick(c, small, append(small, [2]int{7, 4096}, [2]int{130, 2048}, [2]int{2, 14336})) {
		rows, n, ld := s[0], s[1], stride(s[1])
		x, xf := c.floats(rows * n)
		h, hf := c.normals(rows * n)
		w, wf := c.floats(n)
		dx, err := cuda.Put(c.lab, padded(x, n, ld))
		if err != nil {
			return err
		}
		dh, err := cuda.Put(c.lab, padded(h, n, ld))
		if err != nil {
			return err
		}
		dw, err := cuda.Put(c.lab, w)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("rmsnorm %dx%d", rows, n)
		y, err := repeat[uint16](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Fill(y, 0, rows*ld*2); err != nil {
				return err
			}
			return c.lab.Launch("rmsnorm", rows, 1, 1, y, dx, dw, n, ld, ld, float32(1e-5))
		})
		if err != nil {
			return err
		}
		var want, sums []float64
		for r := range rows {
			want = append(want, rmsnorm(xf[r*n:(r+1)*n], wf, 1e-5)...)
		}
		c.compare(name, columns(y, n, ld), want, bfLimit)

		for i := range xf {
			sums = append(sums, xf[i]+hf[i])
		}
		name = fmt.Sprintf("add %dx%d", rows, n)
		z, err := repeat[float32](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Copy(y, dx, rows*ld*4); err != nil {
				return err
			}
			return c.lab.Launch("add", rows, 1, 1, y, dh, n, ld, ld)
		})
		if err != nil {
			return err
		}
		c.compare(name, columns(z, n, ld), sums, f32Limit)
	}
	return nil
}

func (c *checker) gate() error {
	small := [][2]int{{1, 16}, {3, 130}}
	for _, s := range pick(c, small, append(small, [2]int{5, 14336}, [2]int{300, 3072})) {
		rows, n := s[0], s[1]
		ldg, ldy := stride(2*n), stride(n)
		g, gf := c.normals(rows * 2 * n)
		dg, err := cuda.Put(c.lab, padded(g, 2*n, ldg))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("silu_gate %dx%d", rows, n)
		y, err := repeat[uint16](c, name, rows*ldy, func(y uint64) error {
			if err := c.lab.Fill(y, 0, rows*ldy*2); err != nil {
				return err
			}
			return c.lab.Launch("silu_gate", rows, (n+2047)/2048, 1, y, dg, n, ldg, ldy)
		})
		if err != nil {
			return err
		}
		var want []float64
		for r := range rows {
			for i := range n {
				a, u := gf[r*2*n+i], gf[r*2*n+n+i]
				want = append(want, a/(1+math.Exp(-a))*u)
			}
		}
		c.compare(name, columns(y, n, ldy), want, bfLimit)
	}
	return nil
}

// matrix puts [n, k] bf16 weights on the device, in tiles of a format.
func (c *checker) matrix(as cuda.Format, src []uint16, n, k int) (uint64, error) {
	w, err := c.lab.Alloc(cuda.TileBytes(as, n, k))
	if err != nil {
		return 0, err
	}
	s, err := cuda.Put(c.lab, src)
	if err != nil {
		return 0, err
	}
	return w, c.lab.Pack(as, w, s, n, k)
}

// embedding checks embed and gather, which copy: every bit.
func (c *checker) embedding() error {
	vocab, n := pick(c, 100, 1000), pick(c, 72, 2048)
	ld := stride(n)
	table, f := c.normals(vocab * n)
	w, err := c.matrix(cuda.BF16, table, vocab, n)
	if err != nil {
		return err
	}
	tokens := []int32{5, ^2, int32(vocab - 1), 0, ^0}
	drawn := []int32{7, 1, 9}
	ids := []int{5, 9, vocab - 1, 0, 7}
	dt, err := cuda.Put(c.lab, tokens)
	if err != nil {
		return err
	}
	dd, err := cuda.Put(c.lab, drawn)
	if err != nil {
		return err
	}
	x, err := repeat[float32](c, "embed", len(ids)*ld, func(y uint64) error {
		if err := c.lab.Fill(y, 0, len(ids)*ld*4); err != nil {
			return err
		}
		return c.lab.Launch("embed", len(ids), 1, 1, y, w, dt, dd, n, ld, vocab)
	})
	if err != nil {
		return err
	}
	var want []float64
	for _, id := range ids {
		want = append(want, f[id*n:(id+1)*n]...)
	}
	c.compare("embed", columns(x, n, ld), want, 0)

	at := []int32{4, 0, 2}
	src, err := cuda.Put(c.lab, x)
	if err != nil {
		return err
	}
	da, err := cuda.Put(c.lab, at)
	if err != nil {
		return err
	}
	y, err := repeat[float32](c, "gather", len(at)*ld, func(y uint64) error {
		return c.lab.Launch("gather", len(at), 1, 1, y, src, da, ld*4, ld*4, ld*4)
	})
	if err != nil {
		return err
	}
	want = want[:0]
	for _, i := range at {
		want = append(want, f[ids[i]*n:(ids[i]+1)*n]...)
	}
	c.compare("gather", columns(y, n, ld), want, 0)
	return nil
}

// rotation checks rope_kv: norm of the heads, rotation, and where keys and
// values end up in the cache.
func (c *checker) rotation() error {
	const heads, kvHeads, dim, half, block, tokens = 4, 2, 48, 20, 16, 3
	width := (heads + 2*kvHeads) * dim
	ld := stride(width)
	qkv, f := c.normals(tokens * width)
	w, wf := c.floats(dim)
	pos, slots := []int32{3, 40, 7}, []int32{block + 5, 2*block + 15, -1}
	table := make([]float32, 64*half*2)
	for i := 0; i < len(table); i += 2 {
		sin, cos := math.Sincos(float64(i/2/half) / math.Pow(100, float64(i/2%half)/half))
		table[i], table[i+1] = float32(cos), float32(sin)
	}
	master, err := cuda.Put(c.lab, padded(qkv, width, ld))
	if err != nil {
		return err
	}
	dw, err := cuda.Put(c.lab, w)
	if err != nil {
		return err
	}
	dr, err := cuda.Put(c.lab, table)
	if err != nil {
		return err
	}
	dp, err := cuda.Put(c.lab, pos)
	if err != nil {
		return err
	}
	ds, err := cuda.Put(c.lab, slots)
	if err != nil {
		return err
	}
	elements := kernels.KVBlock(kvHeads, dim, block)
	q, err := c.lab.Alloc(tokens * ld * 2)
	if err != nil {
		return err
	}
	kv, err := repeat[uint16](c, "rope_kv", 3*elements, func(kv uint64) error {
		if err := c.lab.Fill(kv, 0, 3*elements*2); err != nil {
			return err
		}
		if err := c.lab.Copy(q, master, tokens*ld*2); err != nil {
			return err
		}
		return c.lab.Launch("rope_kv", tokens, 1, 1, q, q+heads*dim*2, q+(heads+kvHeads)*dim*2, kv, dr, dp, ds, dw, dw,
			heads, kvHeads, dim, half, ld, block, elements, float32(1e-6))
	})
	if err != nil {
		return err
	}
	gotQ, err := cuda.Take[uint16](c.lab, q, tokens*ld)
	if err != nil {
		return err
	}
	turned := func(t, h int) []float64 { // head h of q and k together
		x := rmsnorm(f[t*width+h*dim:][:dim], wf, 1e-6)
		for i := range half {
			cos, sin := float64(table[(int(pos[t])*half+i)*2]), float64(table[(int(pos[t])*half+i)*2+1])
			x[i], x[i+half] = x[i]*cos-x[i+half]*sin, x[i+half]*cos+x[i]*sin
		}
		return x
	}
	var got, want []float64
	for t := range tokens {
		for h := range heads {
			got = append(got, columns(gotQ[t*ld+h*dim:][:dim], dim, dim)...)
			want = append(want, turned(t, h)...)
		}
	}
	row := kernels.KVRow(dim)
	for t, slot := range slots {
		if slot < 0 {
			continue
		}
		for h := range kvHeads {
			at := int(slot)/block*elements + (h*block+int(slot)%block)*row
			got = append(got, columns(kv[at:at+dim], dim, dim)...)
			want = append(want, turned(t, heads+h)...)
			at += kvHeads * block * row
			got = append(got, columns(kv[at:at+dim], dim, dim)...)
			want = append(want, f[t*width+(heads+kvHeads+h)*dim:][:dim]...)
		}
	}
	c.compare("rope_kv", got, want, bfLimit)
	written := 0
	for _, v := range kv {
		if v != 0 {
			written++
		}
	}
	c.record("rope_kv writes its slots alone", verdict(written <= 2*2*kvHeads*dim), "written", written)
	return nil
}
