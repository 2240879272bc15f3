package openai

import (
	"testing"
	"time"
)

// TestSometimes: at most once in an interval, and what was left out is counted.
func TestSometimes(t *testing.T) {
	var s sometimes
	now := time.Unix(1000, 0)
	for i, c := range []struct {
		after   time.Duration
		skipped int
		due     bool
	}{{0, 0, true}, {0, 0, false}, {warningInterval / 2, 0, false}, {warningInterval / 2, 2, true}, {warningInterval, 0, true}} {
		now = now.Add(c.after)
		if skipped, due := s.due(now); skipped != c.skipped || due != c.due {
			t.Errorf("%d: %d, %t", i, skipped, due)
		}
	}
}
