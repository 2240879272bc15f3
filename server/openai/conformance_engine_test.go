package openai_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/engine"
	"weir/server/servertest"
)

// Rows of docs/interface/chat-completions.md, sections 21.5 and 21.6 that need no file of their own.

func TestC110C111Seeds(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	ask := func(seed, n int) (texts []string) {
		c := h.Complete(t, map[string]any{"temperature": 1, "seed": seed, "n": n, "max_tokens": 20})
		for _, ch := range c.Choices {
			texts = append(texts, *ch.Message.Content)
		}
		return texts
	}
	three := ask(41, 3)
	for i, want := range three {
		if got := ask(41+i, 1)[0]; got != want {
			t.Errorf("choice %d of seed 41 is %q, seed %d alone gives %q", i, want, 41+i, got)
		}
	}
	if three[0] == three[1] || three[1] == three[2] {
		t.Errorf("different seeds, same text: %q", three)
	}
	// Without a seed, or with -1, all answers are different.
	if a, b := ask(-1, 1)[0], ask(-1, 1)[0]; a == b {
		t.Errorf("seed -1 twice: %q", a)
	}
}

// C118, end to end: the log-probability of a token does not depend on how it was drawn.
func TestC118RawLogprobs(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	st.setOutput("the same prefix for everybody", servertest.EndOfTurn)
	ask := func(fields map[string]any) string {
		all := map[string]any{"logprobs": true, "top_logprobs": 5, "max_tokens": 40}
		maps.Copy(all, fields)
		return fmt.Sprint(*st.Complete(t, all).Choices[0].Logprobs)
	}
	want := ask(nil)
	for _, fields := range []map[string]any{{"temperature": 1.5}, {"temperature": 1, "top_k": 2, "top_p": 0.3, "frequency_penalty": 2, "repetition_penalty": 3, "logit_bias": map[string]any{"500": 100}}} {
		if got := ask(fields); got != want {
			t.Errorf("%v\n%s\nwant\n%s", fields, got, want)
		}
	}
}

// C148: the counters after ten requests of P prompt and ten output tokens. (GET /metrics
// shows the same numbers.)
func TestC148EngineCounts(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	prompt := 0
	for range 10 {
		prompt = h.Complete(t, map[string]any{"max_tokens": 10, "ignore_eos": true, "cache_salt": fmt.Sprint(prompt)}).Usage.Prompt
	}
	h.Idle()
	st := h.Engine.Stats()
	if st.PromptTokens != uint64(10*prompt) || st.GenerationTokens != 100 || st.Finished[engine.Length] != 10 || st.Preemptions != 0 || st.Running+st.Waiting != 0 {
		t.Errorf("%+v after 10 requests of %d tokens", st, prompt)
	}
	sum := uint64(0)
	for _, n := range st.Finished {
		sum += n
	}
	if sum != 10 {
		t.Errorf("finished %v", st.Finished)
	}
}

