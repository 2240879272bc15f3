package openai_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/server/servertest"
)

// docs/interface/chat-completions.md, section 21.2. want 200, or 400 with a param ("-": any).
func TestRanges(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		rule   string
		fields map[string]any
		want   int
		param  string
		mind   string // a part of the message
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
		{"C39", map[string]any{"stop": []string{strings.Repeat("a", 10_000), strings.Repeat("b", 6_384)}}, 200, "", ""},
		{"C39", map[string]any{"stop": []string{strings.Repeat("a", 10_000), strings.Repeat("b", 6_385)}}, 400, "", "must have at most 16384 bytes in all stop strings together"},
		{"C40", map[string]any{"min_tokens": -1}, 400, "", ""},
		{"C40", map[string]any{"min_tokens": 6}, 400, "", "min_tokens must be less than or equal to max_tokens=5, got 6."},
		{"C40", map[string]any{"min_tokens": 1025, "max_tokens": nil}, 400, "", "less than or equal to max_tokens=1"},
		{"C41", map[string]any{"max_tokens": 0}, 400, "max_tokens", "max_tokens must be at least 1, got 0."},
		{"C41", map[string]any{"max_tokens": -1}, 400, "max_tokens", ""},
		{"C41", map[string]any{"max_tokens": nil, "max_completion_tokens": 0}, 400, "max_tokens", ""},
		{"C42", map[string]any{"max_tokens": -1, "max_completion_tokens": 2}, 200, "", ""},
		{"C44", map[string]any{"messages": servertest.UserSays(strings.Repeat("a b ", 600))}, 400, "input_tokens", "which exceeds this limit even without any output tokens"},
		{"C46", map[string]any{"truncate_prompt_tokens": -2}, 400, "-", ""},
		{"C46", map[string]any{"truncate_prompt_tokens": 0}, 400, "", "The decoder prompt cannot be empty"},
		{"C46", map[string]any{"truncate_prompt_tokens": 1025}, 400, "truncate_prompt_tokens", "truncate_prompt_tokens=1025 cannot be greater than max_model_len = 1024."},
		{"C46", map[string]any{"truncate_prompt_tokens": 1024}, 200, "", ""},
		{"K3", map[string]any{"truncation_side": "middle"}, 400, "-", ""},
		{"K3", map[string]any{"truncation_side": "right"}, 200, "", ""},
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
		{"C56", map[string]any{"reasoning_effort": "ultra"}, 400, "-", ""},
		{"C56", map[string]any{"reasoning_effort": "none"}, 200, "", ""},
		{"C56", map[string]any{"reasoning_effort": "max"}, 200, "", ""},
		{"C57", map[string]any{"tool_choice": "auto"}, 200, "", ""},
		{"C57", map[string]any{"tool_choice": "any"}, 400, "tool_choice", "none"},
		{"C57", map[string]any{"tool_choice": "required"}, 400, "tool_choice", "tools"},
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
		{"C62", map[string]any{"messages": servertest.UserSays([]any{map[string]any{"type": "file", "file": map[string]any{}}})}, 501, "", "Unknown part type: file"},
		{"C62", map[string]any{"messages": servertest.UserSays([]any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x"}}})}, 400, "", "tiny is not a multimodal model"},
		{"C62", map[string]any{"messages": servertest.UserSays([]any{map[string]any{"type": "strange"}})}, 400, "-", ""},
		{"C63", map[string]any{"messages": servertest.UserSays(nil)}, 400, "-", ""},
		{"small", map[string]any{"user": "someone", "kv_transfer_params": map[string]any{"a": 1}, "mm_processor_kwargs": map[string]any{}, "length_penalty": 3, "parallel_tool_calls": false}, 200, "", ""},
	} {
		status, answer := h.Chat(c.fields)
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
		f := servertest.FaultOf(t, answer)
		if c.param != "-" && f.Param != c.param || !strings.Contains(f.Message, c.mind) {
			t.Errorf("%s: %s", name, answer)
		}
		// The same in a stream: a status, not an event (docs/interface/chat-completions.md, section 1.2).
		if c.fields["stream"] == nil && c.rule != "C52" {
			c.fields["stream"] = true
			if status, streamed := h.Chat(c.fields); status != c.want || streamed != answer && c.rule != "C51" {
				t.Errorf("%s, streaming: %d %s", name, status, streamed)
			}
		}
	}
}

func TestC37Choices(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	c := h.Complete(t, map[string]any{"n": 2, "temperature": 1, "seed": 7, "return_token_ids": true})
	if len(c.Choices) != 2 || c.Choices[0].Index != 0 || c.Choices[1].Index != 1 {
		t.Fatalf("%+v", c)
	}
	// C111: choice i is the single choice of seed + i.
	for i := range 2 {
		one := h.Complete(t, map[string]any{"temperature": 1, "seed": 7 + i, "return_token_ids": true})
		if !slices.Equal(one.Choices[0].TokenIDs, c.Choices[i].TokenIDs) {
			t.Errorf("choice %d: %v, alone %v", i, c.Choices[i].TokenIDs, one.Choices[0].TokenIDs)
		}
	}
}

func TestC40C42C45Lengths(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	if c := h.Complete(t, map[string]any{"min_tokens": 5}); c.Usage.Completion != 5 {
		t.Errorf("C40: %+v", c.Usage)
	}
	if c := h.Complete(t, map[string]any{"max_completion_tokens": 2}); c.Usage.Completion != 2 || c.Choices[0].FinishReason != "length" {
		t.Errorf("C42: %+v", c)
	}
	c := h.Complete(t, map[string]any{"max_tokens": nil, "ignore_eos": true})
	if c.Usage.Total != 1024 || c.Choices[0].FinishReason != "length" {
		t.Errorf("C45: %+v, %s", c.Usage, c.Choices[0].FinishReason)
	}
	// docs/interface/chat-completions.md, section 10: so many characters are too many tokens.
	status, answer := h.Chat(map[string]any{"messages": servertest.UserSays(strings.Repeat("0123456789", 10_000))})
	if f := servertest.Refused(t, status, answer, 400, "input_text"); !strings.Contains(f.Message, "characters") {
		t.Error(answer)
	}
	// The prompt alone fills the context.
	status, answer = h.Chat(map[string]any{"messages": servertest.UserSays(strings.Repeat("a b ", 2000)), "truncate_prompt_tokens": 1024, "max_tokens": nil})
	servertest.Refused(t, status, answer, 400, "max_tokens")
}

func TestC46Truncation(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	whole := h.Complete(t, map[string]any{"return_token_ids": true})
	c := h.Complete(t, map[string]any{"return_token_ids": true, "truncate_prompt_tokens": 3})
	if c.Usage.Prompt != 3 || !slices.Equal(c.PromptTokenIDs, whole.PromptTokenIDs[len(whole.PromptTokenIDs)-3:]) {
		t.Errorf("%v of %v", c.PromptTokenIDs, whole.PromptTokenIDs)
	}
	long := map[string]any{"messages": servertest.UserSays(strings.Repeat("a b ", 20_000)), "truncate_prompt_tokens": -1}
	if c := h.Complete(t, long); c.Usage.Prompt != 1023 || c.Usage.Completion != 1 {
		t.Errorf("%+v", c.Usage)
	}
}

// An output that does not fit the context beside the prompt is as long as fits.
func TestK1K2C43OutputIsClamped(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		for _, stream := range []bool{false, true} {
			fields := map[string]any{"max_tokens": nil, "ignore_eos": true, "temperature": 0}
			fields[field] = 1024 // C44: less is clamped in the same way
			if stream {
				fields["stream"], fields["stream_options"] = true, map[string]any{"include_usage": true}
				status, answer := h.Chat(fields)
				if status != 200 || !strings.Contains(answer, `"total_tokens":1024`) || !strings.Contains(answer, `"finish_reason":"length"`) {
					t.Errorf("%s, streaming: %d %.300s", field, status, answer)
				}
				continue
			}
			if c := h.Complete(t, fields); c.Usage.Total != 1024 || c.Choices[0].FinishReason != "length" {
				t.Errorf("%s: %+v", field, c.Usage)
			}
		}
	}
	// C43: the same with a limit that no prompt would leave room for.
	for field, most := range map[string]int{"max_tokens": 1025, "max_completion_tokens": 32_000} {
		fields := map[string]any{"max_tokens": nil, "ignore_eos": true, "temperature": 0}
		fields[field] = most
		if c := h.Complete(t, fields); c.Usage.Total != 1024 || c.Choices[0].FinishReason != "length" {
			t.Errorf("C43: %s: %+v", field, c.Usage)
		}
	}
	status, answer := h.Chat(map[string]any{"max_tokens": 9_223_372_036_854_775_807, "min_tokens": 1025})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "min_tokens must be less than or equal to max_tokens=1") {
		t.Error("C43:", answer)
	}
	status, answer = h.Chat(map[string]any{"messages": servertest.UserSays(strings.Repeat("a b ", 800)), "max_tokens": 32_000})
	servertest.Refused(t, status, answer, 400, "input_tokens")
	status, answer = h.Chat(map[string]any{"max_tokens": 1024, "min_tokens": 1024})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "min_tokens must be less than or equal to max_tokens=1") {
		t.Error(answer)
	}
	for _, most := range []int{1024, 128_000} {
		if a := h.texts(t, map[string]any{"prompt": []int{5, 6, 7}, "max_tokens": most, "ignore_eos": true, "temperature": 0}); a.Usage.Completion != 1021 {
			t.Errorf("completions: %+v", a.Usage)
		}
	}
}

