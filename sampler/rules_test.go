package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// This file has a test for each rule of docs/interface/chat-completions.md, sections 4
// (sampling) and 7 (log-probabilities), in the order of the sections. A number in a
// test's name, such as C116, is its row in section 21.

// next runs one step of a new sequence with this history.
func next(t *testing.T, p Params, prompt, output []int32, logits []float32) picked {
	t.Helper()
	if err := p.Validate(len(logits)); err != nil {
		t.Fatal(err)
	}
	s := NewState(&p, len(logits), prompt)
	for _, o := range output {
		s.Accept(o)
	}
	var d backend.Draws
	s.Plan(&d, (len(logits)+31)/32, output)
	var picker Picker
	return pick(t, &picker, [][]float32{logits}, &d)[0]
}

// possible is the set of tokens that are drawn under 400 seeds.
func possible(t *testing.T, p Params, prompt, output []int32, logits []float32) []int32 {
	t.Helper()
	var ids []int32
	for seed := range uint64(400) {
		p.Seed = seed
		if id := next(t, p, prompt, output, logits).token; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// params are the defaults, changed by f.
func params(f func(*Params)) Params {
	p := DefaultParams()
	f(&p)
	return p
}

// greedy are the defaults with temperature 0, changed by f.
func greedy(f func(*Params)) Params {
	p := DefaultParams()
	p.Temperature = 0
	f(&p)
	return p
}

// logs are logits that give these probabilities.
func logs(probs ...float64) []float32 {
	l := make([]float32, len(probs))
	for i, p := range probs {
		l[i] = float32(math.Log(p))
	}
	return l
}

func wantToken(t *testing.T, what string, got picked, want int32) {
	t.Helper()
	if got.token != want {
		t.Errorf("%s: token %d, want %d", what, got.token, want)
	}
}

func wantIDs(t *testing.T, what string, got []int32, want ...int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: tokens %v, want %v", what, got, want)
	}
}

// TestNoLegalToken (section 4.1): if no token is legal, the token is -1.
func TestNoLegalToken(t *testing.T) {
	logits := []float32{1, 2, 3}
	for _, p := range []Params{
		greedy(func(p *Params) { p.BadWords = [][]int32{{0}, {1}, {2}} }),
		params(func(p *Params) { p.Allowed, p.BadWords = []int32{1}, [][]int32{{1}} }),
		params(func(p *Params) { p.TopK, p.TopP, p.MinP, p.BadWords = 1, 0.5, 0.5, [][]int32{{0}, {1}, {2}} }),
	} {
		wantToken(t, fmt.Sprintf("%+v", p), next(t, p, nil, nil, logits), -1)
	}
	wantToken(t, "NaN and -Inf", next(t, DefaultParams(), nil, nil, []float32{notANumber, negInf, notANumber}), -1)
}

// TestGrammarMaskBeforeRawLogprobs (section 4.1): raw log-probabilities are those over
// what the grammar leaves, before allowed_token_ids.
func TestGrammarMaskBeforeRawLogprobs(t *testing.T) {
	d := backend.Draws{Masks: []uint32{0b110, 0b100}, Rows: []backend.Draw{
		{Mask: 0, Allow: 1, Target: -1, Logprobs: backend.RawLogprobs, Top: 3},
	}}
	var p Picker
	got := pick(t, &p, [][]float32{logs(0.5, 0.25, 0.25)}, &d)[0]
	if got.token != 2 || math.Abs(float64(got.logprob)-math.Log(0.5)) > 1e-6 || got.rank != 1 {
		t.Errorf("%v", got)
	}
	wantIDs(t, "top", got.top, 1, 2, -1)
}

// TestBiasDoesNotUndoBans: section 4.1.
func TestBiasDoesNotUndoBans(t *testing.T) {
	logits := []float32{5, 4, 3, 2}
	up := []TokenBias{{0, 100}, {1, 100}, {2, 100}}
	p := greedy(func(p *Params) {
		p.Bias = up
		p.Allowed = []int32{1, 2, 3}
		p.BadWords = [][]int32{{1}}
		p.MinTokens, p.StopIDs = 1, []int32{2}
	})
	wantToken(t, "biases of +100", next(t, p, nil, nil, logits), 3)
}

// TestTemperature (section 4.2): temperatures below 0.01 are raised to it, except 0,
// which is greedy.
func TestTemperature(t *testing.T) {
	logits := []float32{1, 1.02, 0.99}
	// At 0.01 these logits still give several tokens.
	for _, temp := range []float32{1e-30, 1e-6, 0.009, 0.01} {
		p := params(func(p *Params) { p.Temperature = temp })
		var d backend.Draws
		NewState(&p, 3, nil).Plan(&d, 1, nil)
		if d.Rows[0].Temperature != MinTemperature {
			t.Errorf("temperature %v becomes %v", temp, d.Rows[0].Temperature)
		}
		if ids := possible(t, p, nil, nil, logits); len(ids) < 2 {
			t.Errorf("temperature %v draws only %v", temp, ids)
		}
	}
	for _, temp := range []float32{0, float32(math.Copysign(0, -1))} {
		wantIDs(t, "zero", possible(t, params(func(p *Params) { p.Temperature = temp }), nil, nil, logits), 1)
	}
	// A cold draw is nearly always the best token, a hot one nearly uniform.
	count := func(temp float32) (n int) {
		for seed := range uint64(1000) {
			if next(t, params(func(p *Params) { p.Temperature, p.Seed = temp, seed }), nil, nil, []float32{0, 1}).token == 1 {
				n++
			}
		}
		return n
	}
	if cold, hot := count(0.1), count(2); cold < 995 || hot > 700 || hot < 550 {
		t.Errorf("the best token is drawn %d of 1000 times at temperature 0.1, %d times at 2", cold, hot)
	}
}

// TestGreedyTiesToLowestID: section 4.3.
func TestGreedyTiesToLowestID(t *testing.T) {
	p := greedy(func(*Params) {})
	wantToken(t, "a tie", next(t, p, nil, nil, []float32{1, 3, 3, 2, 3}), 1)
	p.Bias = []TokenBias{{4, 0.5}, {0, 2.5}}
	wantToken(t, "after edits", next(t, p, nil, nil, []float32{1, 3, 3, 2, 3}), 0)
}

// TestTopK (section 4.4): ties at the boundary are all kept.
func TestTopK(t *testing.T) {
	logits := logs(0.3, 0.25, 0.2, 0.15, 0.1)
	for k, want := range map[int][]int32{-1: {0, 1, 2, 3, 4}, 0: {0, 1, 2, 3, 4}, 1: {0}, 2: {0, 1}, 4: {0, 1, 2, 3}, 5: {0, 1, 2, 3, 4}, 1e9: {0, 1, 2, 3, 4}} {
		wantIDs(t, "top_k", possible(t, params(func(p *Params) { p.TopK = k }), nil, nil, logits), want...)
	}
	ties := logs(0.3, 0.2, 0.2, 0.2, 0.1)
	wantIDs(t, "ties", possible(t, params(func(p *Params) { p.TopK = 2 }), nil, nil, ties), 0, 1, 2, 3)
}

// TestC116TopP: section 4.4.
func TestC116TopP(t *testing.T) {
	logits := logs(0.4, 0.3, 0.2, 0.1)
	for _, c := range []struct {
		p    float32
		want []int32
	}{{0.5, []int32{0, 1}}, {1e-10, []int32{0}}, {0.39, []int32{0}}, {0.41, []int32{0, 1}}, {0.75, []int32{0, 1, 2}}, {0.95, []int32{0, 1, 2, 3}}, {1, []int32{0, 1, 2, 3}}} {
		wantIDs(t, "top_p", possible(t, params(func(p *Params) { p.TopP = c.p }), nil, nil, logits), c.want...)
	}
	// top_k comes first: of the renormalized (4/7, 3/7) the first token reaches 0.5.
	wantIDs(t, "top_k 2, top_p 0.5", possible(t, params(func(p *Params) { p.TopK, p.TopP = 2, 0.5 }), nil, nil, logits), 0)
	wantIDs(t, "top_k 2, top_p 0.6", possible(t, params(func(p *Params) { p.TopK, p.TopP = 2, 0.6 }), nil, nil, logits), 0, 1)
	// Temperature comes before: at 0.5 the probabilities are in the ratio 16 9 4 1.
	wantIDs(t, "temperature 0.5", possible(t, params(func(p *Params) { p.Temperature, p.TopP = 0.5, 0.5 }), nil, nil, logits), 0)
	// Ties at the boundary are all kept, whatever their ids.
	wantIDs(t, "ties", possible(t, params(func(p *Params) { p.TopP = 0.5 }), nil, nil, logs(0.2, 0.2, 0.4, 0.2)), 0, 1, 2, 3)
}

// TestMinP: section 4.4.
func TestMinP(t *testing.T) {
	logits := logs(0.4, 0.3, 0.2, 0.1)
	for _, c := range []struct {
		p    float32
		want []int32
	}{{0, []int32{0, 1, 2, 3}}, {0.2, []int32{0, 1, 2, 3}}, {0.3, []int32{0, 1, 2}}, {0.6, []int32{0, 1}}, {0.8, []int32{0}}, {1, []int32{0}}} {
		wantIDs(t, "min_p", possible(t, params(func(p *Params) { p.MinP = c.p }), nil, nil, logits), c.want...)
	}
	wantIDs(t, "1 keeps the maxima", possible(t, params(func(p *Params) { p.MinP = 1 }), nil, nil, []float32{2, 1, 2}), 0, 2)
	// Temperature comes before: at 2 the ratio 0.1/0.4 becomes its square root, 0.5.
	wantIDs(t, "temperature 2", possible(t, params(func(p *Params) { p.Temperature, p.MinP = 2, 0.45 }), nil, nil, logits), 0, 1, 2, 3)
	// min_p comes before top_p: of the renormalized (4/7, 3/7) the first token reaches 0.5.
	wantIDs(t, "before top_p", possible(t, params(func(p *Params) { p.MinP, p.TopP = 0.6, 0.5 }), nil, nil, logits), 0)
	// min_p comes before top_k: it leaves two tokens, and top_k 3 brings none back.
	wantIDs(t, "before top_k", possible(t, params(func(p *Params) { p.MinP, p.TopK = 0.6, 3 }), nil, nil, logits), 0, 1)
}

// TestLogitBias (section 4.5): -100 does not strictly forbid, and +100 does not guarantee.
func TestLogitBias(t *testing.T) {
	logits := []float32{5, 1, 1}
	wantToken(t, "a bias of 4.5", next(t, greedy(func(p *Params) { p.Bias = []TokenBias{{2, 4.5}} }), nil, nil, logits), 2)
	wantToken(t, "of two entries the last counts", next(t, greedy(func(p *Params) { p.Bias = []TokenBias{{2, 100}, {2, -1}} }), nil, nil, logits), 0)
	wantToken(t, "-100 for all tokens", next(t, greedy(func(p *Params) { p.Bias = []TokenBias{{0, -100}, {1, -100}, {2, -100}} }), nil, nil, logits), 0)
	wantToken(t, "+100 for a logit that is 199 less", next(t, greedy(func(p *Params) { p.Bias = []TokenBias{{1, 100}} }), nil, nil, []float32{200, 1, 1}), 0)
}

// TestC48Allowed: section 4.5.
func TestC48Allowed(t *testing.T) {
	logits := randomRow(rand.New(rand.NewPCG(4, 0)), 100)
	wantIDs(t, "one", possible(t, params(func(p *Params) { p.Allowed = []int32{7} }), nil, nil, logits), 7)
	flat := make([]float32, 100)
	wantIDs(t, "some, twice", possible(t, params(func(p *Params) { p.Allowed = []int32{64, 3, 99, 3, 31, 32} }), nil, nil, flat), 3, 31, 32, 64, 99)
}

// TestC117BadWords (section 4.5): a word is banned by the output alone, not by the prompt.
func TestC117BadWords(t *testing.T) {
	logits := []float32{0, 0, 0, 0, 0, 1, 9, 0}
	p := greedy(func(p *Params) { p.BadWords = [][]int32{{5, 6}} })
	for _, c := range []struct {
		what           string
		prompt, output []int32
		want           int32
	}{
		{"output ...5", nil, []int32{1, 5}, 5},
		{"output 5", nil, []int32{5}, 5},
		{"output ...4", nil, []int32{5, 4}, 6},
		{"prompt ...5, no output", []int32{1, 5}, nil, 6},
		{"prompt 5, output 4", []int32{5}, []int32{4}, 6},
	} {
		wantToken(t, c.what, next(t, p, c.prompt, c.output, logits), c.want)
	}
	// A word of one token is always banned. Entries combine, and repeated ones do no harm.
	p.BadWords = [][]int32{{6}, {6}, {1, 2, 5}, {2, 5}, {2, 5}, {1, 2, 0}, {7}}
	wantToken(t, "a word of one token", next(t, p, nil, nil, logits), 5)
	wantToken(t, "several words ban 0 and 5 to 7", next(t, p, nil, []int32{1, 2}, logits), 1)
	// A word cannot match across the boundary of prompt and output.
	p.BadWords = [][]int32{{3, 5, 6}}
	wantToken(t, "a word across prompt and output", next(t, p, []int32{3}, []int32{5}, logits), 6)
}

// TestC115Penalties: section 4.6.
func TestC115Penalties(t *testing.T) {
	// Token 0 is three times in the output, 1 in the prompt only, 2 in both, 3 in neither.
	prompt, output := []int32{1, 2, 1}, []int32{0, 2, 0, 0}
	logits := []float32{2, 3, -1, -2}
	for _, c := range []struct {
		name                   string
		freq, presence, repeat float32
		want                   []float32
	}{
		{"frequency: output counts only", 0.5, 0, 1, []float32{0.5, 3, -1.5, -2}},
		{"presence: once, output only", 0, 0.5, 1, []float32{1.5, 3, -1.5, -2}},
		{"repetition: prompt and output; a negative logit is multiplied", 0, 0, 2, []float32{1, 1.5, -2, -2}},
		{"repetition below 1 encourages", 0, 0, 0.5, []float32{4, 6, -0.5, -2}},
		{"repetition first, then the others", 0.5, 0.25, 2, []float32{1 - 1.75, 1.5, -2 - 0.75, -2}},
		{"negative penalties", -0.5, -1, 1, []float32{4.5, 3, 0.5, -2}},
	} {
		p := greedy(func(p *Params) {
			p.Frequency, p.Presence, p.Repetition = c.freq, c.presence, c.repeat
			p.Logprobs, p.TopLogprobs = backend.ProcessedLogprobs, 4
		})
		got := next(t, p, prompt, output, logits) // penalties apply to greedy rows, too
		lp := make([]float32, 4)
		for i, id := range got.top {
			lp[id] = got.topLP[i]
		}
		for i := range lp {
			if d := float64(lp[i]-lp[0]) - float64(c.want[i]-c.want[0]); math.Abs(d) > 1e-5 {
				t.Errorf("%s: token %d is off by %v", c.name, i, d)
			}
		}
	}
}

// TestBiasBeforePenalties: section 4.1. If a bias lifts a logit above 0, the repetition
// penalty divides.
func TestBiasBeforePenalties(t *testing.T) {
	p := greedy(func(p *Params) { p.Bias, p.Repetition = []TokenBias{{0, 3}}, 2 })
	var d backend.Draws
	NewState(&p, 2, []int32{0}).Plan(&d, 1, nil)
	if got := edited(-1, d.Edits[0]); got != 1 {
		t.Errorf("(-1+3)/2 = %v", got)
	}
}

// TestMinTokens (section 5.3): stop ids are forbidden below min_tokens.
func TestMinTokens(t *testing.T) {
	logits := []float32{1, 9, 8, 2}
	p := greedy(func(p *Params) { p.MinTokens, p.StopIDs = 2, []int32{1, 2, 1} })
	for n, want := range []int32{3, 3, 1, 1} {
		output := slices.Repeat([]int32{3}, n)
		wantToken(t, fmt.Sprint(n, " tokens so far"), next(t, p, nil, output, logits), want)
	}
	// One stop id has a bias, too, and another is banned by a bad word, too.
	p.Bias = []TokenBias{{1, 50}}
	p.BadWords = [][]int32{{3, 2}}
	wantToken(t, "below min_tokens and before a bad word", next(t, p, nil, []int32{3}, logits), 3)
	wantToken(t, "from min_tokens on", next(t, p, nil, []int32{3, 3}, logits), 1)
}

// TestC110Seed: section 4.8.
func TestC110Seed(t *testing.T) {
	logits := make([]float32, 1000)
	run := func(seed uint64) (out []int32) {
		p := params(func(p *Params) { p.Seed = seed })
		for range 8 {
			out = append(out, next(t, p, nil, out, logits).token)
		}
		return out
	}
	if a, b := run(1), run(1); !slices.Equal(a, b) {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
	if a, b := run(1), run(2); slices.Equal(a, b) {
		t.Errorf("two seeds both give %v", a)
	}
	if a, b := run(0), run(1<<63); slices.Equal(a, b) {
		t.Errorf("the highest bit of the seed makes no difference: %v", a)
	}
	if a := run(7); a[0] == a[1] && a[1] == a[2] {
		t.Errorf("the index makes no difference: %v", a)
	}
}

// TestC112GreedyIgnoresFilters: section 4.2.
func TestC112GreedyIgnoresFilters(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 12))
	for range 100 {
		logits := randomRow(g, 64)
		plain := next(t, greedy(func(*Params) {}), nil, nil, logits).token
		filtered := next(t, greedy(func(p *Params) { p.TopK, p.TopP, p.MinP, p.Seed = 50, 0.1, 0.5, 1 }), nil, nil, logits).token
		if plain != filtered {
			t.Fatalf("token %d without filters, %d with", plain, filtered)
		}
	}
}

