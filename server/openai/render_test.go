package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"weir/api"
	"weir/server/servertest"
)

// docs/interface/operations.md: the ids that a request would be generated
// from, with every default filled in, and nothing generated.
// What decides the output is there: constraints in the terms of structured_outputs, however
// they were sent, and repetition_detection.
func TestK13RenderedConstraints(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const rest = `"disable_any_whitespace":false,"disable_additional_properties":false,"whitespace_pattern":null}`
	for _, c := range []struct {
		fields map[string]any
		want   string
	}{
		{nil, `"structured_outputs":null,"repetition_detection":null`},
		{map[string]any{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "n", "schema": map[string]any{"type": "object"}}}},
			`"structured_outputs":{"json":{"type":"object"},"regex":null,"choice":null,"grammar":null,"json_object":null,"structural_tag":null,` + rest},
		{map[string]any{"response_format": map[string]any{"type": "json_object"}}, `"structured_outputs":{"json":null,"regex":null,"choice":null,"grammar":null,"json_object":true,"structural_tag":null,` + rest},
		{map[string]any{"structured_outputs": map[string]any{"regex": "a+", "disable_any_whitespace": true, "whitespace_pattern": " "}},
			`"structured_outputs":{"json":null,"regex":"a+","choice":null,"grammar":null,"json_object":null,"structural_tag":null,"disable_any_whitespace":true,"disable_additional_properties":false,"whitespace_pattern":" "}`},
		{map[string]any{"structured_outputs": map[string]any{"choice": []string{"a", "b"}}}, `"regex":null,"choice":["a","b"],"grammar":null`},
		{map[string]any{"structured_outputs": map[string]any{"grammar": `root ::= "x"`}}, `"grammar":"root ::= \"x\"","json_object":null`},
		{map[string]any{"structured_outputs": map[string]any{"structural_tag": `{"structures":[],"triggers":[]}`}}, `"structural_tag":"{\"structures\":[],\"triggers\":[]}"`},
		{map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 4, "min_count": 3}}, `"repetition_detection":{"max_pattern_size":4,"min_pattern_size":1,"min_count":3}`},
	} {
		for _, path := range []string{servertest.ChatPath, servertest.TextPath} {
			body := servertest.Body(t, c.fields)
			if path == servertest.TextPath {
				body = servertest.TextBody(t, c.fields)
			}
			if status, answer, _ := h.Get("POST", path+"/render", body); status != 200 || !strings.Contains(answer, c.want) {
				t.Errorf("%s %v: %d %s\nwant %s", path, c.fields, status, answer, c.want)
			}
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	temperature := 0.7
	h := newServer(t, func(s *servertest.Setup) { s.Model.Generation.Temperature = &temperature })
	var r api.Rendered
	fields := map[string]any{"temperature": servertest.Remove, "top_p": 0.9, "seed": 3, "stop": "x", "logprobs": true, "top_logprobs": 2, "logit_bias": map[string]any{"5": 1}, "max_tokens": servertest.Remove,
		"cache_salt": "s", "stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}, "kv_transfer_params": map[string]any{"a": 1}}
	status, answer, header := h.Get("POST", servertest.ChatPath+"/render", servertest.Body(t, fields), "X-Request-Id: mine")
	if err := json.Unmarshal([]byte(answer), &r); err != nil || status != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	want := h.Complete(t, map[string]any{"return_token_ids": true}).PromptTokenIDs
	s := &r.Sampling
	if !slices.Equal(r.TokenIDs, want) || r.RequestID != "chatcmpl-mine" || r.Model != "tiny" || !r.Stream || !r.StreamOptions.ContinuousUsage || *r.CacheSalt != "s" || string(r.KVTransferParams) != `{"a":1}` {
		t.Errorf("%s", answer)
	}
	if s.Temperature != 0.7 || s.TopP != 0.9 || s.TopK != 0 || *s.Seed != 3 || s.N != 1 || s.MaxTokens != 1024-len(want) || *s.Logprobs != 2 || s.LogitBias["5"] != 1 || !slices.Equal(s.Stop, []string{"x"}) || s.Repetition != 1 || !s.SkipSpecialTokens {
		t.Errorf("%s", answer)
	}
	status, answer, _ = h.Get("POST", servertest.TextPath+"/render", servertest.TextBody(t, map[string]any{"prompt": []string{"Once", "Hi"}, "request_id": "r"}))
	var list []api.Rendered
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 || len(list) != 2 {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	for i, text := range []string{"Once", "Hi"} {
		if r := list[i]; !slices.Equal(r.TokenIDs, servertest.Encode(text, true)) || r.RequestID != "cmpl-r-"+"01"[i:i+1] || r.Sampling.MaxTokens != 5 || r.Sampling.Temperature != 0 || r.Sampling.Logprobs != nil || r.StreamOptions != nil {
			t.Errorf("%+v", r)
		}
	}
	for _, key := range []string{`"features":null`, `"stream_options":null`, `"cache_salt":null`, `"kv_transfer_params":null`, `"stop":[]`, `"stop_token_ids":[]`} {
		if !strings.Contains(answer, key) {
			t.Errorf("no %s in %s", key, answer)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
		param      string
	}{
		{servertest.ChatPath, "{", 400, ""}, {servertest.ChatPath, servertest.Body(t, map[string]any{"model": "nobody"}), 404, "model"}, {servertest.ChatPath, servertest.Body(t, map[string]any{"truncate_prompt_tokens": 1025}), 400, "truncate_prompt_tokens"}, {servertest.ChatPath, servertest.Body(t, map[string]any{"chat_template": "x"}), 400, ""},
		{servertest.TextPath, "{}", 400, "prompt"}, {servertest.TextPath, servertest.TextBody(t, map[string]any{"prompt": []int{servertest.Vocabulary}}), 400, ""}, {servertest.TextPath, servertest.TextBody(t, map[string]any{"suffix": "x"}), 400, "suffix"},
	} {
		status, answer, _ := h.Get("POST", c.path+"/render", c.body)
		servertest.Refused(t, status, answer, c.status, c.param)
	}
	h.Idle()                                              // the snapshot follows the answer
	if st := h.Engine.Stats(); st.GenerationTokens != 5 { // of the one completion above
		t.Errorf("%d tokens were generated", st.GenerationTokens)
	}
}

func TestTokenizerInfo(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": `{"tokenizer_class":"PreTrainedTokenizerFast"}`, `{"tokenizer_class":"X","chat_template":"y"}`: `{"tokenizer_class":"X","chat_template":"y"}`} {
		h := newServer(t, func(s *servertest.Setup) { s.Config.Functions.TokenizerInfo = true; s.Model.TokenizerInfo = given })
		if status, answer, header := h.Get("GET", "/tokenizer_info", ""); status != 200 || answer != want || header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", status, answer)
		}
	}
}
