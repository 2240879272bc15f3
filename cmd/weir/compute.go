package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"weir/backend"
	"weir/backend/sim"
	"weir/device/cpu"
	"weir/engine"
	"weir/model"
	"weir/scheduler"
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

// formats are the types of weights by the names that vLLM's flags have.
var formats = map[string]cpu.Format{"auto": cpu.Auto, "float32": cpu.F32, "float16": cpu.F16, "bfloat16": cpu.BF16}

// cacheFormats are those of keys and values.
var cacheFormats = map[string]cpu.Format{"float32": cpu.F32, "float16": cpu.F16, "bfloat16": cpu.BF16, "int8": cpu.Int8}

// quantizations are the integer formats of weights by --quantization.
var quantizations = map[string]cpu.Format{"q8": cpu.Q8, "q4": cpu.Q4, "w8a8": cpu.W8A8}

// cacheBytes is what keys and values of a token take.
func cacheBytes(c *model.Config, f cpu.Format) (int64, error) {
	return cpu.KVBytesPerToken(f, model.Shape{Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim})
}

// newComputer plans the engine for s. progress hears how many bytes of weights
// are loaded.
func newComputer(ctx context.Context, s *source, m modelOptions, o *engineOptions, progress func(done, total int64)) (*computer, error) {
	c := &computer{}
	cfg := &s.network.Config
	weightType, kvType, cacheType := o.types()
	c.cacheType = cacheType
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
	perToken, err := cacheBytes(cfg, kvType)
	if err != nil {
		return nil, usageError{err}
	}
	if opt.NumBlocks, c.kvBytes, err = sizePool(opt, perToken, int64(o.kvMemory), memoryLimit()); err != nil {
		return nil, err
	}
	threads := *o.threads
	var open func() (backend.Backend, error)
	if *o.device == "sim" {
		profile, err := simProfile(*o.simProfile, s.defaults.EOS, s.defaults.Stop)
		if err != nil {
			return nil, err
		}
		c.spec = backend.Spec{VocabSize: cfg.VocabSize, BlockTokens: opt.BlockTokens, NumBlocks: opt.NumBlocks, MaxTokens: opt.MaxTokens,
			MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens, Depth: 2}
		if threads == 0 {
			threads = runtime.GOMAXPROCS(0)
		}
		c.about = "simulated device, profile " + profile.Name + ": answers are invented"
		open = func() (backend.Backend, error) { return sim.NewPaced(c.spec, profile) }
	} else {
		dc := cpu.Default()
		dc.Threads, dc.Pin, dc.WeightType, dc.KVType, dc.Impl = threads, *o.pin, weightType, kvType, *o.cpu
		if err := dc.Validate(); err != nil {
			return nil, usageError{err}
		}
		if threads = dc.ThreadCount(); *o.threads == 0 && (*o.pin == cpu.PinNodes || *o.pin == cpu.PinNone) {
			// Threads beyond what a control group allows would be stopped in turn, and
			// each step waits for the one that is.
			if limit := processorLimit(); limit > 0 {
				threads = min(threads, limit)
			}
		}
		dc.Threads = threads
		if err := enough(packedBytes(s.network, weightType), memoryAvailable(), memoryLimit()); err != nil {
			return nil, err
		}
		impl, err := cpu.Tier(dc.Impl)
		if err != nil {
			return nil, usageError{err}
		}
		c.spec = backend.Spec{VocabSize: cfg.VocabSize, BlockTokens: opt.BlockTokens, NumBlocks: opt.NumBlocks, MaxTokens: opt.MaxTokens,
			MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens, Depth: 1}
		c.about = fmt.Sprintf("CPU, %s, %d threads", impl, threads)
		c.fingerprint = fingerprint(build(), impl, weightType.String(), kvType.String(), s.network.Digest())
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

// packedBytes is about what the weights take in memory. An embedding that is not
// the head as well stays in its file.
func packedBytes(m *model.Model, f cpu.Format) int64 {
	n, stored := m.Parameters(), m.WeightBytes()
	packed := n
	if !m.Config.TiedHead {
		packed -= int64(m.Config.VocabSize) * int64(m.Config.Hidden)
	}
	if f == cpu.Auto {
		return stored / n * packed
	}
	return f.MatrixBytes(packed)
}

// build names this program: its version is "devel" unless the linker was told,
// and the bits that are computed may change with any line of it.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	return version + "\n" + info.String()
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
