//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// facts describes the device, the driver and the compiled kernels. A kernel that spills
// into local memory is wrong.
func facts(c *checker) ([]task, error) {
	families, err := c.families()
	if err != nil {
		return nil, err
	}
	list := []task{{"device", (*checker).device}, {"kernels for sm_80 as compiled", func(c *checker) error { return c.compiled(cuda.MMA, kernels.SM80) }}}
	for _, f := range families {
		if f.products == cuda.WGMMA {
			return append(list, task{"kernels for sm_90a as compiled", func(c *checker) error { return c.compiled(cuda.WGMMA, kernels.SM90a) }}), nil
		}
	}
	return append(list, task{"kernels for sm_90a as compiled", func(c *checker) error {
		c.record("kernels for sm_90a as compiled", Skipped, "why", "needs sm_90")
		return nil
	}}), nil
}

func (c *checker) device() error {
	// The first start of a server takes as long as the driver's compiler does here.
	c.o.Config.Note = func(message string, args ...any) {
		r := []any{}
		for i := 0; i+1 < len(args); i += 2 {
			r = append(r, fmt.Sprint(args[i]), args[i+1])
		}
		c.record("driver's compiler: "+message, "", r...)
	}
	if err := c.open(cuda.MMA); err != nil {
		return err
	}
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
}

func (c *checker) compiled(products cuda.Products, flavour kernels.Flavour) error {
	if err := c.open(products); err != nil {
		return err
	}
	for _, e := range kernels.Entries {
		if e.Flavour != flavour {
			continue
		}
		f, err := c.lab.Facts(e.Name)
		if err != nil {
			return err
		}
		c.record(e.Name, verdict(f.Local == 0), "registers", f.Registers, "local", f.Local, "shared", f.Shared)
	}
	return nil
}

// alone lists the checks of single kernels. Kernels that the launch table does not have
// are left out.
var alone = []struct {
	kernel string
	run    func(*checker) error
}{
	{"tick", (*checker).words},
	{"fill_bf16", (*checker).filled},
	{"stream_copy", (*checker).streams},
	{"approx", (*checker).approximations},
	{"pack_bf16", func(c *checker) error { return c.packs(cuda.BF16) }},
	{"pack_q8", func(c *checker) error { return c.packs(cuda.Q8) }},
	{"pack_q4", func(c *checker) error { return c.packs(cuda.Q4) }},
	{"embed", (*checker).embedding},
	{"embed_q8", func(c *checker) error { return c.blockEmbedding(cuda.Q8) }},
	{"embed_q4", func(c *checker) error { return c.blockEmbedding(cuda.Q4) }},
	{"rmsnorm", (*checker).norms},
	{"add", (*checker).sums},
	{"norm_heads", (*checker).headNorms},
	{"rope_kv", (*checker).rotations},
	{"rope_kv_x", (*checker).turns},
	{"silu_gate", (*checker).gate},
	{"elements", (*checker).elements},
	{"act_gate", (*checker).gates},
	{"norm_rows", (*checker).allNorms},
	{"exact", (*checker).exact},
	{"route", (*checker).routes},
	{"sum_experts", (*checker).expertSums},
	{"conv", (*checker).convolutions},
	{"delta_d128", func(c *checker) error { return c.deltas(128) }},
	{"delta_d256", func(c *checker) error { return c.deltas(256) }},
	{"scan_d128", func(c *checker) error { return c.scans(128) }},
	{"scan_d256", func(c *checker) error { return c.scans(256) }},
	{"probe_wgmma", (*checker).wgmma},
	{"probe_ring", (*checker).ring},
}

