package openai_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"weir/chat"
	"weir/models"
	"weir/server/servertest"
	"weir/server/transport"
	"weir/tokenizer"
)

type tokenized struct {
	Count  int
	MaxLen int `json:"max_model_len"`
	Tokens []int32
	Strs   []string `json:"token_strs"`
}

func (h *testServer) tokenize(t *testing.T, body string) tokenized {
	t.Helper()
	status, answer, _ := h.Get("POST", "/tokenize", body)
	var a tokenized
	if err := json.Unmarshal([]byte(answer), &a); err != nil || status != 200 || a.Count != len(a.Tokens) || a.MaxLen != 1024 {
		t.Fatalf("%s: %d %v %s", body, status, err, answer)
	}
	return a
}

// docs/interface/chat-completions.md, section 17.2: the ids of the chat form are
// those of a chat request with the same fields, and detokenizing returns the text.
func TestTokenize(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	tool := []any{map[string]any{"type": "function", "function": map[string]any{"name": "f", "parameters": map[string]any{"b": 1, "a": 2}}}}
	for _, fields := range []map[string]any{
		{}, {"messages": []any{map[string]any{"role": "system", "content": "Be kind."}, map[string]any{"role": "user", "content": []any{"a", map[string]any{"type": "text", "text": "ß"}}}}},
		{"add_generation_prompt": false}, {"add_special_tokens": true}, {"tools": tool}, {"documents": []any{map[string]any{"a": "b"}}}, {"chat_template_kwargs": map[string]any{"enable_thinking": false}},
		{"reasoning_effort": "low"}, {"continue_final_message": true, "messages": []any{map[string]any{"role": "user", "content": "x"}, map[string]any{"role": "assistant", "content": "It is"}}},
	} {
		all := map[string]any{"return_token_ids": true, "max_tokens": 1}
		for k, v := range fields {
			all[k] = v
		}
		want := h.Complete(t, all).PromptTokenIDs
		if got := h.tokenize(t, servertest.Body(t, fields)); !slices.Equal(got.Tokens, want) || got.Strs != nil {
			t.Errorf("%v: %v, want %v", fields, got.Tokens, want)
		}
	}
	long := strings.Repeat("word ", 5000) // far beyond the context
	for _, s := range []string{"", "Hi", "Grüße, 漢字 🙂\n<|im_end|> x", long} {
		body, _ := json.Marshal(map[string]any{"prompt": s, "return_token_strs": true})
		a := h.tokenize(t, string(body))
		if !slices.Equal(a.Tokens, servertest.Encode(s, true)) || len(a.Strs) != a.Count {
			t.Errorf("%.20q: %v", s, a.Tokens)
		}
		for i, id := range a.Tokens {
			if a.Strs[i] != servertest.Tokenizer().Token(id) {
				t.Errorf("token %d is %q", id, a.Strs[i])
			}
		}
		back, _ := json.Marshal(map[string]any{"tokens": a.Tokens})
		if a.Tokens == nil {
			back = []byte(`{"tokens":[]}`)
		}
		var d struct{ Prompt string }
		if status, answer, _ := h.Get("POST", "/detokenize", string(back)); status != 200 || json.Unmarshal([]byte(answer), &d) != nil || d.Prompt != s {
			t.Errorf("%.20q came back as %d %.80s", s, status, answer)
		}
	}
	if with, without := h.tokenize(t, `{"prompt":"Hi"}`), h.tokenize(t, `{"prompt":"Hi","add_special_tokens":false}`); !slices.Equal(without.Tokens, servertest.Encode("Hi", false)) || len(with.Tokens) < len(without.Tokens) {
		t.Errorf("%v, %v", with.Tokens, without.Tokens)
	}
}

