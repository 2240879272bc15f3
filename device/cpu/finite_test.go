package cpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
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

// A kindOfTensor is one that Load takes in its own way.
type kindOfTensor struct {
	name string
	use  model.Use
	rows [][]int // shapes
	bias []int   // of the bias, if there is one
}

// make returns a matrix of random numbers, and the last of its tensors.
func (k *kindOfTensor) make(stored weights.DType) (m model.Matrix, last weights.Tensor) {
	m.Use = k.use
	for i, shape := range k.rows {
		last = tensor(newRand(1), stored, 0.1, shape...)
		last.Name = fmt.Sprint("tensor.", i)
		m.Rows = append(m.Rows, last)
	}
	if k.bias != nil {
		last = tensor(newRand(1), stored, 0.1, k.bias...)
		last.Name = "tensor.bias"
		m.Bias = []weights.Tensor{last}
	}
	return m, last
}

// TestNotFiniteIsRefused: an infinity or NaN in any kind of tensor, of any type, at its first,
// last and some other place, is refused with the tensor's name whatever it is stored as.
func TestNotFiniteIsRefused(t *testing.T) {
	const rows, columns = 37, 1031 // the last tile and the last pair are not full
	kinds := []kindOfTensor{
		{name: "linear", rows: [][]int{{rows, columns}}},
		{name: "stacked", rows: [][]int{{3, columns}, {rows, columns}}},
		{name: "embedding", use: model.Embedding, rows: [][]int{{rows, columns}}},
		{name: "vector", use: model.Vector, rows: [][]int{{columns}}},
		{name: "bias", rows: [][]int{{rows, columns}}, bias: []int{rows}},
	}
	for _, stored := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
		for _, as := range []Format{Auto, F32, F16, BF16, Q8, Q4, W8A8} {
			d, err := Open(Config{Threads: 2, WeightType: as, KVType: BF16})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range kinds {
				t.Run(fmt.Sprintf("%s_of_%s_as_%s", kind.name, stored, as), func(t *testing.T) { kind.refused(t, d, stored) })
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func (k *kindOfTensor) refused(t *testing.T, d *Device, stored weights.DType) {
	m, last := k.make(stored)
	if _, err := d.Load(m); err != nil {
		t.Fatal(err)
	}
	clear(d.packed) // a device does not check again what it has packed
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, at := range []int{0, last.Len() / 2, last.Len() - 1} {
			was := slices.Clone(last.Data)
			plant(last, at, bad)
			_, err := d.Load(m)
			if !errors.Is(err, weights.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("tensor %q holds %v", last.Name, float32(bad))) {
				t.Errorf("%v at %d: %v", bad, at, err)
			}
			copy(last.Data, was)
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