// rowKernels checks the kernels that work row by row, and the instructions that all
// kernels use.
func rowKernels(c *checker) (list []task, err error) {
	info, err := c.info()
	if err != nil {
		return nil, err
	}
	for _, a := range alone {
		if !has(a.kernel) {
			continue
		}
		hopper := kernels.Find(a.kernel).Flavour == kernels.SM90a
		if hopper && !info.Hopper() {
			a.run = func(c *checker) error {
				c.record(a.kernel, Skipped, "why", "needs sm_90")
				return nil
			}
		}
		list = append(list, task{a.kernel, func(c *checker) error {
			products := cuda.MMA
			if hopper && info.Hopper() {
				products = cuda.WGMMA
			}
			if err := c.open(products); err != nil {
				return err
			}
			return a.run(c)
		}})
	}
	return list, nil
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

// rowShapes are numbers of rows and widths.
func (c *checker) rowShapes() [][2]int {
	small := [][2]int{{1, 8}, {3, 48}, {2, 1000}}
	return pick(c, small, append(small, [2]int{7, 4096}, [2]int{130, 2048}, [2]int{2, 14336}))
}

// norms checks rmsnorm.
func (c *checker) norms() error {
	for _, s := range c.rowShapes() {
		rows, n, ld := s[0], s[1], stride(s[1])
		x, xf := c.floats(rows * n)
		w, wf := c.floats(n)
		dx, err := cuda.Put(c.lab, padded(x, n, ld))
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
		var want []float64
		for r := range rows {
			want = append(want, rmsnorm(xf[r*n:(r+1)*n], wf, 1e-5)...)
		}
		c.compare(name, columns(y, n, ld), want, bfLimit)
	}
	return nil
}

// sums checks add.
func (c *checker) sums() error {
	for _, s := range c.rowShapes() {
		rows, n, ld := s[0], s[1], stride(s[1])
		x, xf := c.floats(rows * n)
		h, hf := c.normals(rows * n)
		dx, err := cuda.Put(c.lab, padded(x, n, ld))
		if err != nil {
			return err
		}
		dh, err := cuda.Put(c.lab, padded(h, n, ld))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("add %dx%d", rows, n)
		z, err := repeat[float32](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Copy(y, dx, rows*ld*4); err != nil {
				return err
			}
			return c.lab.Launch("add", rows, 1, 1, y, dh, n, ld, ld)
		})
		if err != nil {
			return err
		}
		for i := range xf {
			xf[i] += hf[i]
		}
		c.compare(name, columns(z, n, ld), xf, f32Limit)
	}
	return nil
}

// headNorms checks norm_heads, in place and in views with the least alignment.
func (c *checker) headNorms() error {
	const off = 10 // elements: such a view is aligned to 4 bytes only
	small := [][3]int{{3, 3, 10}, {2, 5, 64}}
	for _, s := range pick(c, small, append(small, [3]int{64, 32, 128}, [3]int{300, 8, 64}, [3]int{5, 2, 256})) {
		rows, heads, dim := s[0], s[1], s[2]
		width := heads * dim
		ld := stride(width+off) + 64
		x, xf := c.normals(rows * ld)
		w, wf := c.floats(dim)
		dx, err := cuda.Put(c.lab, x)
		if err != nil {
			return err
		}
		dw, err := cuda.Put(c.lab, w)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("norm_heads %dx%dx%d", rows, heads, dim)
		y, err := repeat[uint16](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Copy(y, dx, rows*ld*2); err != nil {
				return err
			}
			return c.lab.Launch("norm_heads", rows, (heads+3)/4, 1, y+off*2, y+off*2, dw, heads, dim, ld, ld, float32(1e-6))
		})
		if err != nil {
			return err
		}
		var got, want []float64
		beside := true
		for r := range rows {
			for h := range heads {
				at := r*ld + off + h*dim
				got = append(got, columns(y[at:at+dim], dim, dim)...)
				want = append(want, rmsnorm(xf[at:at+dim], wf, 1e-6)...)
			}
			beside = beside && slices.Equal(y[r*ld:r*ld+off], x[r*ld:r*ld+off]) && slices.Equal(y[r*ld+off+width:(r+1)*ld], x[r*ld+off+width:(r+1)*ld])
		}
		c.compare(name, got, want, bfLimit)
		c.record(name+": nothing else written", verdict(beside))
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
	if as == cuda.MXFP4 { // which the host packs
		return cuda.Put(c.lab, e2m1Tiles(src, n, k))
	}
	s, err := cuda.Put(c.lab, src)
	if err != nil {
		return 0, err
	}
	return w, c.lab.Pack(as, w, s, n, k)
}