func TestTokenizeErrors(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		path, body string
		status     int
		param      string
	}{
		{"/tokenize", `{`, 400, ""}, {"/tokenize", `{}`, 400, ""}, {"/tokenize", `{"prompt":["x"]}`, 400, ""}, {"/tokenize", `{"prompt":"x","model":"nobody"}`, 404, "model"},
		{"/tokenize", `{"messages":[]}`, 400, ""}, {"/tokenize", servertest.Body(t, map[string]any{"chat_template": "x"}), 400, ""},
		{"/tokenize", servertest.Body(t, map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "file"}}}}}), 501, ""},
		{"/tokenize", servertest.Body(t, map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url", "image_url": "x"}}}}}), 400, ""},
		{"/detokenize", `{`, 400, ""}, {"/detokenize", `{}`, 400, ""}, {"/detokenize", `{"tokens":[-1]}`, 400, ""}, {"/detokenize", fmt.Sprintf(`{"tokens":[5,%d]}`, servertest.Vocabulary), 400, ""},
		{"/detokenize", `{"tokens":[18446744073709551616]}`, 400, ""}, {"/detokenize", `{"tokens":[5],"model":"nobody"}`, 404, "model"},
	} {
		status, answer, _ := h.Get("POST", c.path, c.body)
		servertest.Refused(t, status, answer, c.status, c.param)
		if status, answer, _ := h.Get("POST", c.path, c.body, "Content-Type: text/plain"); status != 400 {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
	status, answer, _ := h.Get("POST", "/detokenize", fmt.Sprintf(`{"tokens":[%d]}`, servertest.Vocabulary-1)) // a row of the network that no token has
	if status != 200 {
		t.Error(answer)
	}
	trusting := newServer(t, func(s *servertest.Setup) {
		r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: "x"}}, TrustRequestTemplate: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Model.Chat = r
	})
	if got := trusting.tokenize(t, servertest.Body(t, map[string]any{"chat_template": "<{{ messages[0].content }}>"})); decode(got.Tokens) != "<Hi>" {
		t.Errorf("%q", decode(got.Tokens))
	}
}

// /tokenize uses the preparation queue, and its request ends when the client leaves.
func TestTokenizeWaitsItsTurn(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.PrepareWorkers, s.Config.PrepareQueue = 1, 1 })
	release := make(chan struct{})
	entered := make(chan struct{})
	go func() {
		_ = h.Instance.Transport().Queue().Do(t.Context(), transport.Turn{}, func() { close(entered); <-release })
	}()
	<-entered
	waiting := make(chan string)
	go func() {
		_, answer, _ := h.Get("POST", "/tokenize", `{"prompt":"Hi"}`)
		waiting <- answer
	}()
	servertest.WaitFor(t, "the place", func() bool { return h.Instance.Transport().Queue().Waiting() == 1 })
	if status, answer, _ := h.Get("POST", "/detokenize", `{"tokens":[5]}`); status != 503 {
		t.Errorf("%d %s", status, answer)
	}
	close(release)
	if answer := <-waiting; !strings.Contains(answer, `"count"`) {
		t.Error(answer)
	}
}

// The two forms of /tokenize, and /v1/completions, differ from each other and from
// chat in whether a text gets the model's special tokens by default.
func TestSpecialTokensInFront(t *testing.T) {
	t.Parallel()
	source, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(source, &file); err != nil {
		t.Fatal(err)
	}
	bos := servertest.Tokenizer().Token(servertest.EndOfText)
	front := []any{map[string]any{"SpecialToken": map[string]any{"id": bos, "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}}
	file["post_processor"] = map[string]any{"type": "TemplateProcessing", "single": front, "pair": append(front, map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}}),
		"special_tokens": map[string]any{bos: map[string]any{"id": bos, "ids": []int{servertest.EndOfText}, "tokens": []string{bos}}}}
	if source, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) { s.Model.Tokenizer, s.EngineConfig.Tokenizer = tok, tok })
	begins := func(ids []int32) bool { return len(ids) > 0 && ids[0] == servertest.EndOfText }
	for body, want := range map[string]bool{
		`{"prompt":"Hi"}`: true, `{"prompt":"Hi","add_special_tokens":false}`: false,
		`{"messages":[{"role":"user","content":"Hi"}]}`: false, `{"messages":[{"role":"user","content":"Hi"}],"add_special_tokens":true}`: true,
	} {
		if got := h.tokenize(t, body); begins(got.Tokens) != want {
			t.Errorf("%s: %v", body, got.Tokens)
		}
	}
	for _, c := range []struct {
		fields map[string]any
		want   bool
	}{{nil, true}, {map[string]any{"add_special_tokens": false}, false}, {map[string]any{"prompt": []int{5, 6}}, false}, {map[string]any{"prompt": ""}, true}} {
		fields := map[string]any{"return_token_ids": true}
		for k, v := range c.fields {
			fields[k] = v
		}
		if fields["prompt"] == "" {
			fields["prompt"] = []string{""} // the token for the beginning, and nothing after it
		}
		if got := h.texts(t, fields).Choices[0].PromptTokenIDs; begins(got) != c.want {
			t.Errorf("%v: %v", c.fields, got)
		}
	}
	if got := h.Complete(t, map[string]any{"return_token_ids": true}).PromptTokenIDs; begins(got) {
		t.Errorf("chat: %v", got)
	}
}
