package cpu

import (
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// TestManyRows: a row has the same bits alone and among any number of others, where kernels
// take many rows and several tiles at once, where the rows need several passes, where the
// matrix ends within a tile, and where its width is no multiple of what a kernel takes.
func TestManyRows(t *testing.T) {
	for _, f := range []Format{BF16, W8A8, Q8, Q4} {
		t.Run(f.String(), func(t *testing.T) {
			eachDots(t, f, func(t *testing.T, im *impl) {
				if im.name == "generic" {
					t.Skip("slow")
				}
				for _, k := range []int{18, 64, 200} {
					testManyRows(t, im, f, k)
				}
			})
		})
	}
}

func testManyRows(t *testing.T, im *impl, f Format, k int) {
	t.Helper()
	const rows, n = 71, 22*rowsPerTile - 3 // two tiles a chunk
	rnd := newRand(41)
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	acts := []model.ActShape{{Width: k}, {Width: n}}
	d := openPlanned(t, Config{Threads: 1, WeightType: f, KVType: BF16, Impl: im.name}, model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: acts, Spec: spec})
	bias := tensor(rnd, weights.F32, 1, n)
	w, err := d.Load(model.Matrix{Rows: []weights.Tensor{tensor(rnd, weights.BF16, 1, n, k)}, Bias: []weights.Tensor{bias}})
	if err != nil {
		t.Fatal(err)
	}
	src, dst := model.Act{Width: k}, model.Act{Buf: 1, Width: n}
	product := func(x [][]float32) [][]float32 { return productOf(d, w, dst, src, x) }
	var x, alone [][]float32
	for range rows {
		x = append(x, randomBanded(rnd, k, 0).v)
	}
	for r := range rows {
		alone = append(alone, product(x[r : r+1])[0])
	}
	for count := 2; count <= rows; count++ {
		for r, row := range product(x[rows-count:]) {
			sameBits(t, row, alone[rows-count+r], "%s, %d columns, row %d of %d", f, k, r, count)
		}
	}
}

// productOf is the product of the rows x, each as wide as src, with w.
func productOf(d *Device, w model.Weight, dst, src model.Act, x [][]float32) (y [][]float32) {
	d.batch = &backend.Batch{Tokens: make([]int32, len(x))}
	d.input.of.Width = 0
	for r, row := range x {
		copy(d.view(src).row(r), row)
	}
	d.MatMul(dst, w, src)
	for r := range x {
		y = append(y, append([]float32(nil), d.view(dst).row(r)...))
	}
	return y
}
