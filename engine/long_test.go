package engine_test

import "testing"

// TestMetamorphicLong is TestMetamorphic over a simulated network that computes sequences of more than so many tokens
// in another way, all of them: the simulator refuses a step that reads what was computed of a shorter sequence.
func TestMetamorphicLong(t *testing.T) {
	g := seeded(t)
	var preempted, hits uint64
	for round := range rounds(6) {
		after := 2 + g.IntN(simLen)
		jobs := newWorkload(g, 30, simVocab, simLen)
		start := roomy
		start.spec.LongAfter = after
		want := runAll(t, start.start(t), jobs)
		for _, v := range variants() {
			v.spec.LongAfter = after
			e := v.start(t)
			got := shuffled(g, jobs, func(jobs []job) []result { return runAll(t, e, jobs) })
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, long after %d, %v: %v", round, after, v, err)
			}
			preempted += e.Stats().Preemptions
			hits += e.Stats().PrefixHits
		}
	}
	if preempted < 10 || hits < 100 {
		t.Errorf("%d preemptions and %d tokens from the prefix cache are too few for the test to mean anything", preempted, hits)
	}
}
