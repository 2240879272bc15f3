package cpu

import (
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// TestMatMulColumns: products from some columns of a buffer to some columns of
// another leave the columns beside them alone, whatever the number of rows.
func TestMatMulColumns(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(1)
		for _, c := range []columnsTest{{n: 1, k: 1}, {n: 15, k: 3, off: 1}, {n: 16, k: 16, off: 5}, {n: 17, k: 90, off: 30}, {n: 100, k: 64, off: 50}, {n: 33, k: 65, off: 117}} {
			c.open(t, rnd, im)
			for _, rows := range []int{1, 2, 5, 13, columnsRows} {
				c.check(t, rows)
			}
		}
	})
}

// columnsTest is a product of a matrix of n rows of k with columns [columnsFrom,
// columnsFrom+k) of buffer 0 into columns [off, off+n) of buffer 1.
type columnsTest struct {
	n, k, off int
	d         *Device
	mat       weights.Tensor
	w         model.Weight
}

const columnsRows, columnsFrom = 70, 7

func (c *columnsTest) open(t *testing.T, rnd *rand.Rand, im *impl) {
	t.Helper()
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: columnsRows, MaxSeqs: columnsRows, MaxSeqTokens: 99, Depth: 1}
	c.d = openPlanned(t, Config{Threads: 2, KVType: BF16, Impl: im.name},
		model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: []model.ActShape{{Width: columnsFrom + 92}, {Width: 150}}, Spec: spec})
	dtype := weights.BF16
	if im.narrow != nil {
		dtype = weights.F16 // that of products with rows in float32
	}
	c.mat = tensor(rnd, dtype, 1, c.n, c.k)
	var err error
	if c.w, err = c.d.Load(model.Matrix{Rows: []weights.Tensor{c.mat}}); err != nil {
		t.Fatal(err)
	}
	for i := range c.d.acts[0].data {
		c.d.acts[0].data[i] = float32(rnd.NormFloat64())
	}
}

func (c *columnsTest) check(t *testing.T, rows int) {
	t.Helper()
	y := c.d.acts[1]
	for i := range y.data {
		y.data[i] = mark
	}
	c.d.batch = &backend.Batch{Tokens: make([]int32, rows)}
	src := model.Act{Off: columnsFrom, Width: c.k}
	c.d.MatMul(model.Act{Buf: 1, Off: c.off, Width: c.n}, c.w, src)
	for i, got := range y.data {
		row, col := i/y.stride, i%y.stride-c.off
		if row >= rows || col < 0 || col >= c.n {
			if !isMark(got) {
				t.Fatalf("[%d, %d], %d rows: row %d, column %d was written", c.n, c.k, rows, row, col)
			}
			continue
		}
		x, w := c.d.view(src).row(row), values(c.mat)[col*c.k:]
		want, size := addProducts(c.k, func(i int) float64 { return w[i] }, func(i int) float64 { return float64(x[i]) })
		near(t, got, want, size, 16*epsilon, "[%d, %d], %d rows: row %d, column %d", c.n, c.k, rows, row, col)
	}
}

// TestAttendInfinite: keys that overflow their format give NaN, not what
// another attention left in the scratch memory.
func TestAttendInfinite(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		const dim = 16
		d, err := Open(Config{Threads: 1, KVType: F16, Impl: im.name})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 3, MaxTokens: 2, MaxSeqs: 2, MaxSeqTokens: 16, Depth: 1}
		if err := d.Plan(model.Shape{KV: model.UniformKV(1, 1, 1, dim), Acts: []model.ActShape{{Width: 3 * dim}, {Width: dim}}, Spec: spec}); err != nil {
			t.Fatal(err)
		}
		d.Begin(&backend.Batch{Tokens: []int32{0, 0}, Pos: []int32{0, 0}, Slots: []int32{16, 32}, QueryEnd: []int32{1, 2}, KVLen: []int32{1, 1}, TableEnd: []int32{1, 2}, Tables: []int32{1, 2}})
		q, k, v := model.Act{Width: dim}, model.Act{Off: dim, Width: dim}, model.Act{Off: 2 * dim, Width: dim}
		for i := range dim {
			for row, key := range []float32{1, 1e6} {
				d.view(q).row(row)[i] = -1
				d.view(k).row(row)[i] = key
				d.view(v).row(row)[i] = 3
			}
		}
		d.StoreKV(0, q, k, v, model.Heads{Rope: model.NoRope})
		d.Attend(model.Act{Buf: 1, Width: dim}, q, 0, model.Attention{Scale: 1, Sinks: model.NoWeight})
		for row := range 2 {
			for _, got := range d.view(model.Act{Buf: 1, Width: dim}).row(row) {
				if row == 0 && got != 3 || row == 1 && got == got {
					t.Errorf("row %d: %v", row, got)
				}
			}
		}
	})
}
