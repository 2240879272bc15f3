package sampler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// referenceBans are the last tokens of the bad words that output ends in otherwise.
func referenceBans(p *Params, output []int32) map[int32]bool {
	banned := map[int32]bool{}
	for _, w := range p.BadWords {
		n := len(w) - 1
		if n > 0 && n <= len(output) && slices.Equal(output[len(output)-n:], w[:n]) {
			banned[w[n]] = true
		}
	}
	return banned
}

// TestBansReference: bans finds the same words as a comparison with every one of them.
func TestBansReference(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 2000 {
		vocab := 1 + g.Int32N(4)
		text := func(most int) []int32 {
			s := make([]int32, g.IntN(most+1))
			for i := range s {
				s[i] = g.Int32N(vocab)
			}
			return s
		}
		p := DefaultParams()
		for range g.IntN(12) {
			if w := text(6); len(w) > 0 {
				p.BadWords = append(p.BadWords, w)
			}
		}
		output := text(10)
		want, got := referenceBans(&p, output), map[int32]bool{}
		b := newBans(&p)
		b.each(output, func(words []badWord) bool {
			for _, w := range words {
				got[b.tokens[w.last]] = true
			}
			return true
		})
		for token := range vocab {
			if b.forbid(token, output) != want[token] {
				t.Fatalf("words %v forbid %d after %v: %v, want %v", p.BadWords, token, output, !want[token], want[token])
			}
		}
		if len(want) > b.most {
			t.Fatalf("words %v: %v after %v are more than %d", p.BadWords, want, output, b.most)
		}
		if found += len(want); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("words %v after %v: %v, want %v", p.BadWords, output, got, want)
		}
	}
	if found < 500 {
		t.Errorf("%d bans: the test shows too little", found)
	}
}

// BenchmarkBadWords plans a draw for a request with as many bad words as a request may have.
func BenchmarkBadWords(b *testing.B) {
	p := DefaultParams()
	for i := range int32(4096) {
		p.BadWords = append(p.BadWords, []int32{1, 2 + i%50, 100 + i})
	}
	s := NewState(&p, 10_000, nil)
	output := []int32{5, 1, 3}
	var d backend.Draws
	for b.Loop() {
		d.Reset()
		s.Plan(&d, 313, output)
	}
}
