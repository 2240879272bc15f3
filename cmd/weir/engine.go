package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/device/cpu"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/internal/plainfile"
	"weir/kvevents"
	"weir/kvstore"
	"weir/model"
	"weir/scheduler"
)

// preparedEngine is an engine whose device is chosen and whose sizes are settled,
// but which does not run yet.
type preparedEngine struct {
	engine      *engine.Engine
	spec        backend.Spec // on a GPU, the number of KV blocks is known once the engine is ready
	kvBytes     int64
	hostBytes   int64  // what weights and KV cache take of this machine's memory
	cacheType   string // type of keys and values
	fingerprint string
	device      string              // in words
	notes       []string            // about the weights, for the log
	copies      *kvstore.Store      // of the prefix cache; nil: there are none
	events      *kvevents.Publisher // of its changes; nil: they are not published
	transfers   transfers
	shorten     bool // the context may be shorter than the model's, so that it fits the memory
}

// A backendPlan is a backend that has been chosen and not opened yet.
type backendPlan struct {
	open       func() (backend.Backend, error)
	processors int // GOMAXPROCS that suits it
}

// prepareEngine chooses the device, sizes the engine for the model and checks the
// options. progress, if not nil, is told while weights are loaded how many of
// their bytes are.
func prepareEngine(ctx context.Context, s *source, m *modelOptions, o *engineOptions, progress func(done, total int64)) (*preparedEngine, error) {
	found, err := o.findGPU()
	if err != nil {
		return nil, err
	}
	var notes []string
	if found != nil {
		err := found.refuses(&s.network.Config)
		if err == nil && s.pooling != nil {
			err = errors.New("a GPU computes no embeddings yet")
		}
		if err != nil {
			if o.device != "auto" {
				return nil, usageError{err}
			}
			notes, found = append(notes, "the CPU computes: "+err.Error()), nil
		}
	}
	if err := cmp.Or(o.offload.check(o, found != nil), o.events.check(o), o.transfer.check(o)); err != nil {
		return nil, usageError{err}
	}
	o = o.suiting(s)
	longest := cmp.Or(m.maxModelLen, o.longest(&s.network.Config, found))
	maxTokens, maxPrefill := o.stepLimits(found != nil, longest)
	opt, err := runnerOptions(s.network, m, o, longest, maxTokens)
	if err != nil {
		return nil, usageError{err}
	}
	opt.Progress = progress
	e := &preparedEngine{shorten: m.maxModelLen == 0}
	var plan backendPlan
	switch {
	case found != nil:
		plan, err = e.planGPU(ctx, found, s, opt, o)
	case o.device == "sim":
		plan, err = e.planSim(s, opt, o)
	default:
		plan, err = e.planCPU(ctx, s, opt, o)
	}
	if err != nil {
		return nil, err
	}
	e.notes = append(notes, e.notes...)
	cfg := o.engineConfig(maxPrefill)
	cfg.Tokenizer = s.tokenizer
	if e.copies, err = o.offload.open(e.identity(opt.BlockTokens)); err != nil {
		return nil, err
	}
	if e.copies != nil {
		e.hostBytes += o.offload.held()
	}
	if err := e.openTransfers(&o.transfer, opt.BlockTokens); err != nil {
		return nil, errors.Join(err, e.closeCopies())
	}
	e.hostBytes += o.transfer.held()
	cfg.Offload, cfg.SaveShare = e.offload(), o.transfer.saveShare()
	if e.events, err = o.events.open(e.spec, &o.offload); err != nil {
		return nil, errors.Join(err, e.closeTransfers(), e.closeCopies())
	}
	if e.events != nil {
		e.notes = append(e.notes, o.events.note(e.events))
		cfg.Changes, cfg.MostChanges = e.events.Take, o.events.config.MaxQueueSize
	}
	e.engine = engine.New(cfg, plan.open)
	e.notify()
	runtime.GOMAXPROCS(plan.processors)
	return e, nil
}

