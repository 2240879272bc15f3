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
	for _, format := range []string{"auto", "q8", "q4"} {
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
