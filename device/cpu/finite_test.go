package cpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/model"
	"weir/weights"
)

// plant puts an infinity or NaN at place i of t.
func plant(t weights.Tensor, i int, bad float64) {
	bits := math.Float32bits(float32(bad))
	switch t.DType {
	case weights.F32:
		binary.LittleEndian.PutUint32(t.Data[i*4:], bits)
	case weights.BF16:
		binary.LittleEndian.PutUint16(t.Data[i*2:], toBF16(float32(bad)))
	case weights.F16:
		binary.LittleEndian.PutUint16(t.Data[i*2:], toF16(float32(bad)))
	}
}

// TestNotFiniteIsRefused: an infinity or NaN in any kind of tensor, of any type, at its first,
// last and some other place, is refused with the tensor's name whatever it is stored as.
func TestNotFiniteIsRefused(t *testing.T) {
	const rows, columns = 37, 1031 // the last tile and the last pair are not full
	for _, stored := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
		for _, as := range []Format{Auto, F32, F16, BF16, Q8, Q4, W8A8} {
			d, err := Open(Config{Threads: 2, WeightType: as, KVType: BF16})
			if err != nil {
				t.Fatal(err)
			}
			for use, shapes := range map[string][2][]int{"linear": {{rows, columns}}, "stacked": {{3, columns}, {rows, columns}}, "embedding": {{rows, columns}}, "vector": {{columns}}, "bias": {{rows, columns}, {rows}}} {
				for n, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					m := model.Matrix{Use: map[string]model.Use{"embedding": model.Embedding, "vector": model.Vector}[use]}
					var last weights.Tensor
					for i, shape := range shapes {
						if shape == nil {
							continue
						}
						last = tensor(newRand(1), stored, 0.1, shape...)
						last.Name = fmt.Sprint("tensor.", i)
						if use == "bias" && i == 1 {
							m.Bias = append(m.Bias, last)
						} else {
							m.Rows = append(m.Rows, last)
						}
					}
					if n == 0 {
						if _, err := d.Load(m); err != nil {
							t.Fatalf("%s of %s as %s: %v", use, stored, as, err)
						}
						// A device does not check again what it has packed.
						clear(d.packed)
					}
					for _, at := range []int{0, last.Len() / 2, last.Len() - 1} {
						was := append([]byte(nil), last.Data...)
						plant(last, at, bad)
						_, err := d.Load(m)
						if !errors.Is(err, weights.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("tensor %q holds %v", last.Name, float32(bad))) {
							t.Errorf("%v at %d of a %s of %s as %s: %v", bad, at, use, stored, as, err)
						}
						copy(last.Data, was)
					}
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTooGreatIsRefused: a number that would become infinite in the format that weights are
// converted to is refused, and the greatest that does not is stored.
func TestTooGreatIsRefused(t *testing.T) {
	for _, c := range []struct {
		as         Format
		good, over float32
	}{
		{F16, math.Nextafter32(65520, 0), 65520},
		{BF16, math.Float32frombits(0x7f7f7fff), math.Float32frombits(0x7f7f8000)},
	} {
		d, err := Open(Config{Threads: 1, WeightType: c.as, KVType: BF16})
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []float32{1, -1} {
			w := tensor(newRand(1), weights.F32, 0.1, 20, 30)
			plant(w, 333, float64(sign*c.good))
			if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{w}}); err != nil {
				t.Error(err)
			}
			plant(w, 333, float64(sign*c.over))
			if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{w}}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.as.String()+" cannot store") {
				t.Errorf("%v as %s: %v", sign*c.over, c.as, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
