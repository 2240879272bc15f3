package responsesapi

import (
	"strings"
	"testing"

	"weir/api"
	"weir/server/openai"
)

// chatOf is the body of the chat completion that a request is translated to.
func chatOf(t *testing.T, body string) string {
	t.Helper()
	_, r, c := newAnswer(t, body)
	return string(r.chat(&openai.Model{MaxLen: 4096}, c, "1"))
}

// TestP10Items: the items that a model wrote in one turn are one message of the chat, and the
// others one each (docs/interface/responses-api.md, P-10 and P-12).
func TestP10Items(t *testing.T) {
	for name, c := range map[string]struct{ input, messages string }{
		"text": {`"Hi \"you\""`, `{"role":"user","content":"Hi \"you\""}`},
		"no types": {`[{"role":"system","content":"S"},{"role":"user","content":"U"}]`,
			`{"role":"system","content":"S"},{"role":"user","content":"U"}`},
		"one text in a part": {`[{"type":"message","role":"developer","content":[{"type":"input_text","text":"D"}]}]`, `{"role":"developer","content":"D"}`},
		"parts": {`[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]`,
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		"one turn": {`[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"T"}]},
			{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"A","annotations":[]}]},
			{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
			{"type":"function_call","call_id":"c2","name":"spawn","namespace":"ns","arguments":"{}"},
			{"type":"function_call_output","call_id":"c2","output":"two"},
			{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]}]`,
			`{"role":"assistant","reasoning":"T","content":"A","tool_calls":[` +
				`{"type":"function","id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}},{"type":"function","id":"c2","function":{"name":"ns__spawn","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":"one"}`},
		"text after a call": {`[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"role":"assistant","content":"A"},{"type":"function_call_output","call_id":"c1","output":""}]`,
			`{"role":"assistant","content":"A","tool_calls":[{"type":"function","id":"c1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":""}`},
		"two answers": {`[{"role":"assistant","content":"A"},{"role":"assistant","content":"B"}]`,
			`{"role":"assistant","content":"A"},{"role":"assistant","content":"B"}`},
		"an answer of two parts": {`[{"role":"assistant","content":[{"type":"output_text","text":"A"},{"type":"refusal","refusal":"R"}]}]`,
			`{"role":"assistant","content":[{"type":"text","text":"A"},{"type":"text","text":"R"}]}`},
		"two turns": {`[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"T"}]},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}]`,
			`{"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"c1","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"assistant","reasoning":"T","content":null,"tool_calls":[{"type":"function","id":"c2","function":{"name":"f","arguments":"{}"}}]}`},
		"custom": {`[{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"a\nb"},{"type":"custom_tool_call_output","call_id":"c1","output":"ok"}]`,
			`{"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"c1","function":{"name":"patch","arguments":"{\"input\":\"a\\nb\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}`},
		"hosted": {`[{"type":"web_search_call","id":"ws_1","status":"completed"},{"role":"user","content":"U"}]`, `{"role":"user","content":"U"}`},
		"own seal": {`[{"type":"reasoning","summary":[],"encrypted_content":"` + seal("Tée") + `"},{"role":"assistant","content":"A"}]`,
			`{"role":"assistant","reasoning":"Tée","content":"A"}`},
	} {
		got := chatOf(t, `{"input":`+c.input+`}`)
		want := `"messages":[` + c.messages + `]`
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nhas no\n%s", name, got, want)
		}
		lim := api.DefaultLimits()
		q, bad := api.DecodeChat([]byte(got), lim)
		if bad == nil {
			bad = q.CheckPrompt()
		}
		if bad != nil {
			t.Errorf("%s: the chat is refused: %v", name, bad)
		}
	}
}

