package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The rows of spec chat-completions 21, each as a test of its number, end to
// end over the simulated backend. What a row says about the body alone is also
// tested in package api; here is the status that goes out.

// fault is an error body; every key has to be there.
type fault struct {
	Message, Type, Param string
	Code                 int
}

func faultOf(t testing.TB, body string) fault {
	t.Helper()
	var b struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatalf("not an error body: %v in %s", err, body)
	}
	for _, k := range []string{"message", "type", "param", "code"} {
		if _, ok := b.Error[k]; !ok {
			t.Fatalf("no %q in %s", k, body)
		}
	}
	f := fault{Message: b.Error["message"].(string), Type: b.Error["type"].(string), Code: int(b.Error["code"].(float64))}
	f.Param, _ = b.Error["param"].(string)
	return f
}

// refused checks an error answer. param "-" means any.
func refused(t *testing.T, status int, answer string, want int, param string) fault {
	t.Helper()
	if status != want {
		t.Errorf("status %d, want %d: %s", status, want, answer)
		return fault{}
	}
	f := faultOf(t, answer)
	if f.Code != want || param != "-" && f.Param != param {
		t.Errorf("code %d, param %q, want %d, %q: %s", f.Code, f.Param, want, param, answer)
	}
	if want == 400 && f.Type != "Bad Request" && f.Type != "BadRequestError" {
		t.Errorf("type %q: %s", f.Type, answer)
	}
	return f
}

