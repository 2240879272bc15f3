//go:build cuda && linux && amd64

package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/device/cuda"
	"weir/model"
	"weir/sampler"
)

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// schedule is a way to compute a sequence.
type schedule struct {
	name        string
	cuts        []int // sizes of the first steps; the others have one token
	mates       int   // other sequences that get a token in each step
	plain       bool  // without graphs
	blockTokens int
}

var schedules = []schedule{
	{"whole, then single tokens", []int{60}, 0, false, 16},
	{"launched one by one", []int{60}, 0, true, 16},
	{"chunks", []int{1, 7, 33, 2, 17}, 0, false, 32},
	{"with two neighbours", []int{60}, 2, false, 16},
	{"with eight neighbours in chunks", []int{30, 30}, 8, false, 48},
	{"all at once at the end", []int{61, 4, 5}, 1, true, 16},
}

// TestInvariance: not one bit of a row's logits depends on how the sequence was
// cut into steps, on its neighbours, on block size and tables, on graphs or on
// their padding.
func TestInvariance(t *testing.T) {
	for _, family := range []struct {
		name     string
		products cuda.Products
		weights  cuda.Format
	}{{"qwen3", cuda.MMA, cuda.BF16}, {"mistral", cuda.MMA, cuda.BF16}, {"qwen3", cuda.WGMMA, cuda.BF16}, {"qwen3", cuda.MMA, cuda.Q8}, {"qwen2", cuda.WGMMA, cuda.Q4},
		{"families/gemma2", cuda.WGMMA, cuda.BF16}, {"families/gemma4_e", cuda.MMA, cuda.BF16}, {"families/granite_swa", cuda.MMA, cuda.BF16},
		{"families/youtu", cuda.WGMMA, cuda.BF16}, {"families/ministral3", cuda.MMA, cuda.Q8},
		{"families/cohere2", cuda.MMA, cuda.BF16}, {"families/gemma3", cuda.WGMMA, cuda.BF16}, {"families/stablelm", cuda.MMA, cuda.Q8},
		{"families/qwen3_next", cuda.WGMMA, cuda.BF16}, {"families/granitemoehybrid", cuda.MMA, cuda.Q4}} {
		t.Run(fmt.Sprint(family.name, family.products, family.weights), func(t *testing.T) {
			m := openModel(t, family.name)
			g := rand.New(rand.NewPCG(5, 5))
			tokens := randomTokens(g, 70, m.Config.VocabSize)
			cfg := config()
			cfg.Products, cfg.Weights = family.products, family.weights
			var want []float32
			for _, s := range schedules {
				got := s.logits(t, m, cfg, tokens, g)
				if want == nil {
					want = got
				}
				if !sameBits(got, want) {
					t.Errorf("%s: other bits", s.name)
				}
			}
		})
	}
}

