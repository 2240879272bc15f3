package sampler

import (
	"math"
	"math/rand/v2"
	"testing"

	"weir/backend"
)

// one row without edits and masks; p may be shared between calls.
func (p *Picker) token(t testing.TB, logits []float32, d backend.Draw) int32 {
	t.Helper()
	d.Mask, d.Allow, d.Target = -1, -1, -1
	return pick(t, p, [][]float32{logits}, &backend.Draws{Rows: []backend.Draw{d}})[0].token
}

// chi2 is the statistic of counts against probabilities, and its degrees of
// freedom. Cells with less than five expected are merged.
func chi2(counts []int, probs []float64) (x float64, df int) {
	n := 0
	for _, c := range counts {
		n += c
	}
	var restC int
	var restP float64
	cell := func(c int, p float64) {
		e := p * float64(n)
		x += (float64(c) - e) * (float64(c) - e) / e
		df++
	}
	for i, c := range counts {
		if probs[i]*float64(n) < 5 {
			restC, restP = restC+c, restP+probs[i]
			continue
		}
		cell(c, probs[i])
	}
	if restP > 0 {
		cell(restC, restP)
	}
	return x, df - 1
}

// checkChi2 fails where the statistic is five standard deviations out. Seeds
// are fixed, so a failure is a change, not bad luck.
func checkChi2(t *testing.T, counts []int, probs []float64) {
	t.Helper()
	x, df := chi2(counts, probs)
	if limit := float64(df) + 5*math.Sqrt(2*float64(df)); x > limit || math.IsNaN(x) {
		t.Errorf("chi-square %.1f with %d degrees of freedom (limit %.1f)", x, df, limit)
	}
}

// softmax in float64 over what the filters leave, computed independently.
func softmax(logits []float32, d backend.Draw) []float64 {
	p := make([]float64, len(logits))
	top, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		top = max(top, float64(l))
	}
	for i, l := range logits {
		p[i] = math.Exp((float64(l) - top) / float64(d.Temperature))
		if p[i] < float64(d.MinP) {
			p[i] = 0
		}
	}
	above := func(i int) (n int, mass float64) {
		for j := range p {
			if p[j] > p[i] {
				n++
				mass += p[j]
			}
		}
		return n, mass
	}
	keep := func(f func(n int, mass float64) bool) {
		q := make([]float64, len(p))
		for i := range p {
			if n, mass := above(i); f(n, mass) {
				q[i] = p[i]
			}
		}
		p = q
	}
	if d.TopK > 0 {
		keep(func(n int, _ float64) bool { return n < int(d.TopK) })
	}
	for _, v := range p {
		sum += v
	}
	if d.TopP > 0 && d.TopP < 1 {
		keep(func(_ int, mass float64) bool { return mass < float64(d.TopP)*sum })
		sum = 0
		for _, v := range p {
			sum += v
		}
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func TestDrawFollowsSoftmax(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 1))
	for _, c := range []struct {
		name   string
		v      int
		spread float64
		draw   backend.Draw
	}{
		{"plain", 50, 1.5, backend.Draw{Temperature: 1}},
		{"two tokens", 2, 1, backend.Draw{Temperature: 1}},
		{"hot", 50, 1.5, backend.Draw{Temperature: 2}},
		{"cold", 50, 1.5, backend.Draw{Temperature: 0.3}},
		{"uniform", 1000, 0, backend.Draw{Temperature: 1}},
		{"wide", 5000, 2, backend.Draw{Temperature: 1}},
		{"top_k", 50, 1.5, backend.Draw{Temperature: 1, TopK: 7}},
		{"top_p", 50, 1.5, backend.Draw{Temperature: 1, TopP: 0.8}},
		{"min_p", 50, 1.5, backend.Draw{Temperature: 1, MinP: 0.1}},
		{"all filters", 200, 1.5, backend.Draw{Temperature: 1.3, TopK: 40, TopP: 0.9, MinP: 0.02}},
	} {
		t.Run(c.name, func(t *testing.T) {
			logits := make([]float32, c.v)
			for i := range logits {
				logits[i] = float32(g.NormFloat64() * c.spread)
			}
			var p Picker
			counts := make([]int, c.v)
			d := c.draw
			d.Mask, d.Allow, d.Target, d.Seed = -1, -1, -1, 42
			out := backend.Out{Tokens: make([]int32, 1)}
			ds := backend.Draws{Rows: []backend.Draw{d}}
			n := min(100_000, 20_000_000/c.v)
			for i := range n {
				ds.Rows[0].Index = uint32(i)
				p.Pick(logits, &ds, 0, &out, 0)
				counts[out.Tokens[0]]++
			}
			checkChi2(t, counts, softmax(logits, c.draw))
		})
	}
}

