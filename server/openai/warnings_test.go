package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestWarningsOfConstraints: what of a constraint is not kept is said in the answer, in the
// first chunk of a stream, and once in the log.
func TestWarningsOfConstraints(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const schema = `{"type":"object","properties":{"f":{"type":"string","format":"path","maxLength":2}},"required":["f"]}`
	const want = `["the format \"path\" is not enforced: JSON Schema does not define it (at /properties/f/format)"]`
	fields := func(more ...any) map[string]any { return with(schemaFormat(schema), append(more, "max_tokens", 20)...) }
	warnings := func(answer string) string {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal([]byte(answer), &keys); err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
		return string(keys["warnings"])
	}
	for range 2 {
		if status, answer := h.Chat(fields()); status != 200 || warnings(answer) != want {
			t.Errorf("%d %s", status, answer)
		}
	}
	for i, chunk := range h.Streamed(t, fields("n", 2, "temperature", 1, "seed", 1)) {
		if got := string(chunk.Keys["warnings"]); (got == want) != (i == 0) || i > 0 && got != "" {
			t.Errorf("chunk %d has the warnings %q", i, got)
		}
	}
	text := map[string]any{"prompt": []string{"a", "b"}, "max_tokens": 20, "structured_outputs": map[string]any{"json": json.RawMessage(schema)}}
	if status, answer, _ := h.Get("POST", servertest.TextPath, servertest.Body(t, text)); status != 200 || warnings(answer) != want {
		t.Errorf("%d %s", status, answer)
	}
	text["stream"] = true
	_, answer, _ := h.Get("POST", servertest.TextPath, servertest.Body(t, text))
	for i, chunk := range servertest.Events(t, answer) {
		if got := string(chunk.Keys["warnings"]); (got == want) != (i == 0) || i > 0 && got != "" {
			t.Errorf("chunk %d of a completion has the warnings %q", i, got)
		}
	}
	if status, answer := h.Chat(with(schemaFormat(`{"type":"null"}`), "max_tokens", 20)); status != 200 || strings.Contains(answer, "warnings") {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := h.Chat(with(schemaFormat(strings.Replace(schema, "path", "other", 1)), "max_tokens", 20)); status != 200 || !strings.Contains(answer, "other") {
		t.Errorf("%d %s", status, answer)
	}
	lines := h.Log.Lines("a constraint is not kept in all its parts")
	if len(lines) != 1 || !strings.Contains(lines[0]["warnings"], "/properties/f/format") || lines[0]["id"] == "" {
		t.Errorf("the log has %v", lines)
	}
}