// TestC113TopK1IsGreedy: section 4.4.
func TestC113TopK1IsGreedy(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 13))
	for seed := range uint64(200) {
		logits := normalRow(g, 500, 1)
		if a, b := next(t, greedy(func(*Params) {}), nil, nil, logits).token, next(t, params(func(p *Params) { p.TopK, p.Seed = 1, seed }), nil, nil, logits).token; a != b {
			t.Fatalf("greedy %d, top_k 1 %d", a, b)
		}
	}
}

// TestC114BiasAndAllowed (section 4.5): a bias does not make a token legal.
func TestC114BiasAndAllowed(t *testing.T) {
	logits := randomRow(rand.New(rand.NewPCG(2, 2)), 50)
	p := greedy(func(p *Params) { p.Bias = []TokenBias{{17, 100}} })
	wantToken(t, "a bias of +100", next(t, p, nil, nil, logits), 17)
	p.Allowed = []int32{1, 2, 3}
	p.Temperature = 1
	if ids := possible(t, p, nil, nil, logits); slices.Contains(ids, 17) {
		t.Errorf("token 17 is drawn: %v", ids)
	}
}

// TestC118RawLogprobsIgnoreParameters (section 7.2): raw log-probabilities depend on no
// sampling parameter.
func TestC118RawLogprobsIgnoreParameters(t *testing.T) {
	logits := randomRow(rand.New(rand.NewPCG(6, 2)), 100)
	raw := func(f func(*Params)) []float32 {
		p := params(f)
		p.Logprobs, p.TopLogprobs = backend.RawLogprobs, -1
		return next(t, p, []int32{1}, []int32{2}, logits).topLP
	}
	plain := raw(func(p *Params) { p.Temperature = 0 })
	if len(plain) != 100 {
		t.Fatalf("top_logprobs -1 gives %d entries", len(plain))
	}
	for _, f := range []func(*Params){
		func(p *Params) { p.Temperature = 1.5 },
		func(p *Params) {
			p.TopK, p.TopP, p.Repetition, p.Bias = 3, 0.4, 1.3, []TokenBias{{4, 9}}
			p.Allowed, p.BadWords = []int32{4, 5, 6}, [][]int32{{5}}
		},
	} {
		if !slices.Equal(plain, raw(f)) {
			t.Error("raw log-probabilities depend on sampling parameters")
		}
	}
}

