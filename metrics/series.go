package metrics

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine"
)

// The histograms of an engine.
const (
	promptTokens = iota
	generationTokens
	longestGeneration
	maxTokens
	computedTokens
	choices
	preemptions
	iterationTokens
	firstToken
	interToken
	perToken
	total
	queued
	inference
	prefill
	decode
	firstTokenFine
	interTokenFine
	perTokenFine
	queuedFine
	prefillFine
	totalFine
	histograms // how many there are
)

var (
	choiceBounds    = []float64{1, 2, 5, 10, 20}
	preemptBounds   = []float64{1, 2, 3, 4, 5, 10, 20}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	firstBounds     = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tokenBounds     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}

	// vLLM's buckets tell nothing about a model that needs less than 10 ms for a token, or
	// less than 300 ms for an answer.
	fineBounds        = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}
	fineRequestBounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500}
)

// oneTwoFive returns 1, 2, 5, 10, 20, 50 … up to most.
func oneTwoFive(most int) []float64 {
	var bounds []float64
	for decade := 1; len(bounds) < maxBounds-2; decade *= 10 {
		for _, f := range []int{1, 2, 5} {
			if f*decade > most {
				return bounds
			}
			bounds = append(bounds, float64(f*decade))
		}
	}
	return bounds
}

// maxBounds is the largest number of buckets of a histogram, not counting the last one, which
// has no upper bound.
const maxBounds = 32

// cells are the counts of a histogram: for each bound, of the values that are at most this
// bound and above the one before it; and of the values above all bounds.
type cells struct {
	counts [maxBounds + 1]uint64
	sum    float64
}

// tally is everything that is counted from reports. It is plain memory, so that a copy of it
// shows one moment.
type tally struct {
	prompt, cached, generated uint64
	disk, memory, external    uint64    // of cached, those that were brought back from copies
	ended                     [6]uint64 // choices by engine.Reason
	cells                     [histograms]cells
}

// series are the series of an engine.
type series struct {
	engine   *engine.Engine
	bounds   [histograms][]float64
	families []*family

	watched *atomic.Int64 // whether waits are counted, too

	mu struct {
		sync.Mutex
		tally
		waits Waits
	}
}

// number is the value of the label "engine". There is one engine.
const number = "0"

// newSeries returns the series of an engine, which begin at 0 and count since a moment, in
// seconds since 1970. full counts the requests that any engine of the server has refused
// because it was full.
func newSeries(e *engine.Engine, about Model, full *refusals, since float64) *series {
	s := &series{engine: e}
	own := map[string]string{"model_name": about.Name, "engine": number}
	plain := sorted(own)
	s.families = append(s.families, cacheInfo(e, about))
	tokens := oneTwoFive(about.MaxLen)
	for i, h := range [histograms]struct {
		name, help string
		bounds     []float64
	}{
		promptTokens:      {"vllm:request_prompt_tokens", "Prompt tokens of a finished request.", tokens},
		generationTokens:  {"vllm:request_generation_tokens", "Output tokens of a finished request.", tokens},
		longestGeneration: {"vllm:request_max_num_generation_tokens", "Output tokens of the longest choice of a request.", tokens},
		maxTokens:         {"vllm:request_params_max_tokens", "The most output tokens that a finished request could have had.", tokens},
		computedTokens:    {"vllm:request_prefill_kv_computed_tokens", "Prompt tokens of a finished request that were computed, not cached.", tokens},
		choices:           {"vllm:request_params_n", "Choices of a finished request.", choiceBounds},
		preemptions:       {"vllm:request_num_preemptions", "Times that a finished request's KV blocks were taken back.", preemptBounds},
		iterationTokens:   {"vllm:iteration_tokens_total", "Prompt and output tokens of an engine step that gave tokens; prompts count with their first token.", iterationBounds},
		firstToken:        {"vllm:time_to_first_token_seconds", "Time from arrival to the first token.", firstBounds},
		interToken:        {"vllm:inter_token_latency_seconds", "Time between two outputs of a request.", tokenBounds},
		perToken:          {"vllm:request_time_per_output_token_seconds", "Time from the first to the last token of a finished request, by tokens after the first.", tokenBounds},
		total:             {"vllm:e2e_request_latency_seconds", "Time from arrival to the end of a request.", requestBounds},
		queued:            {"vllm:request_queue_time_seconds", "Time a finished request waited for its first step.", requestBounds},
		inference:         {"vllm:request_inference_time_seconds", "Time from the first step of a finished request to its last token.", requestBounds},
		prefill:           {"vllm:request_prefill_time_seconds", "Time from the first step of a finished request to its first token.", requestBounds},
		decode:            {"vllm:request_decode_time_seconds", "Time from the first to the last token of a finished request.", requestBounds},
		firstTokenFine:    {"weir:time_to_first_token_seconds", "Time from arrival to the first token, in buckets for fast models.", fineBounds},
		interTokenFine:    {"weir:inter_token_latency_seconds", "Time between two outputs of a request, in buckets for fast models.", fineBounds},
		perTokenFine:      {"weir:request_time_per_output_token_seconds", "Time from the first to the last token of a finished request, by tokens after the first, in buckets for fast models.", fineBounds},
		queuedFine:        {"weir:request_queue_time_seconds", "Time a finished request waited for its first step, in buckets for fast models.", fineRequestBounds},
		prefillFine:       {"weir:request_prefill_time_seconds", "Time from the first step of a finished request to its first token, in buckets for fast models.", fineRequestBounds},
		totalFine:         {"weir:e2e_request_latency_seconds", "Time from arrival to the end of a request, in buckets for fast models.", fineRequestBounds},
	} {
		f := histogramFamily(h.name, h.help, plain, i, h.bounds)
		f.complete("histogram", h.help, since)
		s.bounds[i], s.families = h.bounds, append(s.families, f)
	}
	s.addScalars(about, full, since)
	return s
}