// truncation_side right keeps the beginning of a prompt.
func TestK3TruncationSide(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	whole := h.Complete(t, map[string]any{"return_token_ids": true}).PromptTokenIDs
	for side, want := range map[string][]int32{"left": whole[len(whole)-3:], "right": whole[:3]} {
		c := h.Complete(t, map[string]any{"return_token_ids": true, "truncate_prompt_tokens": 3, "truncation_side": side})
		if !slices.Equal(c.PromptTokenIDs, want) {
			t.Errorf("%s: %v of %v", side, c.PromptTokenIDs, whole)
		}
	}
	if c := h.Complete(t, map[string]any{"return_token_ids": true, "truncation_side": "right"}); !slices.Equal(c.PromptTokenIDs, whole) {
		t.Errorf("without truncate_prompt_tokens: %v", c.PromptTokenIDs)
	}
}

// docs/interface/chat-completions.md, section 5.3: the end tokens cannot be drawn before min_tokens, even
// with a large bias.
func TestMinTokensForbidsTheEnd(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, id := range []int32{servertest.EndOfTurn, servertest.EndOfText, 700} {
		c := h.Complete(t, map[string]any{"max_tokens": 10, "min_tokens": 3, "stop_token_ids": []int{700}, "return_token_ids": true,
			"logit_bias": map[string]any{fmt.Sprint(id): 100}})
		got := c.Choices[0].TokenIDs
		if len(got) != 4 || got[3] != id || slices.Contains(got[:3], id) || c.Choices[0].FinishReason != "stop" {
			t.Errorf("token %d: %v, %s", id, got, c.Choices[0].FinishReason)
		}
	}
}

