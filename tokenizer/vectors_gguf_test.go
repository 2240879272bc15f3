package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestVectorsGGUF checks llama.cpp's own test cases. Its vocabulary-only files have the
// content of a tokenizer.json in another form, so they are converted.
func TestVectorsGGUF(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(vectorDir(t), "gguf", "*.gguf"))
	checked := 0
	for _, path := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf")
		t.Run(name, func(t *testing.T) {
			meta := readGGUF(t, path)
			file, ok := fromGGUF(meta)
			if !ok {
				t.Skipf("model %v, pre %v", meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"])
			}
			tok := mustLoad(t, marshal(t, file))
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

// fromGGUF converts GGUF metadata to a tokenizer.json.
func fromGGUF(meta map[string]any) (object, bool) {
	list := meta["tokenizer.ggml.tokens"].([]any)
	types := meta["tokenizer.ggml.token_type"].([]any)
	vocab, added := object{}, []any{}
	for i, s := range list {
		if _, ok := vocab[s.(string)]; ok {
			s = fmt.Sprintf("%s (%d)", s, i) // padding; a vocabulary names it once
		}
		vocab[s.(string)] = i
		if kind := types[i].(int64); kind == 3 || kind == 4 { // control, user-defined
			added = append(added, object{"id": i, "content": s, "special": kind == 3})
		}
	}
	model := object{"type": "BPE", "vocab": vocab}
	file := object{"version": "1.0", "model": model, "added_tokens": added}
	seq := func(key string, list ...any) object { return object{"type": "Sequence", key: list} }
	switch meta["tokenizer.ggml.model"] {
	case "gpt2":
		var pre []any
		for _, p := range map[string][]string{
			"gpt-2":          {gpt2Pattern},
			"refact":         {`\p{N}`, gpt2Pattern},
			"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`},
		}[meta["tokenizer.ggml.pre"].(string)] {
			pre = append(pre, object{"type": "Split", "pattern": object{"Regex": p}, "behavior": "Isolated"})
		}
		if pre == nil {
			return nil, false
		}
		byteLevel := object{"type": "ByteLevel", "use_regex": false}
		file["pre_tokenizer"], file["decoder"] = seq("pretokenizers", append(pre, byteLevel)...), byteLevel
		model["merges"] = meta["tokenizer.ggml.merges"]
	case "llama":
		file["normalizer"] = seq("normalizers", object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"})
		file["decoder"] = seq("decoders", object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			object{"type": "ByteFallback"}, object{"type": "Fuse"})
		model["byte_fallback"], model["unk_token"], model["fuse_unk"] = true, "<unk>", true
		model["merges"] = scoreMerges(vocab, list, types, meta["tokenizer.ggml.scores"].([]any))
	default:
		return nil, false
	}
	return file, true
}

// scoreMerges lists the merges of a SentencePiece model, which merges to the piece
// of the best score: all ways to put a piece together, best piece first.
func scoreMerges(vocab object, list, types, scores []any) (merges [][]string) {
	order := make([]int, 0, len(list))
	for i := range list {
		if types[i].(int64) == 1 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := scores[a].(float64), scores[b].(float64); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for _, i := range order {
		s := list[i].(string)
		for k := 1; k < len(s); k++ {
			if _, ok := vocab[s[:k]]; !ok || !utf8.RuneStart(s[k]) {
				continue
			}
			if _, ok := vocab[s[k:]]; ok {
				merges = append(merges, []string{s[:k], s[k:]})
			}
		}
	}
	return merges
}

// readGGUF reads the metadata of a GGUF file (version 2 or 3).
func readGGUF(t *testing.T, path string) map[string]any {
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
		case 0, 1, 7: // 8 bits, bool
			return int64(number(1))
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
	meta := map[string]any{}
	for range number(8) {
		key := text()
		meta[key] = value(number(4))
	}
	return meta
}
