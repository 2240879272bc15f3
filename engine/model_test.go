package engine_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
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

// delayedBackend makes a synchronous backend accept two steps in flight: it takes the batch
// of the next step, which names tokens that are not drawn yet, before it computes and ends
// the step before.
type delayedBackend struct {
	backend.Backend
	batches []*backend.Batch
	draws   []*backend.Draws
}

func (b *delayedBackend) Spec() backend.Spec {
	s := b.Backend.Spec()
	s.Depth = 2
	return s
}

func (b *delayedBackend) CopySizes() (block, state int, ok bool) {
	return b.Backend.(backend.Copier).CopySizes()
}

func (b *delayedBackend) CopyOut(dst []byte, state bool, id int32) error {
	return b.Backend.(backend.Copier).CopyOut(dst, state, id)
}

func (b *delayedBackend) CopyIn(src []byte, state bool, id int32) error {
	return b.Backend.(backend.Copier).CopyIn(src, state, id)
}

func (b *delayedBackend) Begin(batch *backend.Batch) error {
	b.batches = append(b.batches, batch)
	return nil
}

func (b *delayedBackend) Draw(d *backend.Draws) error {
	b.draws = append(b.draws, d)
	return nil
}

func (b *delayedBackend) End(o *backend.Out) error {
	batch, d := b.batches[0], b.draws[0]
	b.batches, b.draws = b.batches[1:], b.draws[1:]
	if err := b.Backend.Begin(batch); err != nil {
		return err
	}
	if err := b.Backend.Draw(d); err != nil {
		return err
	}
	return b.Backend.End(o)
}

// delayed opens a backend that accepts two steps in flight.
func delayed(synchronous opener) opener {
	return func() (backend.Backend, error) {
		be, err := synchronous()
		return &delayedBackend{Backend: be}, err
	}
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

// onCPU opens a model with this number of threads, or the default number for 0.
func onCPU(t *testing.T, m *model.Model, threads int, opt model.Options) opener {
	return func() (backend.Backend, error) {
		cfg := cpu.Default()
		if threads > 0 {
			cfg.Threads = threads
		}
		dev, err := cpu.Open(cfg)
		if err != nil {
			return nil, err
		}
		return model.NewRunner(t.Context(), dev, m, opt)
	}
}

// chatPrompt renders a chat as the model's template does.
func chatPrompt(tok *tokenizer.Tokenizer, system string, turns ...string) []int32 {
	var b strings.Builder
	if system != "" {
		fmt.Fprintf(&b, "<|im_start|>system\n%s<|im_end|>\n", system)
	}
	for i, turn := range turns {
		fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", [2]string{"user", "assistant"}[i%2], turn)
	}
	b.WriteString("<|im_start|>assistant\n<think>\n\n</think>\n\n")
	ids, err := tok.Encode(nil, b.String(), false)
	if err != nil {
		panic(err)
	}
	return ids
}

// chatJobs makes n random jobs over real text. All ask for the log-probabilities of the
// twenty best tokens, in which a changed bit of a logit shows.
func chatJobs(g *rand.Rand, tok *tokenizer.Tokenizer, n int) []job {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{req: chatRequest(g, tok)}
		if g.IntN(6) == 0 {
			jobs[i].cancelAfter = 1 + g.IntN(8)
		}
	}
	return jobs
}

func chatRequest(g *rand.Rand, tok *tokenizer.Tokenizer) engine.Request {
	first := []string{"What is the capital of Canada?", "Tell me a story about a robot.", "What is 17 + 25?", "Sort these numbers: 5, 3, 9, 1.", "Spell the word garden."}
	second := []string{"Good morning!", "What is weir?", "Count from 3 to 12.", "What is the opposite of hot?"}
	system := ""
	if g.IntN(2) == 0 {
		system = "You are a helpful assistant. Answer in one short sentence and be polite to everybody who asks."
	}
	turns := []string{first[g.IntN(len(first))]}
	if g.IntN(2) == 0 {
		turns = append(turns, "I would be glad to help you with that.", second[g.IntN(len(second))])
	}
	eos, _ := tok.ID("<|im_end|>")
	r := engine.Request{Tokens: chatPrompt(tok, system, turns...), Priority: int64(g.IntN(3)), Limits: engine.Limits{MaxTokens: 8 + g.IntN(100), EOS: eos}}
	if g.IntN(2) == 0 {
		r.Limits.EOS = -1 // so that it goes on to its limit, through several blocks
	}
	r.Sampling = sampler.DefaultParams()
	s := &r.Sampling
	s.Seed, s.Logprobs, s.TopLogprobs = g.Uint64(), backend.RawLogprobs, 20
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
	return r
}

// modelVariant is a configuration of engine and device. What a request gets does not depend
// on it.
type modelVariant struct {
	threads, blockTokens, blocks, tokens, seqs int
	groups                                     int  // model.Options.GroupWindows
	overlapped                                 bool // two steps in flight
	sched                                      scheduler.Config
	caching                                    bool
}

// run runs jobs and stops the engine.
func (v modelVariant) run(t *testing.T, m *model.Model, tok *tokenizer.Tokenizer, jobs []job) ([]result, engine.Stats) {
	t.Helper()
	open := onCPU(t, m, v.threads, model.Options{BlockTokens: v.blockTokens, NumBlocks: v.blocks, MaxTokens: v.tokens, MaxSeqs: v.seqs, MaxSeqTokens: 256})
	if v.overlapped {
		open = delayed(open)
	}
	e := start(t, engine.Config{Scheduler: v.sched, Caching: v.caching, MaxLive: 100, Tokenizer: tok}, open)
	return runAll(t, e, jobs), e.Stats()
}

