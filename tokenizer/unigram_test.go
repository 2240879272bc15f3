package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowUnigram tries all ways to put a text together, from its end, and keeps the best for each
// place. Of equal ones it takes the one whose last piece begins first, as a search that goes
// through the places in order does.
func slowUnigram(u *unigram, pieces map[string]int32, s string) (out []int32) {
	best := make([]float64, len(s)+1)
	from := make([]int, len(s)+1)
	ends := []int{0}
	for _, r := range s {
		ends = append(ends, ends[len(ends)-1]+len(string(r)))
	}
	for k, end := range ends[1:] {
		found := false
		for i, start := range ends[:k+1] {
			score := u.lowest
			if id, ok := pieces[s[start:end]]; ok {
				score = u.scores[id]
			} else if i != k {
				continue
			}
			if score += best[start]; !found || score > best[end] {
				found, best[end], from[end] = true, score, start
			}
		}
	}
	for end := len(s); end > 0; end = from[end] {
		id, ok := pieces[s[from[end]:end]]
		if !ok {
			id = u.unknown
		}
		if n := len(out); !ok && n > 0 && out[n-1] == id {
			continue // fused
		}
		out = append(out, id)
	}
	slices.Reverse(out)
	return out
}

// TestUnigramInParts: the tokens are those of a simple search, also if the beginning of a text
// is given out before the rest is looked at.
func TestUnigramInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range rounds(200) {
		vocab := []any{[]any{"<unk>", 0}}
		pieces := map[string]int32{}
		for range 2 + r.IntN(12) {
			var b strings.Builder
			for range 1 + r.IntN(5) {
				b.WriteString([]string{"a", "b", "é", "中"}[r.IntN(4)])
			}
			if _, ok := pieces[b.String()]; ok {
				continue
			}
			pieces[b.String()] = int32(len(vocab))
			vocab = append(vocab, []any{b.String(), -float64(r.IntN(9)) / 2})
		}
		tok := mustLoad(t, marshal(t, object{"model": object{"type": "Unigram", "unk_id": 0, "vocab": vocab}}))
		u := tok.model.(*unigram)
		for range 20 {
			var b strings.Builder
			for range r.IntN(60) {
				b.WriteString([]string{"a", "a", "b", "é", "中", "x"}[r.IntN(6)])
			}
			want := slowUnigram(u, pieces, b.String())
			for _, parts := range []int{1, 2, 7, longLattice} {
				w := &worker{t: tok}
				if u.encodeParts(w, b.String(), parts); !slices.Equal(w.out, want) {
					t.Fatalf("%q with %v in parts of %d\n got %v\nwant %v", b.String(), vocab, parts, w.out, want)
				}
			}
		}
	}
}

// TestUnigramOfOneLetter: the work on a long word without cuts is in proportion to its length,
// whatever pieces it may be put together from.
func TestUnigramOfOneLetter(t *testing.T) {
	vocab := []any{[]any{"<unk>", 0}}
	for n := 1; n <= 16; n++ {
		vocab = append(vocab, []any{strings.Repeat("a", n), -1 - float64(n)/100})
	}
	tok := mustLoad(t, marshal(t, object{"model": object{"type": "Unigram", "unk_id": 0, "vocab": vocab}}))
	ids := encode(tok, strings.Repeat("a", 1<<20), false)
	if want := 1 << 16; len(ids) != want {
		t.Errorf("%d tokens, want %d", len(ids), want)
	}
	if got := fmt.Sprint(ids[:2]); got != "[16 16]" {
		t.Error(got)
	}
}
