package sampler

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
)

// processed is spec 4.1 steps 4 to 8 on a dense row, recomputed from scratch:
// the twin of State. want is legal[i] and the logit.
func processed(p *Params, prompt, output []int32, logits []float32) []float32 {
	l := slices.Clone(logits)
	none := float32(math.Inf(-1))
	for i := range l {
		if p.Allowed != nil && !slices.Contains(p.Allowed, int32(i)) {
			l[i] = none
		}
	}
	for _, w := range p.BadWords {
		if prefix := w[:len(w)-1]; len(output) >= len(prefix) && slices.Equal(output[len(output)-len(prefix):], prefix) {
			l[w[len(w)-1]] = none
		}
	}
	if len(output) < p.MinTokens {
		for _, id := range p.StopIDs {
			l[id] = none
		}
	}
	bias := map[int32]float32{}
	for _, b := range p.Bias {
		bias[b.Token] = b.Bias
	}
	for i := range l {
		l[i] += bias[int32(i)]
		count := float32(0)
		for _, o := range output {
			if o == int32(i) {
				count++
			}
		}
		if count > 0 || slices.Contains(prompt, int32(i)) {
			if l[i] > 0 {
				l[i] /= p.Repetition
			} else {
				l[i] *= p.Repetition
			}
		}
		if count > 0 {
			l[i] -= float32(p.Frequency*count) + p.Presence
		}
	}
	return l
}

// applied is what a device makes of the last row of d.
func applied(t *testing.T, d *backend.Draws, logits []float32) []float32 {
	t.Helper()
	n := len(d.Rows) - 1
	r := d.Rows[n]
	l := slices.Clone(logits)
	first := int32(0)
	if n > 0 {
		first = d.Rows[n-1].EditEnd
	}
	named := map[int32]bool{}
	for _, e := range d.Edits[first:r.EditEnd] {
		if named[e.Token] {
			t.Fatalf("token %d has two edits", e.Token)
		}
		named[e.Token] = true
		l[e.Token] = edited(l[e.Token], e)
	}
	words := (len(logits) + 31) / 32
	for i := range l {
		if r.Allow >= 0 && d.Masks[int(r.Allow)*words+i/32]>>(i%32)&1 == 0 {
			l[i] = float32(math.Inf(-1))
		}
	}
	return l
}

func randomParams(g *rand.Rand, v int) Params {
	p := DefaultParams()
	token := func() int32 { return g.Int32N(int32(v)) }
	if g.IntN(2) == 0 {
		p.Frequency = float32(g.IntN(41)-20) / 10
	}
	if g.IntN(2) == 0 {
		p.Presence = float32(g.IntN(41)-20) / 10
	}
	if g.IntN(2) == 0 {
		p.Repetition = 0.5 + g.Float32()
	}
	for range g.IntN(4) {
		p.Bias = append(p.Bias, TokenBias{token(), float32(g.IntN(201) - 100)})
	}
	if g.IntN(3) == 0 {
		for range 1 + g.IntN(v) {
			p.Allowed = append(p.Allowed, token())
		}
	}
	for range g.IntN(5) {
		w := make([]int32, 1+g.IntN(3))
		for i := range w {
			w[i] = token()
		}
		p.BadWords = append(p.BadWords, w)
	}
	if g.IntN(2) == 0 {
		p.MinTokens = g.IntN(6)
		for range 1 + g.IntN(3) {
			p.StopIDs = append(p.StopIDs, token())
		}
	}
	return p
}

func TestStateEqualsTwin(t *testing.T) {
	for round := range 2000 {
		g := rand.New(rand.NewPCG(uint64(round), 11))
		v := 2 + g.IntN(12) // small, so that everything meets
		p := randomParams(g, v)
		if err := p.Validate(v); err != nil {
			t.Fatal(err)
		}
		prompt := make([]int32, g.IntN(4))
		for i := range prompt {
			prompt[i] = g.Int32N(int32(v))
		}
		logits := make([]float32, v)
		for i := range logits {
			logits[i] = float32(g.NormFloat64() * 3)
		}
		s := NewState(&p, v, prompt)
		var output []int32
		var d backend.Draws
		for n := range 12 {
			if g.IntN(3) == 0 {
				d.Reset() // otherwise the row follows those of other sequences
			}
			s.Plan(&d, (v+31)/32, output)
			if r := d.Rows[len(d.Rows)-1]; r.Index != uint32(n) || r.Mask != -1 || r.Target != -1 || int(r.EditEnd) != len(d.Edits) {
				t.Fatalf("row %+v with %d edits", r, len(d.Edits))
			}
			want := processed(&p, prompt, output, logits)
			if got := applied(t, &d, logits); !slices.Equal(got, want) {
				t.Fatalf("round %d, output %v of %+v:\n got %v\nwant %v", round, output, p, got, want)
			}
			tok := g.Int32N(int32(v))
			output = append(output, tok)
			s.Accept(tok)
		}
	}
}

