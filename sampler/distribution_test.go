package sampler

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// token draws from a row without edits and masks.
func (p *Picker) token(t testing.TB, logits []float32, d backend.Draw) int32 {
	t.Helper()
	d.Mask, d.Allow, d.Target = -1, -1, -1
	return pick(t, p, [][]float32{logits}, &backend.Draws{Rows: []backend.Draw{d}})[0].token
}

// chiSquare is Pearson's statistic of counts against probabilities, with its degrees of
// freedom. Cells of which less than five are expected are merged.
func chiSquare(counts []int, probs []float64) (x float64, freedom int) {
	n := 0
	for _, c := range counts {
		n += c
	}
	cell := func(count int, prob float64) {
		expected := prob * float64(n)
		x += (float64(count) - expected) * (float64(count) - expected) / expected
		freedom++
	}
	restCount, restProb := 0, 0.0
	for i, c := range counts {
		if probs[i]*float64(n) < 5 {
			restCount, restProb = restCount+c, restProb+probs[i]
			continue
		}
		cell(c, probs[i])
	}
	if restProb > 0 {
		cell(restCount, restProb)
	}
	return x, freedom - 1
}

// checkDistribution fails if the statistic is more than five standard deviations above
// its mean. Seeds are fixed, so a failure is a change and not bad luck.
func checkDistribution(t *testing.T, counts []int, probs []float64) {
	t.Helper()
	x, freedom := chiSquare(counts, probs)
	if limit := float64(freedom) + 5*math.Sqrt(2*float64(freedom)); x > limit || math.IsNaN(x) {
		t.Errorf("chi-square %.1f with %d degrees of freedom (limit %.1f)", x, freedom, limit)
	}
}

// softmax is the distribution of a draw over what its filters leave, computed in
// float64.
func softmax(logits []float32, d backend.Draw) []float64 {
	probs := make([]float64, len(logits))
	top := float64(slices.Max(logits))
	for i, l := range logits {
		probs[i] = math.Exp((float64(l) - top) / float64(d.Temperature))
		if probs[i] < float64(d.MinP) {
			probs[i] = 0
		}
	}
	if d.TopK > 0 {
		keep(probs, func(n int, _ float64) bool { return n < int(d.TopK) })
	}
	if d.TopP > 0 && d.TopP < 1 {
		limit := float64(d.TopP) * sum(probs)
		keep(probs, func(_ int, mass float64) bool { return mass < limit })
	}
	total := sum(probs)
	for i := range probs {
		probs[i] /= total
	}
	return probs
}

// keep sets those probabilities to 0 for which f does not hold of the number and the
// sum of the strictly greater ones.
func keep(probs []float64, f func(n int, mass float64) bool) {
	descending := make([]int, len(probs))
	for i := range descending {
		descending[i] = i
	}
	slices.SortFunc(descending, func(a, b int) int { return cmp.Compare(probs[b], probs[a]) })
	kept := slices.Clone(probs)
	n, mass, equal := 0, 0.0, 0.0 // greater than the current value, and equal to it
	for j, i := range descending {
		if j > 0 && probs[i] < probs[descending[j-1]] {
			n, mass, equal = j, mass+equal, 0
		}
		if !f(n, mass) {
			kept[i] = 0
		}
		equal += probs[i]
	}
	copy(probs, kept)
}

func sum(v []float64) (total float64) {
	for _, x := range v {
		total += x
	}
	return total
}

func normalRow(g *rand.Rand, v int, spread float64) []float32 {
	row := make([]float32, v)
	for i := range row {
		row[i] = float32(g.NormFloat64() * spread)
	}
	return row
}

// countDraws draws n tokens, with the indices 0 to n-1.
func countDraws(logits []float32, d backend.Draw, n int) []int {
	var p Picker
	counts := make([]int, len(logits))
	d.Mask, d.Allow, d.Target = -1, -1, -1
	out := backend.Out{Tokens: make([]int32, 1)}
	draws := backend.Draws{Rows: []backend.Draw{d}}
	for i := range n {
		draws.Rows[0].Index = uint32(i)
		p.Pick(logits, &draws, 0, &out, 0)
		counts[out.Tokens[0]]++
	}
	return counts
}

