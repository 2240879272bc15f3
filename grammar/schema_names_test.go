package grammar

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPatternSets: a set of patterns says of each name what the patterns say one by one, and
// its classes are the sets of names with equal answers.
func TestPatternSets(t *testing.T) {
	patterns := []string{"^a", "^ab", "b$", "^a.*b$", "c", "^$", "^.{2}$", "é", "^[a-c]+$", "^(?:ab)*$", "", "^x(y|é)z", "x"}
	var names []string
	for _, a := range []string{"", "a", "b", "c", "é", "x", "ab", "😀"} {
		for _, b := range []string{"", "a", "b", "y", "é", "cz"} {
			for _, c := range []string{"", "b", "z", "ab"} {
				names = append(names, a+b+c)
			}
		}
	}
	for seed := range 200 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		s := newSchemas(newBuilder(commonRules(), 1_000_000, unmetered()), true, "", Options{})
		var chosen []*dfa
		for range 1 + rng.IntN(5) {
			chosen = append(chosen, s.search(patterns[rng.IntN(len(patterns))], ""))
		}
		base := allDFA()
		if rng.IntN(2) == 0 {
			base = s.search(patterns[rng.IntN(len(patterns))], "")
		}
		all := s.newPatternSet(allDFA(), chosen, "")
		sets, languages := s.newPatternSet(base, chosen, "").classes()
		for _, name := range names {
			var want []int32
			for i, d := range chosen {
				if d.match(name) {
					want = append(want, int32(i))
				}
			}
			if got := all.match(name); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q: %v, want %v", seed, name, got, want)
			}
			for i, d := range languages {
				if d.match(name) != (base.match(name) && slices.Equal(sets[i], want)) {
					t.Fatalf("seed %d: %q matches %v: the class %v has it: %t", seed, name, want, sets[i], d.match(name))
				}
			}
		}
		for i, d := range languages {
			if d.empty() || slices.ContainsFunc(languages[:i], func(e *dfa) bool { both, ok := d.intersect(e); return !ok || !both.empty() }) {
				t.Fatalf("seed %d: class %d is empty or not apart from those before it", seed, i)
			}
		}
	}
}
