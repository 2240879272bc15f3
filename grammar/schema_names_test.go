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
		c := patternCheck{all: s.newPatternSet(allDFA(), chosen, ""), base: base, chosen: chosen}
		c.sets, c.languages = s.newPatternSet(base, chosen, "").classes()
		for _, name := range names {
			if !c.holds(name) {
				t.Fatalf("seed %d: the patterns disagree on %q", seed, name)
			}
		}
		languages := c.languages
		for i, d := range languages {
			if d.empty() || slices.ContainsFunc(languages[:i], func(e *dfa) bool { both, ok := d.intersect(e); return !ok || !both.empty() }) {
				t.Fatalf("seed %d: class %d is empty or not apart from those before it", seed, i)
			}
		}
	}
}

// patternCheck compares a patternSet with its patterns.
type patternCheck struct {
	all       *patternSet
	base      *dfa
	chosen    []*dfa
	sets      [][]int32
	languages []*dfa
}

func (c *patternCheck) holds(name string) bool {
	var want []int32
	for i, d := range c.chosen {
		if d.match(name) {
			want = append(want, int32(i))
		}
	}
	for i, d := range c.languages {
		if d.match(name) != (c.base.match(name) && slices.Equal(c.sets[i], want)) {
			return false
		}
	}
	return slices.Equal(c.all.match(name), want)
}
