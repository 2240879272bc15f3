package tokenizer

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestVectorsGGUF checks llama.cpp's own test cases.
func TestVectorsGGUF(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(vectorDir(t), "gguf", "*.gguf"))
	checked := 0
	for _, path := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf")
		t.Run(name, func(t *testing.T) {
			meta := readGGUF(t, path)
			tok, _, err := FromGGUF(meta)
			if errors.Is(err, ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			const end = "\n__ggml_vocab_test__\n"
			inputs := strings.Split(strings.TrimSuffix(string(readFile(t, path+".inp")), end), end)
			outputs := strings.Split(strings.TrimSuffix(string(readFile(t, path+".out")), "\n"), "\n")
			if len(inputs) != len(outputs) {
				t.Fatalf("%d inputs, %d outputs", len(inputs), len(outputs))
			}
			for i, s := range inputs {
				var want []int32
				for f := range strings.FieldsSeq(outputs[i]) {
					id, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				if got := encode(tok, s, false); !slices.Equal(got, want) {
					t.Errorf("%q\n got %v\nwant %v", s, got, want)
				}
			}
			checked += len(inputs)
		})
	}
	if checked == 0 {
		t.Error("nothing was checked")
	}
}

// ggufMeta is the metadata of a GGUF file in Go values: text, int64, float64, bool and lists.
type ggufMeta map[string]any

func (m ggufMeta) String(key string) (string, bool) { s, ok := m[key].(string); return s, ok }
func (m ggufMeta) Bool(key string) (v, ok bool)     { v, ok = m[key].(bool); return v, ok }
func (m ggufMeta) Int(key string) (int64, bool)     { v, ok := m[key].(int64); return v, ok }

func (m ggufMeta) Strings(key string) (int, iter.Seq[[]byte], bool) {
	list, ok := m[key].([]any)
	return len(list), func(yield func([]byte) bool) {
		for _, v := range list {
			if !yield([]byte(v.(string))) {
				return
			}
		}
	}, ok
}

func (m ggufMeta) Ints(key string) (out []int32, ok bool) {
	list, ok := m[key].([]any)
	for _, v := range list {
		n, isInt := v.(int64)
		out, ok = append(out, int32(n)), ok && isInt
	}
	return out, ok
}

func (m ggufMeta) Floats(key string) (out []float32, ok bool) {
	list, ok := m[key].([]any)
	for _, v := range list {
		x, isFloat := v.(float64)
		out, ok = append(out, float32(x)), ok && isFloat
	}
	return out, ok
}

// readGGUF reads the metadata of a GGUF file (version 2 or 3).
func readGGUF(t *testing.T, path string) ggufMeta {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pos := 8
	number := func(size int) uint64 {
		var buf [8]byte
		copy(buf[:], b[pos:pos+size])
		pos += size
		return binary.LittleEndian.Uint64(buf[:])
	}
	text := func() string {
		n := int(number(8))
		pos += n
		return string(b[pos-n : pos])
	}
	var value func(kind uint64) any
	value = func(kind uint64) any {
		switch kind {
		case 0, 1:
			return int64(number(1))
		case 7:
			return number(1) != 0
		case 2, 3:
			return int64(number(2))
		case 4, 5:
			return int64(int32(number(4)))
		case 6:
			return float64(math.Float32frombits(uint32(number(4))))
		case 10, 11, 12:
			return int64(number(8))
		case 8:
			return text()
		case 9:
			of := number(4)
			list := make([]any, number(8))
			for i := range list {
				list[i] = value(of)
			}
			return list
		}
		t.Fatalf("%s: a value of type %d", path, kind)
		return nil
	}
	number(8) // tensors
	meta := ggufMeta{}
	for range number(8) {
		key := text()
		meta[key] = value(number(4))
	}
	return meta
}
