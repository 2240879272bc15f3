package gguf

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
)

// TestGoldenFile compares a file that the gguf package of Python has written with what that
// package says of it (tools/golden/gguf_models.py).
func TestGoldenFile(t *testing.T) {
	b, err := os.ReadFile("testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Numbers map[string]json.Number
		String  string
		Arrays  arrays
		Tensors map[string]struct {
			Shape []int
			Type  string
			Hex   string
		}
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	f, err := Open("testdata/values.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &f.Metadata
	for kind, number := range want.Numbers {
		v, ok := m.Value("x." + kind)
		if !ok || v.Type.String() != kind {
			t.Errorf("%s: %v of type %v", kind, v, v.Type)
			continue
		}
		got, err := v.Float()
		if v.Type.integer() {
			n, _ := v.Int()
			if fmt.Sprint(n) != number.String() {
				t.Errorf("%s: %d, not %s", kind, n, number)
			}
		}
		if f, _ := number.Float64(); err != nil || got != f {
			t.Errorf("%s: %v, %v, not %s", kind, got, err, number)
		}
	}
	checkArrays(t, m, want.Arrays)
	if s, ok := m.String("x.string"); !ok || s != want.String {
		t.Errorf("string %q", s)
	}
	if yes, ok := m.Bool("x.bool"); !ok || !yes {
		t.Error("bool")
	}
	if len(f.Tensors()) != len(want.Tensors) {
		t.Errorf("%d tensors", len(f.Tensors()))
	}
	for _, x := range f.Tensors() {
		w := want.Tensors[x.Name]
		if !slices.Equal(x.Shape, w.Shape) || hex.EncodeToString(x.Data) != w.Hex {
			t.Errorf("%s of %v, %x", x.Name, x.Shape, x.Data)
		}
	}
}

type arrays struct {
	Ints    []int32   `json:"x.ints"`
	Floats  []float32 `json:"x.floats"`
	Strings []string  `json:"x.strings"`
	Bools   []bool    `json:"x.bools"`
}

func checkArrays(t *testing.T, m *Metadata, want arrays) {
	t.Helper()
	if list, _ := m.Ints("x.ints"); !slices.Equal(list, want.Ints) {
		t.Errorf("ints %v", list)
	}
	if list, _ := m.Floats("x.floats"); !slices.Equal(list, want.Floats) {
		t.Errorf("floats %v", list)
	}
	v, _ := m.Value("x.bools")
	if list, err := v.Bools(); err != nil || !slices.Equal(list, want.Bools) {
		t.Errorf("bools %v, %v", list, err)
	}
	var texts []string
	if _, all, ok := m.Strings("x.strings"); ok {
		for text := range all {
			texts = append(texts, string(text))
		}
	}
	if !slices.Equal(texts, want.Strings) {
		t.Errorf("strings %q", texts)
	}
}
