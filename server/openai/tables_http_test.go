package openai_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestTooManyEdits: biases of very many choices are refused with 400 before any work
// (docs/interface/chat-completions.md, section 4.5).
func TestTooManyEdits(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	bias := make(map[string]int)
	for i := range 3000 {
		bias[strconv.Itoa(i)] = 1
	}
	for n, want := range map[int]int{1: 200, 128: 400} {
		body, err := json.Marshal(map[string]any{"prompt": []string{"a", "b"}, "n": n, "logit_bias": bias, "max_tokens": 2})
		if err != nil {
			t.Fatal(err)
		}
		status, answer, _ := h.Get("POST", "/v1/completions", string(body))
		if status != want || want == 400 && !strings.Contains(answer, `"param":"n"`) {
			t.Errorf("n %d: %d %.300s", n, status, answer)
		}
	}
}
