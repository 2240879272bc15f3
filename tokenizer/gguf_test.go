package tokenizer

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// ggufGolden is what llama.cpp makes of texts (tools/tokenizer-goldens/ggufvocab.py).
type ggufGolden struct {
	Texts []string       `json:"texts"`
	Base  map[string]any `json:"base"` // of a byte-level vocabulary, without a name
	Names map[string]struct {
		Result int     `json:"result"`
		Around []int32 `json:"around"` // what is put in front of a text
		Ends   []int32 `json:"ends"`
	} `json:"names"`
	Results [][][]int32 `json:"results"`
	Kinds   []struct {
		Name    string         `json:"name"`
		Meta    map[string]any `json:"meta"`
		IDs     [][]int32      `json:"ids"`
		Special []int32        `json:"special"`
		Text    []string       `json:"text"`
		Ends    []int32        `json:"ends"`
	} `json:"kinds"`
}

// integers turns the numbers of JSON into what a reader of GGUF files gives.
func integers(meta map[string]any) ggufMeta {
	out := ggufMeta{}
	for key, v := range meta {
		switch v := v.(type) {
		case float64:
			out[key] = int64(v)
		case []any:
			list := slices.Clone(v)
			for i := range list {
				if f, ok := list[i].(float64); ok && !strings.HasSuffix(key, ".scores") {
					list[i] = int64(f)
				}
			}
			out[key] = list
		default:
			out[key] = v
		}
	}
	return out
}

// groupDigits are the pre-tokenizers with groups of three digits. llama.cpp puts what is before
// a number into its first group, which the published patterns do not (TestDigitGroups).
var groupDigits = map[string]bool{"afmoe": true, "tiny_aya": true, "cohere2moe": true, "superbpe": true}

// TestGGUFNames: for each name of a pre-tokenizer the ids are those of llama.cpp.
func TestGGUFNames(t *testing.T) {
	var want ggufGolden
	readJSON(t, "testdata/gguf.json.gz", &want)
	base := integers(want.Base)
	for name, w := range want.Names {
		t.Run(name, func(t *testing.T) {
			meta := maps.Clone(base)
			meta["tokenizer.ggml.pre"] = name
			tok, info, err := FromGGUF(meta)
			if err != nil {
				t.Fatal(err)
			}
			checkEnds(t, info, w.Ends)
			if !slices.Equal(tok.prefix, w.Around) {
				t.Errorf("%v around a text, want %v", tok.prefix, w.Around)
			}
			checkNamed(t, name, tok, want.Texts, want.Results[w.Result])
		})
	}
	for name := range wordCuts {
		if _, ok := want.Names[name]; !ok && name != "" {
			t.Errorf("nothing is known of %q", name)
		}
	}
}

func checkEnds(t *testing.T, info *GGUF, want []int32) {
	t.Helper()
	if got := slices.Sorted(slices.Values(info.Ends)); !slices.Equal(got, want) {
		t.Errorf("ends %v, want %v", got, want)
	}
}

func checkNamed(t *testing.T, name string, tok *Tokenizer, texts []string, want [][]int32) {
	t.Helper()
	for i, text := range texts {
		if groupDigits[name] && strings.ContainsFunc(text, unicode.IsNumber) || name == "deepseek-llm" && strings.Contains(text, "\u3000") {
			continue
		}
		if got := encode(tok, text, false); !slices.Equal(got, want[i]) {
			t.Errorf("%q\n got %v\nwant %v", text, spell(tok, got), spell(tok, want[i]))
		}
	}
}

func spell(tok *Tokenizer, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, tok.Token(id))
	}
	return out
}

// TestGGUFKinds: the ids and texts of the other kinds of vocabularies are those of llama.cpp.
func TestGGUFKinds(t *testing.T) {
	var want ggufGolden
	readJSON(t, "testdata/gguf.json.gz", &want)
	for _, k := range want.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			tok, info, err := FromGGUF(integers(k.Meta))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(k.Name, "bert") { // there llama.cpp takes [PAD] for an end
				checkEnds(t, info, k.Ends)
			}
			if got := encode(tok, want.Texts[0], true); !slices.Equal(got, k.Special) {
				t.Errorf("with special tokens\n got %v\nwant %v", got, k.Special)
			}
			for i, text := range want.Texts {
				// Where the model was trained, U+0085 is left out and Hangul is decomposed.
				if got := encode(tok, text, false); !slices.Equal(got, k.IDs[i]) && !(strings.HasPrefix(k.Name, "bert") && strings.ContainsFunc(text, notBERT)) {
					t.Errorf("%q\n got %v\nwant %v", text, spell(tok, got), spell(tok, k.IDs[i]))
				}
				// llama.cpp removes spaces before punctuation there, and weir never does.
				cleans := k.Name == "gemma4" || strings.HasPrefix(k.Name, "bert")
				if got := tok.Decode(k.IDs[i], DecodeOptions{}); got != k.Text[i] && !cleans {
					t.Errorf("decoding\n got %q\nwant %q", got, k.Text[i])
				}
			}
		})
	}
}

