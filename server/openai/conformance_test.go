package openai_test

import (
	"strings"
	"sync"
	"testing"

	"weir/server/servertest"
)

// The rows of docs/interface/chat-completions.md, section 21, end to end with the simulated
// backend. The names of the tests have the numbers of the rows. What a row says about the
// body alone is tested in package api too; the tests here check the status that is sent.

func TestC1ContentType(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, ct := range []string{"text/plain", "", "text/json", "application/json ;x", "application/vnd.api+json"} {
		status, answer := h.Chat(nil, "Content-Type: "+ct)
		if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "application/json") {
			t.Errorf("%q: %s", ct, answer)
		}
	}
	// The header is checked before the body, which is then not read.
	status, answer, _ := h.Get("POST", servertest.ChatPath, `{"model":`, "Content-Type: text/plain")
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "application/json") {
		t.Error(answer)
	}
}

func TestC2ContentTypeVariants(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, ct := range []string{"application/json; charset=utf-8", "APPLICATION/JSON", "application/json;"} {
		if status, answer := h.Chat(nil, "Content-Type: "+ct); status != 200 {
			t.Errorf("%q: %d %s", ct, status, answer)
		}
	}
}

func TestC3C4C5BadJSON(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, body := range []string{
		`{"model":`, ``, `[]`, `"x"`, `1`, `null`, `{"messages":[],}`, "{\"model\":\"\xff\"}",
		strings.Replace(servertest.Body(t, nil), `"temperature":0`, `"temperature":NaN`, 1),
		strings.Replace(servertest.Body(t, nil), `"temperature":0`, `"temperature":Infinity`, 1),
		servertest.Body(t, nil) + "x", strings.Repeat("[", 100_000),
	} {
		status, answer, _ := h.Get("POST", servertest.ChatPath, body)
		servertest.Refused(t, status, answer, 400, "")
	}
}

func TestC6C7C8C9Keys(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k1", "k2"} })
	for _, c := range []struct {
		path    string
		headers []string
		want    int
	}{
		{servertest.ChatPath, nil, 401},
		{servertest.ChatPath, []string{"Authorization: Bearer wrong"}, 401},
		{servertest.ChatPath, []string{"Authorization: Basic k1"}, 401},
		{servertest.ChatPath, []string{"Authorization: Bearer  k1"}, 401},
		{servertest.ChatPath, []string{"Authorization: Bearer k1"}, 200},
		{servertest.ChatPath, []string{"Authorization: bearer k2"}, 200},
		{servertest.ChatPath, []string{"X-Api-Key: k2"}, 200},
		{"/v1/nothing", nil, 401}, // before routing
		{"/v1/nothing", []string{"Authorization: Bearer k1"}, 404},
		{"/v1/chat%2Fcompletions", nil, 401},
		{"/v1/chat%2Fcompletions", []string{"Authorization: Bearer k1"}, 404},
		{"//v1/chat/completions", nil, 404},
	} {
		status, answer, _ := h.Get("POST", c.path, servertest.Body(t, nil), c.headers...)
		if status != c.want || status == 401 && answer != `{"error":"Unauthorized"}` {
			t.Errorf("%s %v: %d %s, want %d", c.path, c.headers, status, answer, c.want)
		}
	}
	for _, path := range []string{"/health", "/version", "/ping", "/ready", "/metrics"} {
		if status, answer, _ := h.Get("GET", path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	// C9: the key is checked before the body, even if that is not JSON.
	if status, answer, _ := h.Get("POST", servertest.ChatPath, `{"model":`); status != 401 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestC10C11C12Model(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	status, answer := h.Chat(map[string]any{"model": "nope"})
	if f := servertest.Refused(t, status, answer, 404, "model"); f.Type != "NotFoundError" || f.Message != "The model `nope` does not exist." {
		t.Error(answer)
	}
	status, answer = h.Chat(map[string]any{"model": "nope", "temperature": "abc"})
	servertest.Refused(t, status, answer, 400, "-")
	for _, m := range []any{servertest.Remove, nil, "", "tiny", "alias"} {
		if c := h.Complete(t, map[string]any{"model": m}); c.Model != "tiny" {
			t.Errorf("model %v: answered as %q", m, c.Model)
		}
	}
}

func TestC13UnknownFields(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	h.Complete(t, map[string]any{
		"no_such_field": map[string]any{"a": []int{1}}, "service_tier": "auto", "metadata": map[string]any{},
		"messages": []any{map[string]any{"role": "user", "content": "Hi", "no_such_field": 1}},
	})
	h.Streamed(t, map[string]any{"stream_options": map[string]any{"no_such_field": 1}})
}

func TestC14C15Messages(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, m := range []any{servertest.Remove, nil, "x", map[string]any{}, []any{}, []any{1}, []any{map[string]any{"content": "x"}}} {
		status, answer := h.Chat(map[string]any{"messages": m})
		servertest.Refused(t, status, answer, 400, "-")
	}
}

var nullable = []string{
	"model", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs", "prompt_logprobs",
	"max_completion_tokens", "n", "seed", "stop", "stop_token_ids", "stream", "stream_options", "top_p", "top_k", "min_p",
	"allowed_token_ids", "response_format", "structured_outputs", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort",
	"documents", "chat_template", "chat_template_kwargs", "mm_processor_kwargs", "truncate_prompt_tokens", "return_tokens_as_token_ids",
	"return_token_ids", "cache_salt", "kv_transfer_params", "engine_xargs", "repetition_detection", "user",
}

func TestC16Nulls(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	fields := map[string]any{}
	for _, f := range nullable {
		fields[f] = nil
	}
	plain, nulls := h.Complete(t, nil), h.Complete(t, fields)
	if *plain.Choices[0].Message.Content != *nulls.Choices[0].Message.Content {
		t.Errorf("%q, with nulls %q", *plain.Choices[0].Message.Content, *nulls.Choices[0].Message.Content)
	}
}

func TestC17NotNull(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, f := range []string{
		"min_tokens", "length_penalty", "bad_words", "priority", "request_id", "echo", "ignore_eos", "include_stop_str_in_output",
		"skip_special_tokens", "spaces_between_special_tokens", "add_generation_prompt", "continue_final_message", "add_special_tokens",
		"include_reasoning", "messages",
	} {
		status, answer := h.Chat(map[string]any{f: nil})
		if f := servertest.Refused(t, status, answer, 400, "-"); f.Type != "Bad Request" {
			t.Error(answer)
		}
	}
}

func TestC18Integers(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	status, answer := h.Chat(map[string]any{"max_tokens": 5.5})
	servertest.Refused(t, status, answer, 400, "-")
	status, answer, _ = h.Get("POST", servertest.ChatPath, strings.Replace(servertest.Body(t, nil), `"max_tokens":5`, `"max_tokens":5.0`, 1))
	if status != 200 {
		t.Error(answer)
	}
}

func TestC19MethodsAndPaths(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", servertest.ChatPath, 405, "POST"}, {"PUT", servertest.ChatPath, 405, "POST"}, {"POST", "/v1/models", 405, "GET, HEAD"},
		{"POST", "/health", 405, "GET, HEAD"}, {"POST", "/ping", 200, ""}, {"GET", "/ping", 200, ""}, {"DELETE", "/ping", 405, "GET, POST, HEAD"},
		{"POST", "/v1/models/tiny", 405, "GET, HEAD"}, {"GET", "/v1", 404, ""}, {"GET", "/nothing", 404, ""},
	} {
		status, answer, header := h.Get(c.method, c.path, "")
		if status != c.status || header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q, want %d, %q", c.method, c.path, status, header.Get("Allow"), c.status, c.allow)
		}
		if want := map[int]string{404: `{"detail":"Not Found"}`, 405: `{"detail":"Method Not Allowed"}`, 200: ""}[status]; answer != want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, answer, want)
		}
	}
}

