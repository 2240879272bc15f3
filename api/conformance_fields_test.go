package api

import (
	"strings"
	"testing"
)

func TestC50K11TopLogprobs(t *testing.T) {
	e := refuse(t, `"top_logprobs":1`, want{"top-logprobs", ""})
	if e.Message != "when using top_logprobs, logprobs must be set to true. (parameter=top_logprobs)" {
		t.Error(e.Message)
	}
	refuse(t, `"logprobs":false,"top_logprobs":-1`, want{"top-logprobs", "logprobs must be set"})
	e = refuse(t, `"logprobs":true,"top_logprobs":-2`, want{"top-logprobs", ""})
	if e.Message != "`top_logprobs` must be a positive value or -1. (parameter=top_logprobs, value=-2)" {
		t.Error(e.Message)
	}
	refuse(t, `"logprobs":5`, want{"schema", "logprobs"})
	for f, w := range map[string]struct {
		on  bool
		top int
	}{
		`"logprobs":true,"top_logprobs":20`: {true, 20}, `"logprobs":true,"top_logprobs":-1`: {true, -1},
		`"logprobs":true,"top_logprobs":21`: {true, 21}, // max_logprobs is the server's
		`"logprobs":true`:                   {true, 0}, `"logprobs":1,"top_logprobs":0`: {true, 0},
		`"logprobs":true,"top_logprobs":null`: {true, 0}, // docs/interface/chat-completions.md, section 7.1
		`"logprobs":null,"top_logprobs":0`:    {false, 0}, `"logprobs":false,"top_logprobs":null`: {false, 0},
	} {
		if r := accept(t, f); r.Logprobs != w.on || r.TopLogprobs != w.top {
			t.Error(f, r.Logprobs, r.TopLogprobs)
		}
	}
	if e := ErrMaxLogprobs(21, 20); e.Message != "Requested sample logprobs of 21, which is greater than max allowed: 20 (parameter=logprobs, value=21)" {
		t.Error(e.Message)
	}
}