// TestC119GreedyTopIsTheToken: section 7.2.
func TestC119GreedyTopIsTheToken(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 19))
	for range 200 {
		p := greedy(func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, 5 })
		got := next(t, p, nil, nil, randomRow(g, 200))
		if len(got.top) != 5 || got.top[0] != got.token || got.token >= 0 && (got.topLP[0] != got.logprob || got.rank != 1) {
			t.Fatalf("%v", got)
		}
	}
}

// TestC120TokenOutsideTop: section 7.2. The server reports the token drawn and the k best.
// It needs the values of both, also if the token is not among the best.
func TestC120TokenOutsideTop(t *testing.T) {
	logits := make([]float32, 100)
	logits[3], logits[8] = 0.2, 0.1
	outside := 0
	for seed := range uint64(50) {
		p := params(func(p *Params) { p.Seed, p.Logprobs, p.TopLogprobs = seed, backend.RawLogprobs, 2 })
		got := next(t, p, nil, nil, logits)
		wantIDs(t, "top", got.top, 3, 8)
		if got.token != 3 && got.token != 8 {
			outside++
			if got.rank != 3 || got.logprob >= got.topLP[1] {
				t.Errorf("%v", got)
			}
		}
	}
	if outside == 0 {
		t.Error("no token outside the top was ever drawn")
	}
}