// logits computes the tokens by the schedule, and returns the logits of all
// positions from 60 on.
func (c *schedule) logits(t *testing.T, m *model.Model, cfg cuda.Config, tokens []int32, g *rand.Rand) (logits []float32) {
	const first = 60
	v := m.Config.VocabSize
	cfg.PlainLaunch = c.plain && cfg.Products == cuda.MMA
	r := onGPU(t, m, cfg, model.Options{NumBlocks: 80, MaxTokens: 96, MaxSeqs: 10, MaxSeqTokens: 128, BlockTokens: c.blockTokens, Depth: 2})
	h := newHarness(t, r, uint64(len(c.name)))
	s := &sequence{tokens: tokens}
	mates := make([]*sequence, c.mates)
	for i := range mates {
		mates[i] = &sequence{tokens: randomTokens(g, 100, v)}
	}
	for i := 0; s.computed < len(tokens); i++ {
		n := 1
		if i < len(c.cuts) {
			n = c.cuts[i]
		}
		from := s.computed
		chunks := []chunk{{seq: s, n: n, all: true, draw: greedy()}}
		for _, mate := range mates {
			chunks = append(chunks, chunk{seq: mate, n: 1, draw: backend.Draw{Temperature: 1, TopP: 1, Mask: -1, Allow: -1, Target: -1}})
		}
		out := h.step(chunks...)
		for p := max(from, first); p < s.computed; p++ {
			logits = append(logits, out.Logits[(p-from)*v:(p-from+1)*v]...)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return logits
}

// TestTwoStepsInFlight: a step that names the tokens of the step before, while
// that one is still being computed, draws what it would draw alone.
func TestTwoStepsInFlight(t *testing.T) {
	m := openModel(t, "qwen3")
	g := rand.New(rand.NewPCG(7, 7))
	prompts := [][]int32{randomTokens(g, 9, m.Config.VocabSize), randomTokens(g, 1, m.Config.VocabSize), randomTokens(g, 20, m.Config.VocabSize)}
	o := model.Options{NumBlocks: 40, MaxTokens: 64, MaxSeqs: 4, MaxSeqTokens: 128, Depth: 2}
	const steps = 20
	run := func(t *testing.T, deep bool) (drawn [][]int32) {
		h := newHarness(t, onGPU(t, m, config(), o), 1)
		var seqs []*sequence
		for _, p := range prompts {
			seqs = append(seqs, &sequence{tokens: slices.Clone(p)})
		}
		chunks := func(step int) (list []chunk) {
			for i, s := range seqs {
				n := 1
				if step == 0 {
					n = len(prompts[i])
				}
				list = append(list, chunk{seq: s, n: n, draw: backend.Draw{Seed: uint64(i), Index: uint32(step), Temperature: 1, TopP: 0.95, Mask: -1, Allow: -1, Target: -1}})
			}
			return list
		}
		take := func(out *backend.Out) {
			drawn = append(drawn, out.Tokens)
			for i, s := range seqs {
				s.tokens = append(s.tokens, out.Tokens[i])
			}
		}
		if !deep {
			for i := range steps {
				take(h.step(chunks(i)...))
			}
			return drawn
		}
		old := h.begin(chunks(0)...)
		h.draw(old)
		for i := 1; i < steps; i++ {
			next := h.begin(chunks(i)...)
			take(h.end(old))
			h.draw(next)
			old = next
		}
		take(h.end(old))
		return drawn
	}
	var want, got [][]int32
	t.Run("one", func(t *testing.T) { want = run(t, false) })
	t.Run("two", func(t *testing.T) { got = run(t, true) })
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("drew %v, one step at a time %v", got, want)
	}
}

// TestDraws: given the same logits the device draws and reports, bit for bit,
// what sampler.Picker does.
func TestDraws(t *testing.T) {
	m := openModel(t, "llama3")
	v := m.Config.VocabSize
	o := model.Options{NumBlocks: 80, MaxTokens: 96, MaxSeqs: 16, MaxSeqTokens: 256, Depth: 2}
	h := newHarness(t, onGPU(t, m, config(), o), 1)
	g := rand.New(rand.NewPCG(11, 11))
	const rounds = 12
	called := 0
	for round := range rounds {
		var chunks []chunk
		for range 1 + g.IntN(16) {
			chunks = append(chunks, chunk{seq: &sequence{tokens: randomTokens(g, 1, v)}, n: 1})
		}
		f := h.begin(chunks...)
		tops := randomDraws(g, &f.draws, v)
		f.draws.Ready = func() { // masks may be filled until here
			called++
			for i := range f.draws.Masks {
				f.draws.Masks[i] = g.Uint32() | g.Uint32()
			}
			if round%4 == 0 {
				clear(f.draws.Masks[:h.b.Spec().MaskWords()]) // nothing is legal
			}
		}
		f.out.Logits = make([]float32, len(chunks)*v)
		f.out.TopTokens, f.out.TopLogprobs = make([]int32, tops), make([]float32, tops)
		h.draw(f)
		comparePicks(t, round, &f.draws, h.end(f), v)
		for _, c := range chunks {
			h.free = append(h.free, c.seq.table...)
		}
	}
	if called != rounds {
		t.Errorf("Ready was called %d times", called)
	}
}

// randomDraws fills d's rows with random parameters and edits, and makes room
// for three mask rows. It returns the number of top tokens.
func randomDraws(g *rand.Rand, d *backend.Draws, v int) (tops int) {
	d.Masks = make([]uint32, 3*((v+31)/32))
	for r := range d.Rows {
		row := randomDraw(g, v)
		for i, id := range g.Perm(v)[:g.IntN(10)*g.IntN(2)] {
			e := backend.Edit{Token: int32(id), Bias: 3 * g.Float32(), Repeat: 1 + g.Float32(), Minus: g.Float32()}
			if i == 0 {
				e.Bias = backend.Forbid
			}
			d.Edits = append(d.Edits, e)
		}
		row.EditEnd = int32(len(d.Edits))
		tops += int(row.Top)
		d.Rows[r] = row
	}
	return tops
}

func randomDraw(g *rand.Rand, v int) backend.Draw {
	row := backend.Draw{Host: true, Seed: g.Uint64(), Index: g.Uint32(), TopP: 1, Mask: -1, Allow: -1, Target: -1, Temperature: 1}
	switch g.IntN(5) {
	case 0:
		row.Temperature = 0
	case 1:
		row.Temperature, row.TopP = 0.3+2*g.Float32(), g.Float32()
	case 2:
		row.TopK, row.MinP = int32(1+g.IntN(30)), 0.2*g.Float32()
	case 3:
		row.TopK, row.TopP, row.MinP = int32(1+g.IntN(2*v)), g.Float32(), 0.01
	}
	if g.IntN(2) == 0 {
		row.Mask = int32(g.IntN(3))
	}
	if g.IntN(3) == 0 {
		row.Allow = int32(g.IntN(3))
	}
	if g.IntN(6) == 0 {
		row.Target = int32(g.IntN(v))
	}
	row.Dead = g.IntN(8) == 0
	row.Logprobs = backend.LogprobMode(g.IntN(3))
	if row.Top = int32(g.IntN(6)); g.IntN(10) == 0 {
		row.Top = int32(g.IntN(2000)) // more than the kernel reports
	}
	return row
}

// comparePicks compares what a device drew with what sampler.Picker draws from
// the same logits.
func comparePicks(t *testing.T, round int, d *backend.Draws, got *backend.Out, v int) {
	t.Helper()
	n, tops := len(d.Rows), len(got.TopTokens)
	want := backend.Out{Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n), TopTokens: make([]int32, tops), TopLogprobs: make([]float32, tops)}
	var p sampler.Picker
	top := 0
	for r, row := range d.Rows {
		p.Pick(got.Logits[r*v:(r+1)*v], d, r, &want, top)
		end := top + int(row.Top)
		what := fmt.Sprintf("round %d row %d, %+v", round, r, row)
		if got.Tokens[r] != want.Tokens[r] {
			t.Fatalf("%s: token %d, want %d", what, got.Tokens[r], want.Tokens[r])
		}
		if !row.Dead && row.Logprobs != backend.NoLogprobs && (!sameBits(got.Logprobs[r:r+1], want.Logprobs[r:r+1]) || got.Ranks[r] != want.Ranks[r]) {
			t.Fatalf("%s: %v rank %d, want %v rank %d", what, got.Logprobs[r], got.Ranks[r], want.Logprobs[r], want.Ranks[r])
		}
		if !row.Dead && (!slices.Equal(got.TopTokens[top:end], want.TopTokens[top:end]) || !sameBits(got.TopLogprobs[top:end], want.TopLogprobs[top:end])) {
			t.Fatalf("%s: top %v %v, want %v %v", what, got.TopTokens[top:end], got.TopLogprobs[top:end], want.TopTokens[top:end], want.TopLogprobs[top:end])
		}
		top = end
	}
}
