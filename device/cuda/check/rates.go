//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// rates measures ceilings first, and then kernels with the shapes of models as shares of
// the ceilings.
func rates(c *checker) (list []task, err error) {
	add := func(name string, products cuda.Products, run func(*checker) error) {
		list = append(list, task{name, func(c *checker) error {
			if err := c.open(products); err != nil {
				return err
			}
			return run(c)
		}})
	}
	add("memory", cuda.MMA, (*checker).memory)
	add("launches", cuda.MMA, (*checker).launches)
	for _, a := range c.attentionCases() {
		add(a.name(), cuda.MMA, func(c *checker) error { return c.attentionRate(a) })
	}
	for _, r := range rowRates {
		if has(r.kernel) {
			add("rate of "+r.kernel, cuda.MMA, func(c *checker) error { return c.rowRate(r) })
		}
	}
	add("rate of pick", cuda.MMA, (*checker).pickRate)
	add("rate of packing", cuda.MMA, (*checker).packRates)
	err = c.eachFamily(func(f family) {
		for _, s := range c.productShapes() {
			add(fmt.Sprintf("%s products of %dx%d", f.name, s[0], s[1]), f.products, func(c *checker) error { return c.productRates(f, s[0], s[1], c.productRows()) })
		}
	})
	return list, err
}

// seconds is the time that the device needs for one of n calls of f. The next records
// are about what f launches.
func (c *checker) seconds(n int, f func(i int) error) (float64, error) {
	c.begin()
	return c.lab.Seconds(n, f)
}

// measured records a time, with what was moved and computed in it as a share of the
// ceiling that is nearer. key names the same work in torch.
func (c *checker) measured(name, key string, sec, bytes, flop float64) {
	v := []any{"us", sec * 1e6, "key", key}
	share, of := 0.0, "memory"
	if bytes > 0 {
		v = append(v, "GB/s", bytes/sec/1e9)
		if c.bw > 0 {
			share = bytes / sec / c.bw
		}
	}
	if flop > 0 {
		v = append(v, "TFLOP/s", flop/sec/1e12)
		if peak := c.peak(); peak > 0 && flop/sec/peak > share {
			share, of = flop/sec/peak, "bf16"
		}
	}
	if share > 0 {
		v = append(v, "share", share, "of", of)
	}
	c.record(name, "", v...)
}

// peak is what the tensor cores can do with bf16 at the highest clock, without sparsity,
// by the flop per clock of a multiprocessor in NVIDIA's tables of each architecture. It
// is 0 if that is not known.
func (c *checker) peak() float64 {
	clocks := map[int]float64{80: 2048, 86: 1024, 87: 1024, 89: 1024, 90: 4096, 100: 8192, 103: 8192, 120: 1024}
	sms, err1 := c.lab.Attribute(16)
	khz, err2 := c.lab.Attribute(13)
	if err1 != nil || err2 != nil {
		return 0
	}
	info := c.lab.Info()
	return clocks[10*info.Major+info.Minor] * float64(sms) * float64(khz) * 1e3
}

// memory measures the ceiling of memory: the fastest of a copy by the driver, a
// copy by threads, and threads that only read.
func (c *checker) memory() error {
	if err := c.open(cuda.MMA); err != nil {
		return err
	}
	n := pick(c, 1<<16, 1<<30)
	a, err := c.lab.Alloc(n)
	if err != nil {
		return err
	}
	b, err := c.lab.Alloc(n)
	if err != nil {
		return err
	}
	sms, err := c.lab.Attribute(16)
	if err != nil {
		return err
	}
	type stream struct {
		name  string
		moved int
		run   func(int) error
	}
	list := []stream{{"copy by the driver", 2 * n, func(int) error { return c.lab.Copy(b, a, n) }}}
	for _, per := range pick(c, []int{1}, []int{2, 4, 8}) {
		list = append(list,
			stream{fmt.Sprintf("stream_copy, %d blocks per processor", per), 2 * n, func(int) error { return c.lab.Launch("stream_copy", per*sms, 1, 1, b, a, n/16) }},
			stream{fmt.Sprintf("stream_read, %d blocks per processor", per), n, func(int) error { return c.lab.Launch("stream_read", per*sms, 1, 1, b, a, n/16) }})
	}
	if err := c.noise(a, n/2, 1); err != nil { // equal numbers take less power
		return err
	}
	best, rates := 0.0, make([]float64, len(list))
	for i, s := range list {
		sec, err := c.seconds(pick(c, 1, 4), s.run)
		if err != nil {
			return err
		}
		rates[i] = float64(s.moved) / sec
		best = max(best, rates[i])
		c.record(s.name, "", "GB/s", rates[i]/1e9, "bytes", n)
	}
	c.bw = best
	c.begin()
	c.record("ceilings", "", "memory GB/s", best/1e9, "bf16 TFLOP/s by clock", c.peak()/1e12)
	for i, s := range list[1:] {
		c.begin()
		if err := s.run(0); err != nil {
			return err
		}
		c.record(s.name+": share", "", "share", rates[i+1]/best, "of", "memory")
	}
	return nil
}