// TestTarget (section 7.3): a row for a prompt token reports on that token.
func TestTarget(t *testing.T) {
	d := backend.Draws{Rows: []backend.Draw{
		{Mask: -1, Allow: -1, Target: 3, Temperature: 1, Logprobs: backend.RawLogprobs, Top: 2},
		{Mask: -1, Allow: -1, Target: 1, Logprobs: backend.RawLogprobs},
	}}
	row := logs(0.4, 0.3, 0.2, 0.1)
	var p Picker
	got := pick(t, &p, [][]float32{row, row}, &d)
	if got[0].token != 3 || got[0].rank != 4 || math.Abs(float64(got[0].logprob)-math.Log(0.1)) > 1e-6 {
		t.Errorf("%v", got[0])
	}
	wantIDs(t, "top", got[0].top, 0, 1)
	if got[1].token != 1 || got[1].rank != 2 {
		t.Errorf("%v", got[1])
	}
}

// TestProcessedLogprobs: section 7.2. A token that a filter removes has no probability,
// and those that stay are renormalized.
func TestProcessedLogprobs(t *testing.T) {
	logits := logs(0.4, 0.3, 0.2, 0.1)
	p := params(func(p *Params) { p.TopK, p.Logprobs, p.TopLogprobs = 2, backend.ProcessedLogprobs, 4 })
	got := next(t, p, nil, nil, logits)
	wantIDs(t, "top", got.top, 0, 1, -1, -1)
	for i, want := range []float64{math.Log(4. / 7), math.Log(3. / 7), math.Inf(-1), math.Inf(-1)} {
		if g := float64(got.topLP[i]); g != want && math.Abs(g-want) > 1e-6 {
			t.Errorf("entry %d: %v, want %v", i, g, want)
		}
	}
	// In a greedy row the temperature counts as 1, and edits apply but filters do not.
	p = greedy(func(p *Params) {
		p.TopK, p.Logprobs, p.TopLogprobs, p.BadWords = 1, backend.ProcessedLogprobs, 2, [][]int32{{0}}
	})
	got = next(t, p, nil, nil, logits)
	wantIDs(t, "greedy", got.top, 1, 2)
	if math.Abs(float64(got.logprob)-math.Log(0.5)) > 1e-6 {
		t.Errorf("logprob %v", got.logprob)
	}
}
