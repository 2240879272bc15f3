//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"weir/backend"
	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/sampler"
)

// draws compares every bit of what pick draws with sampler.Picker.
func draws(c *checker) (list []task, err error) {
	add := func(name string, run func(*checker) error) {
		list = append(list, task{name, func(c *checker) error {
			if err := c.open(cuda.MMA); err != nil {
				return err
			}
			return run(c)
		}})
	}
	for _, vocab := range pick(c, []int{100, 1003}, []int{1003, 32000, 128256, 151936}) {
		for _, style := range styles {
			rows := pick(c, 6, 24)
			add(fmt.Sprintf("pick of %d, %d rows, %s", vocab, rows, style.name), func(c *checker) error { return c.picks(vocab, rows, style.name, style.logit) })
		}
	}
	add("how often pick draws what", (*checker).frequencies)
	return list, nil
}

// styles are kinds of logits.
var styles = []struct {
	name  string
	logit func(*rand.Rand) float32
}{
	{"normal", func(g *rand.Rand) float32 { return float32(g.NormFloat64() * 4) }},
	{"many ties", func(g *rand.Rand) float32 { return float32(g.IntN(37) - 18) }},
	{"what a model should not say", func(g *rand.Rand) float32 {
		return []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 0, 1, 2, 3, 4, 5, 6, 7}[g.IntN(12)]
	}},
}

// frequencies draws many times from one distribution and does a chi-squared test, which
// does not depend on package sampler.
func (c *checker) frequencies() error {
	const vocab, ld = 50, 64
	rows := pick(c, 100, 100_000)
	logits := make([]float32, rows*ld)
	var p [vocab]float64
	sum := 0.0
	for i := range p {
		z := c.rng.NormFloat64()
		for r := range rows {
			logits[r*ld+i] = float32(z)
		}
		p[i] = math.Exp(float64(float32(z)))
		sum += p[i]
	}
	list := make([]backend.Draw, rows)
	for r := range list {
		list[r] = backend.Draw{Seed: c.rng.Uint64(), Index: uint32(r), Temperature: 1, TopP: 1, Mask: -1, Allow: -1, Target: -1}
	}
	dl, err := cuda.Put(c.lab, logits)
	if err != nil {
		return err
	}
	dr, err := cuda.Put(c.lab, list)
	if err != nil {
		return err
	}
	var out [6]uint64 // drawn, results, tops, z, near, none
	for i, n := range []int{rows * 4, rows * int(unsafe.Sizeof(kernels.PickResult{})), 8, rows * ld * 4, rows * ld * 4, 16} {
		if out[i], err = c.lab.Alloc(n); err != nil {
			return err
		}
	}
	c.begin()
	if err := c.lab.Launch("pick", rows, 1, 1, out[0], out[1], out[2], dl, out[3], out[4], dr, out[5], out[5], 0, vocab, ld); err != nil {
		return err
	}
	drawn, err := cuda.Take[int32](c.lab, out[0], rows)
	if err != nil {
		return err
	}
	var count [vocab]float64
	for _, t := range drawn {
		if t < 0 || t >= vocab {
			c.record("pick: frequencies", Wrong, "token", t)
			return nil
		}
		count[t]++
	}
	chi := 0.0
	for i := range p {
		e := float64(rows) * p[i] / sum
		chi += (count[i] - e) * (count[i] - e) / e
	}
	// With 49 degrees of freedom, chance exceeds 95 once in ten thousand times. The
	// seeds are the same in every run, so the result is, too.
	c.record("pick: frequencies", verdict(chi < 95), "chi2", chi, "of", vocab-1, "draws", rows)
	return nil
}