// TestDrawFollowsSoftmax: tokens are drawn with their probabilities. Rows with filters
// are drawn less often, because they take longer and TestPickReference compares what
// the filters keep with the reference.
func TestDrawFollowsSoftmax(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 1))
	for _, c := range []struct {
		name   string
		v      int
		spread float64
		n      int
		draw   backend.Draw
	}{
		{"plain", 50, 1.5, 100_000, backend.Draw{Temperature: 1}},
		{"two tokens", 2, 1, 100_000, backend.Draw{Temperature: 1}},
		{"hot", 50, 1.5, 100_000, backend.Draw{Temperature: 2}},
		{"cold", 50, 1.5, 100_000, backend.Draw{Temperature: 0.3}},
		{"uniform", 1000, 0, 20_000, backend.Draw{Temperature: 1}},
		{"wide", 5000, 2, 4000, backend.Draw{Temperature: 1}},
		{"top_k", 50, 1.5, 40_000, backend.Draw{Temperature: 1, TopK: 7}},
		{"top_p", 50, 1.5, 40_000, backend.Draw{Temperature: 1, TopP: 0.8}},
		{"min_p", 50, 1.5, 40_000, backend.Draw{Temperature: 1, MinP: 0.1}},
		{"all filters", 200, 1.5, 40_000, backend.Draw{Temperature: 1.3, TopK: 40, TopP: 0.9, MinP: 0.02}},
	} {
		logits := normalRow(g, c.v, c.spread)
		c.draw.Seed = 42
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkDistribution(t, countDraws(logits, c.draw, c.n), softmax(logits, c.draw))
		})
	}
}

// TestDrawsAreIndependent: the choices of a request have consecutive seeds, and its
// tokens consecutive indices. The draws are independent all the same.
func TestDrawsAreIndependent(t *testing.T) {
	logits := []float32{0.4, 0.1, -0.3, 0.7, -1}
	d := backend.Draw{Temperature: 1}
	probs := softmax(logits, d)
	pairs := make([]float64, 25)
	for i := range pairs {
		pairs[i] = probs[i/5] * probs[i%5]
	}
	var p Picker
	for _, c := range []struct {
		name string
		set  func(d *backend.Draw, i int)
	}{
		{"index", func(d *backend.Draw, i int) { d.Index = uint32(i) }},
		{"seed", func(d *backend.Draw, i int) { d.Seed = uint64(i) }},
		{"high word of the seed", func(d *backend.Draw, i int) { d.Seed = uint64(i) << 32 }},
	} {
		counts := make([]int, 25)
		for i := range 40_000 {
			a, b := d, d
			c.set(&a, i)
			c.set(&b, i+1)
			counts[5*p.token(t, logits, a)+p.token(t, logits, b)]++
		}
		t.Run(c.name, func(t *testing.T) { checkDistribution(t, counts, pairs) })
	}
}

// TestUnlikelyTokensAreDrawn: tokens with a probability of 2^-23 are drawn at about that
// rate, which random numbers of less than full resolution could not do.
func TestUnlikelyTokensAreDrawn(t *testing.T) {
	t.Parallel()
	const v, likely = 1 << 12, 5 // all the unlikely tokens together have 2^-11
	logits := make([]float32, v)
	logits[likely] = 23 * math.Ln2
	const n = 20_000
	first := countDraws(logits, backend.Draw{Temperature: 1}, n)[likely]
	tail := float64(v-1) / (v - 1 + 1<<23)
	checkDistribution(t, []int{first, n - first}, []float64{1 - tail, tail})
}

// TestLogprobsAreLogSoftmax compares raw and processed log-probabilities with a softmax
// in float64.
func TestLogprobsAreLogSoftmax(t *testing.T) {
	g := rand.New(rand.NewPCG(8, 8))
	var p Picker
	for range 200 {
		logits := normalRow(g, 1+g.IntN(2000), 4)
		d := backend.Draw{Temperature: 0.8, TopK: 30, TopP: 0.95, Top: 5, Mask: -1, Allow: -1, Target: -1, Seed: g.Uint64()}
		for mode, probs := range map[backend.LogprobMode][]float64{
			backend.RawLogprobs:       softmax(logits, backend.Draw{Temperature: 1}),
			backend.ProcessedLogprobs: softmax(logits, d),
		} {
			d.Logprobs = mode
			r := pick(t, &p, [][]float32{logits}, &backend.Draws{Rows: []backend.Draw{d}})[0]
			for i, id := range append([]int32{r.token}, r.top...) {
				if id < 0 {
					continue
				}
				got := append([]float32{r.logprob}, r.topLP...)[i]
				if want := math.Log(probs[id]); math.Abs(float64(got)-want) > 1e-5 {
					t.Fatalf("mode %d: the log-probability of token %d is %v, want %v", mode, id, got, want)
				}
			}
		}
	}
}