// addScalars adds the counters and gauges.
func (s *series) addScalars(about Model, full *refusals, since float64) {
	of := func(gauge bool, name, help string, labels map[string]string, value func(*engine.Stats, *tally) float64) {
		kind := "counter"
		if gauge {
			kind = "gauge"
		}
		f := s.families[len(s.families)-1]
		if f.name != name { // series of one name come one after the other
			f = &family{name: name, head: head(name, help, kind)}
			s.families = append(s.families, f)
		}
		pairs := sorted(labels)
		f.samples = append(f.samples, sample{line(name, pairs), pairs, value})
		f.complete(kind, help, since)
	}
	add := func(gauge bool, name, help string, value func(*engine.Stats, *tally) float64, more ...string) {
		labels := map[string]string{"model_name": about.Name, "engine": number}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		of(gauge, name, help, labels, value)
	}
	const refused = "Requests refused because of a limit on those that are accepted, by the name of its flag in vLLM."
	before, promptsBefore := full.places.Load(), full.prompts.Load()
	for _, limit := range []struct {
		reason string
		value  func(*engine.Stats, *tally) float64
	}{
		{"max_num_queued_reqs", func(*engine.Stats, *tally) float64 { return float64(full.places.Load() - before) }},
		{"max_num_queued_tokens", func(*engine.Stats, *tally) float64 { return float64(full.prompts.Load() - promptsBefore) }},
	} {
		of(false, "vllm:admission_rejections_total", refused, map[string]string{"model_name": about.Name, "reason": limit.reason}, limit.value)
	}
	gauge := func(name, help string, value func(*engine.Stats) float64) {
		add(true, name, help, func(st *engine.Stats, _ *tally) float64 { return value(st) })
	}
	count := func(name, help string, value func(*engine.Stats, *tally) uint64, more ...string) {
		add(false, name, help, func(st *engine.Stats, t *tally) float64 { return float64(value(st, t)) }, more...)
	}
	gauge("vllm:num_requests_running", "Sequences that are computed.", func(st *engine.Stats) float64 { return float64(st.Running) })
	gauge("vllm:num_requests_waiting", "Sequences that wait, preempted ones among them.", func(st *engine.Stats) float64 { return float64(st.Waiting) })
	const waiting = "Sequences that wait, by reason: for room, or for something else, which nothing does here."
	add(true, "vllm:num_requests_waiting_by_reason", waiting, func(st *engine.Stats, _ *tally) float64 { return float64(st.Waiting) }, "reason", "capacity")
	add(true, "vllm:num_requests_waiting_by_reason", waiting, func(*engine.Stats, *tally) float64 { return 0 }, "reason", "deferred")
	const sleep = "Whether the engine is awake, which it always is here, or in which way it sleeps."
	for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		is := 0.
		if state == "awake" {
			is = 1
		}
		add(true, "vllm:engine_sleep_state", sleep, func(*engine.Stats, *tally) float64 { return is }, "sleep_state", state)
	}
	gauge("vllm:kv_cache_usage_perc", "Part of the KV blocks that is in use, 0 to 1.", func(st *engine.Stats) float64 {
		return float64(st.BlocksUsed) / float64(max(1, st.BlocksTotal))
	})
	count("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", func(st *engine.Stats, _ *tally) uint64 { return st.PrefixQueries })
	count("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", func(st *engine.Stats, _ *tally) uint64 { return st.PrefixHits })
	for _, of := range []struct{ name, help string }{
		{"vllm:mm_cache_queries_total", "Images and the like looked up in a cache; there is none, so that this is 0."},
		{"vllm:mm_cache_hits_total", "Images and the like found in a cache; there is none, so that this is 0."},
	} {
		count(of.name, of.help, func(*engine.Stats, *tally) uint64 { return 0 })
	}
	count("vllm:external_prefix_cache_queries_total", "Tokens of sequences that were looked up in the copies of the prefix cache outside of the device; 0 if there are none.", func(st *engine.Stats, _ *tally) uint64 { return st.Offload.Queried })
	count("vllm:external_prefix_cache_hits_total", "Of those, tokens that the device did not have and that were brought back.", func(st *engine.Stats, _ *tally) uint64 { return st.Offload.Hits })
	count("vllm:num_preemptions_total", "Times that a sequence's KV blocks were taken back.", func(st *engine.Stats, _ *tally) uint64 { return st.Preemptions })
	count("vllm:prompt_tokens_total", "Prompt tokens of requests that got their first token.", func(_ *engine.Stats, t *tally) uint64 { return t.prompt })
	count("vllm:prompt_tokens_cached_total", "Of those, tokens that were cached.", func(_ *engine.Stats, t *tally) uint64 { return t.cached })
	const source = "Prompt tokens by where their keys and values came from."
	count("vllm:prompt_tokens_by_source_total", source, func(_ *engine.Stats, t *tally) uint64 { return t.prompt - t.cached }, "source", "local_compute")
	count("vllm:prompt_tokens_by_source_total", source, func(_ *engine.Stats, t *tally) uint64 { return t.cached - t.external }, "source", "local_cache_hit")
	count("vllm:prompt_tokens_by_source_total", source, func(_ *engine.Stats, t *tally) uint64 { return t.external }, "source", "external_kv_transfer")
	const tier = "Cached prompt tokens by where their keys and values were: on the device, in copies in memory or on a disk, or on another machine (p2p)."
	count("vllm:prompt_tokens_cached_by_source_total", tier, func(_ *engine.Stats, t *tally) uint64 { return t.cached - t.disk - t.memory - t.external }, "source", "device")
	count("vllm:prompt_tokens_cached_by_source_total", tier, func(_ *engine.Stats, t *tally) uint64 { return t.memory }, "source", "host")
	count("vllm:prompt_tokens_cached_by_source_total", tier, func(_ *engine.Stats, t *tally) uint64 { return t.disk }, "source", "disk")
	count("vllm:prompt_tokens_cached_by_source_total", tier, func(_ *engine.Stats, t *tally) uint64 { return t.external }, "source", "p2p")
	count("vllm:prompt_tokens_cached_by_source_total", tier, func(*engine.Stats, *tally) uint64 { return 0 }, "source", "external_unspecified")
	count("vllm:generation_tokens_total", "Output tokens.", func(_ *engine.Stats, t *tally) uint64 { return t.generated })
	for _, r := range []struct {
		reason engine.Reason
		name   string
	}{{engine.Stop, "stop"}, {engine.Length, "length"}, {engine.Repeated, "repetition"}, {engine.Failed, "error"}, {engine.Aborted, "abort"}} {
		count("vllm:request_success_total", "Finished requests by reason. Those whose client left are in weir:aborted_requests_total alone.", func(_ *engine.Stats, t *tally) uint64 { return t.ended[r.reason] }, "finished_reason", r.name)
	}
	count("weir:aborted_requests_total", "Requests that ended because their client left, or the server stopped.", func(st *engine.Stats, _ *tally) uint64 { return st.Finished[engine.Aborted] })
	count("weir:forced_tokens_total", "Output tokens that a constraint left no alternative to, taken without a forward pass.", func(st *engine.Stats, _ *tally) uint64 { return st.ForcedTokens })
	gauge("weir:sequences_sitting_out", "Sequences that steps leave out, because the masks of their constraints are late, or because the step has as much work beside its computation as it may.", func(st *engine.Stats) float64 { return float64(st.SittingOut) })
	count("weir:postponed_tokens_total", "Tokens that were drawn in a later step, because the mask of a constraint was late.", func(st *engine.Stats, _ *tally) uint64 { return st.Postponed })
	count("weir:slow_masks_total", "Times that the masks of a request took so long that they were put off behind those of others.", func(st *engine.Stats, _ *tally) uint64 { return st.SlowMasks })
	add(false, "weir:mask_wait_seconds_total", "Time that steps have waited for masks.", func(st *engine.Stats, _ *tally) float64 { return st.MaskWait.Seconds() })
	count("weir:aged_sequences_total", "Sequences that were made as urgent as any, because more urgent ones had been served for long.", func(st *engine.Stats, _ *tally) uint64 { return st.Aged })
	count("weir:engine_reopened_total", "Times that the backend failed and was opened again.", func(st *engine.Stats, _ *tally) uint64 { return st.Reopened })
	count("weir:engine_steps_total", "Engine steps.", func(st *engine.Stats, _ *tally) uint64 { return st.Steps })

	s.addCache(s.engine, add)
}