// suiting returns the options with what a model that embeds needs where they leave the choice. Its keys and values live as
// long as a text is computed, and their rounding would be seen in every vector: they are float32. And what
// an encoder reads is computed in one step, for which there has to be room.
func (o *engineOptions) suiting(s *source) *engineOptions {
	c := *o
	if s.pooling != nil && c.kvDtype == "auto" {
		c.kvDtype = "float32"
	}
	if s.network.Config.Network.Whole {
		c.chunked = false
	}
	return &c
}

// longest is the longest sequence to plan for if none was asked for.
func (o *engineOptions) longest(c *model.Config, found *gpu) int {
	if n := c.Network.LongAfter; found != nil && n > 0 {
		return n // a GPU has no rotations for longer ones yet
	}
	if o.chunked {
		return c.MaxSeqTokens
	}
	memory := memoryLimit()
	if found != nil {
		memory = found.memory()
	}
	return wholeContext(c, o.maxTokens, memory)
}

// stepLimits returns how many tokens a step may have, and how many of them may be
// of prompts while answers are being written. If prompts are not cut, a step has room
// for the longest sequence, unless --max-num-batched-tokens is given.
func (o *engineOptions) stepLimits(onGPU bool, longest int) (tokens, prefill int) {
	tokens, prefill = o.maxTokens, o.maxPrefill
	if tokens == 0 {
		tokens = stepTokens
		if onGPU {
			tokens = 2048
		}
		if !o.chunked {
			tokens = max(tokens, longest)
		}
	}
	if prefill < 0 {
		prefill = 128
		if onGPU {
			prefill = 1024
		}
	}
	return tokens, prefill
}

// maxITLTarget is the largest --itl-target, in milliseconds: a minute.
const maxITLTarget = 60_000.0

// stateEvery is the number of prompt tokens after which the state of a network that has one is kept for
// other prompts: to compute so many again takes some seconds at most, and a long prompt does not
// fill all slots.
const stateEvery = 1024

// engineConfig is the part of the engine's configuration that flags decide.
func (o *engineOptions) engineConfig(maxPrefill int) engine.Config {
	c := engine.Config{
		// There are priorities whatever --scheduling-policy says: batches have the lowest. The flag decides whether requests may name one.
		Scheduler: scheduler.Config{MaxPrefill: maxPrefill, Priority: true, WholePrompts: !o.chunked, StateEvery: stateEvery},
		Caching:   o.caching, MaxLive: o.maxLive, MaxPrompts: o.maxPrompts, MaxChunk: o.longPrompt,
		ITLTarget: time.Duration(o.itlTarget * float64(time.Millisecond)),
	}
	if !o.chunked {
		c.MaxChunk = 0
	}
	return c
}