// Two states of one sequence plan the same bits, whatever the history of the
// process: there is no map order in a row.
// TestLegal: a token is legal exactly if the row that Plan makes does not
// forbid it.
func TestLegal(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 12))
	forbidden := 0
	for range 400 {
		v := 8 + g.IntN(60)
		p := randomParams(g, v)
		s := NewState(&p, v, nil)
		var output []int32
		for range g.IntN(8) {
			tok := int32(g.IntN(v))
			s.Accept(tok)
			output = append(output, tok)
		}
		want := processed(&p, nil, output, make([]float32, v))
		for tok := range int32(v) {
			legal := !math.IsInf(float64(want[tok]), -1)
			if s.Legal(tok, output) != legal {
				t.Fatalf("token %d after %v with %+v: legal %v, want %v", tok, output, p, !legal, legal)
			}
			if !legal {
				forbidden++
			}
		}
	}
	if forbidden < 100 {
		t.Error("the test did not reach what it is for")
	}
}

func TestPlanIsDeterministic(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	for range 50 {
		p := randomParams(g, 40)
		prompt := []int32{1, 2, 3, 39, 5}
		var a, b backend.Draws
		sa, sb := NewState(&p, 40, prompt), NewState(&p, 40, prompt)
		var output []int32
		for range 20 {
			sa.Plan(&a, 2, output)
			sb.Plan(&b, 2, output)
			sb.Plan(&backend.Draws{}, 2, output) // a plan that was thrown away
			tok := g.Int32N(40)
			output = append(output, tok)
			sa.Accept(tok)
			sb.Accept(tok)
		}
		if !slices.Equal(a.Rows, b.Rows) || !slices.Equal(a.Edits, b.Edits) || !slices.Equal(a.Masks, b.Masks) {
			t.Fatal("two states of one sequence differ")
		}
	}
}