// addCache adds the series of networks with a recurrent state, or with layers that see a window or a chunk. Others do not have them.
func (s *series) addCache(e *engine.Engine, add func(gauge bool, name, help string, value func(*engine.Stats, *tally) float64, more ...string)) {
	spec := e.Spec()
	if e.Offloads() {
		addOffload(add)
	}
	if spec.StateSlots > 0 {
		const slots = "Slots for recurrent states, by what is in them: a sequence's state; a checkpoint, which goes when a slot is needed; nothing that anybody needs."
		add(true, "weir:state_slots", slots, func(st *engine.Stats, _ *tally) float64 { return float64(st.StatesUsed) }, "state", "used")
		add(true, "weir:state_slots", slots, func(st *engine.Stats, _ *tally) float64 { return float64(st.StatesKept) }, "state", "cached")
		add(true, "weir:state_slots", slots, func(st *engine.Stats, _ *tally) float64 {
			return float64(st.StatesTotal - st.StatesUsed - st.StatesKept)
		}, "state", "free")
		add(false, "weir:state_checkpoint_hits_total", "Sequences that began with the checkpoint of a recurrent state, and computed the tokens after it alone.",
			func(st *engine.Stats, _ *tally) float64 { return float64(st.StateHits) })
	}
	if len(spec.Groups) > 0 {
		const blocks = "KV blocks in use, by what the layers see that they are for: all positions, or a window or chunk of them."
		add(true, "weir:kv_blocks_used", blocks, func(st *engine.Stats, _ *tally) float64 { return float64(st.BlocksUsed - st.BlocksWindowed) }, "layers", "all")
		add(true, "weir:kv_blocks_used", blocks, func(st *engine.Stats, _ *tally) float64 { return float64(st.BlocksWindowed) }, "layers", "window")
	}
}

