package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchEngine measures the bundled model for a moment.
func TestBenchEngine(t *testing.T) {
	t.Parallel()
	file, profile := filepath.Join(t.TempDir(), "engine.json"), filepath.Join(t.TempDir(), "profile")
	code, out, errOut := runBench("engine", "--batch", "1,2", "--context", "8,4000", "--prefill", "16", "--steps", "2", "--repeat", "2", "--threads", "1",
		"--limits-memory", "1MiB", "--kv-cache-memory", "8MiB", "--kv-cache-dtype", "float16", "--json", file, "--cpuprofile", profile)
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	for _, want := range []string{"weir-tiny: weights as stored", "keys and values float16, 3.0 KiB", "memory read, GB/s", "\nprefill      1      16 ", "\ndecode       2       8 ", "\ndecode       1    4000  left out: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, kind := range [][]string{{"--quantization", "q8"}, {"--quantization", "q4", "--kv-cache-dtype", "int8"}, {"--quantization", "w8a8"}, {"--dtype", "float32"}} {
		args := append([]string{"engine", "--batch", "2", "--context", "20", "--prefill", "none", "--steps", "1", "--repeat", "1", "--limits-memory", "0"}, kind...)
		if code, out, errOut := runBench(args...); code != 0 || errOut != "" || !strings.Contains(out, "weights "+kind[1]) || !strings.Contains(out, "\ndecode       2      20 ") {
			t.Errorf("%q: exit %d: %s%s", kind, code, out, errOut)
		}
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Error("no profile", err)
	}
	v := readJSON(t, file)
	if v["threads"] != 1.0 || len(v["rows"].([]any)) != 3 || len(v["skipped"].([]any)) != 2 {
		t.Error(v["rows"], v["skipped"])
	}
}

// TestBenchEngineFamilies measures networks with experts, states, windows, shared caches and latent
// attention, with every type of cache that they have.
func TestBenchEngineFamilies(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"qwen3_moe", "gpt_oss", "qwen3_5", "qwen3_next", "granitemoehybrid", "lfm2_moe", "gemma4_e", "deepseek_v3", "llama4"} {
		file := filepath.Join(t.TempDir(), "engine.json")
		code, out, errOut := runBench("engine", "--model", "../../model/testdata/families/"+family, "--batch", "1,3", "--context", "0,20", "--prefill", "12", "--steps", "2", "--repeat", "1",
			"--threads", "1", "--limits-memory", "1MiB", "--json", file)
		if code != 0 || errOut != "" {
			t.Errorf("%s: exit %d: %s%s", family, code, out, errOut)
			continue
		}
		rows := readJSON(t, file)["rows"].([]any)
		if len(rows) != 5 {
			t.Errorf("%s: %d rows", family, len(rows))
		}
		for _, r := range rows {
			row := r.(map[string]any)
			has := func(key string) bool { return row[key].(float64) > 0 }
			moe, hybrid := strings.Contains(family, "moe") || family == "gpt_oss" || family == "qwen3_next" || family == "deepseek_v3" || family == "llama4", strings.Contains(family, "qwen3_5") ||
				family == "qwen3_next" || family == "lfm2_moe" || family == "granitemoehybrid"
			if !has("share_of_step_that_the_limits_allow") || !has("weight_bytes_per_step") || has("experts_per_mixture_and_step") != moe || has("state_bytes_per_step") != hybrid || has("recurrence_operations_per_step") != hybrid {
				t.Errorf("%s: %v", family, row)
			}
		}
	}
}

// TestBenchEngineRefuses: a mistake in the flags is reported in one sentence before
// anything is measured.
func TestBenchEngineRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"batch 0 is not in":         {"--batch", "0"},
		"\"x\" is not a number":     {"--context", "1,x"},
		"neither batches":           {"--context", "none", "--prefill", "none"},
		"takes no arguments":        {"folder"},
		"are two models":            {"--model", "x", "--shape", "qwen3-0.6b"},
		"no shape \"x\"; there are": {"--shape", "x"},
		"threads -1":                {"--threads", "-1"},
		"\"z80\" is not available":  {"--cpu", "z80"},
		"is none of auto, float32":  {"--dtype", "q9"},
		"nothing is left":           {"--kv-cache-memory", "1k"},
	} {
		if code, out, errOut := runBench(append([]string{"engine"}, args...)...); code != 2 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d: %s%s", args, code, out, errOut)
		}
	}
	if code, _, errOut := runBench("engine", "--model", t.TempDir()); code != 1 || !strings.Contains(errOut, "config.json") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	if code, out, _ := runBench("engine", "--help"); code != 0 || !strings.Contains(out, "llama-3.2-1b") {
		t.Errorf("exit %d: %s", code, out)
	}
}
