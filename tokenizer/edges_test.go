package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
)

// edges is testdata/edges.json.gz: what Hugging Face's library does with features that
// the mini tokenizers do not use (tools/tokenizer-goldens/edges.mjs).
type edges struct {
	Files []struct {
		Name  string
		File  json.RawMessage
		Cases []struct {
			Text      string
			IDs       []int32
			Special   []int32 // with special tokens, if that is different
			Dec, Skip string
		}
	}
	Splits []struct {
		Name  string
		Pre   json.RawMessage
		Cases []struct {
			Text   string
			Pieces []string
		}
	}
	Decoding []struct {
		Name  string
		Cases []struct {
			IDs       []int32
			Dec, Skip string
		}
	}
}

var readEdges = sync.OnceValue(func() (e edges) {
	if err := json.Unmarshal(readTestdata("edges.json.gz"), &e); err != nil {
		panic(err)
	}
	return e
})

// TestGoldenFiles: flags of added tokens, normalizers, prefix spaces, templates,
// unknown characters and the rest of what a file can say.
func TestGoldenFiles(t *testing.T) {
	for _, f := range readEdges().Files {
		t.Run(f.Name, func(t *testing.T) {
			tok := mustLoad(t, f.File)
			for _, c := range f.Cases {
				if got := encode(tok, c.Text, false); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q)\n got %v %q\nwant %v %q", c.Text, got, tokens(tok, got), c.IDs, tokens(tok, c.IDs))
				}
				special := c.Special
				if special == nil {
					special = c.IDs
				}
				if got := encode(tok, c.Text, true); !slices.Equal(got, special) {
					t.Errorf("Encode(%q) with special tokens\n got %v\nwant %v", c.Text, got, special)
				}
				if got := tok.Decode(c.IDs, DecodeOptions{}); got != c.Dec {
					t.Errorf("Decode(%v)\n got %q\nwant %q", c.IDs, got, c.Dec)
				}
				if got := tok.Decode(c.IDs, DecodeOptions{SkipSpecial: true}); got != c.Skip {
					t.Errorf("Decode(%v) without special tokens\n got %q\nwant %q", c.IDs, got, c.Skip)
				}
			}
		})
	}
}

func tokens(t *Tokenizer, ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = t.Token(id)
	}
	return out
}

// pieces returns what the pre-tokenizers from the k-th on make of s.
func pieces(t *Tokenizer, k int, s string, first bool) []string {
	if k == len(t.stages) {
		return []string{s}
	}
	st := &t.stages[k]
	if st.rewrite != nil {
		s = st.rewrite(s, first)
	}
	if st.split == nil {
		return pieces(t, k+1, s, first)
	}
	var out []string
	steps := allow(budget(s))
	for i := 0; i < len(s); {
		end, keep := st.split.next(s, i, steps)
		if keep {
			out = append(out, pieces(t, k+1, s[i:end], first && i == 0)...)
		}
		i = end
	}
	return out
}

// TestGoldenSplits: the behaviours of Split, and patterns that only the generic matcher
// can match.
func TestGoldenSplits(t *testing.T) {
	for _, s := range readEdges().Splits {
		t.Run(s.Name, func(t *testing.T) {
			var c component
			if err := json.Unmarshal(s.Pre, &c); err != nil {
				t.Fatal(err)
			}
			tok := &Tokenizer{}
			if err := tok.loadPreTokenizers(&file{PreTokenizer: &c}); err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Cases {
				if got := pieces(tok, 0, c.Text, true); !slices.Equal(got, c.Pieces) {
					t.Errorf("%q\n got %q\nwant %q", c.Text, got, c.Pieces)
				}
			}
		})
	}
}

// TestGoldenDecoding: Decode of ids in any order, broken characters among them.
func TestGoldenDecoding(t *testing.T) {
	for _, d := range readEdges().Decoding {
		t.Run(d.Name, func(t *testing.T) {
			tok := mini(t, d.Name)
			broken := 0
			for _, c := range d.Cases {
				if got := tok.Decode(c.IDs, DecodeOptions{}); got != c.Dec {
					t.Errorf("Decode(%v)\n got %q\nwant %q", c.IDs, got, c.Dec)
				}
				if got := tok.Decode(c.IDs, DecodeOptions{SkipSpecial: true}); got != c.Skip {
					t.Errorf("Decode(%v) without special tokens\n got %q\nwant %q", c.IDs, got, c.Skip)
				}
				if strings.Contains(c.Dec, "\uFFFD") {
					broken++
				}
			}
			if broken < len(d.Cases)/10 {
				t.Errorf("only %d of %d cases have broken characters", broken, len(d.Cases))
			}
		})
	}
}
