package model_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

func wantContract(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, model.ErrContract) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("the error is %q, want %q", err, text)
	}
}

func TestShapeCheck(t *testing.T) {
	good := func() model.Shape {
		return model.Shape{
			KV:      model.UniformKV(2, 4, 2, 8),
			Acts:    []model.ActShape{{Width: 32}, {Width: 64}},
			Ropes:   []model.Rope{{InvFreq: make([]float32, 4), Scale: 1}},
			Windows: []int{0, 100},
			Spec:    backend.Spec{VocabSize: 10, BlockTokens: 32, NumBlocks: 9, MaxTokens: 7, MaxSeqs: 3, MaxSeqTokens: 99, Depth: 1},
		}
	}
	if s := good(); s.Check() != nil {
		t.Fatal(s.Check())
	}
	for _, c := range []struct {
		edit func(s *model.Shape)
		text string
	}{
		{func(s *model.Shape) { s.KV = nil }, "there is no cache of keys and values"},
		{func(s *model.Shape) { s.KV[1].KeyDim = -8 }, "cache 1: 4 heads, 2 KV heads and keys of -8 must be positive, and values of 8 not negative"},
		{func(s *model.Shape) { s.KV[1].ValueDim = -1 }, "cache 1: 4 heads, 2 KV heads and keys of 8 must be positive, and values of -1 not negative"},
		{func(s *model.Shape) { s.KV[1].ValueInKey, s.KV[1].ValueDim = true, 9 }, "cache 1: keys of 8 cannot contain values of 9"},
		{func(s *model.Shape) { s.KV[0].KVHeads = 3 }, "cache 0: 4 heads are not a multiple of 3 KV heads"},
		{func(s *model.Shape) { s.Spec.NumBlocks = 1 }, "NumBlocks is 1, but must be at least 2"},
		{func(s *model.Shape) { s.Spec.Depth = 0 }, "Depth is 0, but must be 1 or 2"},
		{func(s *model.Shape) { s.Spec.BlockTokens = 24 }, "KV blocks of 24 tokens are not a multiple of 16"},
		{func(s *model.Shape) { s.Acts[1].Width = 0 }, "activation buffer 1 has 0 columns"},
		{func(s *model.Shape) { s.Ropes[0].InvFreq = make([]float32, 5) }, "rotary table 0 rotates 10 dimensions from 0 on, but a head has 8"},
		{func(s *model.Shape) { s.Windows[1] = -1 }, "attention window 1 is -1 positions wide"},
	} {
		s := good()
		c.edit(&s)
		wantContract(t, s.Check(), c.text)
	}
}

// blank is a tensor of zeros.
func blank(name string, d weights.DType, shape ...int) weights.Tensor {
	n := d.Size()
	for _, size := range shape {
		n *= size
	}
	return weights.Tensor{Name: name, DType: d, Shape: shape, Data: make([]byte, n)}
}

func TestMatrixCheck(t *testing.T) {
	matrix := func() model.Matrix {
		return model.Matrix{
			Rows: []weights.Tensor{blank("q", weights.BF16, 4, 6), blank("k", weights.F32, 2, 6)},
			Bias: []weights.Tensor{blank("q bias", weights.F16, 4), blank("k bias", weights.F32, 2)},
		}
	}
	gated := func() model.Matrix {
		return model.Matrix{Use: model.Gated, Rows: []weights.Tensor{blank("gate", weights.BF16, 4, 6), blank("up", weights.BF16, 4, 6)}}
	}
	embedding := func() model.Matrix {
		return model.Matrix{Use: model.Embedding, Rows: []weights.Tensor{blank("embed", weights.BF16, 9, 6)}}
	}
	vector := func() model.Matrix {
		return model.Matrix{Use: model.Vector, Rows: []weights.Tensor{blank("norm", weights.F32, 6)}}
	}
	for _, good := range []model.Matrix{matrix(), gated(), embedding(), vector()} {
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		good func() model.Matrix
		edit func(m *model.Matrix)
		text string
	}{
		{matrix, func(m *model.Matrix) { m.Rows = nil }, "a parameter has no tensors"},
		{matrix, func(m *model.Matrix) { m.Use = 99 }, `the use 99 of tensor "q" is unknown`},
		{matrix, func(m *model.Matrix) { m.Rows[1].DType = weights.I8 }, `tensor "k" is int8, but devices compute with float32`},
		{matrix, func(m *model.Matrix) { m.Rows[0].Data = m.Rows[0].Data[1:] }, `tensor "q" is bfloat16 of shape [4 6] and should have 48 bytes, but has 47`},
		{matrix, func(m *model.Matrix) { m.Rows[0].Shape = []int{0, 6} }, `tensor "q" has the impossible shape [0 6]`},
		{matrix, func(m *model.Matrix) { m.Rows[0].Shape = []int{math.MaxInt / 2, 6} }, `tensor "q" has the impossible shape`},
		{matrix, func(m *model.Matrix) { m.Rows[0] = blank("q", weights.BF16, 24) }, `tensor "q" of shape [24] is not a matrix`},
		{matrix, func(m *model.Matrix) { m.Rows[1].Shape = []int{3, 4} }, `tensor 1, "k", has rows of 4, but "q" has rows of 6`},
		{matrix, func(m *model.Matrix) { m.Bias = m.Bias[:1] }, `2 matrices, of which "q" is the first, have 1 biases`},
		{matrix, func(m *model.Matrix) { m.Bias[1] = blank("k bias", weights.F32, 3) }, `the bias "k bias" of shape [3] is not a vector of the 2 rows of "k"`},
		{matrix, func(m *model.Matrix) { m.Bias[1].DType = weights.BF16 }, `tensor "k bias" is bfloat16 of shape [2] and should have 4 bytes, but has 8`},
		{gated, func(m *model.Matrix) { m.Rows = m.Rows[:1] }, `"gate" is not a gate with an up projection of the same size`},
		{gated, func(m *model.Matrix) { m.Rows[1] = blank("up", weights.BF16, 5, 6) }, `"gate" is not a gate with`},
		{embedding, func(m *model.Matrix) { m.Bias = m.Rows }, `the embedding "embed" has a bias`},
		{embedding, func(m *model.Matrix) { m.Rows[0].Shape = []int{54} }, `tensor "embed" of shape [54] is not a matrix`},
		{vector, func(m *model.Matrix) { m.Rows[0].Shape = []int{2, 3} }, `tensor "norm" of shape [2 3] is not a vector`},
		{vector, func(m *model.Matrix) { m.Bias = m.Rows }, `the vector "norm" has a bias`},
	} {
		m := c.good()
		c.edit(&m)
		wantContract(t, m.Check(), c.text)
	}
}
