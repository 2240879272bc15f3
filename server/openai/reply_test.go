package openai

import (
	"math"
	"testing"

	"weir/engine"
)

// If fewer tokens can be drawn than were asked for, others fill the list.
func TestTopLogprobsAreFilled(t *testing.T) {
	tok := bundled()
	for _, top := range []int{1, 3, 20, 64, 65, 200, vocabulary} {
		r := &reply{tok: tok, top: top, n: 1}
		ev := engine.Event{Token: 2, Logprob: -0.5, Top: []engine.TokenLogprob{{Token: 100, Logprob: -0.4}, {Token: 2, Logprob: -0.5}, {Token: 0, Logprob: -3}}}
		got, _ := r.logprob(&ev, nil)
		if len(got.Top) != top {
			t.Fatalf("top %d: %d entries", top, len(got.Top))
		}
		seen := map[int32]bool{}
		for i, a := range got.Top {
			if seen[a.ID] || i >= 3 && !math.IsInf(float64(a.Logprob), -1) || i > 3 && a.ID <= got.Top[i-1].ID {
				t.Errorf("top %d, entry %d: %+v", top, i, a)
			}
			seen[a.ID] = true
		}
		if got.Top[0].ID != 2 || top > 3 && got.Top[3].ID != 1 {
			t.Errorf("top %d: %+v", top, got.Top[:min(top, 4)])
		}
	}
}