// cacheInfo describes the KV cache with the labels that vLLM has (vllm/config/cache.py), in
// Python's spellings. Gateways size their model of the prefix cache by block_size and
// num_gpu_blocks. What this server does not have is None, or off. The first block of the
// cache is the null block, which no sequence uses.
func cacheInfo(e *engine.Engine, about Model) *family {
	const none, no = "None", "False"
	spec := e.Spec()
	block, blocks := strconv.Itoa(spec.BlockTokens), spec.NumBlocks-1
	labels := map[string]string{
		"engine": number, "block_size": block, "num_gpu_blocks": strconv.Itoa(blocks), "cache_dtype": about.CacheType,
		"enable_prefix_caching": no, "prefix_caching_hash_algo": "sha256", "hash_block_size": block, "prefix_match_unit": none, "cache_hit_alignment_tokens": none,
		"kv_cache_size_tokens": strconv.Itoa(spec.PoolTokens()), "kv_cache_max_concurrency": strconv.FormatFloat(float64(spec.PoolTokens())/float64(about.MaxLen), 'g', 6, 64),
		"effective_attention_block_size": block, "user_specified_block_size": no, "is_attention_free": no, "sliding_window": none,
		"gpu_memory_utilization": none, "kv_cache_memory_bytes": none, "num_gpu_blocks_override": none, "num_cpu_blocks": none,
		"kv_cache_dtype_skip_layers": "[]", "kv_cache_layout": none, "kv_sharing_fast_prefill": no, "kv_offloading_backend": none, "kv_offloading_size": none,
		"mamba_block_size": none, "mamba_cache_dtype": none, "mamba_cache_mode": none, "mamba_page_size_padded": none, "mamba_ssm_cache_dtype": none,
		"_block_size_resolved": "True", "prefix_cache_retention_interval": none, "skip_page_size_padded": none, "enable_mamba_shared_prefix_checkpoint": no,
		"replayssm_buffer_len": none, "use_replayssm": no, "use_kda_recoverssm": no, "simple_cpu_offload_num_blocks": none, "swa_bounded_replay": no,
	}
	if e.Caching() {
		labels["enable_prefix_caching"] = "True"
	}
	if about.CacheType == "" {
		labels["cache_dtype"] = "auto"
	}
	const name = "vllm:cache_config_info"
	pairs := sorted(labels)
	one := func(*engine.Stats, *tally) float64 { return 1 }
	return &family{name: name, head: head(name, "The KV cache, in labels.", "gauge"), samples: []sample{{line(name, pairs), pairs, one}}}
}