// launches measures what a kernel costs that does nothing.
func (c *checker) launches() error {
	p, err := cuda.Put(c.lab, []uint32{0})
	if err != nil {
		return err
	}
	c.begin()
	n := pick(c, 5, 1000)
	tick := func(int) error { return c.lab.Launch("tick", 1, 1, 1, p) }
	if err := tick(0); err != nil {
		return err
	}
	if err := c.lab.Wait(); err != nil {
		return err
	}
	began := time.Now()
	for i := range n {
		if err := tick(i); err != nil {
			return err
		}
	}
	host := time.Since(began)
	if err := c.lab.Wait(); err != nil {
		return err
	}
	all := time.Since(began)
	node, err := c.lab.Seconds(pick(c, 5, 200), tick)
	if err != nil {
		return err
	}
	c.record("a launch", "", "host_us", host.Seconds()*1e6/float64(n), "device_us", all.Seconds()*1e6/float64(n), "in_a_graph_us", node*1e6)
	return nil
}

// The shapes of Llama-3.1-8B's products: qkv, out, gate and up, down, head.
var shapes8B = [][2]int{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}}

func (c *checker) productShapes() [][2]int { return pick(c, [][2]int{{192, 128}}, shapes8B) }

func (c *checker) productRows() []int {
	return pick(c, []int{1, 70}, []int{1, 8, 16, 32, 64, 128, 512, 2048, 8192})
}

func (c *checker) productRates(f family, n, k int, rows []int) error {
	tiles := cuda.TileBytes(f.weights, n, k)
	copies := pick(c, 1, max(1, 256<<20/tiles)) // more than the second-level cache holds
	w, err := c.lab.Alloc(tiles * copies)
	if err != nil {
		return err
	}
	// Random numbers, because equal ones take less power, and so less time.
	src, err := c.lab.Alloc(n * k * 2)
	if err != nil {
		return err
	}
	for i := range copies {
		if err := c.noise(src, n*k, i); err != nil {
			return err
		}
		if err := c.lab.Pack(f.weights, w+uint64(i*tiles), src, n, k); err != nil {
			return err
		}
	}
	most := rows[len(rows)-1]
	x, err := c.lab.Alloc(most * stride(k) * 2)
	if err != nil {
		return err
	}
	if err := c.noise(x, most*stride(k), copies); err != nil {
		return err
	}
	y, err := c.lab.Alloc(most * stride(n) * 2)
	if err != nil {
		return err
	}
	work, counters, err := c.scratch(n, k)
	if err != nil {
		return err
	}
	for _, m := range rows {
		flop := 2 * float64(m) * float64(n) * float64(k)
		reps := pick(c, 1, max(2, min(50, int(2e11/flop))))
		sec, err := c.seconds(reps, func(i int) error {
			return c.lab.Gemm(cuda.Product{As: f.weights, Y: y, LDY: stride(n), W: w + uint64(i%copies*tiles), N: n, K: k, X: x, LDX: stride(k), Rows: m, Epilogue: kernels.StoreBF16, Work: work, Counters: counters})
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%dx%dx%d", m, n, k)
		c.measured(f.name+" "+name, "linear "+name, sec, float64(tiles)+float64(m*(stride(k)+stride(n))*2), flop)
	}
	return nil
}

// noise fills memory with n random numbers of bf16.
func (c *checker) noise(p uint64, n, seed int) error {
	return c.lab.Launch("fill_bf16", pick(c, 2, 1024), 1, 1, p, n, seed)
}