func notBERT(r rune) bool { return r == 0x85 || unicode.Is(unicode.Hangul, r) }

// TestDigitGroups: the pieces are those that Hugging Face's library (tokenizers 0.23.3) cuts.
func TestDigitGroups(t *testing.T) {
	for _, c := range []struct{ pattern, text, pieces string }{
		{threesPattern, "abc1234567 x", "abc|1|234|567| x"},
		{threesPattern, "1234XML", "1234XML"},
		{threesPattern, "12²", "12²"},
		{threesPattern, "1234_", "1234_"},
		{threesPattern, "x1234567²", "x1234567²"},
		{threesPattern, "123٣", "1|23٣"},
		{threesPattern, "(12345)", "(|12|345|)"},
		{threesPattern, "abc345", "abc|345"},
		{threesPattern, "345abc12345", "345abc|12|345"},
		{splitThrees, "abc1234567 x", "abc1|234|567 x"},
		{splitThrees, "1234XML", "1|234XML"},
		{splitThrees, "12²", "12²"},
		{splitThrees, "123٣", "1|23٣"},
		{splitThrees, "(12345)", "(12|345)"},
		{splitThrees, "abc345", "abc|345"},
		{splitThrees, "345abc12345", "345abc12|345"},
		{splitThrees, "123456", "123|456"},
	} {
		split := splitter{matcher: knownPattern(c.pattern)}
		var pieces []string
		for i := 0; i < len(c.text); {
			end, _ := split.next(c.text, i, nil)
			pieces = append(pieces, c.text[i:end])
			i = end
		}
		if got := strings.Join(pieces, "|"); got != c.pieces {
			t.Errorf("%s cuts %q into %s, want %s", c.pattern, c.text, got, c.pieces)
		}
	}
}