// blockEmbedding checks embed_q8 or embed_q4, whose numbers are whole numbers times scales,
// rounded once.
func (c *checker) blockEmbedding(as cuda.Format) error {
	vocab, n := pick(c, 100, 1000), pick(c, 72, 2048)
	ld := stride(n)
	table, rows := c.normals(vocab * n)
	w, err := c.matrix(as, table, vocab, n)
	if err != nil {
		return err
	}
	ids := []int32{5, int32(vocab - 1), 0, 64}
	tokens, err := cuda.Put(c.lab, ids)
	if err != nil {
		return err
	}
	name := "embed_" + as.String()
	x, err := repeat[float32](c, name, len(ids)*ld, func(y uint64) error {
		if err := c.lab.Fill(y, 0, len(ids)*ld*4); err != nil {
			return err
		}
		return c.lab.Launch(name, len(ids), 1, 1, y, w, tokens, tokens, n, ld, vocab)
	})
	if err != nil {
		return err
	}
	round(rows, n, as)
	var want []float64
	for _, id := range ids {
		for _, v := range rows[int(id)*n:][:n] {
			want = append(want, float64(float32(v)))
		}
	}
	c.compare(name, columns(x, n, ld), want, 0)
	return nil
}

// embedding checks embed and gather, which copy, so every bit must be the same.
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

// rotations checks rope_kv: norm of the heads or none, rotation of all of a head
// or a part, and where keys and values end up in the cache.
func (c *checker) rotations() error {
	const norm = kernels.NormQ | kernels.NormK
	small := []rotated{{4, 2, 48, 20, 0, norm}, {3, 1, 10, 5, 0, 0}, {4, 2, 48, 10, 12, norm | kernels.NormV | kernels.NormCentered | kernels.NormAfter | kernels.RopePairs}}
	for _, r := range pick(c, small, append(small, rotated{32, 8, 64, 32, 0, 0}, rotated{16, 8, 128, 64, 0, norm}, rotated{16, 8, 128, 32, 64, norm | kernels.RopePairs})) {
		if err := c.rotation(r); err != nil {
			return err
		}
	}
	return nil
}

type rotated struct {
	heads, kvHeads, dim, half, offset int
	how                               int // as the launch table has it
}

// rotationTokens are the tokens of a check of rope_kv. The last one is padding: it
// has no slot.
const rotationTokens, rotationBlock = 3, 16

var rotationPos, rotationSlots = []int32{3, 40, 7}, []int32{rotationBlock + 5, 2*rotationBlock + 15, -1}

func (s rotated) name() string {
	return fmt.Sprintf("rope_kv %d/%d heads of %d, how %d", s.heads, s.kvHeads, s.dim, s.how)
}
func (s rotated) width() int    { return (s.heads + 2*s.kvHeads) * s.dim }
func (s rotated) elements() int { return kernels.KVBlock(s.kvHeads, s.dim, s.dim, rotationBlock) }

func (c *checker) rotation(s rotated) error {
	qkv, f := c.normals(rotationTokens * s.width())
	w, wf := c.floats(s.dim)
	table := make([]float32, 64*s.half*2)
	for i := 0; i < len(table); i += 2 {
		sin, cos := math.Sincos(float64(i/2/s.half) / math.Pow(100, float64(i/2%s.half)/float64(s.half)))
		table[i], table[i+1] = float32(cos), float32(sin)
	}
	q, kv, err := c.rotate(s, qkv, w, table)
	if err != nil {
		return err
	}
	turned := func(t, h int) []float64 { // head h of q and k together
		x := slices.Clone(f[t*s.width()+h*s.dim:][:s.dim])
		if s.how&kernels.NormAfter == 0 {
			x = s.normed(x, wf, kernels.NormQ)
		}
		turnPairs(x, table[int(rotationPos[t])*s.half*2:][:s.half*2], s.offset, s.how&kernels.RopePairs != 0)
		if s.how&kernels.NormAfter != 0 {
			x = s.normed(x, wf, kernels.NormQ)
		}
		return x
	}
	var got, want []float64
	for t := range rotationTokens {
		for h := range s.heads {
			got = append(got, columns(q[t*stride(s.width())+h*s.dim:][:s.dim], s.dim, s.dim)...)
			want = append(want, turned(t, h)...)
		}
	}
	for t, slot := range rotationSlots {
		if slot < 0 {
			continue
		}
		for h := range s.kvHeads {
			key, value := s.inCache(kv, int(slot), h)
			got = append(append(got, key...), value...)
			want = append(append(want, turned(t, s.heads+h)...), s.normed(f[t*s.width()+(s.heads+s.kvHeads+h)*s.dim:][:s.dim], wf, kernels.NormV)...)
		}
	}
	c.compare(s.name(), got, want, bfLimit)
	written := 0
	for _, v := range kv {
		if v != 0 {
			written++
		}
	}
	c.record(s.name()+": writes its slots alone", verdict(written <= 2*2*s.kvHeads*s.dim), "written", written)
	return nil
}