func (c *checker) picks(vocab, rows int, style string, logit func(*rand.Rand) float32) error {
	ld := stride(vocab)
	logits := make([]float32, rows*ld)
	for i := range logits {
		logits[i] = logit(c.rng)
	}
	d, tops := c.randomDraws(vocab, rows)
	results, best, err := c.pick(vocab, logits, d, tops)
	if err != nil {
		return err
	}
	want := &backend.Out{Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows), TopTokens: make([]int32, tops), TopLogprobs: make([]float32, tops)}
	var p sampler.Picker
	top, bad := 0, ""
	for r := range rows {
		p.Pick(logits[r*ld:r*ld+vocab], d, r, want, top)
		row, end := &d.Rows[r], top+int(d.Rows[r].Top)
		if bad == "" && !samePick(row, results[r], best[top:end], want, r, top) {
			bad = fmt.Sprintf("row %d %+v: %+v, want token %d rank %d", r, *row, results[r], want.Tokens[r], want.Ranks[r])
		}
		top = end
	}
	c.record(fmt.Sprintf("pick of %d, %d rows, %s", vocab, rows, style), verdict(bad == ""), "first", bad)
	return nil
}

// randomDraws makes draws of every kind, and counts their top tokens.
func (c *checker) randomDraws(vocab, rows int) (d *backend.Draws, tops int) {
	d = &backend.Draws{Masks: make([]uint32, 2*((vocab+31)/32))}
	for i := range d.Masks {
		d.Masks[i] = c.rng.Uint32()
	}
	for r := range rows {
		row := backend.Draw{Seed: c.rng.Uint64(), Index: uint32(r), Temperature: 1, TopP: 1, Mask: int32(r%3) - 1, Allow: -1, Target: -1,
			Logprobs: backend.LogprobMode(r % 3), Top: int32(r % 4 * 5)}
		switch r % 6 {
		case 0:
			row.Temperature = 0
		case 1:
			row.TopP = 0.9
		case 2:
			row.TopK = 40
		case 3:
			row.TopK, row.TopP, row.MinP, row.Temperature = 50, 0.8, 0.02, 0.7
		case 4:
			row.Target = int32(c.rng.IntN(vocab))
		}
		for range r % 5 {
			d.Edits = append(d.Edits, backend.Edit{Token: int32(len(d.Edits) * 7 % vocab), Bias: 1, Repeat: 1.3, Minus: 0.5})
		}
		row.EditEnd = int32(len(d.Edits))
		tops += int(row.Top)
		d.Rows = append(d.Rows, row)
	}
	return d, tops
}

// pick runs the kernel pick.
func (c *checker) pick(vocab int, logits []float32, d *backend.Draws, tops int) (results []kernels.PickResult, best []kernels.PickTop, err error) {
	rows, ld := len(d.Rows), stride(vocab)
	var put [4]uint64
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, logits) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Rows) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Edits) },
		func() (uint64, error) { return cuda.Put(c.lab, d.Masks) },
	} {
		if put[i], err = f(); err != nil {
			return nil, nil, err
		}
	}
	var out [5]uint64 // drawn, results, tops, z, near
	for i, n := range []int{rows * 4, rows * int(unsafe.Sizeof(kernels.PickResult{})), max(tops, 1) * int(unsafe.Sizeof(kernels.PickTop{})), rows * ld * 4, rows * ld * 4} {
		if out[i], err = c.lab.Alloc(n); err != nil {
			return nil, nil, err
		}
	}
	c.begin()
	if err := c.lab.Launch("pick", rows, 1, 1, out[0], out[1], out[2], put[0], out[3], out[4], put[1], put[2], put[3], 0, vocab, ld); err != nil {
		return nil, nil, err
	}
	if results, err = cuda.Take[kernels.PickResult](c.lab, out[1], rows); err != nil {
		return nil, nil, err
	}
	best, err = cuda.Take[kernels.PickTop](c.lab, out[2], tops)
	return results, best, err
}

// samePick says whether a row's result and best tokens are what sampler.Picker
// drew: row r of want, with the top tokens from top on.
func samePick(row *backend.Draw, got kernels.PickResult, best []kernels.PickTop, want *backend.Out, r, top int) bool {
	if got.Token != want.Tokens[r] {
		return false
	}
	if row.Logprobs == backend.NoLogprobs {
		return true
	}
	logprob := sampler.NewDistribution(got.ZMax, got.Mass).Logprob(got.Z)
	bothZero := math.IsInf(float64(got.Z), -1) && math.IsInf(float64(want.Logprobs[r]), -1)
	if got.Rank != want.Ranks[r] || logprob != want.Logprobs[r] && !bothZero {
		return false
	}
	for i, b := range best {
		if b.Token != want.TopTokens[top+i] {
			return false
		}
	}
	return true
}
