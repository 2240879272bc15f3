package archive

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestFilters compares random filters with their reference implementation.
func TestFilters(t *testing.T) {
	s := newTestArchive(t)
	r := rand.New(rand.NewPCG(3, 4))
	all := logRandom(s, r)
	hits := 0
	for range 1000 {
		f := randomFilter(r, all)
		var want []string
		for _, o := range all {
			if o.selected(f) {
				want = append(want, o.text)
			}
		}
		hits += len(want)
		var got []string
		for _, text := range s.texts("t", "m", f) {
			if _, text, _ := strings.Cut(text, " "); strings.HasPrefix(text, "{") {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %d trajectories, want %d", f, len(got), len(want))
		}
	}
	if hits < 1000 {
		t.Errorf("only %d trajectories were selected: the test shows nothing", hits)
	}
}
