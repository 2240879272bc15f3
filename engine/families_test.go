package engine_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"weir/backend"
	"weir/engine"
	"weir/model"
	"weir/sampler"
	"weir/scheduler"
	"weir/tokenizer"
)

// familyJobs are random requests, half of which begin with what an earlier one said and was told, as
// the turns of a conversation do. They have room in a sequence of that length.
func familyJobs(g *rand.Rand, vocab, longest, n int) []job {
	jobs := make([]job, n)
	for i := range jobs {
		var prompt []int32
		if i > 0 && g.IntN(2) == 0 {
			before := jobs[g.IntN(i)].req.Tokens
			prompt = append(prompt, before[:1+g.IntN(len(before))]...)
		}
		for range 5 + g.IntN(60) {
			prompt = append(prompt, int32(3+g.IntN(vocab-3)))
		}
		const most = 60 // of the tokens of an answer
		prompt = prompt[:min(len(prompt), 150, longest-most)]
		r := engine.Request{Tokens: prompt, Priority: int64(g.IntN(3)), Suffix: g.IntN(10), Limits: engine.Limits{MaxTokens: 1 + g.IntN(most), EOS: -1}, Sampling: sampler.DefaultParams()}
		r.Sampling.Seed, r.Sampling.Logprobs, r.Sampling.TopLogprobs = g.Uint64(), backend.RawLogprobs, 10
		if g.IntN(3) == 0 {
			r.N = 3
		}
		if g.IntN(5) == 0 {
			r.Prompt = &engine.PromptScores{Top: 2, Mode: backend.RawLogprobs}
		}
		jobs[i] = job{req: r}
		if g.IntN(6) == 0 {
			jobs[i].cancelAfter = 1 + g.IntN(8)
		}
	}
	return jobs
}

// metamorphicFamilies have every kind of state, window, chunk, expert and latent attention between them.
var metamorphicFamilies = []string{"qwen3_5", "nemotron_h", "lfm2_moe", "gpt_oss", "llama4", "deepseek_v3", "gemma4_e", "gemma3", "mimo_v2_flash", "starcoder2", "lfm3", "phi3_long",
	"glm_moe_dsa", "jamba", "mamba", "bloom"}

// TestMetamorphicFamilies is TestMetamorphicModel over networks with recurrent states, windows, chunks,
// experts and latent attention: preemption, prefixes from the cache, checkpoints of states, other
// requests and cuts change no bit of a log-probability.
func TestMetamorphicFamilies(t *testing.T) {
	for _, name := range metamorphicFamilies {
		t.Run(name, func(t *testing.T) { metamorphicFamily(t, name, 24, familyVariants) })
	}
}

// TestMetamorphicOtherFamilies is the same over all other families, with fewer requests and one configuration, which has little room.
func TestMetamorphicOtherFamilies(t *testing.T) {
	if raceEnabled {
		t.Skip("the networks differ, and not the goroutines")
	}
	folders, err := os.ReadDir("../model/testdata/families")
	if err != nil {
		t.Fatal(err)
	}
	tight := familyVariants[1]
	tight.blocks = 10
	for _, folder := range folders {
		if name := folder.Name(); !slices.Contains(metamorphicFamilies, name) {
			t.Run(name, func(t *testing.T) { metamorphicFamily(t, name, 8, []familyVariant{tight}) })
		}
	}
	if len(folders) < 2*len(metamorphicFamilies) {
		t.Errorf("there are only %d families", len(folders))
	}
}

// metamorphicFamily runs random requests, of which there are that many, until some were preempted and some began with a prefix from the cache.
func metamorphicFamily(t *testing.T, name string, requests int, variants []familyVariant) {
	_, tok := bundled(t)
	g := seeded(t)
	m, err := model.OpenFS(os.DirFS("../model/testdata/families/" + name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	// Where all layers have windows a sequence takes no more room as it grows, so that nobody has to give way.
	grows := slices.Contains(m.Config.Windows, 0)
	var preempted, hits uint64
	for round := 0; round < 30 && (preempted == 0 && grows || hits == 0); round++ {
		p, h := familyRound(t, g, m, tok, requests, variants)
		preempted, hits = preempted+p, hits+h
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache", preempted, hits)
	if preempted == 0 && grows || hits == 0 {
		t.Error("without these the test means little")
	}
}

// familyVariant is a configuration under which requests give what they give with room for all of them.
type familyVariant struct {
	modelVariant
	slots int
}

var familyVariants = []familyVariant{
	{modelVariant{threads: 2, blockTokens: 16, blocks: 20, groups: 256, tokens: 48, seqs: 8, caching: true, sched: scheduler.Config{MaxPrefill: 20, StateEvery: 32}}, 12},
	{modelVariant{threads: 1, blockTokens: 16, blocks: 24, groups: 256, tokens: 33, seqs: 5, caching: true, sched: scheduler.Config{Priority: true, StateEvery: 16}, overlapped: true}, 30},
	{modelVariant{threads: 2, blockTokens: 32, blocks: 40, tokens: 7, seqs: 6, caching: true, overlapped: true}, 9},
	{modelVariant{threads: 2, blockTokens: 16, blocks: 12, groups: 256, tokens: 5, seqs: 6, caching: true, overlapped: true}, 9},
	{modelVariant{threads: 3, blockTokens: 16, blocks: 17, tokens: 300, seqs: 20}, 60},
}

// familyRound runs the same requests under several configurations and compares their results.
func familyRound(t *testing.T, g *rand.Rand, m *model.Model, tok *tokenizer.Tokenizer, requests int, variants []familyVariant) (preempted, hits uint64) {
	t.Helper()
	longest := min(256, m.Config.MaxSeqTokens)
	jobs := familyJobs(g, m.Config.VocabSize, longest, requests)
	run := func(v modelVariant, slots int, jobs []job) ([]result, engine.Stats) {
		opt := model.Options{BlockTokens: v.blockTokens, NumBlocks: v.blocks, MaxTokens: v.tokens, MaxSeqs: v.seqs, MaxSeqTokens: longest, StateSlots: slots, GroupWindows: v.groups}
		opt.NumBlocks = max(1+(v.blocks-1)*max(2, len(m.Groups(opt)))*longest/512, 1+m.SequenceBlocks(opt))
		open := onCPU(t, m, v.threads, opt)
		if v.overlapped {
			open = delayed(open)
		}
		e := start(t, engine.Config{Scheduler: v.sched, Caching: v.caching, MaxLive: 200, Tokenizer: tok}, open)
		return runAll(t, e, jobs), e.Stats()
	}
	want, _ := run(modelVariant{threads: 1, blockTokens: 16, blocks: 3000, tokens: 4096, seqs: 100}, 400, jobs)
	for _, v := range variants {
		var stats engine.Stats
		got := shuffled(g, jobs, func(jobs []job) (results []result) {
			results, stats = run(v.modelVariant, v.slots, jobs)
			return results
		})
		if err := compare(jobs, got, want); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		preempted += stats.Preemptions
		hits += stats.PrefixHits
	}
	return preempted, hits
}
