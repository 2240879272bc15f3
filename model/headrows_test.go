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
		dir := filepath.Join("testdata", c.dir)
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
		if !ok || c.tensor != "" && name != c.tensor {
			t.Fatalf("%s: its head is %s, %v", c.dir, name, ok)
		}
		scale := m.Config.Network.LogitScale
		if scale == 0 {
			scale = 1
		} else if scale == 1 {
			t.Errorf("%s: a factor of 1 shows nothing", c.dir)
		}
		rows, err := m.HeadRows([]int{5, 0})
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %v, %d rows", c.dir, err, len(rows))
		}
		want := make([]float32, m.Config.Hidden)
		for i, token := range []int{5, 0} {
			head.Widen(want, token, 0)
			for j := range want {
				want[j] *= scale
			}
			if !slices.Equal(rows[i], want) {
				t.Errorf("%s: row %d is %v, want %v", c.dir, token, rows[i], want)
			}
		}
		for _, token := range []int{-1, m.Config.VocabSize} {
			if _, err := m.HeadRows([]int{token}); err == nil || !strings.Contains(err.Error(), "no row") {
				t.Errorf("%s: row %d: %v", c.dir, token, err)
			}
		}
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
