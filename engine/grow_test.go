package engine

import (
	"runtime"
	"testing"

	"weir/internal/invariants"
)

// TestFirstTokensAllocateNothing: from its first token on, a sequence lets no slice that
// is its own grow in the loop, until it has a thousand tokens. A loop that allocates while memory is being
// collected has to help with that, and everybody's step waits for it.
func TestFirstTokensAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for depth := 1; depth <= 2; depth++ {
		const seqs, steps = 16, 900
		s := newStepBench(t, seqs, depth)
		s.fill(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			s.step(t)
		}
		runtime.ReadMemStats(&after)
		// What readers take grows a few times for each stream, and the runtime allocates.
		if n := after.Mallocs - before.Mallocs; n > 4*seqs {
			t.Errorf("depth %d: %d allocations in %d steps of %d sequences", depth, n, steps, seqs)
		}
	}
}