// completion is a non-streaming answer.
type completion struct {
	ID      string
	Model   string
	Choices []struct {
		Index   int
		Message struct {
			Role    string
			Content *string
		}
		Logprobs     *logprobs
		FinishReason string          `json:"finish_reason"`
		StopReason   json.RawMessage `json:"stop_reason"`
		TokenIDs     []int32         `json:"token_ids"`
	}
	Usage             usage
	PromptLogprobs    []map[string]struct{ Rank int } `json:"prompt_logprobs"`
	PromptTokenIDs    []int32                         `json:"prompt_token_ids"`
	SystemFingerprint *string                         `json:"system_fingerprint"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type logprobs struct {
	Content []struct {
		Token   string
		Logprob float64
		Bytes   []int
		Top     []struct {
			Token   string
			Logprob float64
			Bytes   []int
		} `json:"top_logprobs"`
	}
}

func (h *house) complete(t *testing.T, fields map[string]any, headers ...string) *completion {
	t.Helper()
	status, answer := h.chat(fields, headers...)
	if status != 200 {
		t.Fatalf("%v: status %d: %s", fields, status, answer)
	}
	c := new(completion)
	if err := json.Unmarshal([]byte(answer), c); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	return c
}

// chunk is one event of a stream.
type chunk struct {
	ID      string
	Choices []struct {
		Index        int
		Delta        map[string]any
		Logprobs     *logprobs
		FinishReason *string         `json:"finish_reason"`
		StopReason   json.RawMessage `json:"stop_reason"`
		TokenIDs     []int32         `json:"token_ids"`
	}
	Usage          *usage
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	keys           map[string]json.RawMessage
}

// streamed sends a request with stream and decodes the events; the last line has
// to be [DONE].
func (h *house) streamed(t *testing.T, fields map[string]any, headers ...string) []chunk {
	t.Helper()
	all := map[string]any{"stream": true}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, header := h.get("POST", chatPath, base(t, all), headers...)
	if status != 200 || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("status %d, %v: %s", status, header, answer)
	}
	return events(t, answer)
}

func events(t *testing.T, answer string) []chunk {
	t.Helper()
	text, ok := strings.CutSuffix(answer, "data: [DONE]\n\n")
	if !ok {
		t.Fatalf("no [DONE] at the end of %q", answer)
	}
	var out []chunk
	for ev := range strings.SplitSeq(text, "\n\n") {
		if ev == "" {
			continue
		}
		data, ok := strings.CutPrefix(ev, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", ev)
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		_ = json.Unmarshal([]byte(data), &c.keys)
		out = append(out, c)
	}
	return out
}

func text(c chunk) string {
	s, _ := c.Choices[0].Delta["content"].(string)
	return s
}

func TestC1ContentType(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, ct := range []string{"text/plain", "", "text/json", "application/json ;x", "application/vnd.api+json"} {
		status, answer := h.chat(nil, "Content-Type: "+ct)
		if f := refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "application/json") {
			t.Errorf("%q: %s", ct, answer)
		}
	}
	// Its stage comes before the body's, which is then not read.
	status, answer, _ := h.get("POST", chatPath, `{"model":`, "Content-Type: text/plain")
	if f := refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "application/json") {
		t.Error(answer)
	}
}

func TestC2ContentTypeVariants(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, ct := range []string{"application/json; charset=utf-8", "APPLICATION/JSON", "application/json;"} {
		if status, answer := h.chat(nil, "Content-Type: "+ct); status != 200 {
			t.Errorf("%q: %d %s", ct, status, answer)
		}
	}
}

func TestC3C4C5BadJSON(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, body := range []string{
		`{"model":`, ``, `[]`, `"x"`, `1`, `null`, `{"messages":[],}`, "{\"model\":\"\xff\"}",
		strings.Replace(base(t, nil), `"temperature":0`, `"temperature":NaN`, 1),
		strings.Replace(base(t, nil), `"temperature":0`, `"temperature":Infinity`, 1),
		base(t, nil) + "x", strings.Repeat("[", 100_000),
	} {
		status, answer, _ := h.get("POST", chatPath, body)
		refused(t, status, answer, 400, "")
	}
}

func TestC6C7C8C9Keys(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.cfg.APIKeys = []string{"k1", "k2"} })
	for _, c := range []struct {
		path    string
		headers []string
		want    int
	}{
		{chatPath, nil, 401},
		{chatPath, []string{"Authorization: Bearer wrong"}, 401},
		{chatPath, []string{"Authorization: Basic k1"}, 401},
		{chatPath, []string{"Authorization: Bearer  k1"}, 401},
		{chatPath, []string{"Authorization: Bearer k1"}, 200},
		{chatPath, []string{"Authorization: bearer k2"}, 200},
		{chatPath, []string{"X-Api-Key: k2"}, 200},
		{"/v1/nothing", nil, 401}, // before routing
		{"/v1/nothing", []string{"Authorization: Bearer k1"}, 404},
		{"/v1/chat%2Fcompletions", nil, 401},
		{"/v1/chat%2Fcompletions", []string{"Authorization: Bearer k1"}, 404},
		{"//v1/chat/completions", nil, 404},
	} {
		status, answer, _ := h.get("POST", c.path, base(t, nil), c.headers...)
		if status != c.want || status == 401 && answer != `{"error":"Unauthorized"}` {
			t.Errorf("%s %v: %d %s, want %d", c.path, c.headers, status, answer, c.want)
		}
	}
	for _, path := range []string{"/health", "/version", "/ping", "/ready"} {
		if status, answer, _ := h.get("GET", path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	// C9: before the body, however broken.
	if status, answer, _ := h.get("POST", chatPath, `{"model":`); status != 401 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestC10C11C12Model(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	status, answer := h.chat(map[string]any{"model": "nope"})
	if f := refused(t, status, answer, 404, "model"); f.Type != "NotFoundError" || f.Message != "The model `nope` does not exist." {
		t.Error(answer)
	}
	status, answer = h.chat(map[string]any{"model": "nope", "temperature": "abc"})
	refused(t, status, answer, 400, "-")
	for _, m := range []any{remove, nil, "", "tiny", "alias"} {
		if c := h.complete(t, map[string]any{"model": m}); c.Model != "tiny" {
			t.Errorf("model %v: answered as %q", m, c.Model)
		}
	}
}

func TestC13UnknownFields(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.complete(t, map[string]any{
		"no_such_field": map[string]any{"a": []int{1}}, "service_tier": "auto", "metadata": map[string]any{},
		"messages": []any{map[string]any{"role": "user", "content": "Hi", "no_such_field": 1}},
	})
	h.streamed(t, map[string]any{"stream_options": map[string]any{"no_such_field": 1}})
}

func TestC14C15Messages(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, m := range []any{remove, nil, "x", map[string]any{}, []any{}, []any{1}, []any{map[string]any{"content": "x"}}} {
		status, answer := h.chat(map[string]any{"messages": m})
		refused(t, status, answer, 400, "-")
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
	h := newHouse(t, nil)
	fields := map[string]any{}
	for _, f := range nullable {
		fields[f] = nil
	}
	plain, nulls := h.complete(t, nil), h.complete(t, fields)
	if *plain.Choices[0].Message.Content != *nulls.Choices[0].Message.Content {
		t.Errorf("%q, with nulls %q", *plain.Choices[0].Message.Content, *nulls.Choices[0].Message.Content)
	}
}

func TestC17NotNull(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, f := range []string{
		"min_tokens", "length_penalty", "bad_words", "priority", "request_id", "echo", "ignore_eos", "include_stop_str_in_output",
		"skip_special_tokens", "spaces_between_special_tokens", "add_generation_prompt", "continue_final_message", "add_special_tokens",
		"include_reasoning", "messages",
	} {
		status, answer := h.chat(map[string]any{f: nil})
		if f := refused(t, status, answer, 400, "-"); f.Type != "Bad Request" {
			t.Error(answer)
		}
	}
}

func TestC18Integers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	status, answer := h.chat(map[string]any{"max_tokens": 5.5})
	refused(t, status, answer, 400, "-")
	status, answer, _ = h.get("POST", chatPath, strings.Replace(base(t, nil), `"max_tokens":5`, `"max_tokens":5.0`, 1))
	if status != 200 {
		t.Error(answer)
	}
}

func TestC19MethodsAndPaths(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", chatPath, 405, "POST"}, {"PUT", chatPath, 405, "POST"}, {"POST", "/v1/models", 405, "GET"},
		{"POST", "/health", 405, "GET"}, {"POST", "/ping", 200, ""}, {"GET", "/ping", 200, ""}, {"DELETE", "/ping", 405, "GET, POST"},
		{"GET", "/v1/models/tiny", 404, ""}, {"GET", "/", 404, ""}, {"GET", "/nothing", 404, ""}, {"POST", "/v1/chat/completions/", 404, ""},
	} {
		status, answer, header := h.get(c.method, c.path, "")
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
	h := newHouse(t, nil)
	for _, c := range []struct {
		header string
		body   any
		want   string
	}{
		{"abc", "def", "chatcmpl-abc"}, {"abc", remove, "chatcmpl-abc"}, {"", "def", "chatcmpl-def"},
		{"", "", "chatcmpl-"}, {"", "chatcmpl-x", "chatcmpl-chatcmpl-x"}, {"a\"b", remove, `chatcmpl-a"b`},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, "X-Request-Id: "+c.header)
		}
		if got := h.complete(t, map[string]any{"request_id": c.body}, headers...).ID; got != c.want {
			t.Errorf("header %q, body %v: id %q", c.header, c.body, got)
		}
	}
	one, two := h.complete(t, nil).ID, h.complete(t, nil).ID
	if !strings.HasPrefix(one, "chatcmpl-") || len(one) < len("chatcmpl-")+8 || one == two {
		t.Errorf("ids %q, %q", one, two)
	}
	// The response header echoes the request's, not the body's (spec 13).
	_, _, header := h.get("POST", chatPath, base(t, map[string]any{"request_id": "def"}), "X-Request-Id: abc")
	if got := header.Get("X-Request-Id"); got != "abc" {
		t.Errorf("X-Request-Id %q", got)
	}
	_, _, header = h.get("POST", chatPath, base(t, map[string]any{"request_id": "def"}))
	if got := header.Get("X-Request-Id"); len(got) != 32 || got == "def" {
		t.Errorf("X-Request-Id %q", got)
	}
	_, _, header = h.get("POST", "/nothing", "", "X-Request-Id: abc")
	if got := header.Get("X-Request-Id"); got != "abc" {
		t.Errorf("X-Request-Id %q of an error", got)
	}
	status, answer := h.chat(nil, "X-Request-Id: "+strings.Repeat("x", maxID+1))
	refused(t, status, answer, 400, "request_id")
	status, answer = h.chat(map[string]any{"request_id": strings.Repeat("x", maxID+1)})
	refused(t, status, answer, 400, "request_id")
}

func TestC22SameRequestID(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if status, answer := h.chat(map[string]any{"request_id": "same"}); status != 200 || !strings.Contains(answer, "chatcmpl-same") {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	wg.Wait()
}

// Section 21.2. want 200, or 400 with a param ("-": any).
func TestRanges(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, c := range []struct {
		rule   string
		fields map[string]any
		want   int
		param  string
		mind   string // in the message
	}{
		{"C30", map[string]any{"temperature": -0.1}, 400, "temperature", "non-negative"},
		{"C31", map[string]any{"temperature": 2.0}, 200, "", ""},
		{"C31", map[string]any{"temperature": 2.1}, 400, "temperature", ""},
		{"C32", map[string]any{"top_p": 0}, 400, "top_p", "top_p must be in (0, 1], got 0.0. (parameter=top_p, value=0.0)"},
		{"C32", map[string]any{"top_p": -1}, 400, "top_p", ""},
		{"C32", map[string]any{"top_p": 1.01}, 400, "top_p", ""},
		{"C32", map[string]any{"top_p": 1}, 200, "", ""},
		{"C32", map[string]any{"top_p": 0.0001, "temperature": 1}, 200, "", ""},
		{"C32", map[string]any{"top_p": 1e-60, "temperature": 1}, 200, "", ""},
		{"C33", map[string]any{"top_k": -2}, 400, "", ""},
		{"C33", map[string]any{"top_k": -1, "temperature": 1}, 200, "", ""},
		{"C33", map[string]any{"top_k": 1_000_000_000, "temperature": 1}, 200, "", ""},
		{"C34", map[string]any{"min_p": -0.1}, 400, "", ""},
		{"C34", map[string]any{"min_p": 1.1}, 400, "", ""},
		{"C34", map[string]any{"min_p": 1, "temperature": 1}, 200, "", ""},
		{"C35", map[string]any{"frequency_penalty": 2, "presence_penalty": -2}, 200, "", ""},
		{"C35", map[string]any{"frequency_penalty": 2.1}, 400, "", ""},
		{"C35", map[string]any{"presence_penalty": -2.1}, 400, "", ""},
		{"C36", map[string]any{"repetition_penalty": 0}, 400, "", ""},
		{"C36", map[string]any{"repetition_penalty": -1}, 400, "", ""},
		{"C36", map[string]any{"repetition_penalty": 0.5}, 200, "", ""},
		{"C36", map[string]any{"repetition_penalty": 50}, 200, "", ""},
		{"C36", map[string]any{"repetition_penalty": 1e-60}, 200, "", ""},
		{"C36", map[string]any{"repetition_penalty": 1e60}, 200, "", ""},
		{"C37", map[string]any{"n": 0}, 400, "", "n must be at least 1, got 0."},
		{"C37", map[string]any{"n": 2}, 400, "", "greedy"},
		{"C38", map[string]any{"seed": json.Number("9223372036854775807")}, 200, "", ""},
		{"C38", map[string]any{"seed": json.Number("-9223372036854775808")}, 200, "", ""},
		{"C38", map[string]any{"seed": json.Number("9223372036854776000")}, 200, "", ""},
		{"C38", map[string]any{"seed": json.Number("-9223372036854776000")}, 200, "", ""},
		{"C38", map[string]any{"seed": json.Number("9223372036854776001")}, 400, "", ""},
		{"C39", map[string]any{"stop": ""}, 400, "", "stop cannot contain an empty string."},
		{"C39", map[string]any{"stop": []string{"a", ""}}, 400, "", ""},
		{"C39", map[string]any{"stop": strings.Split("abcdefghijklmnopqrst", "")}, 200, "", ""},
		{"C40", map[string]any{"min_tokens": -1}, 400, "", ""},
		{"C40", map[string]any{"min_tokens": 6}, 400, "", "min_tokens must be less than or equal to max_tokens=5, got 6."},
		{"C40", map[string]any{"min_tokens": 1025, "max_tokens": nil}, 400, "", "less than or equal to max_tokens=1"},
		{"C41", map[string]any{"max_tokens": 0}, 400, "max_tokens", "max_tokens must be at least 1, got 0."},
		{"C41", map[string]any{"max_tokens": -1}, 400, "max_tokens", ""},
		{"C41", map[string]any{"max_tokens": nil, "max_completion_tokens": 0}, 400, "max_tokens", ""},
		{"C42", map[string]any{"max_tokens": -1, "max_completion_tokens": 2}, 200, "", ""},
		{"C43", map[string]any{"max_tokens": 1025}, 400, "max_tokens", ""},
		{"C43", map[string]any{"max_completion_tokens": 1025}, 400, "max_completion_tokens", ""},
		{"C44", map[string]any{"max_tokens": 1012}, 400, "input_tokens", "maximum context length is 1024 tokens. However, you requested 1012 output tokens and your prompt contains 15 input tokens, for a total of 1027 tokens."},
		{"10.2", map[string]any{"max_tokens": 1024}, 400, "input_text", "characters"},
		{"C46", map[string]any{"truncate_prompt_tokens": -2}, 400, "-", ""},
		{"C46", map[string]any{"truncate_prompt_tokens": 0}, 400, "", "The decoder prompt cannot be empty"},
		{"C46", map[string]any{"truncate_prompt_tokens": 1020}, 400, "truncate_prompt_tokens", "max_model_len - max_tokens = 1019"},
		{"C46", map[string]any{"truncate_prompt_tokens": 1019}, 200, "", ""},
		{"C47", map[string]any{"logit_bias": map[string]any{"abc": 1}}, 400, "-", ""},
		{"C47", map[string]any{"logit_bias": map[string]any{"3584": 1}}, 400, "logit_bias", "Vocabulary size: 3584"},
		{"C47", map[string]any{"logit_bias": map[string]any{"-1": 1}}, 400, "logit_bias", ""},
		{"C47", map[string]any{"logit_bias": map[string]any{}}, 200, "", ""},
		{"C48", map[string]any{"allowed_token_ids": []int{}}, 400, "allowed_token_ids", "allowed_token_ids is not None and empty!"},
		{"C48", map[string]any{"allowed_token_ids": []int{3584}}, 400, "allowed_token_ids", "allowed_token_ids contains out-of-vocab token id!"},
		{"C48", map[string]any{"allowed_token_ids": []int{-1}}, 400, "allowed_token_ids", ""},
		{"R", map[string]any{"stop_token_ids": []int{3584}}, 400, "stop_token_ids", ""},
		{"R", map[string]any{"stop_token_ids": []int{3583}}, 200, "", ""},
		{"C49", map[string]any{"bad_words": []string{""}}, 400, "-", ""},
		{"C49", map[string]any{"bad_words": []string{" "}}, 400, "-", ""},
		{"C49", map[string]any{"bad_words": []string{"a word", "a word", " a word"}}, 200, "", ""},
		{"C50", map[string]any{"top_logprobs": 1}, 400, "top_logprobs", ""},
		{"C50", map[string]any{"logprobs": true, "top_logprobs": 20}, 200, "", ""},
		{"C50", map[string]any{"logprobs": true, "top_logprobs": 21}, 400, "logprobs", "Requested sample logprobs of 21, which is greater than max allowed: 20"},
		{"C50", map[string]any{"logprobs": true, "top_logprobs": -1}, 400, "logprobs", "3584"},
		{"C50", map[string]any{"logprobs": true, "top_logprobs": -2}, 400, "top_logprobs", ""},
		{"C51", map[string]any{"prompt_logprobs": 1, "stream": true}, 400, "prompt_logprobs", ""},
		{"C51", map[string]any{"prompt_logprobs": 0, "stream": true}, 200, "", ""},
		{"C51", map[string]any{"prompt_logprobs": -2}, 400, "prompt_logprobs", ""},
		{"C51", map[string]any{"prompt_logprobs": 21}, 400, "prompt_logprobs", "Requested prompt logprobs of 21, which is greater than max allowed: 20"},
		{"C52", map[string]any{"stream_options": map[string]any{"include_usage": true}}, 400, "stream_options", ""},
		{"C53", map[string]any{"cache_salt": ""}, 400, "-", ""},
		{"C53", map[string]any{"cache_salt": 5}, 400, "-", ""},
		{"C53", map[string]any{"cache_salt": "x"}, 200, "", ""},
		{"C54", map[string]any{"priority": 1}, 400, "priority", "Got priority 1 but Priority scheduling is not enabled."},
		{"C54", map[string]any{"priority": -1}, 400, "priority", ""},
		{"C56", map[string]any{"reasoning_effort": "none"}, 400, "-", ""},
		{"C56", map[string]any{"reasoning_effort": "low"}, 200, "", ""},
		{"C57", map[string]any{"tool_choice": "auto"}, 400, "tool_choice", "none"},
		{"C57", map[string]any{"tool_choice": "required"}, 400, "tool_choice", ""},
		{"C57", map[string]any{"tool_choice": map[string]any{"type": "function"}}, 400, "tool_choice", ""},
		{"C57", map[string]any{"tool_choice": "none"}, 200, "", ""},
		{"C59", map[string]any{"documents": []any{map[string]any{"title": "a", "text": "b"}}}, 200, "", ""},
		{"C59", map[string]any{"documents": []any{map[string]any{"text": 5}}}, 200, "", ""},
		{"C60", map[string]any{"engine_xargs": map[string]any{"a": 1, "b": "x", "c": []int{1, 2}}}, 200, "", ""},
		{"C60", map[string]any{"engine_xargs": map[string]any{"a": nil}}, 400, "-", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{}}, 200, "", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 0, "min_count": -5}}, 200, "", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 3, "min_count": 1}}, 400, "-", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 2, "min_pattern_size": 3, "min_count": 3}}, 400, "-", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 2049, "min_count": 3}}, 400, "-", ""},
		{"C61", map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 2048, "min_count": 2048}}, 200, "", ""},
		{"C62", map[string]any{"messages": userSays([]any{map[string]any{"type": "file", "file": map[string]any{}}})}, 501, "", "Unknown part type: file"},
		{"C62", map[string]any{"messages": userSays([]any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x"}}})}, 400, "", "tiny is not a multimodal model"},
		{"C62", map[string]any{"messages": userSays([]any{map[string]any{"type": "strange"}})}, 400, "-", ""},
		{"C63", map[string]any{"messages": userSays(nil)}, 400, "-", ""},
		{"small", map[string]any{"user": "someone", "kv_transfer_params": map[string]any{"a": 1}, "mm_processor_kwargs": map[string]any{}, "length_penalty": 3, "parallel_tool_calls": false}, 200, "", ""},
	} {
		status, answer := h.chat(c.fields)
		name := fmt.Sprintf("%s %v", c.rule, c.fields)
		if c.want == 200 {
			if status != 200 {
				t.Errorf("%s: %d %s", name, status, answer)
			}
			continue
		}
		if status != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.want, answer)
			continue
		}
		f := faultOf(t, answer)
		if c.param != "-" && f.Param != c.param || !strings.Contains(f.Message, c.mind) {
			t.Errorf("%s: %s", name, answer)
		}
		// The same in a stream: a status, not an event (spec 1.2, stage 12).
		if c.fields["stream"] == nil && c.rule != "C52" {
			c.fields["stream"] = true
			if status, streamed := h.chat(c.fields); status != c.want || streamed != answer && c.rule != "C51" {
				t.Errorf("%s, streaming: %d %s", name, status, streamed)
			}
		}
	}
}

