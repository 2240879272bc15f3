package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/model"
)

// prepared is the engine that weir serve with these arguments would run.
func prepared(t *testing.T, args ...string) *preparedEngine {
	t.Helper()
	o, dir := parseServe(t, append([]string{"--device", "cpu", "--kv-cache-memory", "64MiB"}, args...)...)
	src, err := openSource(dir, &o.model)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := src.network.Close(); err != nil {
			t.Error(err)
		}
	}()
	e, err := prepareEngine(t.Context(), src, &o.model, &o.engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFingerprint: the fingerprint differs between tiers of instructions, and between
// types of weights and of keys and values. It is the same whatever changes no bit of
// an answer.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	generic := prepared(t, "--cpu", "generic").fingerprint
	for _, args := range [][]string{nil, {"--threads", "1", "--block-size", "32"}, {"--max-num-seqs", "3", "--enable-prefix-caching=false"}} {
		if got := prepared(t, append([]string{"--cpu", "generic"}, args...)...).fingerprint; got != generic {
			t.Errorf("%q changes the fingerprint from %s to %s", args, generic, got)
		}
	}
	seen := map[string]string{}
	for _, flag := range []string{"--cpu", "--quantization", "--kv-cache-dtype"} {
		values := map[string][]string{"--cpu": cpu.Impls(), "--quantization": {"q8", "q4", "w8a8"}, "--kv-cache-dtype": {"float32", "float16", "int8"}}[flag]
		for _, value := range values {
			// The best tier is the default, so its fingerprint is that of no flag at all.
			e := prepared(t, flag, value)
			if other, ok := seen[e.fingerprint]; ok || !strings.HasPrefix(e.fingerprint, "fp_") {
				t.Errorf("%s %s has the fingerprint %q, as %s", flag, value, e.fingerprint, other)
			}
			seen[e.fingerprint] = flag + " " + value
		}
	}
}

// TestChunkedPrefill: without chunks a step has room for the longest sequence, and limits of
// chunks mean nothing. A step that is too short for a whole prompt is refused at the start.
func TestChunkedPrefill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args          string
		tokens, chunk int
	}{
		{"", 512, 0},
		{"--enable-chunked-prefill --long-prefill-token-threshold 9", 512, 9},
		{"--no-enable-chunked-prefill --long-prefill-token-threshold 9", 2000, 0},
		{"--enable-chunked-prefill=false --max-model-len 100", 512, 0},
		{"--no-enable-chunked-prefill --max-num-batched-tokens 3000", 3000, 0},
	} {
		o, _ := parseServe(t, strings.Fields(c.args)...)
		tokens, prefill := o.engine.stepLimits(false, cmp.Or(o.model.maxModelLen, 2000))
		cfg := o.engine.engineConfig(prefill)
		if tokens != c.tokens || cfg.MaxChunk != c.chunk || cfg.Scheduler.WholePrompts == o.engine.chunked {
			t.Errorf("%s: steps of %d tokens, %+v", c.args, tokens, cfg)
		}
		lines := o.withoutEffect()
		if said := len(lines) == 1 && strings.Contains(lines[0], "no prompt is cut"); said != (o.engine.longPrompt > 0 && c.chunk == 0) {
			t.Errorf("%s: the log says %q", c.args, lines)
		}
	}
	if e := prepared(t, "--no-enable-chunked-prefill"); e.spec.MaxTokens < e.spec.MaxSeqTokens {
		t.Errorf("steps of %d tokens for sequences of %d", e.spec.MaxTokens, e.spec.MaxSeqTokens)
	}
	o, dir := parseServe(t, "--device", "cpu", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "300", "--max-model-len", "301")
	src, err := openSource(dir, &o.model)
	if err != nil {
		t.Fatal(err)
	}
	_, err = prepareEngine(t.Context(), src, &o.model, &o.engine, nil)
	if want := "--max-num-batched-tokens 300 is less than --max-model-len 301"; err == nil || !isUsageError(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := src.network.Close(); err != nil {
		t.Error(err)
	}
}

// TestServeTypes: the bundled model still knows the capital of France with integer
// weights, and with integer keys and values. The answer has the fingerprint of the
// engine.
func TestServeTypes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--quantization", "auto"}, {"--quantization", "q8"}, {"--quantization", "q4"}, {"--quantization", "w8a8"}, {"--kv-cache-dtype", "int8"}, {"--cpu", "generic"}} {
		url, stop := startServe(t, args...)
		code, body := post(t, url, question)
		var answer struct {
			Fingerprint string `json:"system_fingerprint"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || !strings.Contains(body, "Paris") {
			t.Errorf("%q: %d %s", args, code, body)
		}
		if want := prepared(t, args...).fingerprint; answer.Fingerprint != want {
			t.Errorf("%q: the answer has the fingerprint %q, the engine %q", args, answer.Fingerprint, want)
		}
		stop()
	}
}

// TestCacheBytes: a position takes as many bytes as its numbers, and int8 little more
// than half of what 16 bits take.
func TestCacheBytes(t *testing.T) {
	bytes := map[string]int64{}
	c, err := model.ParseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 512, "intermediate_size": 64, "num_hidden_layers": 16,
		"num_attention_heads": 8, "head_dim": 64}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range cacheFormats {
		n, err := cacheBytes(&c, f, 0)
		if err != nil {
			t.Fatal(err)
		}
		bytes[name] = n
	}
	// Layers, KV heads, a key and a value of 64 numbers each; int8 has two scales.
	want := map[string]int64{"float32": 16 * 8 * 2 * 64 * 4, "float16": 16 * 8 * 2 * 64 * 2, "bfloat16": 16 * 8 * 2 * 64 * 2, "int8": 16 * 8 * 2 * (64 + 4)}
	if !maps.Equal(bytes, want) {
		t.Errorf("bytes per token %v, want %v", bytes, want)
	}
}

// TestProcessorsOfTheServer: what the server does beside inference follows from the processors
// that there are, and not from GOMAXPROCS, which an engine raises.
func TestProcessorsOfTheServer(t *testing.T) {
	prepared(t, "--threads", "9")
	o, _ := parseServe(t)
	c := o.serverConfig(nil)
	if c.PrepareWorkers != processors || c.Queries.Workers != max(1, processors/4) {
		t.Errorf("with %d processors %d requests are prepared and %d queries run at a time", processors, c.PrepareWorkers, c.Queries.Workers)
	}
}
