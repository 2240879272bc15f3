package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// TestLargestGumbelWins: a token with the largest Gumbel variate that there is (its
// random word is 0) wins from as far below the others as the definition says. So the
// skipping of tokens that cannot win skips none that can.
func TestLargestGumbelWins(t *testing.T) {
	const seed, index, lucky = 1, 6094, 1067 // found by search
	if x := randomWords(lucky/4, seed, index)[lucky%4]; x != 0 {
		t.Fatalf("the random word is %#x", x)
	}
	logits := make([]float32, lucky+5)
	best := negInf
	for i := range logits {
		if i != lucky {
			best = max(best, gumbel(randomWords(uint32(i/4), seed, index)[i%4]))
		}
	}
	var p Picker
	d := backend.Draw{Temperature: 1, Seed: seed, Index: index}
	z := best - gumbel(0)
	for i := range 2001 {
		logits[lucky] = z + float32(i-1000)*1e-6
		wins := p.token(t, logits, d) == lucky
		if score := logits[lucky] + gumbel(0); wins != (score > best) && score != best {
			t.Fatalf("its score is %v and the next best %v, but wins is %v", score, best, wins)
		}
	}
}

// TestTopPLimitIsRoundedUp looks for a p and a weight w such that p*(2^40+w) lies
// between 2^40 and 2^40+1. The limit is rounded up before the comparison, so the first
// token alone does not reach it.
func TestTopPLimitIsRoundedUp(t *testing.T) {
	for m := 1; m < 2000; m++ {
		p := 1 - float64(m)*0x1p-24
		need := uint64(fullWeight*(1-p)/p) + 1
		z := weightFloor(need)
		limit := p * float64(fullWeight+weight(z))
		if frac := limit - fullWeight; frac < 0.01 || frac > 0.99 {
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
	t.Fatal("no such p was found")
}

// weightFloor is the smallest z <= 0 with a weight of at least w.
func weightFloor(w uint64) float32 {
	lo, hi := sortKey(-28), sortKey(0)
	for lo < hi {
		if mid := lo + (hi-lo)/2; weight(fromSortKey(mid)) >= w {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return fromSortKey(lo)
}

// TestTailCounts: tokens of the smallest weights count for top_p and for
// log-probabilities.
func TestTailCounts(t *testing.T) {
	const v = 1 << 14
	logits := make([]float32, v)
	for i := range logits {
		logits[i] = -21 - 6*float32(i)/v
	}
	logits[3] = 0
	f := reference{rand.New(rand.NewPCG(0, 0))}
	for _, mode := range []backend.LogprobMode{backend.RawLogprobs, backend.ProcessedLogprobs} {
		d := backend.Draws{Rows: []backend.Draw{{Temperature: 1, TopP: 1 - 0x1p-24, Mask: -1, Allow: -1, Target: 1, Logprobs: mode, Top: 5}}}
		var p Picker
		got, want := pick(t, &p, [][]float32{logits}, &d)[0], f.pick(logits, &d, 0)
		if !got.equal(want) || got.rank == 1 || got.logprob == negInf {
			t.Errorf("mode %d:\n got %v\nwant %v", mode, got, want)
		}
	}
}

// TestInfinityTiesWithTheLargestFloat: +Inf counts as the largest finite value, so it
// ties with that, and the lower id wins.
func TestInfinityTiesWithTheLargestFloat(t *testing.T) {
	for _, mode := range []backend.LogprobMode{backend.NoLogprobs, backend.RawLogprobs, backend.ProcessedLogprobs} {
		for _, c := range []struct {
			logits []float32
			want   int32
		}{{[]float32{0, maxFloat, positiveInf}, 1}, {[]float32{positiveInf, maxFloat}, 0}, {[]float32{1, 2, positiveInf, positiveInf}, 2}} {
			d := backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1, Logprobs: mode}}}
			var p Picker
			if got := pick(t, &p, [][]float32{c.logits}, &d)[0]; got.token != c.want {
				t.Errorf("%v: token %d, want %d", c.logits, got.token, c.want)
			}
		}
	}
}

// TestExtremeTemperatures: temperatures whose inverse is not finite, with logits at the
// ends of the range.
func TestExtremeTemperatures(t *testing.T) {
	pickers := bothPickers()
	f := reference{rand.New(rand.NewPCG(9, 9))}
	rows := [][]float32{{0, 0}, {0, 1, -1}, {-1, -2}, {1e-45, 0}, {maxFloat, positiveInf, 0}, {-maxFloat, negInf}}
	check := func(temperature float32, logits []float32, seed uint64) {
		d := backend.Draws{Rows: []backend.Draw{{Temperature: temperature, Seed: seed, TopP: 0.9, TopK: 2, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 3}}}
		want := f.pick(logits, &d, 0)
		for _, p := range pickers {
			if got := pick(t, p, [][]float32{logits}, &d)[0]; !got.equal(want) || got.token < 0 {
				t.Fatalf("temperature %v, logits %v, kernels %v:\n got %v\nwant %v", temperature, logits, p.hasKernels(), got, want)
			}
		}
	}
	for _, temperature := range []float32{1e-45, 1e-39, 1e-38, 3e38, maxFloat, positiveInf} {
		for _, logits := range rows {
			for seed := range uint64(20) {
				check(temperature, logits, seed)
			}
		}
	}
}

// TestBatchMatesAreIrrelevant: the result of a row depends neither on the other rows of
// a batch nor on their number or order.
func TestBatchMatesAreIrrelevant(t *testing.T) {
	g := rand.New(rand.NewPCG(77, 1))
	const v, words = 300, (300 + 31) / 32
	type row struct {
		logits []float32
		draw   backend.Draw
		edits  []backend.Edit
		mask   []uint32
	}
	rows := make([]row, 30)
	for i := range rows {
		rows[i] = row{randomRow(g, v), randomDraw(g, v), randomEdits(g, v), randomMask(g, words)}
	}
	var p Picker
	run := func(order ...int) []picked {
		var d backend.Draws
		var logits [][]float32
		for _, i := range order {
			r := rows[i].draw
			r.Mask = int32(len(d.Masks) / words)
			d.Masks = append(d.Masks, rows[i].mask...)
			d.Edits = append(d.Edits, rows[i].edits...)
			r.EditEnd = int32(len(d.Edits))
			d.Rows = append(d.Rows, r)
			logits = append(logits, rows[i].logits)
		}
		return pick(t, &p, logits, &d)
	}
	alone := make([]picked, len(rows))
	for i := range rows {
		alone[i] = run(i)[0]
	}
	for range 10 {
		order := g.Perm(len(rows))[:1+g.IntN(len(rows))]
		for j, got := range run(order...) {
			if want := alone[order[j]]; !got.equal(want) {
				t.Fatalf("row %d in the batch %v: %v, alone: %v", order[j], order, got, want)
			}
		}
	}
}

func TestDeadRow(t *testing.T) {
	d := backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1, Dead: true, Logprobs: backend.RawLogprobs}}}
	var p Picker
	if got := pick(t, &p, [][]float32{{1, 2}}, &d)[0]; got.token != -1 {
		t.Errorf("a dead row draws %v", got)
	}
}

// TestPlanAppendsItsMask: State.Plan appends a mask row of its own to those that are in
// Draws already.
func TestPlanAppendsItsMask(t *testing.T) {
	p := DefaultParams()
	p.Allowed = []int32{33}
	d := backend.Draws{Masks: make([]uint32, 6)}
	NewState(&p, 40, nil).Plan(&d, 2, nil)
	if d.Rows[0].Allow != 3 || !slices.Equal(d.Masks[6:], []uint32{0, 2}) {
		t.Errorf("row %d of %v", d.Rows[0].Allow, d.Masks)
	}
}
