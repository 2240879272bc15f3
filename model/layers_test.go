package model_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"weir/device/cpu"
	"weir/model"
)

// hiddenGolden is a part of what each layer hands on, as transformers computes it: some columns at
// some positions of the prompt.
type hiddenGolden struct {
	Positions []int         `json:"positions"`
	Columns   []int         `json:"columns"`
	Layers    [][][]float64 `json:"layers"` // [layers][positions][columns]
}

// hiddenTolerance bounds the distance of a number of a hidden state from that of transformers, as a
// part of the greatest of its position, or of 1.
const hiddenTolerance = 1e-4

// TestFamilyLayers: what every layer hands on is what transformers computes, so that a mistake is
// found in the layer that makes it. A network is cut behind each of its layers in turn, and reports
// the residual stream there. Networks of several streams have no numbers of their layers.
func TestFamilyLayers(t *testing.T) {
	compared := 0
	for _, name := range families(t) {
		t.Run(name, func(t *testing.T) {
			g := readFamily(t, name)
			if g.Hidden == nil {
				t.Skip("a network of several streams")
			}
			m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
			if len(g.Hidden.Layers) != len(m.Config.Network.Layers) {
				t.Fatalf("numbers of %d layers, but there are %d", len(g.Hidden.Layers), len(m.Config.Network.Layers))
			}
			h := newHarness(t, m, newQuantized(t, "", cpu.F32, cpu.F32), model.Options{MaxSeqTokens: min(64, m.Config.MaxSeqTokens), MaxTokens: 64}, 1)
			for i, want := range g.Hidden.Layers {
				h.b.(*model.Runner).CutAfter(i + 1)
				s := &sequence{tokens: g.Prompt}
				got := h.hidden(s, g.Hidden.Positions)
				h.release(s)
				for j, row := range want {
					if k, ok := sameHidden(got[j], row, g.Hidden.Columns); !ok {
						t.Fatalf("layer %d, position %d, column %d: %v instead of %v", i, g.Hidden.Positions[j], g.Hidden.Columns[k], got[j][g.Hidden.Columns[k]], row[k])
					}
					compared += len(row)
				}
			}
		})
	}
	if compared < 1000 {
		t.Errorf("only %d numbers were compared", compared)
	}
}

// sameHidden compares some columns of a vector with the numbers want, and returns the first that
// differs.
func sameHidden(got []float32, want []float64, columns []int) (k int, same bool) {
	greatest := 1.0
	for _, x := range want {
		greatest = max(greatest, math.Abs(x))
	}
	for k, x := range want {
		if !(math.Abs(float64(got[columns[k]])-x) <= hiddenTolerance*greatest) {
			return k, false
		}
	}
	return 0, true
}

// hidden computes all tokens of a sequence in one step, and returns the vectors at some positions.
func (h *harness) hidden(s *sequence, at []int) [][]float32 {
	h.t.Helper()
	h.begin(chunk{s, len(s.tokens), at})
	for i := range h.draws.Rows {
		h.draws.Rows[i].Hidden, h.draws.Rows[i].Host = true, false
	}
	columns := h.b.Spec().Hidden
	h.out.Logits, h.out.Hidden = nil, make([]float32, len(at)*columns)
	if err := h.b.Begin(&h.batch); err != nil {
		h.t.Fatal(err)
	}
	if err := h.b.Draw(&h.draws); err != nil {
		h.t.Fatal(err)
	}
	if err := h.b.End(&h.out); err != nil {
		h.t.Fatal(err)
	}
	var rows [][]float32
	for i := range at {
		rows = append(rows, h.out.Hidden[i*columns:][:columns])
	}
	return rows
}
