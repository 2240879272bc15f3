package openai_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// FuzzServer: for any body the answer is a documented one, comes in time, and the server
// holds nothing afterwards.
func FuzzServer(f *testing.F) {
	whole := servertest.Body(f, nil)
	for _, body := range []string{
		whole, "", "{", "[]", "null", `""`, "{}", `{"messages":[]}`, `{"messages":[{"role":"user","content":null}]}`,
		strings.Replace(whole, `"Hi"`, `"\ud800"`, 1), strings.Replace(whole, `"Hi"`, "\"\xff\"", 1),
		strings.Replace(whole, `"Hi"`, `[{"type":"text","text":"a"},{"type":"file"}]`, 1),
		servertest.Body(f, map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}, "n": 3, "temperature": 1}),
		servertest.Body(f, map[string]any{"logprobs": true, "top_logprobs": 20, "prompt_logprobs": 20, "echo": true, "return_token_ids": true}),
		servertest.Body(f, map[string]any{"stop": []string{"a", "b"}, "stop_token_ids": []int{1, 2}, "min_tokens": 3, "ignore_eos": true, "bad_words": []string{"x", " y"}}),
		servertest.Body(f, map[string]any{"logit_bias": map[string]any{"5": -100, "6": 100}, "allowed_token_ids": []int{5, 6, 7}, "seed": -1, "top_k": 3, "top_p": 1e-9, "min_p": 0.3}),
		servertest.Body(f, map[string]any{"repetition_penalty": 1e-300, "frequency_penalty": 2, "presence_penalty": -2, "repetition_detection": map[string]any{"max_pattern_size": 9, "min_count": 2}}),
		servertest.Body(f, map[string]any{"truncate_prompt_tokens": -1, "add_special_tokens": true, "skip_special_tokens": false, "cache_salt": "s", "request_id": "r", "user": "u"}),
		servertest.Body(f, map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}, "documents": []any{map[string]any{"a": 1}}}),
		servertest.Body(f, map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true, "add_generation_prompt": false}, "continue_final_message": true}),
		servertest.Body(f, map[string]any{"structured_outputs": map[string]any{"regex": "("}}),
		servertest.Body(f, map[string]any{"max_tokens": 1 << 40, "min_tokens": -1 << 40}),
		servertest.Body(f, map[string]any{"allowed_token_ids": []int{servertest.EndOfTurn}, "min_tokens": 3}),
		strings.Repeat(`{"messages":`, 1000), strings.Repeat("[", 5000),
	} {
		f.Add([]byte(body))
	}
	h := newServer(f, func(s *servertest.Setup) {
		s.Config.Limits.Choices = 16
		s.Spec.MaxSeqTokens, s.Model.MaxLen = 128, 128
	})
	f.Fuzz(func(t *testing.T, body []byte) { h.survives(t, servertest.ChatPath, body) })
}

// FuzzOthers is FuzzServer for the other functions that take a body.
func FuzzOthers(f *testing.F) {
	paths := []string{servertest.TextPath, "/tokenize", "/detokenize", servertest.TextPath + "/render", servertest.ChatPath + "/render"}
	for i := range paths {
		for _, body := range []string{
			"", "{", "[]", "{}", `{"prompt":""}`, `{"prompt":"Hi","tokens":[5]}`, `{"tokens":[-1,1e3]}`, servertest.Body(f, nil), servertest.Body(f, map[string]any{"return_token_strs": true, "continue_final_message": true}),
			servertest.TextBody(f, map[string]any{"n": 3, "temperature": 1, "stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}}),
			servertest.TextBody(f, map[string]any{"prompt": []string{"a", "", "\u00e9"}, "echo": true, "logprobs": 20, "max_tokens": 0, "return_token_ids": true}),
			servertest.TextBody(f, map[string]any{"prompt": [][]int{{1, 2}, {3}}, "echo": true, "logprobs": 2, "stream": true, "stop": "a"}),
			servertest.TextBody(f, map[string]any{"prompt": []int{5}, "prompt_logprobs": 3, "truncate_prompt_tokens": 1, "suffix": nil}),
		} {
			f.Add(byte(i), []byte(body))
		}
	}
	h := newServer(f, func(s *servertest.Setup) {
		s.Config.Limits.Choices, s.Config.Limits.Prompts = 16, 32
		s.Spec.MaxSeqTokens, s.Model.MaxLen = 128, 128
	})
	f.Fuzz(func(t *testing.T, which byte, body []byte) { h.survives(t, paths[int(which)%len(paths)], body) })
}

// FuzzScores is FuzzServer for the functions of a model that scores.
func FuzzScores(f *testing.F) {
	paths := []string{"/score", "/rerank", "/classify", "/pooling"}
	for i := range paths {
		for _, body := range []string{
			"", "{", "[]", "{}", `{"text_1":"a","text_2":["b",""]}`, `{"query":"a","documents":["b",{"text":"c"}],"top_n":1,"return_documents":false}`, `{"queries":["a","b"],"documents":["c","d"],"use_activation":false}`,
			`{"query":"a","documents":"b","truncate_prompt_tokens":2,"truncation_side":"left","text_1":"a","text_2":"b"}`, `{"query":"a b c d","documents":"\ud800 é","max_tokens_per_doc":1,"max_tokens_per_query":2,"instruction":"x","chat_template_kwargs":{}}`,
			`{"input":[[1,2],[3]],"encoding_format":"base64","task":"classify"}`, `{"messages":[{"role":"user","content":"x"}]}`,
		} {
			f.Add(byte(i), []byte(body))
		}
	}
	h := newScorer(f, func(s *servertest.Setup) {
		s.Config.Limits.Prompts = 32
		s.Spec.MaxSeqTokens, s.Model.MaxLen = 128, 128
	})
	f.Fuzz(func(t *testing.T, which byte, body []byte) { h.survives(t, paths[int(which)%len(paths)], body) })
}

// survives sends a body and checks the answer and what the server holds afterwards.
func (h *testServer) survives(t *testing.T, path string, body []byte) {
	c, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, servertest.PostTo(path, len(body))+string(body)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	switch resp.StatusCode {
	case 200:
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			servertest.Events(t, string(answer))
		}
	case 400, 404, 501:
		if e := servertest.FaultOf(t, string(answer)); e.Code != resp.StatusCode || e.Message == "" {
			t.Errorf("%s", answer)
		}
	default: // C155: no 5xx but 501
		t.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	servertest.WaitFor(t, "an idle engine", h.NoBlocks)
	if used := h.Instance.Transport().Held().Bodies; used != 0 && !servertest.Eventually(time.Second, func() bool { return h.Instance.Transport().Held().Bodies == 0 }) {
		t.Errorf("%d bytes of bodies kept", used)
	}
}