func TestC47C48Tokens(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, bias := range []float64{100, 1000} {
		c := h.Complete(t, map[string]any{"logit_bias": map[string]any{"500": bias}, "return_token_ids": true})
		if !slices.Equal(c.Choices[0].TokenIDs, []int32{500, 500, 500, 500, 500}) {
			t.Errorf("bias %v: %v", bias, c.Choices[0].TokenIDs)
		}
	}
	c := h.Complete(t, map[string]any{"allowed_token_ids": []int{700}, "return_token_ids": true})
	if !slices.Equal(c.Choices[0].TokenIDs, []int32{700, 700, 700, 700, 700}) {
		t.Errorf("%v", c.Choices[0].TokenIDs)
	}
}

// docs/interface/chat-completions.md, section 4.5: a bad word is banned with and without a leading space.
func TestC49BadWords(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	tok := servertest.Tokenizer()
	for _, form := range []string{"Omar", " Omar"} {
		ids, err := tok.Encode(nil, form, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) != 1 {
			t.Fatalf("%q is %d tokens", form, len(ids))
		}
		bias := map[string]any{fmt.Sprint(ids[0]): 100}
		if c := h.Complete(t, map[string]any{"logit_bias": bias}); !strings.HasPrefix(*c.Choices[0].Message.Content, form) {
			t.Fatalf("not forced: %q", *c.Choices[0].Message.Content)
		}
		for _, word := range []string{"Omar", " Omar", "  Omar"} {
			c := h.Complete(t, map[string]any{"logit_bias": bias, "bad_words": []string{word}})
			if strings.Contains(*c.Choices[0].Message.Content, "Omar") {
				t.Errorf("bad word %q: %q", word, *c.Choices[0].Message.Content)
			}
		}
	}
}

func TestC54Priority(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Model.Priority = true; s.EngineConfig.Scheduler.Priority = true })
	h.Complete(t, map[string]any{"priority": -5})
	h.Complete(t, map[string]any{"priority": json.Number("9223372036854775807")})
}