// The choices of one request have consecutive seeds (spec 4.9), consecutive
// tokens consecutive indices: neither may show.
func TestDrawsAreIndependent(t *testing.T) {
	logits := []float32{0.4, 0.1, -0.3, 0.7, -1}
	d := backend.Draw{Temperature: 1}
	one := softmax(logits, d)
	pairs := make([]float64, 25)
	for i := range pairs {
		pairs[i] = one[i/5] * one[i%5]
	}
	var p Picker
	for _, c := range []struct {
		name string
		next func(d *backend.Draw, i int)
	}{
		{"index", func(d *backend.Draw, i int) { d.Index = uint32(i) }},
		{"seed", func(d *backend.Draw, i int) { d.Seed = uint64(i) }},
		{"seed high word", func(d *backend.Draw, i int) { d.Seed = uint64(i) << 32 }},
	} {
		counts := make([]int, 25)
		for i := range 40_000 {
			a, b := d, d
			c.next(&a, i)
			c.next(&b, i+1)
			counts[5*p.token(t, logits, a)+p.token(t, logits, b)]++
		}
		t.Run(c.name, func(t *testing.T) { checkChi2(t, counts, pairs) })
	}
}

// A token that softmax gives 2^-23 is drawn, at about that rate: the tail has
// its full resolution.
func TestUnlikelyTokensAreDrawn(t *testing.T) {
	const v = 1 << 12 // so many unlikely tokens together have 2^-11
	logits := make([]float32, v)
	logits[5] = 23 * math.Ln2
	var p Picker
	counts := make([]int, 2)
	d := backend.Draws{Rows: []backend.Draw{{Temperature: 1, Mask: -1, Allow: -1, Target: -1}}}
	out := backend.Out{Tokens: make([]int32, 1)}
	for i := range 20_000 {
		d.Rows[0].Index = uint32(i)
		p.Pick(logits, &d, 0, &out, 0)
		if out.Tokens[0] == 5 {
			counts[0]++
		} else {
			counts[1]++
		}
	}
	tail := float64(v-1) / (v - 1 + 1<<23)
	checkChi2(t, counts, []float64{1 - tail, tail})
}

// Raw and processed log-probabilities against a softmax in float64.
func TestLogprobsAreLogSoftmax(t *testing.T) {
	g := rand.New(rand.NewPCG(8, 8))
	var p Picker
	for range 200 {
		logits := make([]float32, 1+g.IntN(2000))
		for i := range logits {
			logits[i] = float32(g.NormFloat64() * 4)
		}
		d := backend.Draw{Temperature: 0.8, TopK: 30, TopP: 0.95, Top: 5, Mask: -1, Allow: -1, Target: -1, Seed: g.Uint64()}
		for _, mode := range []backend.LogprobMode{backend.RawLogprobs, backend.ProcessedLogprobs} {
			d.Logprobs = mode
			res := pick(t, &p, [][]float32{logits}, &backend.Draws{Rows: []backend.Draw{d}})[0]
			probs := softmax(logits, backend.Draw{Temperature: 1})
			if mode == backend.ProcessedLogprobs {
				probs = softmax(logits, d)
			}
			for i, id := range append([]int32{res.token}, res.top...) {
				if id < 0 {
					continue
				}
				got := append([]float32{res.logprob}, res.topLP...)[i]
				if want := math.Log(probs[id]); math.Abs(float64(got)-want) > 1e-5 {
					t.Fatalf("mode %d: logprob of %d is %v, want %v", mode, id, got, want)
				}
			}
		}
	}
}
