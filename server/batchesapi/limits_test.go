package batchesapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server/servertest"
)

// TestA8Batches: of the limits of the key that has made a batch, those of tokens, of the length of
// outputs and of models hold for its requests; how many of them run is not up to the client
// (docs/interface/admission.md, A-8).
func TestA8Batches(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n"
	for id, more := range map[string]string{
		"few": "limits: {requests_per_minute: 1, concurrency: 1, max_tokens: 2}", "foreign": "models: [large]", "day": "limits: {tokens_per_day: 1}", "minute": "limits: {tokens_per_minute: 1}",
	} {
		text += fmt.Sprintf("  - {id: %s, tenant: %s, hash: %q, %s}\n", id, id, servertest.KeyHash("sk-"+id), more)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, nil, func(s *servertest.Setup) { s.Config.Keys = keys })
	lines := func(n int) (text string) {
		for i := range n {
			text += line(fmt.Sprint("r", i), `,"ignore_eos":true`)
		}
		return text
	}
	few, foreign := "Authorization: Bearer sk-few", "Authorization: Bearer sk-foreign"

	b := until(t, h, begin(t, h, lines(5), few)["id"], "completed", few)
	if n := b["usage"].(object)["output_tokens"]; n != 10. {
		t.Errorf("five outputs of three tokens, of which the key may have two, are of %v tokens: %v", n, b)
	}
	b = until(t, h, begin(t, h, lines(2), foreign)["id"], "completed", foreign)
	if n := b["request_counts"].(object)["failed"]; n != 2. {
		t.Errorf("requests for a model that the key is not for: %v", b)
	}
	_, answer, _ := h.Get("GET", "/v1/files/"+b["error_file_id"].(string)+"/content", "", foreign)
	if strings.Count(answer, `"status_code":403`) != 2 {
		t.Errorf("they are %s", answer)
	}
	for id, reason := range map[string]string{"day": "key_day_tokens", "minute": "key_tokens"} {
		key, series := "Authorization: Bearer sk-"+id, fmt.Sprintf("weir:rejected_requests_total{reason=%q}", reason)
		b = begin(t, h, lines(2), key)
		for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
			now := until(t, h, b["id"], "in_progress", key)["request_counts"].(object)
			if h.Scraped()[series] != "0" && now["completed"] == 1. {
				break // and the other one waits
			}
		}
		get(t, h, 200, "POST", "/v1/batches/"+b["id"].(string)+"/cancel", "", key)
		until(t, h, b["id"], "cancelled", key)
	}
}
