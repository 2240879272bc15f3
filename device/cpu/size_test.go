package cpu

import (
	"fmt"
	"testing"

	"weir/model"
	"weir/weights"
)

// TestMatrixBytes: what a matrix is said to take is what loading it takes, for every use,
// stored type and format.
func TestMatrixBytes(t *testing.T) {
	stored := []weights.DType{weights.F32, weights.F16, weights.BF16}
	var cases []model.Matrix
	for i, one := range stored {
		other := stored[(i+1)%len(stored)]
		rnd := newRand(uint64(i))
		cases = append(cases,
			model.Matrix{Use: model.Linear, Rows: []weights.Tensor{tensor(rnd, one, 0.1, 37, 67)}},
			model.Matrix{Use: model.Linear, Rows: []weights.Tensor{tensor(rnd, one, 0.1, 32, 64), tensor(rnd, one, 0.1, 5, 64)},
				Bias: []weights.Tensor{tensor(rnd, one, 0.1, 32), tensor(rnd, one, 0.1, 5)}},
			model.Matrix{Use: model.Linear, Rows: []weights.Tensor{tensor(rnd, one, 0.1, 32, 64), tensor(rnd, other, 0.1, 5, 64)}},
			model.Matrix{Use: model.Embedding, Rows: []weights.Tensor{tensor(rnd, one, 0.1, 9, 64)}},
			model.Matrix{Use: model.Vector, Rows: []weights.Tensor{tensor(rnd, one, 0.1, 61)}})
	}
	for _, f := range []Format{Auto, F32, F16, BF16, Q8, Q4, W8A8} {
		cfg := Config{Threads: 1, WeightType: f, KVType: BF16}
		for i, m := range cases {
			t.Run(fmt.Sprintf("%s_%d", f, i), func(t *testing.T) {
				d, err := Open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if _, err := d.Load(m); err != nil {
					t.Fatal(err)
				}
				said, err := cfg.MatrixBytes(m)
				if took := d.Memory().Weights; err != nil || said != took {
					t.Errorf("said %d bytes, took %d, %v", said, took, err)
				}
			})
		}
	}
}
