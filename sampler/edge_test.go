package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// The largest Gumbel variate there is (its random word is 0) lifts a token from
// exactly as far below as the definition says: skipping tokens that cannot win
// skips none that can.
func TestLargestGumbelWins(t *testing.T) {
	const seed, index, lucky = 1, 6094, 1067 // found by search
	if x := lanes(lucky/4, seed, index)[lucky%4]; x != 0 {
		t.Fatalf("random word %#x", x)
	}
	logits := make([]float32, lucky+5)
	best := ninf
	for i := range logits {
		if i != lucky {
			best = max(best, gumbel(lanes(uint32(i/4), seed, index)[i%4]))
		}
	}
	var p Picker
	d := backend.Draw{Temperature: 1, Seed: seed, Index: index}
	z := best - gumbel(0)
	for i := range 2001 {
		logits[lucky] = z + float32(i-1000)*1e-6
		wins := p.token(t, logits, d) == lucky
		if score := logits[lucky] + gumbel(0); wins != (score > best) && score != best {
			t.Fatalf("score %v against %v, wins: %v", score, best, wins)
		}
	}
}

// The limit of top_p is compared as an integer, rounded up: with weights 2^40
// and 2^20+2 and p = 1-2^-20 it lies between the first and the first + 1.
func TestTopPLimitIsRoundedUp(t *testing.T) {
	const want = 1<<20 + 2
	lo, hi := order(-14), order(-13.8)
	for lo < hi {
		if mid := lo + (hi-lo)/2; weight(unorder(mid)) >= want {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	z := unorder(lo)
	if weight(z) != want {
		t.Fatalf("no float has weight %d", want)
	}
	d := backend.Draws{Rows: []backend.Draw{{Temperature: 1, TopP: 1 - 0x1p-20, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 2}}}
	var p Picker
	if got := pick(t, &p, [][]float32{{0, z}}, &d)[0]; got.top[1] != 1 {
		t.Errorf("the second token is dropped: %+v", got)
	}
	if got := pick(t, &p, [][]float32{{0, math.Nextafter32(z, -20)}}, &d)[0]; got.top[1] != -1 {
		t.Errorf("the second token is kept: %+v", got)
	}
}

// Temperatures whose inverse is not finite, and logits at the ends of the range.
func TestExtremeTemperatures(t *testing.T) {
	var p Picker
	g := rand.New(rand.NewPCG(9, 9))
	for _, temp := range []float32{1e-45, 1e-39, 1e-38, 3e38, math.MaxFloat32, float32(math.Inf(1))} {
		for _, logits := range [][]float32{{0, 0}, {0, 1, -1}, {-1, -2}, {1e-45, 0}, {math.MaxFloat32, float32(math.Inf(1)), 0}, {-math.MaxFloat32, ninf}} {
			for seed := range uint64(20) {
				d := backend.Draws{Rows: []backend.Draw{{Temperature: temp, Seed: seed, TopP: 0.9, TopK: 2, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 3}}}
				if got, want := pick(t, &p, [][]float32{logits}, &d)[0], twin(logits, &d, 0, g); !got.equal(want) || got.token < 0 {
					t.Fatalf("temperature %v, logits %v:\n got %+v\nwant %+v", temp, logits, got, want)
				}
			}
		}
	}
}

// A plan's mask row is its own, whatever is in Masks already.
func TestPlanAppendsItsMask(t *testing.T) {
	p := DefaultParams()
	p.Allowed = []int32{33}
	d := backend.Draws{Masks: make([]uint32, 6)}
	NewState(&p, 40, nil).Plan(&d, 2, nil)
	if d.Rows[0].Allow != 3 || !slices.Equal(d.Masks[6:], []uint32{0, 2}) {
		t.Errorf("row %d of %v", d.Rows[0].Allow, d.Masks)
	}
}