func userSays(content any) []any { return []any{map[string]any{"role": "user", "content": content}} }

func TestC37Choices(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.complete(t, map[string]any{"n": 2, "temperature": 1, "seed": 7, "return_token_ids": true})
	if len(c.Choices) != 2 || c.Choices[0].Index != 0 || c.Choices[1].Index != 1 {
		t.Fatalf("%+v", c)
	}
	// C111: choice i is the single choice of seed + i.
	for i := range 2 {
		one := h.complete(t, map[string]any{"temperature": 1, "seed": 7 + i, "return_token_ids": true})
		if !slices.Equal(one.Choices[0].TokenIDs, c.Choices[i].TokenIDs) {
			t.Errorf("choice %d: %v, alone %v", i, c.Choices[i].TokenIDs, one.Choices[0].TokenIDs)
		}
	}
}

func TestC40C42C45Lengths(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	if c := h.complete(t, map[string]any{"min_tokens": 5}); c.Usage.Completion != 5 {
		t.Errorf("C40: %+v", c.Usage)
	}
	if c := h.complete(t, map[string]any{"max_completion_tokens": 2}); c.Usage.Completion != 2 || c.Choices[0].FinishReason != "length" {
		t.Errorf("C42: %+v", c)
	}
	c := h.complete(t, map[string]any{"max_tokens": nil, "ignore_eos": true})
	if c.Usage.Total != 1024 || c.Choices[0].FinishReason != "length" {
		t.Errorf("C45: %+v, %s", c.Usage, c.Choices[0].FinishReason)
	}
	// C44: exactly the context, and one more.
	most := 1024 - c.Usage.Prompt
	h.complete(t, map[string]any{"max_tokens": most})
	status, answer := h.chat(map[string]any{"max_tokens": most + 1})
	refused(t, status, answer, 400, "input_tokens")
	// Spec 10.2: too long whatever the tokenizer makes of it.
	status, answer = h.chat(map[string]any{"messages": userSays(strings.Repeat("0123456789", 10_000))})
	if f := refused(t, status, answer, 400, "input_text"); !strings.Contains(f.Message, "characters") {
		t.Error(answer)
	}
	// The prompt alone fills the context.
	status, answer = h.chat(map[string]any{"messages": userSays(strings.Repeat("a b ", 2000)), "truncate_prompt_tokens": 1024, "max_tokens": nil})
	refused(t, status, answer, 400, "max_tokens")
}

