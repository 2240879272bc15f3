package server

import (
	"encoding/json"
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
			Role      string
			Content   *string
			Reasoning *string
		}
		Logprobs     *logprobs
		FinishReason string          `json:"finish_reason"`
		StopReason   json.RawMessage `json:"stop_reason"`
		TokenIDs     []int32         `json:"token_ids"`
	}
	Usage             tokenUsage
	PromptLogprobs    []map[string]struct{ Rank int } `json:"prompt_logprobs"`
	PromptTokenIDs    []int32                         `json:"prompt_token_ids"`
	SystemFingerprint *string                         `json:"system_fingerprint"`
}

type tokenUsage struct {
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
	return completionOf(t, answer)
}

func completionOf(t *testing.T, answer string) *completion {
	t.Helper()
	c := new(completion)
	if err := json.Unmarshal([]byte(answer), c); err != nil {
		t.Errorf("%v in %s", err, answer)
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
	Usage          *tokenUsage
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
	for _, path := range []string{"/health", "/version", "/ping", "/ready", "/metrics"} {
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
		{"GET", "/v1/models/", 404, ""}, {"POST", "/v1/models/tiny", 405, "GET"}, {"GET", "/", 404, ""}, {"GET", "/nothing", 404, ""}, {"POST", "/v1/chat/completions/", 404, ""},
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
	status, answer := h.chat(nil, "X-Request-Id: "+strings.Repeat("x", 512+1))
	refused(t, status, answer, 400, "request_id")
	status, answer = h.chat(map[string]any{"request_id": strings.Repeat("x", 512+1)})
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
