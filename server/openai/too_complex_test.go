package openai_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"weir/models"
	"weir/server/servertest"
	"weir/tokenizer"
)

// TestTooComplex: a text that the regular expression of the model's tokenizer cannot cut
// into words in a bounded number of steps is refused with 400, wherever it is
// (docs/interface/chat-completions.md, section 10).
func TestTooComplex(t *testing.T) {
	t.Parallel()
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	split := file["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0].(map[string]any)
	split["pattern"] = map[string]any{"Regex": `(?:a+)+b|\s+|\S`}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) { s.Model.Tokenizer, s.EngineConfig.Tokenizer = tok, tok })
	hostile := strings.Repeat("a", 500)
	const want = `{"error":{"message":"The tokenizer needs too many steps to cut this text into words.","type":"BadRequestError","param":null,"code":400}}`
	for what, request := range map[string]struct {
		path   string
		fields map[string]any
	}{
		"chat":           {"/v1/chat/completions", map[string]any{"messages": []any{map[string]any{"role": "user", "content": hostile}}}},
		"completion":     {"/v1/completions", map[string]any{"prompt": hostile}},
		"bad word":       {"/v1/chat/completions", map[string]any{"messages": []any{map[string]any{"role": "user", "content": "a"}}, "bad_words": []string{hostile}}},
		"tokenize":       {"/tokenize", map[string]any{"prompt": hostile}},
		"tokenized chat": {"/tokenize", map[string]any{"messages": []any{map[string]any{"role": "user", "content": hostile}}}},
	} {
		body, err := json.Marshal(request.fields)
		if err != nil {
			t.Fatal(err)
		}
		if status, answer, _ := h.Get("POST", request.path, string(body)); status != 400 || answer != want {
			t.Errorf("%s: %d %s", what, status, answer)
		}
	}
}