// TestGGUFRefuses: what cannot be is one sentence that names the key.
func TestGGUFRefuses(t *testing.T) {
	list := func(s ...any) []any { return s }
	base := func() ggufMeta {
		return ggufMeta{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": list("<unk>", "<s>", "</s>", "a", "b", "ab"),
			"tokenizer.ggml.token_type": list(int64(2), int64(3), int64(3), int64(1), int64(1), int64(1)),
			"tokenizer.ggml.scores":     list(0.0, 0.0, 0.0, -1.0, -2.0, -3.0)}
	}
	if _, info, err := FromGGUF(base()); err != nil || info.BOS != 1 || info.EOS != 2 || info.UNK != 0 || !info.AddBOS {
		t.Fatal(info, err)
	}
	merged := ggufMeta{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"}
	for name, c := range map[string]struct {
		change ggufMeta
		say    string
	}{
		"no model":         {ggufMeta{"tokenizer.ggml.model": int64(1)}, "tokenizer.ggml.model is missing"},
		"rwkv":             {ggufMeta{"tokenizer.ggml.model": "rwkv"}, `tokenizer.ggml.model "rwkv"`},
		"plamo2":           {ggufMeta{"tokenizer.ggml.model": "plamo2"}, `tokenizer.ggml.model "plamo2"`},
		"no tokens":        {ggufMeta{"tokenizer.ggml.tokens": "a"}, "tokenizer.ggml.tokens is missing"},
		"twice":            {ggufMeta{"tokenizer.ggml.tokens": list("<unk>", "<s>", "</s>", "a", "a", "ab")}, `"a" is listed twice`},
		"types":            {ggufMeta{"tokenizer.ggml.token_type": list(int64(1))}, "token_type has 1 types for 6 tokens"},
		"no scores":        {ggufMeta{"tokenizer.ggml.scores": nil}, "tokenizer.ggml.scores is missing"},
		"few scores":       {ggufMeta{"tokenizer.ggml.scores": list(1.0)}, "tokenizer.ggml.scores is missing"},
		"NaN":              {ggufMeta{"tokenizer.ggml.scores": list(0.0, 0.0, 0.0, math.NaN(), 0.0, 0.0)}, "score of token 3"},
		"eos":              {ggufMeta{"tokenizer.ggml.eos_token_id": int64(6)}, "eos_token_id is 6"},
		"negative":         {ggufMeta{"tokenizer.ggml.bos_token_id": int64(-1)}, "bos_token_id is -1"},
		"huge":             {ggufMeta{"tokenizer.ggml.bos_token_id": int64(1 << 40)}, "bos_token_id is"},
		"sep":              {ggufMeta{"tokenizer.ggml.add_sep_token": true}, "add_sep_token is true"},
		"long piece":       {ggufMeta{"tokenizer.ggml.tokens": list("<unk>", "<s>", "</s>", "a", "b", strings.Repeat("ab", maxPiece))}, "a piece of 2048 bytes, token 5"},
		"some bytes":       {ggufMeta{"tokenizer.ggml.tokens": list("<unk>", "<s>", "</s>", "<0x41>", "b", "ab"), "tokenizer.ggml.token_type": nil}, "byte_fallback without the token"},
		"no merges":        {merged, "tokenizer.ggml.merges is missing"},
		"pre":              {with(merged, ggufMeta{"tokenizer.ggml.pre": "new"}), `tokenizer.ggml.pre "new"`},
		"half a merge":     {with(merged, ggufMeta{"tokenizer.ggml.merges": list("ab")}), `merge 0 in tokenizer.ggml.merges, "ab"`},
		"unknown in merge": {with(merged, ggufMeta{"tokenizer.ggml.merges": list("a b", "a c")}), `merge of "a" and "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := FromGGUF(with(base(), c.change))
			if err == nil || !strings.Contains(err.Error(), c.say) || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("%v, want %s", err, c.say)
			}
		})
	}
}

// TestGGUFPadding: a padding token that does not exist is passed over, as in llama.cpp.
func TestGGUFPadding(t *testing.T) {
	for id, want := range map[int64]int32{1: 1, 2: -1, 1<<32 - 1: -1, -1: -1} {
		_, info, err := FromGGUF(ggufMeta{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": []any{"a", "b"},
			"tokenizer.ggml.merges": []any{}, "tokenizer.ggml.padding_token_id": id})
		if err != nil || info.PAD != want {
			t.Errorf("%d: %+v, %v", id, info, err)
		}
	}
}

// TestGGUFRefusesInShort: see TestLoadRefusesInShort.
func TestGGUFRefusesInShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, key := range []string{"tokenizer.ggml.model", "tokenizer.ggml.pre"} {
		_, _, err := FromGGUF(ggufMeta{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": []any{"a"}, "tokenizer.ggml.merges": []any{}, key: long})
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1200v", key, err)
		}
	}
}

func with(meta, change ggufMeta) ggufMeta {
	meta = maps.Clone(meta)
	maps.Copy(meta, change)
	return meta
}

// FuzzFromGGUF: whatever the metadata says, there is an error or a tokenizer that works.
func FuzzFromGGUF(f *testing.F) {
	f.Add("llama", "default", "<unk>\n<s>\n</s>\na\nb\nab", "a b", "\x02\x03\x03\x01\x01\x01", uint16(2), "abab")
	f.Add("gpt2", "gpt-2", "a\nb\nab\n<x>", "a b\nab a", "\x01\x01\x01\x04", uint16(1), "ab <x>")
	f.Add("t5", "", "<pad>\n</s>\n<unk>\n▁\na\nab", "", "\x03\x03\x02\x01\x01\x04", uint16(1), "ab ab")
	f.Add("bert", "", "[PAD]\n[UNK]\n▁a\nb", "", "\x03\x03\x01\x01", uint16(1), "ab Ab.")
	f.Add("gemma4", "", "a\n▁\n▁a\n<0x0A>", "▁ a", "", uint16(0), "a a\n")
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges, types string, eos uint16, text string) {
		texts := func(s string) (list []any) {
			for part := range strings.SplitSeq(s, "\n") {
				list = append(list, part)
			}
			return list
		}
		meta := ggufMeta{"tokenizer.ggml.model": model, "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": texts(tokens), "tokenizer.ggml.merges": texts(merges),
			"tokenizer.ggml.eos_token_id": int64(eos)}
		var kinds, scores []any
		for i, b := range []byte(types) {
			kinds, scores = append(kinds, int64(b)), append(scores, float64(int(b)*i%7))
		}
		if len(kinds) > 0 {
			meta["tokenizer.ggml.token_type"], meta["tokenizer.ggml.scores"] = kinds, scores
		}
		tok, _, err := FromGGUF(meta)
		if err != nil {
			return
		}
		ids, err := tok.Encode(nil, text, true)
		if err != nil {
			t.Skip(err)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("%q has the token %d", text, id)
			}
		}
		tok.Decode(ids, DecodeOptions{})
		pair, pairTypes, err := tok.JoinPair(ids, ids, -1)
		if err != nil || len(pair) < 2*len(ids) || len(pairTypes) != len(pair) {
			t.Fatalf("%d and %d tokens of two texts of %d, %v", len(pair), len(pairTypes), len(ids), err)
		}
	})
}
