package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// pipelinesGolden is what Hugging Face's library does in each component
// (tools/tokenizer-goldens/pipelines.py).
type pipelinesGolden struct {
	Texts       []string `json:"texts"`
	Normalizers []struct {
		Name       string    `json:"name"`
		Normalizer component `json:"normalizer"`
		Want       []string  `json:"want"`
	} `json:"normalizers"`
	Pre []struct {
		Name string     `json:"name"`
		Pre  component  `json:"pre"`
		Want [][]string `json:"want"`
	} `json:"pre"`
	Decoding struct {
		Vocab    []string  `json:"vocab"`
		IDs      [][]int32 `json:"ids"`
		Decoders []struct {
			Name    string          `json:"name"`
			Decoder json.RawMessage `json:"decoder"`
			Want    []*string       `json:"want"`
			Skip    []*string       `json:"skip"`
		} `json:"decoders"`
	} `json:"decoding"`
	Files []struct {
		Name string          `json:"name"`
		File json.RawMessage `json:"file"`
		Want []pipelineCase  `json:"want"`
	} `json:"files"`
}

// pipelineCase has the ids of a text, those with special tokens, and the text of the ids.
type pipelineCase struct {
	ids, special []int32
	text         string
}

func (c *pipelineCase) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.ids, &c.special, &c.text})
}

func pipelines(tb testing.TB) (want pipelinesGolden) {
	tb.Helper()
	readJSON(tb, "testdata/pipelines.json.gz", &want)
	return want
}

// TestNormalizers: texts are normalized as by Hugging Face's library.
func TestNormalizers(t *testing.T) {
	want := pipelines(t)
	for _, n := range want.Normalizers {
		t.Run(n.Name, func(t *testing.T) {
			tok := &Tokenizer{}
			if err := tok.loadNormalizers(&file{Normalizer: &n.Normalizer}); err != nil {
				t.Fatal(err)
			}
			for i, text := range want.Texts {
				got := toValid(text)
				for _, f := range tok.normalizers {
					got = f(allow(1<<30), got)
				}
				if got != n.Want[i] {
					t.Errorf("%q (%+q)\n got %+q\nwant %+q", text, text, got, n.Want[i])
				}
			}
		})
	}
}

// TestPreTokenizers: texts are cut into the same words as by Hugging Face's library.
func TestPreTokenizers(t *testing.T) {
	want := pipelines(t)
	for _, p := range want.Pre {
		t.Run(p.Name, func(t *testing.T) {
			tok := &Tokenizer{}
			if err := tok.loadPreTokenizers(&file{PreTokenizer: &p.Pre}); err != nil {
				t.Fatal(err)
			}
			keep := &keptWords{}
			tok.model, tok.cache = keep, newWordCache()
			for i, text := range want.Texts {
				w := &worker{t: tok}
				w.allow.rest = budget(text)
				ok := w.stage(0, toValid(text), true)
				var words []string
				for _, id := range w.out {
					words = append(words, keep.words[id])
				}
				if !ok || !slices.Equal(words, p.Want[i]) {
					t.Errorf("%+q\n got %+q\nwant %+q", text, words, p.Want[i])
				}
			}
		})
	}
}

// keptWords is a model whose tokens are the words that it is given.
type keptWords struct{ words []string }

func (k *keptWords) encode(w *worker, word string) {
	w.out = append(w.out, int32(len(k.words)))
	k.words = append(k.words, word)
}

// TestDecoders: tokens become the same text as by Hugging Face's library, at once and one by
// one.
func TestDecoders(t *testing.T) {
	want := pipelines(t)
	vocab := object{}
	for i, s := range want.Decoding.Vocab {
		vocab[s] = i
	}
	for _, d := range want.Decoding.Decoders {
		t.Run(d.Name, func(t *testing.T) {
			tok := mustLoad(t, marshal(t, object{"model": object{"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}, "decoder": d.Decoder,
				"added_tokens": []any{object{"id": len(vocab) - 1, "content": "[CLS]", "special": true}}}))
			for i, ids := range want.Decoding.IDs {
				checkDecoding(t, tok, ids, d.Want[i], DecodeOptions{})
				checkDecoding(t, tok, ids, d.Skip[i], DecodeOptions{SkipSpecial: true})
			}
		})
	}
}

func checkDecoding(t *testing.T, tok *Tokenizer, ids []int32, want *string, opt DecodeOptions) {
	t.Helper()
	if want == nil {
		return // the library panics
	}
	if got := tok.Decode(ids, opt); got != *want {
		t.Errorf("%q\n got %q\nwant %q", spell(tok, ids), got, *want)
	}
	for cut := range len(ids) + 1 {
		d := tok.NewDecoder(ids[:cut], opt)
		var out []byte
		for _, id := range ids[cut:] {
			out = d.Append(out, id)
		}
		checkPieces(t, tok, ids, cut, string(out), *want, opt)
	}
}

// checkPieces compares what a Decoder gives after a prompt with the text of the whole. What it
// holds back at the end may be missing.
func checkPieces(t *testing.T, tok *Tokenizer, ids []int32, cut int, got, want string, opt DecodeOptions) {
	t.Helper()
	if cut == 0 && !strings.HasPrefix(want, got) {
		// A run of bytes that begins with whole characters is the one exception.
		if !strings.Contains(want, "\uFFFD") {
			t.Errorf("%q one by one\n got %q\nwant %q", spell(tok, ids), got, want)
		}
		return
	}
	if rest := strings.TrimPrefix(want, got); cut == 0 && len(rest) > 4 && !strings.Contains(rest, "\uFFFD") {
		t.Errorf("%q one by one: %q is held back", spell(tok, ids), rest)
	}
	if cut > 0 && !strings.Contains(want, "\uFFFD") && !strings.Contains(want, got) {
		t.Errorf("%q after %d\n got %q\nwant the end of %q", spell(tok, ids), cut, got, want)
	}
}

// TestModels: ids and texts of whole files are those of Hugging Face's library.
func TestModels(t *testing.T) {
	want := pipelines(t)
	for _, f := range want.Files {
		t.Run(f.Name, func(t *testing.T) {
			tok := mustLoad(t, f.File)
			for i, text := range want.Texts {
				w := f.Want[i]
				if got := encode(tok, text, false); !slices.Equal(got, w.ids) {
					t.Errorf("%+q\n got %q\nwant %q", text, spell(tok, got), spell(tok, w.ids))
				}
				if got := encode(tok, text, true); !slices.Equal(got, w.special) {
					t.Errorf("%+q with special tokens\n got %q\nwant %q", text, spell(tok, got), spell(tok, w.special))
				}
				if got := tok.Decode(w.ids, DecodeOptions{}); got != w.text {
					t.Errorf("%q\n got %q\nwant %q", spell(tok, w.ids), got, w.text)
				}
			}
		})
	}
}