// runnerOptions returns the sizes of the model's runner, all but the number of KV
// blocks. It refuses sizes that the model or the engine cannot have.
func runnerOptions(network *model.Model, m *modelOptions, o *engineOptions, longest, maxTokens int) (model.Options, error) {
	for _, f := range []struct {
		name  string
		value int
	}{{"block-size", o.blockSize}, {"max-num-seqs", o.maxSeqs}, {"max-num-batched-tokens", maxTokens}, {"max-num-queued", o.maxLive}} {
		if f.value < 1 { // the packages below take 0 for a default
			return model.Options{}, fmt.Errorf("--%s %d: it takes 1 or more", f.name, f.value)
		}
	}
	opt := network.Options(model.Options{BlockTokens: o.blockSize, MaxTokens: maxTokens, MaxSeqs: o.maxSeqs, MaxSeqTokens: longest})
	if longest := network.Config.MaxSeqTokens; m.maxModelLen < 0 || opt.MaxSeqTokens > longest {
		return opt, fmt.Errorf("--max-model-len %d: the model was made for sequences of at most %d tokens", m.maxModelLen, longest)
	}
	if o.maxPrompts < 0 {
		return opt, fmt.Errorf("--max-num-queued-tokens %d: it takes 0 or more", o.maxPrompts)
	}
	if !(o.itlTarget >= 0 && o.itlTarget <= maxITLTarget) {
		return opt, fmt.Errorf("--itl-target %v: it takes 0 to %v milliseconds", o.itlTarget, maxITLTarget)
	}
	if o.longPrompt < 0 {
		return opt, fmt.Errorf("--long-prefill-token-threshold %d: it takes 0 or more", o.longPrompt)
	}
	if opt.MaxTokens < opt.MaxSeqs {
		return opt, fmt.Errorf("--max-num-batched-tokens %d is less than --max-num-seqs %d: some streams would stand still", opt.MaxTokens, opt.MaxSeqs)
	}
	if network.Config.Network.Whole && opt.MaxTokens < opt.MaxSeqTokens {
		return opt, fmt.Errorf("--max-num-batched-tokens %d is less than the context of %d: an encoder computes a text in one step; raise it, or set --max-model-len", opt.MaxTokens, opt.MaxSeqTokens)
	}
	if !o.chunked && opt.MaxTokens < opt.MaxSeqTokens {
		return opt, fmt.Errorf("--max-num-batched-tokens %d is less than --max-model-len %d: with --no-enable-chunked-prefill no step could compute the longest prompt; raise the first or lower the second",
			opt.MaxTokens, opt.MaxSeqTokens)
	}
	return opt, network.Check(opt)
}

// sizeHostCache chooses the number of KV blocks of a device that keeps them in this
// machine's memory beside so many bytes of weights, and sets what e says of the cache.
func (e *preparedEngine) sizeHostCache(s *source, opt *model.Options, o *engineOptions, weights int64) (kvType cpu.Format, err error) {
	_, kvType, e.cacheType = o.types()
	opt.GroupWindows = opt.MaxSeqTokens
	perToken, err := cacheBytes(&s.network.Config, kvType, opt.GroupWindows)
	if err != nil {
		return kvType, usageError{err}
	}
	room := cacheRoom{asked: int64(o.kvMemory), limit: memoryLimit(), weights: weights, state: s.network.Config.StateBytes(), groups: s.network.Groups(*opt), shorten: e.shorten}
	opt.NumBlocks, e.kvBytes, err = room.sizePool(opt, perToken)
	if !o.chunked && o.maxTokens == 0 { // steps need not be longer than the sequences that fit
		opt.MaxTokens, _ = o.stepLimits(false, opt.MaxSeqTokens)
	}
	return kvType, err
}

// specOf is the contract of a backend with these sizes and this many steps in
// flight.
func specOf(network *model.Model, opt model.Options, depth int) backend.Spec {
	states := 0
	if network.Config.StateBytes() > 0 {
		states = opt.StateSlots
	}
	return backend.Spec{Groups: network.Groups(opt), StateSlots: states, Hidden: network.Config.Hidden, Whole: network.Config.Network.Whole, VocabSize: network.Config.VocabSize, BlockTokens: opt.BlockTokens, NumBlocks: opt.NumBlocks, MaxTokens: opt.MaxTokens,
		MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens, Depth: depth}
}

// planSim plans the device that makes tokens up.
func (e *preparedEngine) planSim(s *source, opt model.Options, o *engineOptions) (p backendPlan, err error) {
	if _, err = e.sizeHostCache(s, &opt, o, 0); err != nil {
		return p, err
	}
	profile, err := simProfile(o.simProfile, s.defaults.EOS, s.defaults.Stop)
	if err != nil {
		return p, err
	}
	answer, err := simScript(o.simScript, s)
	if err != nil {
		return p, err
	}
	e.spec = specOf(s.network, opt, 2)
	e.device = "simulated device, profile " + profile.Name + ": answers are made up"
	p.processors = 1 + max(o.threads, 0)
	if o.threads == 0 {
		p.processors = 1 + runtime.GOMAXPROCS(0)
	}
	p.open = func() (backend.Backend, error) {
		if answer != nil {
			return sim.NewScripted(e.spec, profile, answer)
		}
		return sim.NewPaced(e.spec, profile)
	}
	return p, nil
}