// normed is a head that is normed if how has the bit.
func (s rotated) normed(x, w []float64, bit int) []float64 {
	if s.how&bit == 0 {
		return x
	}
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	x = slices.Clone(x)
	for i := range x {
		x[i] -= mean * float64(number(s.how&kernels.NormCentered != 0))
	}
	return rmsnorm(x, w, 1e-6)
}

// inCache is the key and the value of a head in a slot.
func (s rotated) inCache(kv []uint16, slot, head int) (key, value []float64) {
	row := kernels.KVRow(s.dim)
	at := slot/rotationBlock*s.elements() + (head*rotationBlock+slot%rotationBlock)*row
	key = columns(kv[at:at+s.dim], s.dim, s.dim)
	at += s.kvHeads * rotationBlock * row
	return key, columns(kv[at:at+s.dim], s.dim, s.dim)
}

// rotate runs rope_kv, and returns the queries and the cache.
func (c *checker) rotate(s rotated, qkv []uint16, w, table []float32) (q, kv []uint16, err error) {
	ld, elements := stride(s.width()), s.elements()
	var put [5]uint64 // rows, weights, angles, positions, slots
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, padded(qkv, s.width(), ld)) },
		func() (uint64, error) { return cuda.Put(c.lab, w) },
		func() (uint64, error) { return cuda.Put(c.lab, table) },
		func() (uint64, error) { return cuda.Put(c.lab, rotationPos) },
		func() (uint64, error) { return cuda.Put(c.lab, rotationSlots) },
	} {
		if put[i], err = f(); err != nil {
			return nil, nil, err
		}
	}
	rows, err := c.lab.Alloc(rotationTokens * ld * 2)
	if err != nil {
		return nil, nil, err
	}
	kv, err = repeat[uint16](c, s.name(), 3*elements, func(kv uint64) error {
		if err := c.lab.Fill(kv, 0, 3*elements*2); err != nil {
			return err
		}
		if err := c.lab.Copy(rows, put[0], rotationTokens*ld*2); err != nil {
			return err
		}
		return c.lab.Launch("rope_kv", rotationTokens, (s.heads+2*s.kvHeads+3)/4, 1, rows, rows+uint64(s.heads*s.dim*2), rows+uint64((s.heads+s.kvHeads)*s.dim*2), kv, put[2], put[3], put[4], put[1], put[1], put[1],
			s.heads, s.kvHeads, s.dim, s.half, s.offset, ld, rotationBlock, elements, s.how, float32(1e-6), float32(1e-6), float32(1e-6))
	})
	if err != nil {
		return nil, nil, err
	}
	q, err = cuda.Take[uint16](c.lab, rows, rotationTokens*ld)
	return q, kv, err
}

// turnPairs rotates the dimensions of a head from offset on, by the cosines and sines in at, which take turns. Pairs are
// neighbours, or else as far apart as there are pairs.
func turnPairs(x []float64, at []float32, offset int, neighbours bool) {
	half := len(at) / 2
	for i := range half {
		a, b := offset+i, offset+i+half
		if neighbours {
			a, b = offset+2*i, offset+2*i+1
		}
		cos, sin := float64(at[2*i]), float64(at[2*i+1])
		x[a], x[b] = x[a]*cos-x[b]*sin, x[b]*cos+x[a]*sin
	}
}
