package gguf_test

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/testkit"
	"weir/weights/gguf"
)

// TestBlockTypes: the names and the blocks of ggml's types (ggml/src/ggml.c, type_traits).
func TestBlockTypes(t *testing.T) {
	for _, c := range []struct {
		number         uint32
		name           string
		columns, bytes int
	}{
		{2, "Q4_0", 32, 18}, {3, "Q4_1", 32, 20}, {6, "Q5_0", 32, 22}, {7, "Q5_1", 32, 24}, {8, "Q8_0", 32, 34}, {9, "Q8_1", 32, 36},
		{10, "Q2_K", 256, 84}, {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176}, {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292},
		{16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50}, {20, "IQ4_NL", 32, 18},
		{21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82}, {23, "IQ4_XS", 256, 136}, {29, "IQ1_M", 256, 56}, {34, "TQ1_0", 256, 54},
		{35, "TQ2_0", 256, 66}, {39, "MXFP4", 32, 17}, {40, "NVFP4", 64, 36}, {41, "Q1_0", 128, 18}, {42, "Q2_0", 64, 18},
	} {
		g := &testkit.GGUF{Tensors: []testkit.GGUFTensor{{Name: "w", Type: c.number, Shape: []uint64{uint64(2 * c.columns), 3}, Data: make([]byte, 6*c.bytes)}}}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w := f.Tensors()[0]
		if columns, bytes := w.DType.Block(); w.DType.String() != c.name || columns != c.columns || bytes != c.bytes || len(w.Data) != 6*c.bytes {
			t.Errorf("%d is %v with blocks of %d numbers in %d bytes, %d in all; want %+v", c.number, w.DType, columns, bytes, len(w.Data), c)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
