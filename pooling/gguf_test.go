package pooling

import (
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
)

// stored is a Stored whose tensors have the given shapes: their numbers are 1, 2, 3.
func stored(arch string, pooling, head int64, types bool, tensors map[string][]int) *Stored {
	return &Stored{Architecture: arch, Pooling: pooling, HeadPooling: head, Types: types, NormEps: 1e-5, Tensor: func(name string) ([]float32, []int, error) {
		shape, ok := tensors[name]
		if !ok {
			return nil, nil, fs.ErrNotExist
		}
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i + 1)
		}
		return x, shape, nil
	}}
}

// TestFromGGUF: what follows the network of a GGUF file, by its metadata and tensors.
func TestFromGGUF(t *testing.T) {
	roberta := map[string][]int{"cls.weight": {2, 2}, "cls.bias": {2}, "cls.output.weight": {1, 2}, "cls.output.bias": {1}}
	modern := map[string][]int{"cls.weight": {2, 2}, "cls.norm.weight": {2}, "cls.output.weight": {3, 2}}
	dense := map[string][]int{"dense_2.weight": {3, 2}, "dense_3.weight": {2, 3}}
	for _, c := range []struct {
		what string
		s    *Stored
		want string // the plan's kind, layers, activations, labels; or a part of the error
	}{
		{"nothing", stored("bert", -1, -1, true, nil), "none"},
		{"none", stored("qwen3", 0, -1, false, nil), "none"},
		{"mean", stored("bert", 1, -1, true, nil), "kind 2, length 1"},
		{"first", stored("bert", 2, -1, true, roberta), "kind 1, length 1"},
		{"last", stored("qwen3", 3, -1, false, nil), "kind 0, length 1"},
		{"dense", stored("gemma-embedding", 1, -1, false, dense), "kind 2, length 1, 2x3 f0, 3x2 f0"},
		{"rank", stored("bert", 4, -1, true, roberta), "kind 1, 2x2 f1, 2x1 f2, 1 labels"},
		{"a head", stored("bert", -1, -1, false, roberta), "kind 1, 2x2 f4, 2x1 f2, 1 labels"},
		{"modern", stored("modern-bert", -1, 2, false, modern), "kind 1, 2x2 f5 norm, 2x3 f3, 3 labels"},
		{"modern, mean", stored("modern-bert", 4, -1, false, modern), "kind 2, 2x2 f5 norm, 2x3 f3, 3 labels"},
		{"yes and no", stored("qwen3", 4, -1, false, map[string][]int{"cls.output.weight": {2, 2}}), "kind 0, 2x1 f2, 1 labels"},
		{"unknown", stored("bert", 5, -1, true, nil), `the key "bert.pooling_type" is 5 (supported: 0 to 4`},
		{"no pooler", stored("bert", 4, -1, true, map[string][]int{"cls.output.weight": {1, 2}}), "leaves out of BERT's"},
		{"no head", stored("modern-bert", 4, 1, true, nil), "there is no tensor cls.weight"},
		{"head pooling", stored("modern-bert", 4, 3, true, modern), `the key "modern-bert.classifier.pooling_type" is 3`},
		{"another network", stored("llama", 4, -1, true, roberta), `architecture "llama" with the head of a classifier is unknown`},
		{"three rows", stored("qwen3", 4, -1, false, map[string][]int{"cls.output.weight": {3, 2}}), "has the shape [3 2]"},
		{"a vector", stored("qwen3", 4, -1, false, map[string][]int{"cls.output.weight": {2}}), "has the shape [2]"},
		{"columns", stored("bert", 4, -1, true, map[string][]int{"cls.weight": {2, 3}, "cls.bias": {2}, "cls.output.weight": {1, 2}}), "the tensor cls.weight has the shape [2 3]"},
		{"dense rows", stored("gemma-embedding", 1, -1, false, map[string][]int{"dense_2.weight": {3, 2}, "dense_3.weight": {2, 2}}), "the tensor dense_3.weight has the shape [2 2]"},
	} {
		p, err := FromGGUF(c.s, 2)
		got := "none"
		if p != nil {
			got = fmt.Sprintf("kind %d", p.Kind)
			if p.Normalize {
				got += ", length 1"
			}
			for _, d := range p.Layers {
				got += fmt.Sprintf(", %dx%d f%d", d.In, d.Out, d.Activation)
				if d.Norm != nil {
					got += " norm"
				}
			}
			if p.Labels > 0 {
				got += fmt.Sprintf(", %d labels", p.Labels)
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	// Rows 1, 2 for yes and 3, 4 for no: the share of yes in a softmax of 1 and 3.
	p, err := FromGGUF(stored("qwen3vl", 4, -1, false, map[string][]int{"cls.output.weight": {2, 2}}), 2)
	if err != nil || !near(p.Apply(nil, []float32{1, 0}, Options{}), []float32{float32(1 / (1 + math.Exp(2)))}) {
		t.Errorf("%+v %v", p, err)
	}
}

// FuzzFromGGUF: whatever a file says, there is an error of one line or a plan that works.
func FuzzFromGGUF(f *testing.F) {
	f.Add("bert", int64(4), int64(-1), true, []byte{2, 2, 2, 1, 2, 1})
	f.Add("modern-bert", int64(-1), int64(2), false, []byte{2, 2, 2, 3, 2, 3})
	f.Add("qwen3", int64(4), int64(-1), false, []byte{0, 0, 0, 2, 2, 0})
	f.Add("gemma-embedding", int64(1), int64(-1), false, []byte{0, 0, 0, 0, 0, 0, 3, 2, 2, 3})
	f.Fuzz(func(t *testing.T, arch string, pooling, head int64, types bool, sizes []byte) {
		tensors, at := map[string][]int{}, 0
		size := func() int {
			if at++; at > len(sizes) {
				return 0
			}
			return int(sizes[at-1] % 8)
		}
		for _, x := range []struct {
			name string
			dims int
		}{{"cls.weight", 2}, {"cls.bias", 1}, {"cls.output.weight", 2}, {"cls.output.bias", 1}, {"dense_2.weight", 2}, {"dense_3.weight", 2}, {"cls.norm.weight", 1}} {
			var shape []int
			for range x.dims {
				shape = append(shape, size())
			}
			if shape[0] > 0 {
				tensors[x.name] = shape
			}
		}
		p, err := FromGGUF(stored(arch, pooling, head, types, tensors), 2)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		if p == nil || err != nil {
			return
		}
		want := 2
		if n := len(p.Layers); n > 0 {
			want = p.Layers[n-1].Out
		}
		if got := p.Apply(nil, []float32{1, -1}, Options{}); len(got) != want || p.Labels > 0 && p.Labels != want {
			t.Errorf("%d numbers of %+v", len(got), p)
		}
	})
}
