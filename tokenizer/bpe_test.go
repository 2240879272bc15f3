package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMergeMatchesReference: the scan for short words and the heap for long ones give
// what merging one pair at a time gives, also around the length where the heap takes
// over.
func TestMergeMatchesReference(t *testing.T) {
	for _, name := range []string{"bl-gpt2", "spm-llama2"} {
		tok, slow := mini(t, name), miniReference(t, name)
		w := &worker{t: tok}
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range rounds(3000) {
			n := 1 + rng.IntN(2*shortWord)
			if i%50 == 0 {
				n = 300
			}
			b := make([]byte, n)
			for i := range b {
				b[i] = "the a in of\n.,TAeeoonnrr"[rng.IntN(24)]
			}
			word := string(b)
			w.out = w.out[:0]
			if w.merge(word); !slices.Equal(w.out, slow.merge(word)) {
				t.Fatalf("%s: %q\n got %v\nwant %v", name, word, w.out, slow.merge(word))
			}
		}
	}
}

// TestEqualRanksMergeLeftmost: the heap breaks ties by position, in a word whose
// pairs all are the same merge.
func TestEqualRanksMergeLeftmost(t *testing.T) {
	tok, slow := mini(t, "bl-gpt2"), miniReference(t, "bl-gpt2")
	w := &worker{t: tok}
	for _, unit := range []string{"e", " ", "-", "an", "0"} {
		for n := 1; n < 200; n++ {
			word := strings.Repeat(unit, n)
			w.out = w.out[:0]
			if w.merge(word); !slices.Equal(w.out, slow.merge(word)) {
				t.Fatalf("%d times %q: got %v, want %v", n, unit, w.out, slow.merge(word))
			}
		}
	}
}