func TestC20C21RequestID(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		header string
		body   any
		want   string
	}{
		{"abc", "def", "chatcmpl-abc"}, {"abc", servertest.Remove, "chatcmpl-abc"}, {"", "def", "chatcmpl-def"},
		{"", "", "chatcmpl-"}, {"", "chatcmpl-x", "chatcmpl-chatcmpl-x"}, {"a\"b", servertest.Remove, `chatcmpl-a"b`},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, "X-Request-Id: "+c.header)
		}
		if got := h.Complete(t, map[string]any{"request_id": c.body}, headers...).ID; got != c.want {
			t.Errorf("header %q, body %v: id %q", c.header, c.body, got)
		}
	}
	one, two := h.Complete(t, nil).ID, h.Complete(t, nil).ID
	if !strings.HasPrefix(one, "chatcmpl-") || len(one) < len("chatcmpl-")+8 || one == two {
		t.Errorf("ids %q, %q", one, two)
	}
	// The response header echoes the request's, not the body's (docs/interface/chat-completions.md, section 13).
	_, _, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"request_id": "def"}), "X-Request-Id: abc")
	if got := header.Get("X-Request-Id"); got != "abc" {
		t.Errorf("X-Request-Id %q", got)
	}
	_, _, header = h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"request_id": "def"}))
	if got := header.Get("X-Request-Id"); len(got) != 32 || got == "def" {
		t.Errorf("X-Request-Id %q", got)
	}
	_, _, header = h.Get("POST", "/nothing", "", "X-Request-Id: abc")
	if got := header.Get("X-Request-Id"); got != "abc" {
		t.Errorf("X-Request-Id %q of an error", got)
	}
	status, answer := h.Chat(nil, "X-Request-Id: "+strings.Repeat("x", 512+1))
	servertest.Refused(t, status, answer, 400, "request_id")
	status, answer = h.Chat(map[string]any{"request_id": strings.Repeat("x", 512+1)})
	servertest.Refused(t, status, answer, 400, "request_id")
}

func TestC22SameRequestID(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if status, answer := h.Chat(map[string]any{"request_id": "same"}); status != 200 || !strings.Contains(answer, "chatcmpl-same") {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	wg.Wait()
}

func TestC130Keys(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Model.Fingerprint = "fp_1" })
	_, answer := h.Chat(nil)
	if got, want := keysOf(t, answer), "id object created model choices service_tier system_fingerprint usage prompt_logprobs prompt_token_ids prompt_text kv_transfer_params"; got != want {
		t.Errorf("keys %s\n want %s", got, want)
	}
	if c := h.Complete(t, nil); c.SystemFingerprint == nil || *c.SystemFingerprint != "fp_1" {
		t.Error("no fingerprint")
	}
}
