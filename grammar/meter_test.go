package grammar

import (
	"maps"
	"slices"
	"testing"
)

// TestMeterIsLookedAt: compiling a large constraint asks every few milliseconds of work whether
// anybody still waits. (A unit takes less than 0.1 µs where so many are spent at once.)
func TestMeterIsLookedAt(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostileSpecs)) {
		cfg := DefaultConfig()
		cfg.MaxWork = 600_000
		work := &meter{left: cfg.MaxWork}
		last, most := work.left, int64(0)
		work.abandoned = func() bool {
			most, last = max(most, last-work.left), work.left
			return false
		}
		_, _ = compileMetered(hostileSpecs[name](6_000), testVocabulary, cfg, work, nil)
		if most > 50_000 {
			t.Errorf("%s: %d units without a look", name, most)
		}
	}
}
