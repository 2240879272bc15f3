package servertest

import (
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// Fault is an error body; every key has to be there.
type Fault struct {
	Message, Type, Param string
	Code                 int
}

func FaultOf(t testing.TB, body string) Fault {
	t.Helper()
	var b struct {
		Error map[string]any `json:"error"`
	}
	if err := jsontext.Decode([]byte(body), &b); err != nil {
		t.Fatalf("not an error body: %v in %s", err, body)
	}
	for _, k := range []string{"message", "type", "param", "code"} {
		if _, ok := b.Error[k]; !ok {
			t.Fatalf("no %q in %s", k, body)
		}
	}
	f := Fault{Message: b.Error["message"].(string), Type: b.Error["type"].(string), Code: int(b.Error["code"].(float64))}
	f.Param, _ = b.Error["param"].(string)
	return f
}

// Refused checks an error answer. param "-" means any.
func Refused(t *testing.T, status int, answer string, want int, param string) Fault {
	t.Helper()
	if status != want {
		t.Errorf("status %d, want %d: %s", status, want, answer)
		return Fault{}
	}
	f := FaultOf(t, answer)
	if f.Code != want || param != "-" && f.Param != param {
		t.Errorf("code %d, param %q, want %d, %q: %s", f.Code, f.Param, want, param, answer)
	}
	if want == 400 && f.Type != "Bad Request" && f.Type != "BadRequestError" {
		t.Errorf("type %q: %s", f.Type, answer)
	}
	return f
}

// Completion is a non-streaming answer.
type Completion struct {
	ID      string
	Model   string
	Choices []struct {
		Index   int
		Message struct {
			Role      string
			Content   *string
			Reasoning *string
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Logprobs     *Logprobs
		FinishReason string              `json:"finish_reason"`
		StopReason   jsontext.RawMessage `json:"stop_reason"`
		TokenIDs     []int32             `json:"token_ids"`
	}
	Usage             Usage
	PromptLogprobs    []map[string]struct{ Rank int } `json:"prompt_logprobs"`
	PromptTokenIDs    []int32                         `json:"prompt_token_ids"`
	SystemFingerprint *string                         `json:"system_fingerprint"`
}

type Usage struct {
	Prompt            int `json:"prompt_tokens"`
	Completion        int `json:"completion_tokens"`
	Total             int `json:"total_tokens"`
	CompletionDetails *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Details *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type Logprobs struct {
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

func (h *Server) Complete(t *testing.T, fields map[string]any, headers ...string) *Completion {
	t.Helper()
	status, answer := h.Chat(fields, headers...)
	if status != 200 {
		t.Fatalf("%v: status %d: %s", fields, status, answer)
	}
	return CompletionOf(t, answer)
}

func CompletionOf(t *testing.T, answer string) *Completion {
	t.Helper()
	c := new(Completion)
	if err := jsontext.Decode([]byte(answer), c); err != nil {
		t.Errorf("%v in %s", err, answer)
	}
	return c
}

// Chunk is one event of a stream.
type Chunk struct {
	ID      string
	Choices []struct {
		Index        int
		Delta        map[string]any
		Logprobs     *Logprobs
		FinishReason *string             `json:"finish_reason"`
		StopReason   jsontext.RawMessage `json:"stop_reason"`
		TokenIDs     []int32             `json:"token_ids"`
	}
	Usage          *Usage
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	Keys           map[string]jsontext.RawMessage
}

// streamed sends a request with stream and decodes the Events; the last line has
// to be [DONE].
func (h *Server) Streamed(t *testing.T, fields map[string]any, headers ...string) []Chunk {
	t.Helper()
	all := map[string]any{"stream": true}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, header := h.Get("POST", ChatPath, Body(t, all), headers...)
	if status != 200 || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("status %d, %v: %s", status, header, answer)
	}
	return Events(t, answer)
}

func Events(t *testing.T, answer string) []Chunk {
	t.Helper()
	text, ok := strings.CutSuffix(answer, "data: [DONE]\n\n")
	if !ok {
		t.Fatalf("no [DONE] at the end of %q", answer)
	}
	var out []Chunk
	for ev := range strings.SplitSeq(text, "\n\n") {
		if ev == "" {
			continue
		}
		data, ok := strings.CutPrefix(ev, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", ev)
		}
		var c Chunk
		if err := jsontext.Decode([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		_ = jsontext.Decode([]byte(data), &c.Keys)
		out = append(out, c)
	}
	return out
}

// Text is the content of a chunk.
func Text(c Chunk) string {
	s, _ := c.Choices[0].Delta["content"].(string)
	return s
}

// UserSays is a conversation of one message.
func UserSays(content any) []any { return []any{map[string]any{"role": "user", "content": content}} }

// TextPath is the path of completions.
const TextPath = "/v1/completions"

func TextBody(t testing.TB, fields map[string]any) string {
	t.Helper()
	req := map[string]any{"model": "tiny", "prompt": "Once upon a time", "max_tokens": 5, "temperature": 0}
	for k, v := range fields {
		if req[k] = v; v == Remove {
			delete(req, k)
		}
	}
	body, err := jsontext.Encode(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