// TestMetamorphicModel is TestMetamorphic over a trained model on the CPU. Not one bit of a
// log-probability may depend on the size of blocks and pool, the token budget, caching,
// scheduling policy, preemption, order of arrival, other requests, threads or steps in
// flight.
func TestMetamorphicModel(t *testing.T) {
	g := seeded(t)
	m, tok := bundled(t)
	var preempted, hits uint64
	var jobs []job
	var want []result
	run := func(v modelVariant) {
		var stats engine.Stats
		got := shuffled(g, jobs, func(jobs []job) (results []result) {
			results, stats = v.run(t, m, tok, jobs)
			return results
		})
		if err := compare(jobs, got, want); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		preempted += stats.Preemptions
		hits += stats.PrefixHits
	}
	variants := []modelVariant{
		{threads: 2, blockTokens: 16, blocks: 17, tokens: 48, seqs: 8, caching: true, sched: scheduler.Config{MaxPrefill: 20}},
		{threads: 3, blockTokens: 32, blocks: 11, tokens: 33, seqs: 5, caching: true, sched: scheduler.Config{Priority: true}, overlapped: true},
		{threads: 1, blockTokens: 48, blocks: 60, tokens: 7, seqs: 6, caching: true, overlapped: true},
		{threads: 2, blockTokens: 16, blocks: 16, tokens: 500, seqs: 20, overlapped: true},
		{threads: 4, blockTokens: 64, blocks: 5, tokens: 100, seqs: 3, caching: true},
		{threads: 2, blockTokens: 16, blocks: 25, tokens: 256, seqs: 9, caching: true, sched: scheduler.Config{WholePrompts: true}, overlapped: true},
	}
	// How many sequences compete for blocks depends on how fast they arrive, so there are more
	// rounds if there was no preemption.
	for round := 0; round < 5 && (preempted == 0 || hits == 0); round++ {
		jobs = chatJobs(g, tok, 22)
		want, _ = modelVariant{threads: 1, blockTokens: 16, blocks: 2000, tokens: 2048, seqs: 64}.run(t, m, tok, jobs)
		for _, v := range variants {
			run(v)
		}
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache", preempted, hits)
	if preempted == 0 || hits == 0 {
		t.Error("without these the test means little")
	}
	for i, r := range want[:3] {
		t.Logf("%q -> %q", tok.Decode(jobs[i].req.Tokens, tokenizer.DecodeOptions{}), r.choices[0].text)
	}
}

// TestTextIsWhatTheTokensSay: the pieces of text together are the decoded tokens, without
// the token or string that stopped the choice (docs/interface/chat-completions.md, sections
// 5.2, 5.4 and 6).
func TestTextIsWhatTheTokensSay(t *testing.T) {
	m, tok := bundled(t)
	e := start(t, engine.Config{MaxLive: 100, Tokenizer: tok}, onCPU(t, m, 0, model.Options{MaxSeqTokens: 256}))
	defer e.stop()
	eos, _ := tok.ID("<|im_end|>")
	r := engine.Request{Tokens: chatPrompt(tok, "", "What is the capital of France?"), Sampling: sampler.DefaultParams(), Limits: engine.Limits{MaxTokens: 30, EOS: eos}}
	r.Sampling.Temperature = 0
	a := e.mustRun(t, r).choices[0]
	if a.reason != engine.Stop || a.stop != "" || a.tokens[len(a.tokens)-1] != eos {
		t.Fatalf("%+v", a)
	}
	if want := tok.Decode(a.tokens[:len(a.tokens)-1], tokenizer.DecodeOptions{}); a.text != want || !strings.Contains(want, "Paris") {
		t.Errorf("the text is %q, the tokens are %q", a.text, want)
	}
	for _, c := range []struct {
		name   string
		change func(*engine.Request)
		text   string
		stop   string
	}{
		{"a stop string", func(r *engine.Request) { r.Stop = []string{"France"} }, "The capital of ", "France"},
		{"a stop string that is included", func(r *engine.Request) { r.Stop, r.IncludeStop = []string{"France"}, true }, "The capital of France", "France"},
		{"C94 a stop string in the last token allowed", func(r *engine.Request) { r.Stop, r.Limits.MaxTokens = []string{"France"}, 4 }, "The capital of ", "France"},
		{"a stop id", func(r *engine.Request) { r.Limits.StopIDs = a.tokens[2:3] }, "The capital", fmt.Sprint(a.tokens[2])},
		{"a stop id whose text is included", func(r *engine.Request) { r.Limits.StopIDs, r.IncludeStop = a.tokens[2:3], true }, "The capital of", fmt.Sprint(a.tokens[2])},
		{"special tokens are kept, except the one that stops", func(r *engine.Request) { r.KeepSpecial = true }, "The capital of France is Paris.", ""},
		{"the one that stops, too", func(r *engine.Request) { r.KeepSpecial, r.IncludeStop = true, true }, "The capital of France is Paris.<|im_end|>", ""},
		{"min_tokens", func(r *engine.Request) { r.Stop, r.Limits.MinTokens = []string{"France", "Paris"}, 4 }, "The capital of France is ", "Paris"},
	} {
		req := r
		c.change(&req)
		if b := e.mustRun(t, req).choices[0]; b.reason != engine.Stop || b.text != c.text || b.stop != c.stop {
			t.Errorf("%s: %q stopped by %q, want %q by %q", c.name, b.text, b.stop, c.text, c.stop)
		}
	}
}