// TestC155NoServerErrors: requests that follow the schema, with random combinations of
// common, unusual and extreme values, get no status 5xx other than 501.
func TestC155NoServerErrors(t *testing.T) {
	t.Parallel()
	number := []any{nil, 0, 1, -1, 2, -2, 0.5, 1e-9, 1e308, -1e308, json.Number("9223372036854775807"), json.Number("9223372036854776000"), "1", true, []int{}, map[string]any{}}
	boolean := []any{nil, true, false, 1, "yes", "maybe", 2}
	text := []any{nil, "", "x", "é🦀", strings.Repeat("long ", 300), 5, []string{"a"}}
	object := []any{nil, map[string]any{}, map[string]any{"a": 1}, map[string]any{"a": nil}, []any{}, "x"}
	ids := []any{nil, []int{}, []int{1}, []int{700, 701, 702}, []int{-1}, []int{1 << 40}, []any{"a"}, 5}
	schema := map[string][]any{
		"stream": boolean, "logprobs": boolean, "ignore_eos": boolean, "echo": boolean, "add_generation_prompt": boolean, "continue_final_message": boolean,
		"add_special_tokens": boolean, "include_stop_str_in_output": boolean, "skip_special_tokens": boolean, "spaces_between_special_tokens": boolean,
		"return_token_ids": boolean, "return_tokens_as_token_ids": boolean, "parallel_tool_calls": boolean, "include_reasoning": boolean,
		"temperature": number, "top_p": number, "top_k": number, "min_p": number, "frequency_penalty": number, "presence_penalty": number, "repetition_penalty": number,
		"max_tokens": number, "max_completion_tokens": number, "min_tokens": number, "n": number, "seed": number, "top_logprobs": number, "prompt_logprobs": number,
		"length_penalty": number, "truncate_prompt_tokens": number, "priority": number,
		"model": {nil, "nope", "tiny", "alias", 5}, "user": text, "request_id": text, "cache_salt": text, "chat_template": text, "reasoning_effort": {nil, "low", "none", 5},
		"stop":           {nil, "x", "", []string{"a", "b"}, []string{""}, []any{1}},
		"bad_words":      {nil, []string{}, []string{"a", " b"}, []string{""}, "x"},
		"stop_token_ids": ids, "allowed_token_ids": ids,
		"logit_bias":           {nil, map[string]any{}, map[string]any{"5": 100}, map[string]any{"700": -100, "x": 1}, map[string]any{"99999": 1}, []any{}},
		"stream_options":       {nil, map[string]any{}, map[string]any{"include_usage": true, "continuous_usage_stats": true}, map[string]any{"include_usage": "x"}},
		"response_format":      {nil, map[string]any{"type": "text"}, map[string]any{"type": "json_object"}, map[string]any{"type": "json_schema"}, map[string]any{"type": "x"}, 5},
		"structured_outputs":   {nil, map[string]any{}, map[string]any{"regex": "("}, map[string]any{"choice": []string{"a"}}, map[string]any{"json": map[string]any{}, "grammar": "x"}},
		"tools":                {nil, []any{}, []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}, []any{map[string]any{}}, "x"},
		"tool_choice":          {nil, "none", "auto", map[string]any{}},
		"documents":            {nil, []any{}, []any{map[string]any{"a": "b"}}, []any{1}},
		"chat_template_kwargs": object, "mm_processor_kwargs": object, "kv_transfer_params": object, "engine_xargs": object,
		"repetition_detection": {nil, map[string]any{}, map[string]any{"max_pattern_size": 3, "min_count": 2}, map[string]any{"max_pattern_size": -1}, map[string]any{"max_pattern_size": 1 << 30, "min_count": 1 << 30}},
		"messages": {
			nil, "x", []any{}, servertest.UserSays("Hi"), servertest.UserSays(nil), servertest.UserSays([]any{}), servertest.UserSays([]any{"a", map[string]any{"type": "text", "text": "b"}}),
			servertest.UserSays([]any{map[string]any{"type": "file", "file": map[string]any{}}}), servertest.UserSays([]any{map[string]any{"type": "image_url", "image_url": 5}}), []any{map[string]any{"role": 5}},
			[]any{map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "a", "function": map[string]any{"name": "f", "arguments": "{"}}}}},
			[]any{map[string]any{"role": "system", "content": "s"}, map[string]any{"role": "strange", "content": "x"}, map[string]any{"role": "assistant", "content": "Well"}},
		},
	}
	names := slices.Sorted(maps.Keys(schema))
	h := newServer(t, func(s *servertest.Setup) { s.Config.Limits.Choices = 8; s.Spec.MaxSeqTokens, s.Model.MaxLen = 128, 128 })
	g := rand.New(rand.NewPCG(1, 55))
	statuses := map[int]int{}
	for i := range 1500 {
		fields := map[string]any{}
		for range g.IntN(4) {
			name := names[g.IntN(len(names))]
			values := schema[name]
			if fields[name] = values[g.IntN(len(values))]; i%3 > 0 { // otherwise almost all would be refused
				fields[name] = values[g.IntN(min(3, len(values)))]
			}
		}
		if fields["messages"] = servertest.UserSays("Hi"); i%3 == 0 {
			fields["messages"] = schema["messages"][g.IntN(len(schema["messages"]))]
		}
		status, answer := h.Chat(fields)
		statuses[status]++
		if status != 200 && status != 400 && status != 404 && status != 501 {
			t.Errorf("%v: %d %s", fields, status, answer)
		}
		if status != 200 {
			servertest.FaultOf(t, answer)
		} else if strings.HasPrefix(answer, "data: ") {
			for _, c := range servertest.Events(t, answer) {
				if c.Keys["error"] != nil {
					t.Errorf("%v: %s", fields, answer)
				}
			}
		}
	}
	if statuses[200] < 100 || statuses[400] < 100 || statuses[404] == 0 || statuses[501] == 0 {
		t.Errorf("the test did not reach what it is for: %v", statuses)
	}
}

// cached_tokens tells the holder of a key nothing about the prompts of another one.
func TestC144KeysShareNoPrefixes(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k1", "k2"} })
	long := servertest.UserSays(strings.Repeat("a b c d ", 20))
	for i, c := range []struct {
		key, project string
		hit          bool
	}{
		{"k1", "", false}, {"k2", "", false}, {"k1", "", true}, {"k2", "", true},
		{"k1", "team/one", false}, {"k2", "team/one", false}, {"k1", "team/one", true},
	} {
		headers := []string{"Authorization: Bearer " + c.key}
		if c.project != "" {
			headers = append(headers, "Compat-Project: "+c.project)
		}
		u := h.Complete(t, map[string]any{"messages": long, "max_tokens": 1}, headers...).Usage
		if got := u.Details.Cached > 0; got != c.hit {
			t.Errorf("request %d, key %s, project %q: hit %v", i, c.key, c.project, got)
		}
	}
}
