//go:build cuda && linux && amd64

package check

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
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

// products checks x·wᵀ against float64, what is done with the sums, and that the
// bits of a row are the same whatever the number of rows.
func products(c *checker) (list []task, err error) {
	err = c.eachFamily(func(f family) {
		add := func(name string, run func(*checker) error) {
			list = append(list, task{f.name + ": " + name, func(c *checker) error {
				if err := c.open(f.products); err != nil {
					return err
				}
				return run(c)
			}})
		}
		small := [][3]int{{1, 64, 64}, {7, 96, 256}, {12, 64, 128}, {65, 66, 72}, {33, 130, 328}, {30, 64, 64}}
		full := [][3]int{{1, 6144, 4096}, {8, 4096, 4096}, {17, 1000, 2048}, {64, 512, 14336}, {129, 514, 4104}, {300, 4096, 1024}}
		if f.products == cuda.WGMMA {
			small = append(small, [3]int{130, 64, 64}) // of few columns, where K is one range: the widest kernel
			full = append(full, [3]int{600, 17000, 128})
		}
		for _, s := range pick(c, small, append(small, full...)) {
			add(fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), func(c *checker) error { return c.product(f, s[0], s[1], s[2]) })
		}
		add("what is done with the sums", func(c *checker) error { return c.epilogues(f) })
		add("the same bits", func(c *checker) error {
			return c.sameBits(f, pick(c, 130, 2048), pick(c, 192, 4096), pick(c, 320, 4096))
		})
	})
	if err != nil {
		return nil, err
	}
	list = append(list, grouped()...)
	info, err := c.info()
	if err == nil && !info.Hopper() {
		list = append(list, task{"wgmma", func(c *checker) error {
			c.record("products by wgmma", Skipped, "why", "needs sm_90")
			return nil
		}})
	}
	return list, err
}

