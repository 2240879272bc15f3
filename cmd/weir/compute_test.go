package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/model"
)

// TestServeQuantization: the weights' format is part of the fingerprint, and the
// model keeps its wits with 8 and with 4 bits.
func TestServeQuantization(t *testing.T) {
	seen := map[string]string{}
	for _, format := range []string{"auto", "q8", "q4", "w8a8"} {
		url, stop := startServe(t, "--quantization", format)
		code, body := post(t, url, question)
		var answer struct {
			Fingerprint string `json:"system_fingerprint"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || !strings.Contains(body, "Paris") {
			t.Errorf("%s: %d %s", format, code, body)
		}
		if other, ok := seen[answer.Fingerprint]; ok || answer.Fingerprint == "" {
			t.Errorf("%s has the fingerprint %q of %s", format, answer.Fingerprint, other)
		}
		seen[answer.Fingerprint] = format
		stop()
	}
}

// TestFingerprint: it is another for each tier of instructions, and the same
// whatever changes no bit.
func TestFingerprint(t *testing.T) {
	of := func(args ...string) string {
		url, stop := startServe(t, args...)
		defer stop()
		code, body := post(t, url, question)
		var answer struct {
			Fingerprint string `json:"system_fingerprint"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || answer.Fingerprint == "" {
			t.Fatalf("%q: %d %s", args, code, body)
		}
		return answer.Fingerprint
	}
	want := of("--cpu", "generic")
	for _, args := range [][]string{nil, {"--threads", "1", "--block-size", "32"}, {"--max-num-seqs", "3", "--enable-prefix-caching=false"}} {
		if got := of(append([]string{"--cpu", "generic"}, args...)...); got != want {
			t.Errorf("%q changes the fingerprint from %s to %s", args, want, got)
		}
	}
	for _, tier := range cpu.Impls()[:len(cpu.Impls())-1] {
		if got := of("--cpu", tier); got == want {
			t.Errorf("%s has the fingerprint of the tier before", tier)
		} else {
			want = got
		}
	}
}

// TestServeCacheType: so is the type of keys and values, and 8 bits take little
// more than half the memory of 16.
func TestServeCacheType(t *testing.T) {
	seen := map[string]string{}
	for _, format := range []string{"bfloat16", "int8"} {
		url, stop := startServe(t, "--kv-cache-dtype", format)
		code, body := post(t, url, question)
		var answer struct {
			Fingerprint string `json:"system_fingerprint"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || !strings.Contains(body, "Paris") {
			t.Errorf("%s: %d %s", format, code, body)
		}
		if other, ok := seen[answer.Fingerprint]; ok || answer.Fingerprint == "" {
			t.Errorf("%s has the fingerprint %q of %s", format, answer.Fingerprint, other)
		}
		seen[answer.Fingerprint] = format
		stop()
	}
	bytes := map[string]int64{}
	for format, f := range cacheFormats {
		n, err := cpu.KVBytesPerToken(f, model.Shape{Layers: 16, KVHeads: 8, HeadDim: 64})
		if err != nil {
			t.Fatal(err)
		}
		bytes[format] = n
	}
	// Layers, KV heads, a key and a value each of 64 numbers; int8 has two scales.
	want := map[string]int64{"float32": 16 * 8 * 2 * 64 * 4, "float16": 16 * 8 * 2 * 64 * 2, "bfloat16": 16 * 8 * 2 * 64 * 2, "int8": 16 * 8 * 2 * (64 + 4)}
	if !maps.Equal(bytes, want) {
		t.Errorf("bytes per token %v, want %v", bytes, want)
	}
}
