package engine_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/engine"
	"weir/model"
	"weir/models"
	"weir/sampler"
	"weir/scheduler"
	"weir/tokenizer"
)

// late makes a synchronous backend look like one that computes two steps at a
// time: it takes the next step's batch, which names tokens that are not drawn
// yet, before it gives out the result of the step before.
type late struct {
	backend.Backend
	batches []*backend.Batch
	draws   []*backend.Draws
}

func (l *late) Spec() backend.Spec {
	s := l.Backend.Spec()
	s.Depth = 2
	return s
}

func (l *late) Begin(b *backend.Batch) error { l.batches = append(l.batches, b); return nil }
func (l *late) Draw(d *backend.Draws) error  { l.draws = append(l.draws, d); return nil }
func (l *late) End(o *backend.Out) error {
	b, d := l.batches[0], l.draws[0]
	l.batches, l.draws = l.batches[1:], l.draws[1:]
	if err := l.Backend.Begin(b); err != nil {
		return err
	}
	if err := l.Backend.Draw(d); err != nil {
		return err
	}
	return l.Backend.End(o)
}

// bundled opens the model inside the binary.
func bundled(t *testing.T) (*model.Model, *tokenizer.Tokenizer) {
	t.Helper()
	m, err := model.OpenFS(models.Bundled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	src, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return m, tok
}

// question renders a chat as the model's template does.
func question(tok *tokenizer.Tokenizer, system string, turns ...string) []int32 {
	var b strings.Builder
	if system != "" {
		fmt.Fprintf(&b, "<|im_start|>system\n%s<|im_end|>\n", system)
	}
	for i, turn := range turns {
		fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", [2]string{"user", "assistant"}[i%2], turn)
	}
	b.WriteString("<|im_start|>assistant\n<think>\n\n</think>\n\n")
	return tok.Encode(nil, b.String(), false)
}

// conversations are jobs over real text. All ask for the log-probabilities of
// the twenty best tokens of every row, which is where a changed bit of a logit
// shows.
func conversations(g *rand.Rand, tok *tokenizer.Tokenizer, n int) []job {
	system := "You are a helpful assistant. Answer in one short sentence and be polite to everybody who asks."
	first := []string{"What is the capital of Canada?", "Tell me a story about a robot.", "What is 17 + 25?", "Sort these numbers: 5, 3, 9, 1.", "Spell the word garden."}
	second := []string{"Good morning!", "What is weir?", "Count from 3 to 12.", "What is the opposite of hot?"}
	eos, _ := tok.ID("<|im_end|>")
	jobs := make([]job, n)
	for i := range jobs {
		sys := ""
		if g.IntN(2) == 0 {
			sys = system
		}
		turns := []string{first[g.IntN(len(first))]}
		if g.IntN(2) == 0 {
			turns = append(turns, "I would be glad to help you with that.", second[g.IntN(len(second))])
		}
		s := sampler.DefaultParams()
		s.Seed, s.Logprobs, s.TopLogprobs = g.Uint64(), backend.RawLogprobs, 20
		r := engine.Request{Tokens: question(tok, sys, turns...), Priority: int64(g.IntN(3)), Limits: engine.Limits{MaxTokens: 8 + g.IntN(100), EOS: eos}}
		if g.IntN(2) == 0 {
			r.Limits.EOS = -1 // goes on to its limit, through whole blocks
		}
		switch g.IntN(3) {
		case 0:
			s.Temperature = 0
		case 1:
			s.Temperature, s.TopP = 0.8, 0.9
			if g.IntN(2) == 0 {
				r.N = 2
			}
		}
		if g.IntN(4) == 0 {
			s.Repetition = 1.2
		}
		if g.IntN(3) == 0 {
			r.Stop = []string{"o r", "ing", "7"}
			r.IncludeStop = g.IntN(2) == 0
		}
		if g.IntN(5) == 0 {
			r.Prompt = &engine.PromptScores{Top: 3, Mode: backend.RawLogprobs}
		}
		r.Sampling = s
		jobs[i].req = r
		if g.IntN(6) == 0 {
			jobs[i].leave = 1 + g.IntN(8)
		}
	}
	return jobs
}

// TestMetamorphicModel is TestMetamorphic over a trained model on the CPU: not
// one bit of a log-probability may depend on block size, pool size, budget,
// caching, policy, preemption, order, neighbours, threads or steps in flight.
func TestMetamorphicModel(t *testing.T) {
	g := seeded(t)
	m, tok := bundled(t)
	type setup struct {
		threads, blockTokens, blocks, tokens, seqs int
		deep                                       bool
		sched                                      scheduler.Config
		caching                                    bool
	}
	plain := setup{threads: 1, blockTokens: 16, blocks: 2000, tokens: 2048, seqs: 64}
	setups := []setup{
		{threads: 2, blockTokens: 16, blocks: 22, tokens: 48, seqs: 8, caching: true, sched: scheduler.Config{MaxPrefill: 20}},
		{threads: 3, blockTokens: 32, blocks: 11, tokens: 33, seqs: 5, caching: true, sched: scheduler.Config{Priority: true}, deep: true},
		{threads: 1, blockTokens: 48, blocks: 60, tokens: 7, seqs: 6, caching: true, deep: true},
		{threads: 2, blockTokens: 16, blocks: 18, tokens: 500, seqs: 20, deep: true},
		{threads: 4, blockTokens: 64, blocks: 6, tokens: 100, seqs: 3, caching: true},
	}
	jobs := conversations(g, tok, 22)
	run := func(s setup, jobs []job) ([]result, engine.Stats) {
		h := start(t, engine.Config{Scheduler: s.sched, Caching: s.caching, MaxLive: 100, Tokenizer: tok}, func() (backend.Backend, error) {
			cfg := cpu.Default()
			cfg.Threads = s.threads
			dev, err := cpu.Open(cfg)
			if err != nil {
				return nil, err
			}
			r, err := model.NewRunner(t.Context(), dev, m, model.Options{BlockTokens: s.blockTokens, NumBlocks: s.blocks, MaxTokens: s.tokens, MaxSeqs: s.seqs, MaxSeqTokens: 256})
			if err != nil || !s.deep {
				return r, err
			}
			return &late{Backend: r}, nil
		})
		return runAll(t, h, jobs), h.Stats()
	}
	want, _ := run(plain, jobs)
	var preempted, hits uint64
	for _, s := range setups {
		order := g.Perm(len(jobs))
		shuffled, back := slices.Clone(jobs), make([]result, len(jobs))
		for to, from := range order {
			shuffled[to] = jobs[from]
		}
		got, stats := run(s, shuffled)
		for to, from := range order {
			back[from] = got[to]
		}
		if err := compare(jobs, back, want); err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		preempted += stats.Preemptions
		hits += stats.PrefixHits
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache", preempted, hits)
	if preempted == 0 || hits == 0 {
		t.Error("the test did not reach what it is for")
	}
	for i, r := range want[:3] {
		t.Logf("%q -> %q", tok.Decode(jobs[i].req.Tokens, tokenizer.DecodeOptions{}), r.choices[0].text)
	}
}

// TestTextIsWhatTheTokensSay: streamed pieces together are the decoded tokens
// without the stopping one (spec 5.2, 6).
func TestTextIsWhatTheTokensSay(t *testing.T) {
	m, tok := bundled(t)
	h := start(t, engine.Config{MaxLive: 100, Tokenizer: tok}, func() (backend.Backend, error) {
		dev, err := cpu.Open(cpu.Default())
		if err != nil {
			return nil, err
		}
		return model.NewRunner(t.Context(), dev, m, model.Options{MaxSeqTokens: 256})
	})
	defer h.stop()
	eos, _ := tok.ID("<|im_end|>")
	r := engine.Request{Tokens: question(tok, "", "What is the capital of France?"), Sampling: sampler.DefaultParams(), Limits: engine.Limits{MaxTokens: 30, EOS: eos}}
	r.Sampling.Temperature = 0
	a := mustCollect(t, h, r).choices[0]
	if a.reason != engine.Stop || a.stop != "" || a.tokens[len(a.tokens)-1] != eos {
		t.Fatalf("%+v", a)
	}
	if want := tok.Decode(a.tokens[:len(a.tokens)-1], tokenizer.DecodeOptions{}); a.text != want || !strings.Contains(want, "Paris") {
		t.Errorf("got %q, tokens say %q", a.text, want)
	}
	for _, c := range []struct {
		name string
		edit func(*engine.Request)
		text string
		stop string
	}{
		{"a stop string", func(r *engine.Request) { r.Stop = []string{"France"} }, "The capital of ", "France"},
		{"included", func(r *engine.Request) { r.Stop, r.IncludeStop = []string{"France"}, true }, "The capital of France", "France"},
		{"C94 completed by the last token allowed", func(r *engine.Request) { r.Stop, r.Limits.MaxTokens = []string{"France"}, 4 }, "The capital of ", "France"},
		{"a stop id", func(r *engine.Request) { r.Limits.StopIDs = a.tokens[2:3] }, "The capital", fmt.Sprint(a.tokens[2])},
		{"a stop id whose text is kept", func(r *engine.Request) { r.Limits.StopIDs, r.IncludeStop = a.tokens[2:3], true }, "The capital of", fmt.Sprint(a.tokens[2])},
		{"special tokens kept, but not the stopping one", func(r *engine.Request) { r.KeepSpecial = true }, "The capital of France is Paris.", ""},
		{"the stopping one too", func(r *engine.Request) { r.KeepSpecial, r.IncludeStop = true, true }, "The capital of France is Paris.<|im_end|>", ""},
		{"min_tokens", func(r *engine.Request) { r.Stop, r.Limits.MinTokens = []string{"France", "Paris"}, 4 }, "The capital of France is ", "Paris"},
	} {
		req := r
		c.edit(&req)
		if b := mustCollect(t, h, req).choices[0]; b.reason != engine.Stop || b.text != c.text || b.stop != c.stop {
			t.Errorf("%s: %q stopped by %q, want %q by %q", c.name, b.text, b.stop, c.text, c.stop)
		}
	}
}
