package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"weir/backend"
	"weir/backend/sim"
	"weir/device/cpu"
	"weir/engine"
	"weir/model"
	"weir/scheduler"
	"weir/weights"
)

// computer is an engine that is put together and not yet running.
type computer struct {
	engine      *engine.Engine
	spec        backend.Spec
	kvBytes     int64
	cacheType   string // of keys and values
	fingerprint string
	about       string // the device, in words
}

// formats are the types of numbers by the names that vLLM's flags have.
var formats = map[string]struct {
	compute cpu.Format
	stored  weights.DType
}{
	"auto":     {cpu.Auto, weights.Invalid},
	"float32":  {cpu.F32, weights.F32},
	"float16":  {cpu.F16, weights.F16},
	"bfloat16": {cpu.BF16, weights.BF16},
}

// newComputer plans the engine for s. progress hears how many bytes of weights
// are loaded.
func newComputer(ctx context.Context, s *source, m modelOptions, o *engineOptions, progress func(done, total int64)) (*computer, error) {
	c := &computer{}
	cfg := &s.network.Config
	c.cacheType = *o.kvDtype
	if c.cacheType == "auto" {
		c.cacheType = "bfloat16"
	}
	weightType, kvType := formats[*o.dtype].compute, formats[c.cacheType]
	var found *gpu
	var err error
	if *o.device != "cpu" && *o.device != "sim" {
		if found, err = findGPU(o); err != nil {
			return nil, err
		}
	}
	maxTokens, maxPrefill := *o.maxTokens, *o.maxPrefill
	if maxTokens == 0 {
		maxTokens = 512
		if found != nil {
			maxTokens = 2048
		}
	}
	if maxPrefill < 0 {
		maxPrefill = 128
		if found != nil {
			maxPrefill = 1024
		}
	}
	for name, n := range map[string]int{"block-size": *o.blockSize, "max-num-seqs": *o.maxSeqs, "max-num-batched-tokens": maxTokens, "max-num-queued": *o.maxLive} {
		if n < 1 { // below, 0 stands for a default
			return nil, usageError{fmt.Errorf("--%s %d: it takes 1 or more", name, n)}
		}
	}
	opt := s.network.Options(model.Options{BlockTokens: *o.blockSize, MaxTokens: maxTokens, MaxSeqs: *o.maxSeqs, MaxSeqTokens: *m.maxModelLen, Progress: progress})
	if *m.maxModelLen < 0 || opt.MaxSeqTokens > cfg.MaxSeqTokens {
		return nil, usageError{fmt.Errorf("--max-model-len %d: the model was made for sequences of at most %d tokens", *m.maxModelLen, cfg.MaxSeqTokens)}
	}
	if opt.MaxTokens < opt.MaxSeqs {
		return nil, usageError{fmt.Errorf("--max-num-batched-tokens %d is less than --max-num-seqs %d: some streams would stand still", opt.MaxTokens, opt.MaxSeqs)}
	}
	if err := s.network.Check(opt); err != nil {
		return nil, usageError{err}
	}
	engineConfig := engine.Config{
		Scheduler: scheduler.Config{MaxPrefill: maxPrefill, Priority: *o.policy == "priority"},
		Caching:   *o.caching, MaxLive: *o.maxLive, Tokenizer: s.tokenizer,
	}
	if found != nil {
		return c, c.onGPU(ctx, found, s, opt, o, engineConfig)
	}
	if opt.NumBlocks, c.kvBytes, err = sizePool(opt, cfg.KVBytesPerToken(kvType.stored), int64(o.kvMemory), memoryLimit()); err != nil {
		return nil, err
	}
	threads := *o.threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var open func() (backend.Backend, error)
	if *o.device == "sim" {
		profile, err := simProfile(*o.simProfile, s.defaults.EOS, s.defaults.Stop)
		if err != nil {
			return nil, err
		}
		c.spec = backend.Spec{VocabSize: cfg.VocabSize, BlockTokens: opt.BlockTokens, NumBlocks: opt.NumBlocks, MaxTokens: opt.MaxTokens,
			MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens, Depth: 2}
		c.about = "simulated device, profile " + profile.Name + ": answers are invented"
		open = func() (backend.Backend, error) { return sim.NewPaced(c.spec, profile) }
	} else {
		dc := cpu.Default()
		dc.Threads, dc.WeightType, dc.KVType, dc.Impl = threads, weightType, kvType.compute, *o.cpu
		if err := dc.Validate(); err != nil {
			return nil, usageError{err}
		}
		impl := dc.Impl
		if impl == "" {
			impl = cpu.Impls()[0]
		}
		c.spec = backend.Spec{VocabSize: cfg.VocabSize, BlockTokens: opt.BlockTokens, NumBlocks: opt.NumBlocks, MaxTokens: opt.MaxTokens,
			MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens, Depth: 1}
		c.about = fmt.Sprintf("CPU, %s, %d threads", impl, threads)
		c.fingerprint = fingerprint(version, impl, *o.dtype, kvType.compute.String(), s.network.Digest())
		open = func() (backend.Backend, error) {
			dev, err := cpu.Open(dc)
			if err != nil {
				return nil, err
			}
			return model.NewRunner(ctx, dev, s.network, opt)
		}
	}
	c.engine = engine.New(engineConfig, open)
	// One processor more than threads that compute, for connections and
	// preparation: they would wait for the end of a step.
	runtime.GOMAXPROCS(threads + 1)
	return c, nil
}