// TestP13Tools: functions, tools of namespaces and custom tools are functions of the chat; what the
// vendor hosts is left out and named (docs/interface/responses-api.md, P-13 to P-16).
func TestP13Tools(t *testing.T) {
	got := chatOf(t, toolsBody)
	want := `,"tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"ns__spawn","description":"Others.","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"patch","description":"Patches.",` +
		`"parameters":{"type":"object","properties":{"input":{"type":"string","x-grammar":"start: /a/"}},"required":["input"],"additionalProperties":false},"strict":true}}]`
	if !strings.Contains(got, want) {
		t.Errorf("%s\nhas no\n%s", got, want)
	}
	_, r, _ := newAnswer(t, toolsBody)
	if list := headerList(r.ignored); list != "tools[3].web_search" {
		t.Errorf("ignored: %q", list)
	}
	for choice, want := range map[string]string{
		`"auto"`:                           `,"tool_choice":"auto"`,
		`"required"`:                       `,"tool_choice":"required"`,
		`"none"`:                           `,"tool_choice":"none"`,
		`{"type":"function","name":"get"}`: `,"tool_choice":{"type":"function","function":{"name":"get"}}`,
		`{"type":"custom","name":"patch"}`: `,"tool_choice":{"type":"function","function":{"name":"patch"}}`,
		`{"type":"function","name":"spawn","namespace":"ns"}`:                                                         `,"tool_choice":{"type":"function","function":{"name":"ns__spawn"}}`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"get"},{"type":"web_search"}]}`: `"parameters":{"type":"object"}}}],"tool_choice":"required"`,
	} {
		got := chatOf(t, strings.TrimSuffix(toolsBody, "}")+`,"parallel_tool_calls":false,"tool_choice":`+choice+`}`)
		if !strings.Contains(got, want+`,"parallel_tool_calls":false`) {
			t.Errorf("%s: %s\nhas no\n%s", choice, got, want)
		}
	}
	// A regular expression is the pattern of the input.
	got = chatOf(t, `{"input":"x","tools":[{"type":"custom","name":"c","format":{"type":"grammar","syntax":"regex","definition":"a|b"}}]}`)
	if want := `"input":{"type":"string","pattern":"^(?:a|b)$"}`; !strings.Contains(got, want) {
		t.Errorf("%s\nhas no\n%s", got, want)
	}
	// Only hosted tools are no tools.
	got = chatOf(t, `{"input":"x","tool_choice":"auto","tools":[{"type":"web_search"}]}`)
	if strings.Contains(got, "tool") {
		t.Errorf("%s", got)
	}
}

// TestP5Fields: the fields of a request are those of a chat, and what nobody here knows is passed on
// for the chat to judge (docs/interface/responses-api.md, P-3, P-5, P-6 and P-9).
func TestP5Fields(t *testing.T) {
	for body, want := range map[string]string{
		`"max_output_tokens":100`:                       `,"max_completion_tokens":100`,
		`"max_output_tokens":128000`:                    `,"max_completion_tokens":4096`,
		`"temperature":0.5`:                             `,"temperature":0.5`,
		`"top_p":0.5`:                                   `,"top_p":0.5`,
		`"reasoning":{"effort":"low","summary":"auto"}`: `,"reasoning_effort":"low"`,
		`"top_logprobs":3`:                              `,"logprobs":true,"top_logprobs":3`,
		`"include":["message.output_text.logprobs"]`:    `,"logprobs":true`,
		`"stream":true`:                                 `,"stream":true`,
		`"text":{"format":{"type":"json_object"}}`:      `,"response_format":{"type":"json_object"}`,
		`"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}`: `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`,
		`"truncation":"auto"`:                            `,"truncate_prompt_tokens":3072`,
		`"truncation":"auto","max_output_tokens":96`:     `,"truncate_prompt_tokens":4000`,
		`"truncation":"auto","max_output_tokens":128000`: `,"truncate_prompt_tokens":2048`,
		`"instructions":"Be brief."`:                     `"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"x"}]`,
		`"seed":1000,"guided_regex":"a"`:                 `,"seed":1000,"guided_regex":"a"`,
		`"model":"m"`:                                    `,"model":"m"`,
	} {
		if got := chatOf(t, `{"input":"x",`+body+`}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nhas no\n%s", body, got, want)
		}
	}
	quiet := `"store":false,"metadata":{"a":"b"},"prompt_cache_key":"k","client_metadata":{"x":1},"service_tier":"auto","safety_identifier":"s",` +
		`"stream_options":{"include_obfuscation":false},"include":["reasoning.encrypted_content"],"max_tool_calls":3,"text":{"verbosity":"low"},"temperature":null`
	if got, want := chatOf(t, `{"input":"x",`+quiet+`}`), `{"request_id":"1","messages":[{"role":"user","content":"x"}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// codex is the first request of Codex CLI, shortened.
const codex = `{"model":"m","input":[
	{"type":"message","role":"developer","id":"i1","content":[{"type":"input_text","text":"You are Codex."}]},
	{"type":"message","role":"user","id":"i2","content":[{"type":"input_text","text":"Read the file."}]}],
	"tools":[{"type":"function","name":"exec_command","description":"Runs.","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"],"additionalProperties":false}},
	{"type":"namespace","name":"multi_agent_v1","description":"Agents.","tools":[{"type":"function","name":"spawn_agent","strict":false,"parameters":{"type":"object","properties":{}}}]},
	{"type":"custom","name":"apply_patch","description":"Patch.","format":{"type":"grammar","syntax":"lark","definition":"start: begin_patch\nbegin_patch: \"*** Begin Patch\""}},
	{"type":"tool_search","execution":"client"},{"type":"web_search","search_content_types":["text"]}],
	"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,
	"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"a":"b"},"text":{"verbosity":"low"}}`

// TestP2Agents: what agents send is a chat that is accepted, and its second request begins with the
// messages of the first (docs/interface/responses-api.md, P-2).
func TestP2Agents(t *testing.T) {
	first := chatOf(t, codex)
	if strings.Contains(first, "web_search") || !strings.Contains(first, "multi_agent_v1__spawn_agent") {
		t.Errorf("%s", first)
	}
	second := chatOf(t, strings.Replace(codex, `"Read the file."}]}]`, `"Read the file."}]},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec_command","arguments":"{\"cmd\":\"cat x\"}","status":"completed"},
		{"type":"function_call_output","id":"o1","call_id":"call_1","output":"text"}]`, 1))
	messages := first[strings.Index(first, `"messages":[`):strings.Index(first, `],"stream"`)]
	if !strings.Contains(second, messages+",{") {
		t.Errorf("the second request is\n%s\nand does not begin as\n%s", second, messages)
	}
}

// FuzzDecode: no body makes it fail, and what it accepts is a chat whose form is right, or is
// refused by it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(codex))
	f.Add([]byte(toolsBody))
	f.Add([]byte(`{"input":[{"type":"item_reference","id":"msg_1"},{"id":"x"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		lim := api.DefaultLimits()
		lim.Depth = 50
		r, err := decode(body, &lim)
		if err != nil {
			return
		}
		c := &conversation{}
		reader := itemReader{to: c, req: r, lim: &lim, refer: func(string) (api.Raw, error) { return nil, nil }}
		if reader.read(r.input) != nil {
			return
		}
		c.end()
		lim.Depth += 10
		if _, bad := api.DecodeChat(r.chat(&openai.Model{MaxLen: 100}, c, "1"), lim); bad != nil && strings.Contains(bad.Message, "JSON") && strings.Contains(bad.Message, "byte") {
			t.Errorf("the chat is not JSON: %v", bad)
		}
	})
}
