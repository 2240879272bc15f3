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

// The limit of top_p is rounded up before the comparison. The test looks for a
// p and a weight w so that p*(2^40+w) lies between 2^40 and 2^40+1: then the
// first token alone does not reach it.
func TestTopPLimitIsRoundedUp(t *testing.T) {
	for m := 1; m < 2000; m++ {
		p := 1 - float64(m)*0x1p-24
		need := uint64(one*(1-p)/p) + 1
		z := weightFloor(need)
		limit := p * float64(one+weight(z))
		if frac := limit - one; frac < 0.01 || frac > 0.99 {
			continue
		}
		d := backend.Draws{Rows: []backend.Draw{{Temperature: 1, TopP: float32(p), Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 2}}}
		var picker Picker
		if got := pick(t, &picker, [][]float32{{0, z}}, &d)[0]; got.top[1] != 1 {
			t.Errorf("p %v, weight %d: the second token is dropped", p, weight(z))
		}
		if got := pick(t, &picker, [][]float32{{0, math.Nextafter32(z, -20)}}, &d)[0]; got.top[1] != -1 {
			t.Errorf("p %v, weight %d: the second token is kept", p, weight(math.Nextafter32(z, -20)))
		}
		return
	}
	t.Fatal("no case found")
}

// weightFloor is the smallest z <= 0 with a weight of at least w.
func weightFloor(w uint64) float32 {
	lo, hi := order(-28), order(0)
	for lo < hi {
		if mid := lo + (hi-lo)/2; weight(unorder(mid)) >= w {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return unorder(lo)
}

// Every token that has a weight counts for top_p, and for log-probabilities.
func TestTailCounts(t *testing.T) {
	const v = 1 << 14
	logits := make([]float32, v)
	for i := range logits {
		logits[i] = -21 - 6*float32(i)/v
	}
	logits[3] = 0
	for _, mode := range []backend.LogprobMode{backend.RawLogprobs, backend.ProcessedLogprobs} {
		d := backend.Draws{Rows: []backend.Draw{{Temperature: 1, TopP: 1 - 0x1p-24, Mask: -1, Allow: -1, Target: 1, Logprobs: mode, Top: 5}}}
		var p Picker
		got, want := pick(t, &p, [][]float32{logits}, &d)[0], twin(logits, &d, 0, rand.New(rand.NewPCG(0, 0)))
		if !got.equal(want) || got.rank == 1 || got.logprob == ninf {
			t.Errorf("mode %d:\n got %+v\nwant %+v", mode, got, want)
		}
	}
}

// +Inf counts as the largest finite value: it ties with it, and the lower id wins.
func TestInfinityTiesWithTheLargestFloat(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, mode := range []backend.LogprobMode{backend.NoLogprobs, backend.RawLogprobs, backend.ProcessedLogprobs} {
		for _, c := range []struct {
			logits []float32
			want   int32
		}{{[]float32{0, math.MaxFloat32, inf}, 1}, {[]float32{inf, math.MaxFloat32}, 0}, {[]float32{1, 2, inf, inf}, 2}} {
			d := backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1, Logprobs: mode}}}
			var p Picker
			if got := pick(t, &p, [][]float32{c.logits}, &d)[0]; got.token != c.want {
				t.Errorf("%v: token %d, want %d", c.logits, got.token, c.want)
			}
		}
	}
}

// Temperatures whose inverse is not finite, and logits at the ends of the range.
func TestExtremeTemperatures(t *testing.T) {
	both := []*Picker{{}, {Kernels: inGo}}
	g := rand.New(rand.NewPCG(9, 9))
	for _, temp := range []float32{1e-45, 1e-39, 1e-38, 3e38, math.MaxFloat32, float32(math.Inf(1))} {
		for _, logits := range [][]float32{{0, 0}, {0, 1, -1}, {-1, -2}, {1e-45, 0}, {math.MaxFloat32, float32(math.Inf(1)), 0}, {-math.MaxFloat32, ninf}} {
			for seed := range uint64(20) {
				d := backend.Draws{Rows: []backend.Draw{{Temperature: temp, Seed: seed, TopP: 0.9, TopK: 2, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 3}}}
				want := twin(logits, &d, 0, g)
				for _, p := range both {
					if got := pick(t, p, [][]float32{logits}, &d)[0]; !got.equal(want) || got.token < 0 {
						t.Fatalf("temperature %v, logits %v, kernels %v:\n got %+v\nwant %+v", temp, logits, p.fast(), got, want)
					}
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
