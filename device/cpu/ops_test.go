package cpu

import (
	"math"
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
		const rows, maxK = 70, 90
		spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: 99, Depth: 1}
		shape := model.Shape{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 16, Acts: []model.ActShape{{Width: maxK + 9}, {Width: 150}}, Spec: spec}
		for _, c := range []struct{ n, k, off int }{{1, 1, 0}, {15, 3, 1}, {16, 16, 5}, {17, maxK, 30}, {100, 64, 50}, {33, 65, 117}} {
			d, err := Open(Config{Threads: 2, KVType: BF16, Impl: im.name})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Plan(shape); err != nil {
				t.Fatal(err)
			}
			dtype := weights.BF16
			if im.narrow != nil {
				dtype = weights.F16 // that of products with rows in float32
			}
			mat := tensor(rnd, dtype, 1, c.n, c.k)
			w, err := d.Load(model.Matrix{Rows: []weights.Tensor{mat}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range d.acts[0].data {
				d.acts[0].data[i] = float32(rnd.NormFloat64())
			}
			for _, n := range []int{1, 2, 5, 13, rows} {
				y := d.acts[1]
				for i := range y.data {
					y.data[i] = mark
				}
				d.batch = &backend.Batch{Tokens: make([]int32, n)}
				src := model.Act{Buf: 0, Off: 7, Width: c.k}
				d.MatMul(model.Act{Buf: 1, Off: c.off, Width: c.n}, w, src)
				for i, got := range y.data {
					row, col := i/y.stride, i%y.stride-c.off
					if row >= n || col < 0 || col >= c.n {
						if !isMark(got) {
							t.Fatalf("[%d, %d], %d rows: row %d, column %d was written", c.n, c.k, n, row, col)
						}
						continue
					}
					want, size := 0.0, 0.0
					x := d.view(src).row(row)
					for i, v := range values(mat)[col*c.k:][:c.k] {
						want, size = want+v*float64(x[i]), size+math.Abs(v*float64(x[i]))
					}
					near(t, got, want, size, 16*epsilon, "[%d, %d], %d rows: row %d, column %d", c.n, c.k, n, row, col)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAttendInfinite: keys that overflow their format give NaN, not what
// somebody else's attention left in the scratch memory.
func TestAttendInfinite(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		const dim = 16
		d, err := Open(Config{Threads: 1, KVType: F16, Impl: im.name})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 3, MaxTokens: 2, MaxSeqs: 2, MaxSeqTokens: 16, Depth: 1}
		if err := d.Plan(model.Shape{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: dim, Acts: []model.ActShape{{Width: 3 * dim}, {Width: dim}}, Spec: spec}); err != nil {
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
		d.Attend(model.Act{Buf: 1, Width: dim}, q, 0, model.Attention{Scale: 1})
		for row := range 2 {
			for _, got := range d.view(model.Act{Buf: 1, Width: dim}).row(row) {
				if row == 0 && got != 3 || row == 1 && got == got {
					t.Errorf("row %d: %v", row, got)
				}
			}
		}
	})
}
