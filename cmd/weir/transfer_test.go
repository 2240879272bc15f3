package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// transferred is what a test reads of an answer.
type transferred struct {
	Choices json.RawMessage `json:"choices"`
	Usage   struct {
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Params map[string]any `json:"kv_transfer_params"`
	text   string
}

// tell asks for a story that begins with a long prompt, in the way in which vLLM's proxy does.
func tell(t *testing.T, url, key, prompt string, tokens int, params any) (a transferred) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": prompt}}, "max_tokens": tokens, "seed": 7, "temperature": 0.9,
		"logprobs": true, "top_logprobs": 5, "return_token_ids": true, "ignore_eos": true, "kv_transfer_params": params,
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+key)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s (%v)", r.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	a.text = string(text)
	return a
}

// series is the value of a series of a server.
func series(t *testing.T, url, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + pattern + `(?:\{.*\})? (\S+)$`).FindStringSubmatch(get(t, url+"/metrics"))
	if m == nil {
		t.Fatalf("there is no series %s", pattern)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// remoteDecode is what vLLM's proxies send to the server that computes the prompt.
var remoteDecode = map[string]any{"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": nil, "remote_block_ids": nil, "remote_host": nil, "remote_port": nil}

// TestPrefillDecode computes prompts on one server and answers on another. All bits are those of a single server, also when the first one
// has died, and only keys with the right to it name another server.
func TestPrefillDecode(t *testing.T) {
	dir := t.TempDir()
	secret, credentials := filepath.Join(dir, "secret"), filepath.Join(dir, "keys.yaml")
	if err := os.WriteFile(secret, []byte("a secret of tests, long enough\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := "keys:\n"
	for _, k := range []struct{ name, rights string }{{"proxy", "[read, transfer]"}, {"client", "[read, write, admin]"}} {
		keys += fmt.Sprintf("  - {id: %s, tenant: both, hash: \"%s\", rights: %s}\n", k.name, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(k.name))), k.rights)
	}
	if err := os.WriteFile(credentials, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	prompts := make([]string, 5)
	for i := range prompts {
		prompts[i] = strings.Repeat(fmt.Sprintf("Tell me story %d about a robot. ", i), 12)
	}
	common := []string{"--data-dir", "", "--credentials", credentials}
	with := append([]string{"--kv-transfer-secret-file", secret}, common...)
	single, _ := startServe(t, common...)
	prefill, stopPrefill := startServe(t, append([]string{"--role", "prefill", "--kv-transfer-listen", "127.0.0.1:0"}, with...)...)

	params := tell(t, prefill, "proxy", prompts[0], 1, remoteDecode).Params
	if params["do_remote_prefill"] != true || params["do_remote_decode"] != false || params["remote_host"] != "127.0.0.1" || params["remote_engine_id"] == "" {
		t.Fatalf("a partner is told %v", params)
	}
	if ids := params["remote_block_ids"].([]any); len(ids) < 5 {
		t.Errorf("%d blocks are held", len(ids))
	}
	partner := fmt.Sprintf("127.0.0.1:%.0f", params["remote_port"])
	decode, _ := startServe(t, append([]string{"--role", "decode", "--kv-transfer-peers", partner}, with...)...)
	stranger, _ := startServe(t, append([]string{"--kv-transfer-peers", partner, "--block-size", "32"}, with...)...)

	const external = `vllm:prompt_tokens_by_source_total\{.*source="external_kv_transfer"\}`
	want := tell(t, single, "client", prompts[0], 24, nil)
	got := tell(t, decode, "proxy", prompts[0], 24, params)
	if string(got.Choices) != string(want.Choices) {
		t.Errorf("with blocks of a partner\n%s\nwant\n%s", got.Choices, want.Choices)
	}
	if n := series(t, decode, external); n < 64 || int(n) != got.Usage.Details.Cached {
		t.Errorf("%v tokens came from the partner, and the answer says %d", n, got.Usage.Details.Cached)
	}
	for series(t, prefill, "weir:kv_transfer_leases") != 0 { // until the partner has said that it needs nothing more
		if t.Context().Err() != nil {
			return
		}
	}

	// What a client without the right says has no effect, on either side.
	if got := tell(t, prefill, "client", prompts[1], 1, remoteDecode); got.Params != nil {
		t.Errorf("blocks are held for a client without the right: %v", got.Params)
	}
	params = tell(t, prefill, "proxy", prompts[1], 1, remoteDecode).Params
	before := series(t, decode, external)
	for _, c := range []struct {
		what, url, key string
		change         map[string]any
	}{
		{"the key has no right", decode, "client", nil},
		{"the address is nobody's", decode, "proxy", map[string]any{"remote_port": 1}},
		{"the lease is unknown", decode, "proxy", map[string]any{"remote_request_id": strings.Repeat("0", 32)}},
		{"the partner has another fingerprint", stranger, "proxy", nil},
	} {
		sent := maps.Clone(params)
		maps.Copy(sent, c.change)
		prompt := prompts[1] + c.what
		if got, want := tell(t, c.url, c.key, prompt, 8, sent), tell(t, single, "client", prompt, 8, nil); string(got.Choices) != string(want.Choices) {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, got.Choices, want.Choices)
		}
	}
	if n := series(t, decode, external); n != before {
		t.Errorf("%v tokens came from the partner, although nobody may have asked", n-before)
	}
	if n := series(t, stranger, "weir:kv_transfer_strangers_total"); n != 1 {
		t.Errorf("%v strangers", n)
	}

	// The partner dies between the two requests of a proxy, and behind the address there is nobody.
	params = tell(t, prefill, "proxy", prompts[2], 1, remoteDecode).Params
	stopPrefill()
	for range 2 {
		if got, want := tell(t, decode, "proxy", prompts[2], 24, params), tell(t, single, "client", prompts[2], 24, nil); string(got.Choices) != string(want.Choices) {
			t.Errorf("without the partner\n%s\nwant\n%s", got.Choices, want.Choices)
		}
	}
	if n := series(t, decode, "weir:kv_transfer_offers_failed_total"); n < 1 {
		t.Errorf("%v offers have failed", n)
	}
}

// TestTransferFlags refuses transfers that cannot be.
func TestTransferFlags(t *testing.T) {
	dir := t.TempDir()
	short, open := filepath.Join(dir, "short"), filepath.Join(dir, "open")
	for name, mode := range map[string]os.FileMode{short: 0o600, open: 0o644} {
		if err := os.WriteFile(name, []byte("short"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"--role decode": "need --kv-transfer-listen or --kv-transfer-peers",
		"--role decode --kv-transfer-listen 127.0.0.1:0":                                     "needs --kv-transfer-peers",
		"--role prefill --kv-transfer-peers h:1":                                             "needs --kv-transfer-listen",
		"--kv-transfer-listen 127.0.0.1:0":                                                   "need --kv-transfer-secret-file",
		"--kv-transfer-peers h --kv-transfer-secret-file " + short:                           "it has to be host:port",
		"--kv-transfer-peers h:1 --kv-transfer-secret-file " + short:                         "the secret has 5 bytes",
		"--kv-transfer-peers h:1 --kv-transfer-secret-file " + open:                          "others can read it",
		"--kv-transfer-peers h:1 --kv-transfer-secret-file x --device sim":                   "the simulated device",
		"--kv-transfer-peers h:1 --kv-transfer-secret-file x --no-enable-prefix-caching":     "prefix cache",
		"--kv-transfer-peers h:1 --kv-transfer-secret-file x --kv-transfer-leases 0":         "take more than 0",
		"--kv-transfer-listen :0 --kv-transfer-address h --kv-transfer-secret-file " + short: "it has to be host:port",
	} {
		o, path := parseServe(t, append([]string{"--port", "0", "--kv-cache-memory", "64MiB", "--data-dir", ""}, strings.Fields(args)...)...)
		log, err := newLog(newServerLog(), o.logs.level)
		if err != nil {
			t.Fatal(err)
		}
		if err := serve(path, o, log, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
