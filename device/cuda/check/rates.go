//go:build cuda && linux && amd64

package check

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// rates measures ceilings first, then kernels of Llama-3.1-8B's shapes as
// shares of them.
func rates(c *checker) error {
	var bw float64
	err := c.withLab(func() (err error) {
		if bw, err = c.bandwidth(); err != nil {
			return err
		}
		if err := c.launches(); err != nil {
			return err
		}
		return c.attentionRates(bw)
	})
	if err != nil {
		return err
	}
	var times map[[3]int]float64 // torch's
	return c.eachFamily(func(f family) error {
		shapes, rows := shapes8B, []int{1, 8, 16, 32, 64, 128, 512, 2048, 8192}
		if c.o.Quick {
			shapes, rows = [][2]int{{192, 128}}, []int{1, 70}
		}
		if times == nil {
			times = c.torch(shapes, rows)
		}
		return c.productRates(f, shapes, rows, times, bw)
	})
}

// bandwidth is what a copy on the device reads and writes in a second.
func (c *checker) bandwidth() (float64, error) {
	n := pick(c, 1<<16, 1<<30)
	a, err := c.lab.Alloc(n)
	if err != nil {
		return 0, err
	}
	b, err := c.lab.Alloc(n)
	if err != nil {
		return 0, err
	}
	s, err := c.lab.Seconds(pick(c, 1, 10), func(int) error { return c.lab.Copy(b, a, n) })
	if err != nil {
		return 0, err
	}
	bw := 2 * float64(n) / s
	c.record("copy on the device", "", "GB/s", bw/1e9, "bytes", n)
	return bw, c.lab.Free()
}

// launches is what a kernel costs that does nothing.
func (c *checker) launches() error {
	p, err := cuda.Put(c.lab, []uint32{0})
	if err != nil {
		return err
	}
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

// shapes of Llama-3.1-8B's products: qkv, out, gate and up, down, head.
var shapes8B = [][2]int{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}}

func (c *checker) productRates(f family, shapes [][2]int, rows []int, torch map[[3]int]float64, bw float64) error {
	for _, s := range shapes {
		n, k := s[0], s[1]
		tiles := cuda.TileBytes(f.weights, n, k)
		copies := pick(c, 1, max(1, 256<<20/tiles)) // more than the second-level cache holds
		w, err := c.lab.Alloc(tiles * copies)
		if err != nil {
			return err
		}
		// Random numbers: equal ones cost less power, and so less time.
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
			reps := pick(c, 1, max(2, min(50, int(1e12/flop))))
			sec, err := c.lab.Seconds(reps, func(i int) error {
				return c.lab.Gemm(f.weights, y, stride(n), w+uint64(i%copies*tiles), n, k, x, stride(k), m, kernels.StoreBF16, work, counters)
			})
			if err != nil {
				return err
			}
			bytes := float64(tiles) + float64(m*(stride(k)+stride(n))*2)
			v := []any{"us", sec * 1e6, "TFLOP/s", flop / sec / 1e12, "GB/s", bytes / sec / 1e9, "share_of_copy", bytes / sec / bw}
			if t, ok := torch[[3]int{m, n, k}]; ok {
				v = append(v, "torch_us", t*1e6, "torch_over_ours", t/sec)
			}
			c.record(fmt.Sprintf("%s %dx%dx%d", f.name, m, n, k), "", v...)
		}
		if err := c.lab.Free(); err != nil {
			return err
		}
	}
	return nil
}

// noise fills memory with n random numbers of bf16.
func (c *checker) noise(p uint64, n, seed int) error {
	return c.lab.Launch("fill_bf16", pick(c, 2, 1024), 1, 1, p, n, seed)
}

//go:embed torch.py
var torchScript string

// torch times the same products with torch, where python3 has it.
func (c *checker) torch(shapes [][2]int, rows []int) map[[3]int]float64 {
	times := map[[3]int]float64{}
	if c.lab.Emulated() {
		return times
	}
	var list [][3]int
	for _, s := range shapes {
		for _, m := range rows {
			list = append(list, [3]int{m, s[0], s[1]})
		}
	}
	arg, err := json.Marshal(list)
	if err != nil {
		return times
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, "python3", "-c", torchScript, string(arg)).Output()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var v [4]float64
		if json.Unmarshal(lines.Bytes(), &v) == nil {
			times[[3]int{int(v[0]), int(v[1]), int(v[2])}] = v[3]
		}
	}
	if err != nil {
		c.record("torch", "", "not here", err.Error())
	}
	return times
}

// attentionRates times single queries over long caches: 32 heads of 128, 8 KV
// heads.
func (c *checker) attentionRates(bw float64) error {
	const heads, kvHeads, dim, block = 32, 8, 128, 16
	elems := kernels.KVBlock(kvHeads, dim, block)
	for _, s := range pick(c, [][2]int{{2, 600}}, [][2]int{{1, 2048}, {1, 32768}, {64, 2048}, {256, 2048}}) {
		seqs, n := s[0], s[1]
		perSeq := n / block
		blocks := pick(c, perSeq, seqs*perSeq)
		kv, err := c.lab.Alloc(blocks * elems * 2)
		if err != nil {
			return err
		}
		if err := c.lab.Fill(kv, 0x3c, blocks*elems*2); err != nil {
			return err
		}
		var tables, pos []int32
		var items []kernels.AttnItem
		var merges []kernels.AttnMerge
		slots := int32(0)
		for i := range seqs {
			r := kernels.Run{First: int32(i), Tokens: 1, Pos: int32(perSeq*block - 1), Table: int32(len(tables))}
			for b := range perSeq {
				tables = append(tables, int32((i*perSeq+b)%blocks))
			}
			pos = append(pos, r.Pos)
			items, merges, slots = kernels.AppendItems(items, merges, r, 0, slots)
		}
		var put [5]uint64
		for i, f := range []func() (uint64, error){
			func() (uint64, error) { return cuda.Put(c.lab, make([]uint16, seqs*heads*dim)) },
			func() (uint64, error) { return cuda.Put(c.lab, items) },
			func() (uint64, error) { return cuda.Put(c.lab, merges) },
			func() (uint64, error) { return cuda.Put(c.lab, append(tables, pos...)) },
			func() (uint64, error) { return cuda.Put(c.lab, []int32{int32(len(items)), int32(len(merges))}) },
		} {
			if put[i], err = f(); err != nil {
				return err
			}
		}
		parts, err := c.lab.Alloc(int(slots) * kernels.PartFloats(heads, dim) * 4)
		if err != nil {
			return err
		}
		out, err := c.lab.Alloc(seqs * heads * dim * 2)
		if err != nil {
			return err
		}
		scale := float32(1 / math.Sqrt(dim))
		sec, err := c.lab.Seconds(pick(c, 1, 20), func(int) error {
			err := c.lab.Launch("attn_decode_d128", len(items), kvHeads, 1, parts, put[0], kv, put[1], put[4], put[3], put[3]+uint64(len(tables)*4),
				heads*dim, heads, kvHeads, dim, block, elems, scale, 0)
			if err != nil {
				return err
			}
			return c.lab.Launch("attn_merge", len(merges), heads, 1, out, parts, put[2], put[4]+4, heads*dim, heads, dim, scale)
		})
		if err != nil {
			return err
		}
		bytes := float64(seqs) * float64(perSeq*elems*2)
		c.record(fmt.Sprintf("attention, %d sequences of %d", seqs, n), "", "us", sec*1e6, "GB/s", bytes/sec/1e9, "share_of_copy", bytes/sec/bw)
		if err := c.lab.Free(); err != nil {
			return err
		}
	}
	return nil
}