// planCPU plans the CPU device.
func (e *preparedEngine) planCPU(ctx context.Context, s *source, opt model.Options, o *engineOptions) (p backendPlan, err error) {
	c, _, err := o.config()
	if err != nil {
		return p, err
	}
	c.Threads = o.computingThreads(&c)
	if e.notes, err = o.checkQuantized(quantizedTensors(s.network), c); err != nil {
		return p, err
	}
	packed, err := packedBytes(s.network, c)
	if err != nil {
		return p, usageError{err}
	}
	if err := checkMemory(packed, memoryAvailable(), memoryLimit()); err != nil {
		return p, err
	}
	kvType, err := e.sizeHostCache(s, &opt, o, packed)
	if err != nil {
		return p, err
	}
	e.hostBytes = packed + e.kvBytes
	tier, err := cpu.Tier(c.Impl)
	if err != nil {
		return p, usageError{err}
	}
	e.spec = specOf(s.network, opt, 1)
	e.device = fmt.Sprintf("CPU, %s, %d threads", tier, c.Threads)
	e.fingerprint = fingerprint(build(), tier, c.WeightType.String(), kvType.String(), s.network.Digest())
	// Connections and the preparation of requests get a processor of their own.
	// Without it they would wait for the end of a step.
	p.processors = c.Threads + 1
	fresh := s.fresh()
	p.open = func() (backend.Backend, error) {
		if err := fresh(); err != nil {
			return nil, err
		}
		c := c
		tiles := o.tiles.open(s.network, &c)
		if tiles != nil {
			c.Tiles = tiles
		}
		dev, err := cpu.Open(c)
		if err != nil {
			if tiles != nil {
				tiles.Close()
			}
			return nil, err
		}
		r, err := model.NewRunner(ctx, dev, s.network, opt)
		if err == nil && tiles != nil {
			tiles.Save()
		}
		return r, err
	}
	return p, nil
}

// computingThreads is how many threads compute. If --threads and --cpu-pin do not say, it is
// bounded by the processor time that a control group allows: beyond it, the system
// would stop one thread after the other, and each step would wait for the one that
// is stopped.
func (o *cpuOptions) computingThreads(c *cpu.Config) int {
	n := c.ThreadCount()
	if o.threads != 0 || o.pin != cpu.PinNodes && o.pin != cpu.PinNone {
		return n
	}
	if limit := processorLimit(); limit > 0 {
		n = min(n, limit)
	}
	return n
}

// build identifies this program. The version alone does not: it is "devel" unless
// the linker was told another, and any changed line may change the bits of an answer.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	return version + "\n" + info.String()
}

// fingerprint is a hash of everything that decides the bits of an answer.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return "fp_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// simProfile finds a latency profile by its name or in a file. If the profile does
// not say which tokens to avoid, it avoids the end tokens, so that answers are as
// long as they were asked to be.
func simProfile(name string, eos int32, stop []int32) (sim.Profile, error) {
	p, err := readSimProfile(name)
	if err != nil {
		return p, usageError{fmt.Errorf("--sim-profile: %w", err)}
	}
	if len(p.Avoid) == 0 {
		p.Avoid = append(p.Avoid, stop...)
		if eos >= 0 {
			p.Avoid = append(p.Avoid, eos)
		}
	}
	return p, nil
}

func readSimProfile(name string) (p sim.Profile, err error) {
	for _, known := range sim.Profiles() {
		if known.Name == name {
			return known, nil
		}
	}
	src, err := plainfile.Read(name)
	if err != nil {
		return p, err
	}
	if err := jsontext.Decode(src, &p); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}