// observe counts a report. The engine's loop calls it.
func (s *series) observe(r *engine.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.tally
	t.prompt += uint64(r.Prompt)
	t.cached += uint64(r.Cached)
	t.disk += uint64(r.Disk)
	t.memory += uint64(r.Memory)
	t.external += uint64(r.External)
	t.generated += uint64(r.Tokens)
	if r.Tokens > 0 {
		s.tokens(iterationTokens, r.Prompt+r.Tokens)
	}
	for _, d := range r.First {
		s.time(firstToken, d, 1)
		s.time(firstTokenFine, d, 1)
	}
	for _, g := range r.Gaps {
		s.time(interToken, g.D, g.N)
		s.time(interTokenFine, g.D, g.N)
	}
	if s.watched.Load() > 0 {
		s.mu.waits.add(r)
	}
	for i := range r.Ended {
		s.end(&r.Ended[i])
	}
}

// end counts the end of a choice. A choice whose client has left is not a finished request.
func (s *series) end(e *engine.Ended) {
	if e.Reason == engine.Aborted {
		return
	}
	s.mu.ended[e.Reason]++
	s.tokens(promptTokens, e.Prompt)
	s.tokens(generationTokens, e.Output)
	s.tokens(maxTokens, e.MaxTokens)
	s.tokens(computedTokens, e.Prompt-e.Cached)
	s.tokens(preemptions, e.Preempted)
	if e.N > 0 {
		s.tokens(choices, e.N)
		s.tokens(longestGeneration, e.Longest)
	}
	s.time(total, e.Total, 1)
	s.time(totalFine, e.Total, 1)
	if e.Queue >= 0 {
		s.time(queued, e.Queue, 1)
		s.time(queuedFine, e.Queue, 1)
	}
	if e.Prefill >= 0 {
		s.time(prefill, e.Prefill, 1)
		s.time(prefillFine, e.Prefill, 1)
		s.time(decode, e.Decode, 1)
		s.time(inference, e.Prefill+e.Decode, 1)
	}
	if e.Output > 1 {
		s.time(perToken, e.Decode/time.Duration(e.Output-1), 1)
		s.time(perTokenFine, e.Decode/time.Duration(e.Output-1), 1)
	}
}

func (s *series) time(h int, d time.Duration, n int) { s.value(h, d.Seconds(), n) }

func (s *series) tokens(h, n int) { s.value(h, float64(n), 1) }

// value counts v n times.
func (s *series) value(h int, v float64, n int) {
	i, _ := slices.BinarySearch(s.bounds[h], v)
	c := &s.mu.cells[h]
	c.counts[i] += uint64(n)
	c.sum += v * float64(n)
}

// append writes the series as they are at one moment.
func (s *series) append(b []byte) []byte {
	st := s.engine.Stats()
	s.mu.Lock()
	t := s.mu.tally
	s.mu.Unlock()
	for _, f := range s.families {
		b = f.append(b, &st, &t)
	}
	return b
}
