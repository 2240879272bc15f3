package main

import (
	"encoding/json"
	"strings"
	"testing"
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