func TestK23LogprobTokenIDs(t *testing.T) {
	for f, w := range map[string]int{`"logprobs":true,"logprob_token_ids":[5,5,7]`: 3, `"logprob_token_ids":[]`: 0, `"logprob_token_ids":null`: 0} {
		if r := accept(t, f); len(r.LogprobTokenIDs) != w || w == 0 && r.LogprobTokenIDs != nil {
			t.Errorf("%s: %v", f, r.LogprobTokenIDs)
		}
	}
	refuse(t, `"logprob_token_ids":[5]`, want{"logprob-tokens", "`logprobs` must be set to true"})
	refuse(t, `"logprobs":true,"logprob_token_ids":["5"]`, want{"schema", "logprob_token_ids[0]"})
	for body, ok := range map[string]bool{
		`{"prompt":"x","logprobs":0,"logprob_token_ids":[1]}`:                            true,
		`{"prompt":"x","logprob_token_ids":[1]}`:                                         false,
		`{"prompt":"x","logprobs":0,"echo":true,"max_tokens":1,"logprob_token_ids":[1]}`: true,
		`{"prompt":"x","logprobs":0,"echo":true,"max_tokens":0,"logprob_token_ids":[1]}`: false,
		`{"prompt":"x","logprobs":0,"echo":true,"max_tokens":0,"logprob_token_ids":[]}`:  true,
	} {
		if _, err := checkText([]byte(body)); (err == nil) != ok || err != nil && *err.Param != "logprob_token_ids" {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestK24ThinkingBudget(t *testing.T) {
	for v, w := range map[string]int{"0": 0, "7": 7} {
		if r := accept(t, `"thinking_token_budget":`+v); r.ThinkingBudget == nil || *r.ThinkingBudget != w {
			t.Errorf("%s: %v", v, r.ThinkingBudget)
		}
	}
	for _, v := range []string{"-1", "null"} {
		if r := accept(t, `"thinking_token_budget":`+v); r.ThinkingBudget != nil {
			t.Errorf("%s: %d", v, *r.ThinkingBudget)
		}
	}
	for _, v := range []string{"-2", "1.5", `"1"`} {
		refuse(t, `"thinking_token_budget":`+v, want{"schema", "thinking_token_budget"})
	}
}

func TestC51PromptLogprobs(t *testing.T) {
	for _, n := range []string{"1", "-1"} {
		e := refuse(t, `"stream":true,"prompt_logprobs":`+n, want{"prompt-logprobs", ""})
		if e.Message != "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)" {
			t.Error(e.Message)
		}
		accept(t, `"prompt_logprobs":`+n)
	}
	refuse(t, `"prompt_logprobs":-2`, want{"prompt-logprobs", "`prompt_logprobs` must be a positive value or -1."})
	if r := accept(t, `"stream":true,"prompt_logprobs":0`); *r.PromptLogprobs != 0 {
		t.Error(*r.PromptLogprobs)
	}
	if e := ErrMaxPromptLogprobs(25, 20); e.Message != "Requested prompt logprobs of 25, which is greater than max allowed: 20 (parameter=prompt_logprobs, value=25)" {
		t.Error(e.Message)
	}
	// echo switches them on (docs/interface/chat-completions.md, section 3.8).
	if r := accept(t, `"echo":true`); r.PromptLogprobs == nil || *r.PromptLogprobs != 0 {
		t.Error("echo")
	}
	if r := accept(t, `"echo":true,"logprobs":true,"top_logprobs":3`); *r.PromptLogprobs != 3 {
		t.Error("echo with top_logprobs")
	}
	if r := accept(t, `"echo":true,"logprobs":true,"top_logprobs":3,"prompt_logprobs":1`); *r.PromptLogprobs != 1 {
		t.Error("what was asked for stays")
	}
	if r := accept(t, `"echo":true,"top_logprobs":null`); r.PromptLogprobs == nil || *r.PromptLogprobs != 0 {
		t.Error("null has nothing to give")
	}
}

func TestC52StreamOptions(t *testing.T) {
	e := refuse(t, `"stream_options":{"include_usage":true}`, want{"stream-options", ""})
	if e.Message != "Stream options can only be defined when `stream=True`. (parameter=stream_options)" {
		t.Error(e.Message)
	}
	refuse(t, `"stream":false,"stream_options":{"x":1}`, want{"stream-options", ""})
	refuse(t, `"stream":true,"stream_options":[]`, want{"schema", "stream_options"})
	refuse(t, `"stream":true,"stream_options":{"include_usage":5}`, want{"schema", "stream_options.include_usage"})
	refuse(t, `"stream":true,"stream_options":{"continuous_usage_stats":"x"}`, want{"schema", "stream_options.continuous_usage_stats"})
	if r := accept(t, `"stream_options":{}`); r.IncludeUsage {
		t.Error("usage without a stream")
	}
}

func TestC53CacheSalt(t *testing.T) {
	for _, v := range []string{`""`, "5", "true"} {
		refuse(t, `"cache_salt":`+v, want{"schema", "Parameter 'cache_salt' must be a non-empty string if provided."})
	}
	if r := accept(t, `"cache_salt":"\u0061 "`); *r.CacheSalt != "a " {
		t.Error(*r.CacheSalt)
	}
}

func TestC54Priority(t *testing.T) {
	for _, p := range []int{1, -1} {
		e := ErrPriority(p)
		if e.Status != 400 || e.Type != "BadRequestError" || *e.Param != "priority" || !strings.HasPrefix(e.Message, "Got priority "+python(p)+" but Priority scheduling is not enabled.") {
			t.Errorf("%+v", e)
		}
	}
	if r := accept(t, `"priority":-7`); r.Priority != -7 {
		t.Error(r.Priority)
	}
	refuse(t, `"priority":9223372036854775808`, want{"schema", "priority"})
}

func TestC55GenerationPrompt(t *testing.T) {
	refuse(t, `"add_generation_prompt":true,"continue_final_message":true`, want{"schema", "Cannot set both `continue_final_message` and `add_generation_prompt` to True."})
	for f, w := range map[string][2]bool{ // add, continue
		`"continue_final_message":true`:                                {false, true},
		`"add_generation_prompt":false,"continue_final_message":true`:  {false, true},
		`"add_generation_prompt":true,"continue_final_message":false`:  {true, false},
		`"add_generation_prompt":false`:                                {false, false},
		`"continue_final_message":false`:                               {true, false},
		`"add_generation_prompt":false,"continue_final_message":false`: {false, false},
	} {
		if r := accept(t, f); r.AddGenerationPrompt != w[0] || r.ContinueFinalMessage != w[1] {
			t.Error(f, r.AddGenerationPrompt, r.ContinueFinalMessage)
		}
	}
}

func TestC56ReasoningEffort(t *testing.T) {
	for _, v := range []string{`"auto"`, `"ultra"`, `""`, "1"} {
		refuse(t, `"reasoning_effort":`+v, want{"schema", "reasoning_effort"})
	}
	for _, v := range []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} {
		if r := accept(t, `"reasoning_effort":"`+v+`"`); r.ReasoningEffort != v {
			t.Error(r.ReasoningEffort)
		}
	}
}

const oneTool = `"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1.0,"a":1}}}]`

func TestC57ToolChoice(t *testing.T) {
	for _, v := range []string{`"any"`, `{"type":"function","function":{"name":"g"}}`, "5", "true"} {
		refuse(t, oneTool+`,"tool_choice":`+v, want{"tool-choice", "tool_choice"})
	}
	for _, f := range []string{oneTool + `,"tool_choice":"none"`, oneTool, oneTool + `,"tool_choice":null`} {
		if r := accept(t, f); string(r.Tools) != `[{"type":"function","function":{"name":"f","description":null,"parameters":{"b":1.0,"a":1}}}]` {
			t.Errorf("%s: tools %s", f, r.Tools)
		}
	}
	if r := accept(t, `"tools":[],"parallel_tool_calls":false`); r.Tools != nil || r.ParallelToolCalls {
		t.Error("no tools")
	}
	for _, v := range []string{`{}`, `[1]`, `[{}]`, `[{"function":{}}]`, `[{"function":{"name":5}}]`, `[{"type":"x","function":{"name":"f"}}]`,
		`[{"function":{"name":"f","parameters":[]}}]`, `[{"function":{"name":"f","description":1}}]`} {
		refuse(t, `"tools":`+v, want{"schema", "tools"})
	}
}

// The definitions reach the template as vLLM dumps them: its keys in its order, null where
// nothing was given, and no others.
func TestK9Tools(t *testing.T) {
	for sent, shown := range map[string]string{
		`[{"function":{"name":"f"}}]`: `[{"type":"function","function":{"name":"f","description":null,"parameters":null}}]`,
		`[{"x":1,"function":{"parameters":{"type":"object","b":[1.0,{"z":1,"a":2}]},"y":{},"name":"\u0066","description":"d"},"type":"function"},{"function":{"name":"g","description":null}}]`: `[` +
			`{"type":"function","function":{"name":"\u0066","description":"d","parameters":{"type":"object","b":[1.0,{"z":1,"a":2}]}}},` +
			`{"type":"function","function":{"name":"g","description":null,"parameters":null}}]`,
		`[{"function":{"strict":true,"name":"f","defer_loading":null}}]`:               `[{"type":"function","function":{"name":"f","description":null,"parameters":null,"strict":true}}]`,
		`[{"defer_loading":"no","function":{"name":"f","strict":null}}]`:               `[{"type":"function","function":{"name":"f","description":null,"parameters":null,"defer_loading":false},"defer_loading":false}]`,
		`[{"defer_loading":true,"function":{"name":"f","defer_loading":0}}]`:           `[{"type":"function","function":{"name":"f","description":null,"parameters":null,"defer_loading":false},"defer_loading":true}]`,
		`[{"function":{"name":"a","name":"b","defer_loading":true,"strict":"false"}}]`: `[{"type":"function","function":{"name":"b","description":null,"parameters":null,"strict":false,"defer_loading":true}}]`,
	} {
		if got := string(accept(t, `"tools":`+sent).Tools); got != shown {
			t.Errorf("%s:\n got %s\nwant %s", sent, got, shown)
		}
	}
	for _, v := range []string{`[{"function":{"name":"f","strict":"x"}}]`, `[{"function":{"name":"f","defer_loading":2}}]`, `[{"defer_loading":[],"function":{"name":"f"}}]`} {
		refuse(t, `"tools":`+v, want{"schema", "tools[0]"})
	}
}

func TestC58Template(t *testing.T) {
	for f, has := range map[string]bool{
		`"chat_template":"x"`: true, `"chat_template":""`: true, `"chat_template_kwargs":{"chat_template":"x"}`: true, `"chat_template_kwargs":{"chat\u005ftemplate":""}`: true,
		`"chat_template":null`: false, `"chat_template_kwargs":{"chat_template":null,"enable_thinking":false}`: false, `"chat_template_kwargs":{}`: false, `"n":1`: false,
	} {
		if r := accept(t, f); r.HasTemplate() != has {
			t.Error(f, !has)
		}
	}
	refuse(t, `"chat_template":5`, want{"schema", "chat_template"})
	refuse(t, `"chat_template_kwargs":[]`, want{"schema", "chat_template_kwargs"})
	refuse(t, `"mm_processor_kwargs":5`, want{"schema", "mm_processor_kwargs"})
	if r := accept(t, `"mm_processor_kwargs":{"a":1}`); string(r.MMProcessorKwargs) != `{"a":1}` {
		t.Error(r.MMProcessorKwargs)
	}
}

func TestC59Documents(t *testing.T) {
	for _, v := range []string{`[{"title":"a","text":"b"}]`, `[{"text":5}]`, `[{"text":{"a":[null]}}]`, `[]`} {
		if r := accept(t, `"documents": `+v+` `); string(r.Documents) != v {
			t.Errorf("%s: %s", v, r.Documents)
		}
	}
	refuse(t, `"documents":["x"]`, want{"schema", "documents[0]"})
	refuse(t, `"documents":{}`, want{"schema", "documents"})
}

func TestC60XArgs(t *testing.T) {
	for _, v := range []string{`{"a":1,"b":"x","c":[1,2]}`, `{"a":true,"b":[1.5,"x",false]}`, `{}`} {
		for _, name := range []string{"engine_xargs", "vllm_xargs"} {
			if r := accept(t, `"`+name+`":`+v); string(r.EngineXArgs) != v {
				t.Error(name, string(r.EngineXArgs))
			}
		}
	}
	if r := accept(t, `"engine_xargs":{"a":1},"vllm_xargs":{"a":2}`); string(r.EngineXArgs) != `{"a":1}` {
		t.Error("the alias won")
	}
	if r := accept(t, `"engine_xargs":null,"vllm_xargs":{"a":2}`); string(r.EngineXArgs) != `{"a":2}` {
		t.Error("the alias is lost")
	}
	for _, v := range []string{`{"a":null}`, `{"a":{"b":1}}`, `{"a":[null]}`, `{"a":[[1]]}`, `{"a":[{}]}`, `[]`} {
		refuse(t, `"engine_xargs":`+v, want{"schema", "engine_xargs"})
		refuse(t, `"vllm_xargs":`+v, want{"schema", "vllm_xargs"})
	}
	if r := accept(t, `"kv_transfer_params":{"do_remote_decode":true}`); string(r.KVTransferParams) != `{"do_remote_decode":true}` {
		t.Error(r.KVTransferParams)
	}
	refuse(t, `"kv_transfer_params":"x"`, want{"schema", "kv_transfer_params"})
}

func TestC61RepetitionDetection(t *testing.T) {
	for _, v := range []string{`{}`, `{"max_pattern_size":0,"min_count":-5}`, `null`, `{"min_count":100000}`} {
		if r := accept(t, `"repetition_detection":`+v); r.RepetitionDetection != nil {
			t.Errorf("%s: on", v)
		}
	}
	for v, text := range map[string]string{
		`{"max_pattern_size":3,"min_count":1}`:                        "min_count must be >= 2 to detect repetitive patterns in engine output.",
		`{"max_pattern_size":3}`:                                      "min_count must be >= 2",
		`{"max_pattern_size":2,"min_pattern_size":3,"min_count":3}`:   "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size.",
		`{"max_pattern_size":-1}`:                                     "must be >=0",
		`{"max_pattern_size":2,"min_pattern_size":-1,"min_count":2}`:  "must be >=0",
		`{"max_pattern_size":2049,"min_count":2}`:                     "at most 2048",
		`{"max_pattern_size":2,"min_count":2049}`:                     "at most 2048",
		`{"max_pattern_size":null}`:                                   "max_pattern_size",
		`{"max_pattern_size":1.5}`:                                    "max_pattern_size",
		`{"max_pattern_size":99999999999999999999999,"min_count":2}`:  "max_pattern_size",
		`{"max_pattern_size":2,"min_pattern_size":"1","min_count":2}`: "min_pattern_size",
		`5`: "object",
	} {
		refuse(t, `"repetition_detection":`+v, want{"schema", "repetition_detection"})
		refuse(t, `"repetition_detection":`+v, want{"schema", text})
	}
	r := accept(t, `"repetition_detection":{"max_pattern_size":3,"min_count":4}`)
	if *r.RepetitionDetection != (RepetitionDetection{MinSize: 1, MaxSize: 3, Count: 4}) {
		t.Error(*r.RepetitionDetection)
	}
	r = accept(t, `"repetition_detection":{"max_pattern_size":2048,"min_pattern_size":2,"min_count":2048}`)
	if *r.RepetitionDetection != (RepetitionDetection{MinSize: 2, MaxSize: 2048, Count: 2048}) {
		t.Error(*r.RepetitionDetection)
	}
}

// TestC81InStreams: a stream changes nothing about the rows above; every verdict

// falls before an answer starts.

func TestC133C134C135Usage(t *testing.T) {
	for f, w := range map[string][2]bool{ // usage at the end, usage in every chunk
		`"stream":true`: {false, false}, `"stream":true,"stream_options":null`: {false, false},
		`"stream":true,"stream_options":{}`:                                                           {false, false},
		`"stream":true,"stream_options":{"include_usage":null}`:                                       {false, false},
		`"stream":true,"stream_options":{"include_usage":false}`:                                      {false, false},
		`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":null}`:         {true, false},
		`"stream":true,"stream_options":{"continuous_usage_stats":true}`:                              {false, false},
		`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`:         {true, true},
		`"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}`:        {false, false},
		`"stream":true,"stream_options":{"include_usage":"yes","continuous_usage_stats":1,"other":0}`: {true, true},
	} {
		if r := accept(t, f); r.IncludeUsage != w[0] || r.ContinuousUsage != w[1] {
			t.Error(f, r.IncludeUsage, r.ContinuousUsage)
		}
	}
}
