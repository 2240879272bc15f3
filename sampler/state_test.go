package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
)

// referenceProcess computes from scratch what State does to a row of logits: steps 3 to
// 5 of docs/interface/chat-completions.md, section 4.1.
func referenceProcess(p *Params, prompt, output []int32, logits []float32) []float32 {
	bias := map[int32]float32{}
	for _, b := range p.Bias {
		bias[b.Token] = b.Bias
	}
	l := make([]float32, len(logits))
	for i := range l {
		token := int32(i)
		if l[i] = negInf; referenceLegal(p, token, output) {
			l[i] = referencePenalties(p, token, prompt, output, logits[i]+bias[token])
		}
	}
	return l
}

// referenceLegal: allowed_token_ids, bad_words and min_tokens let token follow output.
func referenceLegal(p *Params, token int32, output []int32) bool {
	if p.Allowed != nil && !slices.Contains(p.Allowed, token) {
		return false
	}
	for _, w := range p.BadWords {
		after, last := w[:len(w)-1], w[len(w)-1]
		if last == token && len(output) >= len(after) && slices.Equal(output[len(output)-len(after):], after) {
			return false
		}
	}
	return len(output) >= p.MinTokens || !slices.Contains(p.StopIDs, token)
}

func referencePenalties(p *Params, token int32, prompt, output []int32, logit float32) float32 {
	count := float32(0)
	for _, o := range output {
		if o == token {
			count++
		}
	}
	if count > 0 || slices.Contains(prompt, token) {
		if logit > 0 {
			logit /= p.Repetition
		} else {
			logit *= p.Repetition
		}
	}
	if count > 0 {
		logit -= float32(p.Frequency*count) + p.Presence
	}
	return logit
}

// applied is what a device makes of a row of logits by the last row of d.
func applied(t *testing.T, d *backend.Draws, logits []float32) []float32 {
	t.Helper()
	last := len(d.Rows) - 1
	r := d.Rows[last]
	l := slices.Clone(logits)
	named := map[int32]bool{}
	for _, e := range d.Edits[firstEdit(d, last):r.EditEnd] {
		if named[e.Token] {
			t.Fatalf("token %d has two edits", e.Token)
		}
		named[e.Token] = true
		l[e.Token] = edited(l[e.Token], e)
	}
	words := (len(logits) + 31) / 32
	for i := range l {
		if r.Allow >= 0 && d.Masks[int(r.Allow)*words+i/32]>>(i%32)&1 == 0 {
			l[i] = negInf
		}
	}
	return l
}

// TestStateReference compares the rows that a State plans with referenceProcess, along
// random sequences. The vocabulary is small, so that all rules meet in one token.
func TestStateReference(t *testing.T) {
	for round := range 2000 {
		g := rand.New(rand.NewPCG(uint64(round), 11))
		v := 2 + g.IntN(12)
		p := randomParams(g, v)
		if err := p.Validate(v); err != nil {
			t.Fatal(err)
		}
		prompt := make([]int32, g.IntN(4))
		for i := range prompt {
			prompt[i] = g.Int32N(int32(v))
		}
		logits := normalRow(g, v, 3)
		s := NewState(&p, v, prompt)
		var output []int32
		var d backend.Draws
		foreseen := s.Work(0, 0)
		for n := range 12 {
			if g.IntN(3) == 0 {
				d.Reset() // otherwise the row follows others
			}
			first := len(d.Edits)
			s.Plan(&d, (v+31)/32, output)
			if edits := len(d.Edits) - first; edits > foreseen || edits > s.Work(n, 0) {
				t.Fatalf("round %d, output %v of %+v: %d edits, %d were foreseen, and %d the step before", round, output, p, edits, s.Work(n, 0), foreseen)
			}
			foreseen = s.Work(n, 1)
			if r := d.Rows[len(d.Rows)-1]; r.Index != uint32(n) || r.Mask != -1 || r.Target != -1 || int(r.EditEnd) != len(d.Edits) {
				t.Fatalf("row %+v with %d edits", r, len(d.Edits))
			}
			want := referenceProcess(&p, prompt, output, logits)
			if got := applied(t, &d, logits); !slices.Equal(got, want) {
				t.Fatalf("round %d, output %v of %+v:\n got %v\nwant %v", round, output, p, got, want)
			}
			token := g.Int32N(int32(v))
			output = append(output, token)
			s.Accept(token)
		}
	}
}

// TestLegal: State.Legal says of every token what the rules say.
func TestLegal(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 12))
	forbidden := 0
	for range 400 {
		v := 8 + g.IntN(60)
		p := randomParams(g, v)
		s := NewState(&p, v, nil)
		var output []int32
		for range g.IntN(8) {
			token := int32(g.IntN(v))
			s.Accept(token)
			output = append(output, token)
		}
		for token := range int32(v) {
			legal := referenceLegal(&p, token, output)
			if s.Legal(token, output) != legal {
				t.Fatalf("token %d after %v with %+v: legal %v, want %v", token, output, p, !legal, legal)
			}
			if !legal {
				forbidden++
			}
		}
	}
	if forbidden < 100 {
		t.Errorf("only %d tokens were forbidden", forbidden)
	}
}

// TestPlanIsDeterministic: two states of the same sequence plan the same bits, so no
// map order shows in a row; and a plan that is discarded changes nothing.
func TestPlanIsDeterministic(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	for range 50 {
		p := randomParams(g, 40)
		prompt := []int32{1, 2, 3, 39, 5}
		var a, b backend.Draws
		stateA, stateB := NewState(&p, 40, prompt), NewState(&p, 40, prompt)
		var output []int32
		for range 20 {
			stateA.Plan(&a, 2, output)
			stateB.Plan(&b, 2, output)
			stateB.Plan(&backend.Draws{}, 2, output)
			token := g.Int32N(40)
			output = append(output, token)
			stateA.Accept(token)
			stateB.Accept(token)
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
		t.Errorf("edits %+v, want one of token 3", d.Edits)
	}
}

// TestSteadyStateAllocatesNothing: once its tokens are known, planning, drawing and
// accepting a token allocate nothing.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
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

// TestPreparedStates: sequences that share what Prepare and PrepareFor have made plan what
// they plan otherwise, whatever the others have accepted meanwhile.
func TestPreparedStates(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 3))
	for range 300 {
		p := randomParams(g, 40)
		prompt := []int32{g.Int32N(40), g.Int32N(40), g.Int32N(40)}
		plain := p
		if p.Prepare(40); g.IntN(2) == 0 {
			p.PrepareFor(40, prompt)
		}
		const n = 3
		var outputs [n][]int32
		var states, alone [n]*State
		for i := range n {
			states[i], alone[i] = NewState(&p, 40, prompt), NewState(&plain, 40, prompt)
		}
		for range 20 {
			for i := range n {
				var a, b backend.Draws
				states[i].Plan(&a, 2, outputs[i])
				alone[i].Plan(&b, 2, outputs[i])
				if !slices.Equal(a.Rows, b.Rows) || !slices.Equal(a.Edits, b.Edits) || !slices.Equal(a.Masks, b.Masks) {
					t.Fatalf("state %d plans %+v, want %+v", i, a, b)
				}
				token := g.Int32N(40)
				if states[i].Legal(token, outputs[i]) != alone[i].Legal(token, outputs[i]) {
					t.Fatalf("token %d is legal in only one of two equal states", token)
				}
				outputs[i] = append(outputs[i], token)
				states[i].Accept(token)
				alone[i].Accept(token)
			}
		}
	}
}