func TestPromptTokensOutsideTheVocabulary(t *testing.T) {
	p := DefaultParams()
	p.Repetition = 2
	var d backend.Draws
	NewState(&p, 10, []int32{-1, 3, 10, 3, 1 << 30}).Plan(&d, 1, nil)
	if len(d.Edits) != 1 || d.Edits[0].Token != 3 {
		t.Errorf("edits %+v", d.Edits)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("checks allocate")
	}
	p := DefaultParams()
	p.Repetition, p.Frequency, p.MinTokens = 1.1, 0.5, 1000
	p.StopIDs = []int32{1, 2}
	p.BadWords = [][]int32{{4, 5}, {6}, {7, 5}}
	p.Bias = []TokenBias{{9, 3}}
	for i := range int32(400) {
		p.Allowed = append(p.Allowed, i)
	}
	p.Logprobs, p.TopLogprobs, p.TopP, p.TopK, p.MinP = backend.ProcessedLogprobs, 20, 0.9, 300, 0.001
	const v = 500
	s := NewState(&p, v, []int32{3, 1, 4, 1, 5})
	logits := randomRow(rand.New(rand.NewPCG(0, 1)), v)
	out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1), TopTokens: make([]int32, 20), TopLogprobs: make([]float32, 20)}
	var d backend.Draws
	var picker Picker
	output := []int32{4, 7}
	step := func() {
		d.Reset()
		s.Plan(&d, (v+31)/32, output)
		picker.Pick(logits, &d, 0, &out, 0)
		s.Accept(4)
	}
	step()
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func TestValidate(t *testing.T) {
	const v = 100
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		rule string
		edit func(*Params)
		ok   bool
	}{
		{"defaults", func(p *Params) {}, true},
		{"4.2 C30 temperature -0.1", func(p *Params) { p.Temperature = -0.1 }, false},
		{"4.2 temperature 0", func(p *Params) { p.Temperature = 0 }, true},
		{"4.2 temperature -0", func(p *Params) { p.Temperature = float32(math.Copysign(0, -1)) }, true},
		{"4.2 temperature 1e-6", func(p *Params) { p.Temperature = 1e-6 }, true},
		{"4.2 C31 temperature 2", func(p *Params) { p.Temperature = 2 }, true},
		{"4.2 C31 temperature 2.1", func(p *Params) { p.Temperature = 2.1 }, false},
		{"4.2 temperature NaN", func(p *Params) { p.Temperature = nan }, false},
		{"4.2 temperature Inf", func(p *Params) { p.Temperature = inf }, false},
		{"4.4 C32 top_p 0", func(p *Params) { p.TopP = 0 }, false},
		{"4.4 C32 top_p -1", func(p *Params) { p.TopP = -1 }, false},
		{"4.4 C32 top_p 1.01", func(p *Params) { p.TopP = 1.01 }, false},
		{"4.4 C32 top_p 0.0001", func(p *Params) { p.TopP = 0.0001 }, true},
		{"4.4 C33 top_k -2", func(p *Params) { p.TopK = -2 }, false},
		{"4.4 C33 top_k -1", func(p *Params) { p.TopK = -1 }, true},
		{"4.4 C33 top_k 0", func(p *Params) { p.TopK = 0 }, true},
		{"4.4 C33 top_k 10^9", func(p *Params) { p.TopK = 1e9 }, true},
		{"4.4 C34 min_p -0.1", func(p *Params) { p.MinP = -0.1 }, false},
		{"4.4 C34 min_p 1", func(p *Params) { p.MinP = 1 }, true},
		{"4.4 C34 min_p 1.1", func(p *Params) { p.MinP = 1.1 }, false},
		{"4.4 min_p NaN", func(p *Params) { p.MinP = nan }, false},
		{"4.6 C35 frequency 2", func(p *Params) { p.Frequency = 2 }, true},
		{"4.6 C35 frequency -2.1", func(p *Params) { p.Frequency = -2.1 }, false},
		{"4.6 C35 presence -2", func(p *Params) { p.Presence = -2 }, true},
		{"4.6 C35 presence 2.1", func(p *Params) { p.Presence = 2.1 }, false},
		{"4.6 C36 repetition 0", func(p *Params) { p.Repetition = 0 }, false},
		{"4.6 C36 repetition -1", func(p *Params) { p.Repetition = -1 }, false},
		{"4.6 C36 repetition 0.5", func(p *Params) { p.Repetition = 0.5 }, true},
		{"4.6 C36 repetition 50", func(p *Params) { p.Repetition = 50 }, true},
		{"4.6 repetition Inf", func(p *Params) { p.Repetition = inf }, false},
		{"4.5 logit_bias 100", func(p *Params) { p.Bias = []TokenBias{{99, 100}} }, true},
		{"4.5 logit_bias 101", func(p *Params) { p.Bias = []TokenBias{{0, 101}} }, false},
		{"4.5 logit_bias NaN", func(p *Params) { p.Bias = []TokenBias{{0, nan}} }, false},
		{"4.5 C47 logit_bias of token V", func(p *Params) { p.Bias = []TokenBias{{v, 1}} }, false},
		{"4.5 logit_bias of token -1", func(p *Params) { p.Bias = []TokenBias{{-1, 1}} }, false},
		{"4.5 C48 allowed_token_ids []", func(p *Params) { p.Allowed = []int32{} }, false},
		{"4.5 C48 allowed_token_ids [V]", func(p *Params) { p.Allowed = []int32{v} }, false},
		{"4.5 allowed_token_ids [7]", func(p *Params) { p.Allowed = []int32{7} }, true},
		{"4.5 C49 empty bad word", func(p *Params) { p.BadWords = [][]int32{{}} }, false},
		{"4.5 bad word outside", func(p *Params) { p.BadWords = [][]int32{{1, v}} }, false},
		{"4.5 bad word", func(p *Params) { p.BadWords = [][]int32{{1, 2}} }, true},
		{"5.3 min_tokens -1", func(p *Params) { p.MinTokens = -1 }, false},
		{"5.2 stop_token_ids outside", func(p *Params) { p.StopIDs = []int32{v} }, false},
		{"7.1 top_logprobs 20", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, 20 }, true},
		{"7.1 top_logprobs -1", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, -1 }, true},
		{"7.1 C50 top_logprobs -2", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, -2 }, false},
		{"7.1 C50 top_logprobs without logprobs", func(p *Params) { p.TopLogprobs = 1 }, false},
		{"7.1 top_logprobs beyond V", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, v+1 }, false},
		{"unknown mode", func(p *Params) { p.Logprobs = 3 }, false},
	} {
		p := DefaultParams()
		c.edit(&p)
		err := p.Validate(v)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.rule, err)
		}
		if err != nil && !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v is not ErrParams", c.rule, err)
		}
	}
}