// onGPU plans the engine on a GPU. How many KV blocks there are is known when
// the backend has been opened for the first time.
func (c *computer) onGPU(ctx context.Context, g *gpu, s *source, opt model.Options, o *engineOptions, cfg engine.Config) error {
	plan, err := g.plan(ctx, s, opt, o)
	if err != nil {
		return err
	}
	c.about, c.fingerprint = plan.about, fingerprint(version, plan.kind, *o.dtype, c.cacheType, s.network.Digest())
	// All but the number of blocks, which open adds.
	c.spec = backend.Spec{VocabSize: s.network.Config.VocabSize, BlockTokens: opt.BlockTokens, MaxTokens: opt.MaxTokens, MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens}
	c.engine = engine.New(cfg, func() (backend.Backend, error) {
		b, err := plan.open(c.spec.NumBlocks)
		if err == nil && c.spec.NumBlocks == 0 { // from then on others may read it
			c.spec = b.Spec()
			c.kvBytes = plan.kvBytes(c.spec.NumBlocks)
		}
		return b, err
	})
	// The loop polls the device; it must find a processor whatever requests are
	// being prepared.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	return nil
}

// fingerprint names everything that decides the bits of an answer.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return "fp_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// sizePool chooses the number of KV blocks, the null block included, and says
// how many bytes they take. perToken is what a position costs; asked is the
// operator's wish or 0; limit is the memory there is, or 0 if that is unknown.
func sizePool(o model.Options, perToken, asked, limit int64) (blocks int, bytes int64, err error) {
	block := perToken * int64(o.BlockTokens)
	perSeq := int64((o.MaxSeqTokens + o.BlockTokens - 1) / o.BlockTokens)
	budget := asked
	if budget == 0 {
		if budget = limit / 4; limit == 0 {
			budget = 4 << 30
		}
		budget = min(budget, block*(1+perSeq*int64(o.MaxSeqs)))
	}
	n := budget / block
	if n < 1+perSeq {
		fits := max(0, n-1) * int64(o.BlockTokens)
		return 0, 0, fmt.Errorf("one sequence of %d tokens needs %s of KV cache, there are %s: set --max-model-len to at most %d, or --kv-cache-memory to at least %s",
			o.MaxSeqTokens, inUnits((1+perSeq)*block), inUnits(budget), fits, inUnits((1+perSeq)*block))
	}
	n = min(n, int64(1<<31-1)/int64(o.BlockTokens))
	return int(n), n * block, nil
}

// inUnits prints a number of bytes for people, rounded up so that it can be
// given back as a flag.
func inUnits(n int64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 10<<u.shift {
			return fmt.Sprintf("%d%s", (n+1<<u.shift-1)>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// simProfile finds a profile by name or in a file. End tokens are avoided, so
// that answers are as long as they were asked to be.
func simProfile(name string, eos int32, stop []int32) (sim.Profile, error) {
	var p sim.Profile
	found := false
	for _, known := range sim.Profiles() {
		if known.Name == name {
			p, found = known, true
		}
	}
	if !found {
		src, err := os.ReadFile(name)
		if err != nil {
			return p, usageError{fmt.Errorf("--sim-profile: %w", err)}
		}
		if err := json.Unmarshal(src, &p); err != nil {
			return p, usageError{fmt.Errorf("--sim-profile: %s: %w", name, err)}
		}
	}
	if len(p.Avoid) == 0 {
		p.Avoid = append(p.Avoid, stop...)
		if eos >= 0 {
			p.Avoid = append(p.Avoid, eos)
		}
	}
	return p, nil
}