func TestC46Truncation(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	whole := h.complete(t, map[string]any{"return_token_ids": true})
	c := h.complete(t, map[string]any{"return_token_ids": true, "truncate_prompt_tokens": 3})
	if c.Usage.Prompt != 3 || !slices.Equal(c.PromptTokenIDs, whole.PromptTokenIDs[len(whole.PromptTokenIDs)-3:]) {
		t.Errorf("%v of %v", c.PromptTokenIDs, whole.PromptTokenIDs)
	}
	long := map[string]any{"messages": userSays(strings.Repeat("a b ", 20_000)), "truncate_prompt_tokens": -1}
	if c := h.complete(t, long); c.Usage.Prompt != 1019 {
		t.Errorf("%+v", c.Usage)
	}
}

func TestC47C48Tokens(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, bias := range []float64{100, 1000} {
		c := h.complete(t, map[string]any{"logit_bias": map[string]any{"500": bias}, "return_token_ids": true})
		if !slices.Equal(c.Choices[0].TokenIDs, []int32{500, 500, 500, 500, 500}) {
			t.Errorf("bias %v: %v", bias, c.Choices[0].TokenIDs)
		}
	}
	c := h.complete(t, map[string]any{"allowed_token_ids": []int{700}, "return_token_ids": true})
	if !slices.Equal(c.Choices[0].TokenIDs, []int32{700, 700, 700, 700, 700}) {
		t.Errorf("%v", c.Choices[0].TokenIDs)
	}
}

