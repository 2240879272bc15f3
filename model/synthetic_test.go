package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/model"
	"weir/weights"
)

// TestFillCache: each layer writes the keys and values that it makes of the embeddings, and nothing
// else is computed, but the device gets a whole step.
func TestFillCache(t *testing.T) {
	var log strings.Builder
	h := newHarness(t, openModel(t, cut(t, "qwen3", 2)), &recorder{log: &log}, model.Options{MaxTokens: 4}, 1)
	h.begin(chunk{&sequence{tokens: []int32{5, 6}}, 2, nil})
	r := h.b.(*model.Runner)
	if err := r.FillCache(&h.batch); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(log.String()) {
		calls = append(calls, strings.Fields(line)[0])
	}
	if got := strings.Join(calls, " "); got != "begin embed norm matmul norm-rotate-store norm matmul norm-rotate-store end-forward draw end" {
		t.Error(got)
	}
	h.batch.At = append(h.batch.At, 1)
	if err := r.FillCache(&h.batch); err == nil {
		t.Error("a row to draw is taken")
	}
	h.begin(chunk{&sequence{tokens: []int32{1, 2, 3, 4, 5}}, 5, nil})
	if err := r.FillCache(&h.batch); err == nil {
		t.Error("more tokens than a step may have are taken")
	}
}

// TestFromTensors: a model from tensors in memory equals that from files, and tensors
// that do not fit the network are refused.
func TestFromTensors(t *testing.T) {
	stored := openModel(t, cut(t, "qwen3", 2))
	d := &recorder{}
	if _, err := model.NewRunner(context.Background(), d, stored, model.Options{}); err != nil {
		t.Fatal(err)
	}
	have := map[string]weights.Tensor{}
	for _, m := range d.loaded {
		for _, x := range append(m.Rows, m.Bias...) {
			have[x.Name] = x
		}
	}
	released := 0
	errReleased := errors.New("released")
	release := func() error { released++; return errReleased }
	m, err := model.FromTensors(stored.Config, func(name string, _ []int) weights.Tensor { return have[name] }, release)
	if err != nil {
		t.Fatal(err)
	}
	if m.Digest() != stored.Digest() || m.Parameters() != stored.Parameters() {
		t.Error("the model differs from that of the files")
	}
	if err := m.Close(); !errors.Is(err, errReleased) || released != 1 {
		t.Errorf("%v, released %d times", err, released)
	}
	for name, damage := range map[string]func(x *weights.Tensor){
		"shape": func(x *weights.Tensor) { x.Shape = []int{x.Len()} },
		"bytes": func(x *weights.Tensor) { x.Data = x.Data[1:] },
		"name":  func(x *weights.Tensor) { x.Name = "another" },
	} {
		m, err := model.FromTensors(stored.Config, func(name string, _ []int) weights.Tensor {
			x := have[name]
			damage(&x)
			return x
		}, release)
		if err == nil || m != nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if released != 4 {
		t.Errorf("released %d times, want once for each of the three that were refused", released)
	}
}
