package model_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/model"
	"weir/weights"
)

// TestHeadRows: the rows of a head of its own and of a tied one, with the network's factor on logits; a network whose
// logits are more than products has none.
func TestHeadRows(t *testing.T) {
	for _, c := range []struct{ dir, tensor string }{{"qwen3", ""}, {"families/granite", ""}, {"families/olmo3", "lm_head.weight"}} {
		t.Run(c.dir, func(t *testing.T) { checkHeadRows(t, filepath.Join("testdata", c.dir), c.tensor) })
	}
	m, err := model.Open("testdata/families/gemma2") // bounds its logits
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.HeadRows([]int{1}); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("gemma2: %v", err)
	}
}

// checkHeadRows compares rows of a head, whose tensor has this name unless it is "", with what is stored.
func checkHeadRows(t *testing.T, dir, tensor string) {
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	name := "lm_head.weight"
	if m.Config.TiedHead {
		name = "model.embed_tokens.weight"
	}
	head, ok := w.Tensor(name)
	if !ok || tensor != "" && name != tensor {
		t.Fatalf("its head is %s, %v", name, ok)
	}
	scale := m.Config.Network.LogitScale
	if scale == 1 {
		t.Error("a factor of 1 shows nothing")
	} else if scale == 0 {
		scale = 1
	}
	tokens := []int{5, 0}
	rows, err := m.HeadRows(tokens)
	if err != nil || len(rows) != len(tokens) {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	want := make([]float32, m.Config.Hidden)
	for i, token := range tokens {
		head.Widen(want, token, 0)
		for j := range want {
			want[j] *= scale
		}
		if !slices.Equal(rows[i], want) {
			t.Errorf("row %d is %v, want %v", token, rows[i], want)
		}
	}
	for _, token := range []int{-1, m.Config.VocabSize} {
		if _, err := m.HeadRows([]int{token}); err == nil || !strings.Contains(err.Error(), "no row") {
			t.Errorf("row %d: %v", token, err)
		}
	}
}