// Spec 4.5: a bad word is banned with and without a leading space.
func TestC49BadWords(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	tok := bundled()
	for _, form := range []string{"Omar", " Omar"} {
		ids := tok.Encode(nil, form, false)
		if len(ids) != 1 {
			t.Fatalf("%q is %d tokens", form, len(ids))
		}
		bias := map[string]any{fmt.Sprint(ids[0]): 100}
		if c := h.complete(t, map[string]any{"logit_bias": bias}); !strings.HasPrefix(*c.Choices[0].Message.Content, form) {
			t.Fatalf("not forced: %q", *c.Choices[0].Message.Content)
		}
		for _, word := range []string{"Omar", " Omar", "  Omar"} {
			c := h.complete(t, map[string]any{"logit_bias": bias, "bad_words": []string{word}})
			if strings.Contains(*c.Choices[0].Message.Content, "Omar") {
				t.Errorf("bad word %q: %q", word, *c.Choices[0].Message.Content)
			}
		}
	}
}

func TestC54Priority(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.model.Priority = true; s.eng.Scheduler.Priority = true })
	h.complete(t, map[string]any{"priority": -5})
	h.complete(t, map[string]any{"priority": json.Number("9223372036854775807")})
}

// Section 8: not built in yet, and nobody may believe otherwise.
func TestStructuredOutputsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, fields := range []map[string]any{
		{"structured_outputs": map[string]any{"regex": "a"}},
		{"structured_outputs": map[string]any{"choice": []string{"a", "b"}}},
		{"response_format": map[string]any{"type": "json_object"}},
		{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": map[string]any{}}}},
	} {
		status, answer := h.chat(fields)
		if f := refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "does not constrain outputs yet") {
			t.Error(answer)
		}
	}
	h.complete(t, map[string]any{"response_format": map[string]any{"type": "text"}})
}

func TestC130Keys(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.model.Fingerprint = "fp_1" })
	_, answer := h.chat(nil)
	if got, want := keysOf(t, answer), "id object created model choices service_tier system_fingerprint usage prompt_logprobs prompt_token_ids kv_transfer_params"; got != want {
		t.Errorf("keys %s\n want %s", got, want)
	}
	if c := h.complete(t, nil); c.SystemFingerprint == nil || *c.SystemFingerprint != "fp_1" {
		t.Error("no fingerprint")
	}
}

// keysOf are the keys of a JSON object, in order.
func keysOf(t *testing.T, object string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(object))
	var keys []string
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.(string))
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(keys, " ")
}
