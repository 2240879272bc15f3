package grammar

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// TestRecordsOutliveForgetting: two matchers that have read the same text stay at equal stacks,
// although everything that was built is forgotten between them, and even while one of them reads.
// Otherwise a stack would count twice, and a step would take twice the visits.
func TestRecordsOutliveForgetting(t *testing.T) {
	crossing := crossingVocabulary(t)
	for i, text := range distinctSpecs {
		g := mustCompile(t, schema(text), crossing)
		rng := rand.New(rand.NewPCG(uint64(i), 31))
		w := newRandomWalk(t, text, g, rng)
		for w.m.Len() < 12 {
			w.fill()
			if tok := randomLegal(rng, w.mask, crossing.size); tok < 0 || crossing.ends(tok) || !w.accept(tok) {
				break
			}
			forgetAll(g.m)
			if rng.IntN(3) == 0 {
				runtime.GC()
			}
			second := g.NewMatcher()
			second.at = g.m.root
			for _, b := range w.text {
				second.at = g.m.step(second.at, b)
			}
			if got, want := framesAt(g.m, second.at), framesAt(g.m, w.m.at); got != want {
				t.Fatalf("%s: after %q:\n%s of a matcher that has just read it\n%s of the one that read it before", text, w.text, got, want)
			}
		}
	}
}

// forgetAll drops what g has built.
func forgetAll(m *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	for len(m.fading) > 0 {
		m.fade()
	}
}

// framesAt are the stacks of p by the addresses of their frames in the present round.
func framesAt(m *machine, p *position) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []uint64
	for _, f := range p.tops {
		ids = append(ids, m.adopt(f).id)
	}
	slices.Sort(ids)
	return fmt.Sprint(ids)
}