// grouped are the products of experts, and all products of MXFP4, which no network has but for experts.
func grouped() (list []task) {
	add := func(name string, run func(*checker) error) {
		list = append(list, task{name, func(c *checker) error {
			if err := c.open(cuda.MMA); err != nil {
				return err
			}
			return run(c)
		}})
	}
	f := family{"mxfp4", cuda.MMA, cuda.MXFP4}
	for _, s := range [][3]int{{1, 64, 64}, {7, 96, 256}, {12, 64, 128}, {65, 66, 72}, {33, 130, 328}, {30, 64, 64}} {
		add(fmt.Sprintf("mxfp4: %dx%dx%d", s[0], s[1], s[2]), func(c *checker) error { return c.product(f, s[0], s[1], s[2]) })
	}
	add("mxfp4: the same bits", func(c *checker) error { return c.sameBits(f, pick(c, 130, 2048), 192, 320) })
	for _, as := range []cuda.Format{cuda.BF16, cuda.Q8, cuda.Q4, cuda.MXFP4} {
		add("experts in "+as.String(), func(c *checker) error { return c.grouped(as) })
	}
	return list
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
		return c.lab.Gemm(cuda.Product{As: f.weights, Y: y, LDY: ldy, W: dw, N: n, K: k, X: dx, LDX: ldx, Rows: rows, Epilogue: kernels.StoreF32, Work: work, Counters: counters})
	})
	if err != nil {
		return err
	}
	got := columns(y, n, ldy)
	// All of a small product, a sample of a large one.
	step := max(1, rows*n*k/(1<<28))
	var a []float64
	for i := 0; i < rows*n; i += step {
		a = append(a, got[i])
	}
	b := make([]float64, len(a))
	parallel(len(b), func(at int) {
		r, j := at*step/n, at*step%n
		x, w := xf[r*k:][:k], wf[j*k:][:k]
		for t := range x {
			b[at] += x[t] * w[t]
		}
	})
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
		c.begin()
		err := c.lab.Gemm(cuda.Product{As: f.weights, Y: y, LDY: ldy, W: dw, N: n, K: k, X: dx, LDX: ldx, Rows: rows, Epilogue: kernels.StoreF32, Work: work, Counters: counters})
		if err != nil {
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

// after lists what a product can do with its sums.
var after = []struct {
	name     string
	epilogue int
}{
	{"stored as bf16", kernels.StoreBF16},
	{"added to float32", kernels.AddF32},
	{"SwiGLU", kernels.SwiGLU},
}

// epilogues checks what products for few and for many rows do with their sums,
// with a bias and without.
func (c *checker) epilogues(f family) error {
	e, err := c.epilogueInputs(f)
	if err != nil {
		return err
	}
	for _, a := range after {
		for _, rows := range []int{5, 70} {
			name := fmt.Sprintf("%s %dx%dx%d, %s", f.name, rows, e.n, e.k, a.name)
			switch a.epilogue {
			case kernels.AddF32:
				err = e.added(name, rows)
			case kernels.SwiGLU:
				err = e.gated(name, rows)
			default:
				err = e.stored(name, rows)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// epilogueInputs is a product on the device, with the numbers that it is made of.
type epilogueInputs struct {
	*checker
	n, k    int
	x, w    []float64 // [70, k] and [n, k]
	bias    []float64
	product cuda.Product // for the plain matrix, with the bias
	halves  uint64       // the matrix as a gate and an up projection
}

func (c *checker) epilogueInputs(f family) (*epilogueInputs, error) {
	e := &epilogueInputs{checker: c, n: pick(c, 192, 4096), k: 328}
	n, k := e.n, e.k
	x, xf := c.normals(70 * k)
	w, wf := c.normals(n * k)
	bias, bf := c.floats(n)
	round(wf, k, f.weights)
	e.x, e.w, e.bias = xf, wf, bf
	plain, err := c.matrix(f.weights, w, n, k)
	if err != nil {
		return nil, err
	}
	if e.halves, err = c.interleaved(f.weights, w, n, k); err != nil {
		return nil, err
	}
	ldx := stride(k)
	dx, err := cuda.Put(c.lab, padded(x, k, ldx))
	if err != nil {
		return nil, err
	}
	db, err := cuda.Put(c.lab, bias)
	if err != nil {
		return nil, err
	}
	work, counters, err := c.scratch(n, k)
	e.product = cuda.Product{As: f.weights, W: plain, N: n, K: k, X: dx, LDX: ldx, LDY: stride(n), Bias: db, Work: work, Counters: counters}
	return e, err
}

// interleaved packs a matrix whose upper and lower half take turns in its tiles,
// as a gate and an up projection do.
func (c *checker) interleaved(as cuda.Format, w []uint16, n, k int) (uint64, error) {
	size := cuda.TileBytes(as, n, k)
	tiles, err := c.lab.Alloc(size)
	if err != nil {
		return 0, err
	}
	src, err := cuda.Put(c.lab, w)
	if err != nil {
		return 0, err
	}
	err = c.lab.Fill(tiles, 0, size)
	for part := range 2 {
		err = errors.Join(err, c.lab.Launch("pack_"+as.String(), (n/2+31)/32, (k+63)/64, 1, tiles, src+uint64(part*n/2*k*2), n/2, k, 0, n, 0, 1, part))
	}
	return tiles, err
}

// sums computes the product in float64.
func (e *epilogueInputs) sums(rows int, bias bool) []float64 {
	sums := make([]float64, rows*e.n)
	parallel(len(sums), func(at int) {
		for t, v := range e.x[at/e.n*e.k:][:e.k] {
			sums[at] += v * e.w[at%e.n*e.k+t]
		}
		if bias {
			sums[at] += e.bias[at%e.n]
		}
	})
	return sums
}

// stored checks a product with a bias that is stored as bf16.
func (e *epilogueInputs) stored(name string, rows int) error {
	p := e.product
	p.Rows, p.Epilogue = rows, kernels.StoreBF16
	got, err := repeat[uint16](e.checker, name, rows*p.LDY, func(y uint64) error {
		p.Y = y
		return e.lab.Gemm(p)
	})
	if err == nil {
		e.compare(name, columns(got, e.n, p.LDY), e.sums(rows, true), bfLimit)
	}
	return err
}

// added checks a product with a bias that is added to float32.
func (e *epilogueInputs) added(name string, rows int) error {
	p := e.product
	p.Rows, p.Epilogue = rows, kernels.AddF32
	before, bf := e.floats(rows * e.n)
	was, err := cuda.Put(e.lab, padded(before, e.n, p.LDY))
	if err != nil {
		return err
	}
	got, err := repeat[float32](e.checker, name, rows*p.LDY, func(y uint64) error {
		p.Y = y
		return errors.Join(e.lab.Copy(y, was, rows*p.LDY*4), e.lab.Gemm(p))
	})
	if err != nil {
		return err
	}
	want := e.sums(rows, true)
	for i := range want {
		want[i] += bf[i]
	}
	e.compare(name, columns(got, e.n, p.LDY), want, f32Limit)
	return nil
}

// gated checks a product without a bias whose halves are a gate and what it gates.
func (e *epilogueInputs) gated(name string, rows int) error {
	width := e.n / 2
	p := e.product
	p.Rows, p.Epilogue, p.W, p.LDY, p.Bias = rows, kernels.SwiGLU, e.halves, stride(width), 0
	got, err := repeat[uint16](e.checker, name, rows*p.LDY, func(y uint64) error {
		p.Y = y
		return e.lab.Gemm(p)
	})
	if err != nil {
		return err
	}
	sums := e.sums(rows, false)
	var want []float64
	for r := range rows {
		for i := range width {
			g, u := sums[r*e.n+i], sums[r*e.n+width+i]
			want = append(want, g/(1+math.Exp(-g))*u)
		}
	}
	e.compare(name, columns(got, width, p.LDY), want, bfLimit)
	return nil
}
