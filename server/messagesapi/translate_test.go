package messagesapi

import (
	"errors"
	"strings"
	"testing"

	"weir/api"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/server/jsonfields"
)

var small = facts{context: 1000, thinks: true, inPlace: true}

// newSurface returns a request of a tenant to handlers without a server.
func newSurface(version string) *surface {
	return &surface{h: &Handlers{threads: newThreads(memory.New(1<<30, 0))}, version: version, owner: owner{"tenant", "team/project"}}
}

// with completes a body that has the fields of the test alone.
func with(fields string) string {
	body := `{"model":"m","max_tokens":10`
	if fields != "" {
		body += "," + fields
	}
	if !strings.Contains(fields, `"messages"`) {
		body += `,"messages":[{"role":"user","content":"hi"}]`
	}
	return body + "}"
}

const (
	question = `"messages":[{"role":"user","content":"hi"}]`
	weather  = `{"name":"weather","description":"The weather.","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}`
	clock    = `{"name":"clock","type":"custom","strict":true,"input_schema":{"type":"object"}}`
	weatherT = `{"type":"function","function":{"name":"weather","description":"The weather.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}`
	clockT   = `{"type":"function","function":{"name":"clock","parameters":{"type":"object"},"strict":true}}`
	twoCalls = `{"role":"user","content":"Where?"},{"role":"assistant","content":[{"type":"text","text":"I look."},` +
		`{"type":"tool_use","id":"t1","name":"weather","input":{"city":"Ulm"}},{"type":"tool_use","id":"t2","name":"clock"}]}`
	twoCallsT = `{"role":"user","content":"Where?"},{"role":"assistant","content":"I look.","tool_calls":[` +
		`{"id":"t1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Ulm\"}"}},{"id":"t2","type":"function","function":{"name":"clock","arguments":"{}"}}]}`
)

// TestTranslate compares the bodies of chats: all of them, or the part between the model and
// max_tokens where a case begins with a comma.
func TestTranslate(t *testing.T) {
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ rule, fields, want string }{
		{"M-10 a text", `"system":"Be brief."`, `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"max_tokens":10`},
		{"M-10 blocks", `"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.330.45e"},{"type":"text","text":"A"},{"type":"text","text":"B","cache_control":{"type":"ephemeral"}}]`,
			`"messages":[{"role":"system","content":"A\nB"},{"role":"user","content":"hi"}],"max_tokens":10`},
		{"M-10 the header alone", `"system":"x-anthropic-billing-header: x"`, hi + `,"max_tokens":10`},
		{"M-11 one block is a text", `"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]`, hi + `,"max_tokens":10`},
		{"M-11 roles in a row", `"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"assistant","content":"d"},{"role":"assistant","content":"e"},{"role":"user","content":"f"}]`,
			`"messages":[{"role":"user","content":"a\nb\nc"},{"role":"assistant","content":"d\ne"},{"role":"user","content":"f"}],"max_tokens":10`},
		{"M-12 thoughts", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"x"},{"type":"redacted_thinking","data":"q"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"Hm."},{"role":"user","content":"c"}],"max_tokens":10`},
		{"M-12 thoughts in the signature", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"weir-thoughts.SG0u"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"Hm."},{"role":"user","content":"c"}],"max_tokens":10`},
		{"M-12 another's signature", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"EqQB"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"max_tokens":10`},
		{"M-13 results in another order", `"messages":[` + twoCalls + `,{"role":"user","content":[{"type":"text","text":"Go on."},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"12"},{"type":"text","text":"30"}]},{"type":"tool_result","tool_use_id":"t1","content":"Rain","is_error":false}]}]`,
			`"messages":[` + twoCallsT + `,{"role":"tool","content":"Rain","tool_call_id":"t1","name":"weather"},{"role":"tool","content":"12\n30","tool_call_id":"t2","name":"clock"},{"role":"user","content":"Go on."}],"max_tokens":10`},
		{"M-13 a result of nothing", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"clock","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]`,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","content":"","tool_call_id":"t","name":"clock"}],"max_tokens":10`},
		{"M-14 a document", `"messages":[{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"E"}]}},{"type":"search_result","title":"S","source":"u","content":[{"type":"text","text":"F"}]}]}]`,
			`"messages":[{"role":"user","content":"T\nD\nE\nS\nu\nF"}],"max_tokens":10`},
		{"M-15 in front", `"system":"A","messages":[{"role":"system","content":"B"},{"role":"user","content":"hi"}]`,
			`"messages":[{"role":"system","content":"A\nB"},{"role":"user","content":"hi"}],"max_tokens":10`},
		{"M-15 in between", `"messages":[{"role":"user","content":"hi"},{"role":"system","content":[{"type":"text","text":"B"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`,
			`"messages":[{"role":"user","content":"hi"},{"role":"system","content":"B"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}],"max_tokens":10`},
		{"M-15 until the next", `"messages":[{"role":"user","content":"hi"},{"role":"system","content":"B","clear_at":"next_user_message"},{"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"system","content":"E","clear_at":"next_user_message"}]`,
			`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"system","content":"E"}],"max_tokens":10`},
		{"M-16", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The answer is ("}]`,
			`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The answer is ("}],"continue_final_message":true,"add_generation_prompt":false,"max_tokens":10`},
		{"M-17", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`,
			`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"max_tokens":10`},
		{"M-20 more than there is room", `"max_tokens":128000`, hi + `,"max_tokens":1000`},
		{"M-20 nothing", `"max_tokens":0`, hi + `,"max_tokens":1`},
		{"M-21", `"temperature":0.5,"top_p":0.9,"top_k":5,"stop_sequences":["A","B"],"stream":true`, hi + `,"max_tokens":10,"stream":true,"temperature":0.5,"top_p":0.9,"top_k":5,"stop":["A","B"]`},
		{"M-22 as many as the answer", `"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":32000}`, hi + `,"max_tokens":1000,"chat_template_kwargs":{"enable_thinking":true,"thinking":true},"thinking_token_budget":1000`},
		{"M-22 adaptive", `"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"xhigh"}`, hi + `,"max_tokens":10,"chat_template_kwargs":{"enable_thinking":true,"thinking":true},"reasoning_effort":"xhigh"`},
		{"M-22 none", `"output_config":{"effort":"none"}`, hi + `,"max_tokens":10,"reasoning_effort":"none"`},
		{"M-22 minimal", `"output_config":{"effort":"minimal"}`, hi + `,"max_tokens":10,"reasoning_effort":"minimal"`},
		{"M-22 disabled", `"thinking":{"type":"disabled"},"output_config":{"effort":"low"}`, hi + `,"max_tokens":10,"reasoning_effort":"none"`},
		{"M-23", `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, hi + `,"max_tokens":10,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":{"type":"object"}}}`},
		{"M-23 as it was before", `"output_format":{"type":"json_schema","schema":{"type":"object"}}`, hi + `,"max_tokens":10,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":{"type":"object"}}}`},
		{"M-24", `"metadata":{"user_id":"{\"a\":1}"},"service_tier":"auto","context_management":{"edits":[]},"cache_control":null`, hi + `,"max_tokens":10,"user":"{\"a\":1}"`},
		{"M-30", `"tools":[` + weather + `,` + clock + `,{"type":"web_search_20250305","name":"web_search"}]`, hi + `,"tools":[` + weatherT + `,` + clockT + `],"tool_choice":"auto","max_tokens":10`},
		{"M-30 hosted ones alone", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, hi + `,"max_tokens":10`},
		{"M-31 any", `"tools":[` + clock + `],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`, hi + `,"tools":[` + clockT + `],"tool_choice":"required","parallel_tool_calls":false,"max_tokens":10`},
		{"M-31 one", `"tools":[` + clock + `],"tool_choice":{"type":"tool","name":"clock"}`, hi + `,"tools":[` + clockT + `],"tool_choice":{"type":"function","function":{"name":"clock"}},"max_tokens":10`},
		{"M-31 none", `"tools":[` + clock + `],"tool_choice":{"type":"none"}`, hi + `,"tools":[` + clockT + `],"tool_choice":"none","max_tokens":10`},
		{"M-32 not shown", `"tools":[` + clock + `,` + deferred + `]`, hi + `,"tools":[` + clockT + `],"tool_choice":"auto","max_tokens":10`},
		{"M-32 shown once", `"tools":[` + clock + `,` + deferred + `],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"s","name":"clock","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"s","content":[{"type":"tool_reference","tool_name":"later"},{"type":"tool_reference","tool_name":"later"}]}]}]`,
			`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"s","type":"function","function":{"name":"clock","arguments":"{}"}}]},` +
				`{"role":"tool","content":"{\"type\":\"function\",\"function\":{\"name\":\"later\",\"parameters\":{}}}\nlater","tool_call_id":"s","name":"clock"}],"tools":[` + clockT + `,` + deferredT + `],"tool_choice":"auto","max_tokens":10`},
	} {
		chat, _, err := newSurface("").translate(small, []byte(with(c.fields)))
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if want := `{"model":"m",` + c.want + `}`; string(chat) != want {
			t.Errorf("%s:\n%s, want\n%s", c.rule, chat, want)
		}
		if err := jsontext.Scan(chat, jsonfields.MaxDepth+10); err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

const (
	deferred  = `{"name":"later","defer_loading":true,"input_schema":{}}`
	deferredT = `{"type":"function","function":{"name":"later","parameters":{}}}`
)

// TestSystemsAsUser: where the template does not take a system message between others, it is text of
// the user (M-15).
func TestSystemsAsUser(t *testing.T) {
	f := small
	f.inPlace = false
	for _, c := range []struct{ messages, want string }{
		{`{"role":"user","content":"a"},{"role":"system","content":"B"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}`,
			`{"role":"user","content":"a\n<system-reminder>\nB\n</system-reminder>"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}`},
		{`{"role":"user","content":"a"},{"role":"system","content":"B","clear_at":"next_user_message"},{"role":"user","content":"d"}`, `{"role":"user","content":"a\nd"}`},
	} {
		chat, _, err := newSurface("").translate(f, []byte(with(`"messages":[`+c.messages+`]`)))
		if want := `{"model":"m","messages":[` + c.want + `],"max_tokens":10}`; err != nil || string(chat) != want {
			t.Errorf("%v\n%s, want\n%s", err, chat, want)
		}
	}
}

// TestRefused: what is wrong is said with the name of the field, before any work (M-60).
func TestRefused(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{`, "The body is not valid JSON"},
		{`[]`, "The body must be an object"},
		{`{"max_tokens":1,` + question + `}`, "model: Field required"},
		{`{"model":"m",` + question + `}`, "max_tokens: Field required"},
		{with(`"model":1`), "model: must be a string"},
		{with(`"stream":1`), "stream: must be a boolean"},
		{with(`"max_tokens":-1`), "max_tokens: must be at least 0"},
		{with(`"max_tokens":1.5`), "max_tokens: must be an integer"},
		{with(`"max_tokens":0,"stream":true`), "max_tokens: must be at least 1 with stream"},
		{`{"model":"m","max_tokens":1}`, "messages: Field required"},
		{with(`"messages":{}`), "messages: must be an array"},
		{with(`"messages":[]`), "messages: at least one message is required"},
		{with(`"messages":[1]`), "messages.0: must be an object"},
		{with(`"messages":[{"role":"tool","content":""}]`), "messages.0.role: must be \"user\""},
		{with(`"messages":[{"role":"user"}]`), "messages.0.content: Field required"},
		{with(`"messages":[{"role":"user","content":1}]`), "messages.0.content: must be a string or an array"},
		{with(`"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]`), "messages.0.content.0: the model reads text alone"},
		{with(`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64"}}]}]`), "messages.0.content.0.source: the model reads text alone"},
		{with(`"messages":[{"role":"user","content":[{"type":"new"}]}]`), "messages.0.content.0.type: blocks of type \"new\""},
		{with(`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]`), "unexpected tool_use_id \"x\""},
		{with(`"messages":[` + twoCalls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t1"}]}]`), "unexpected tool_use_id \"t1\""},
		{with(`"messages":[` + twoCalls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image"}]}]}]`), "messages.2.content.0.content.0: the model reads text alone"},
		{with(`"messages":[` + twoCalls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"q"}]}]}]`), "there is no tool \"q\""},
		{with(`"messages":[` + twoCalls + `]`), "the last message calls the tool \"weather\""},
		{with(`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":[]}]}]`), "messages.0.content.0.input: must be an object"},
		{with(`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"weir-thoughts.*"}]}]`), "messages.0.content.0.signature"},
		{with(`"messages":[{"role":"user","content":"a"},{"role":"system","content":[{"type":"image"}]}]`), "must be \"text\", \"tool_addition\" or \"tool_removal\" in a system message"},
		{with(`"messages":[{"role":"system","content":"a","clear_at":"x"}]`), "clear_at: must be"},
		{with(`"system":1`), "system: must be a string"},
		{with(`"system":[{"type":"image"}]`), "system.0.type: must be \"text\""},
		{with(`"tools":{}`), "tools: must be an array"},
		{with(`"tools":[{"name":"a"}]`), "tools.0.input_schema: Field required"},
		{with(`"tools":[{"input_schema":{}}]`), "tools.0.name: Field required"},
		{with(`"tools":[` + clock + `,` + clock + `]`), "Tool names must be unique"},
		{with(`"tools":[{"name":"a","input_schema":{},"defer_loading":1}]`), "tools.0.defer_loading: must be a boolean"},
		{with(`"tool_choice":{"type":"any"}`), "tool_choice: \"any\" needs tools"},
		{with(`"tool_choice":"auto"`), "tool_choice: must be an object"},
		{with(`"tool_choice":{"type":"x"}`), "tool_choice.type: must be"},
		{with(`"tools":[` + clock + `],"tool_choice":{"type":"tool","name":"q"}`), "there is no tool \"q\" in tools"},
		{with(`"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`), "runs on the vendor's servers"},
		{with(`"thinking":{"type":"enabled"}`), "thinking.budget_tokens: Field required"},
		{with(`"thinking":{"type":"x"}`), "thinking.type: must be"},
		{with(`"thinking":{"type":"adaptive","display":"x"}`), "thinking.display: must be"},
		{with(`"output_config":{"effort":"x"}`), "output_config.effort: must be"},
		{with(`"output_config":{"format":{"type":"x"}}`), "output_config.format.type: must be"},
		{with(`"output_config":{"format":{"type":"json_schema"}}`), "output_config.format.schema: must be"},
		{with(`"stop_sequences":"a"`), "stop_sequences: must be an array"},
		{with(`"stop_sequences":[""]`), "stop_sequences.0: must not be empty"},
		{with(`"metadata":{"user_id":1}`), "metadata.user_id: must be a string"},
		{with(`"compaction":{}`), "compaction: is not supported"},
		{with(`"thread":{"type":"x"}`), "thread.type: must be"},
		{with(`"thread":{"type":"continue"}`), "thread.previous_message_id: Field required"},
	} {
		_, _, err := newSurface("").translate(small, []byte(c.body))
		var known *api.Error
		if !errors.As(err, &known) || known.Status != 400 || !strings.Contains(known.Message, c.want) {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
}

// TestVersions: the version of 2026-10-21 refuses the fields of sampling, and a version is a date (M-2).
func TestVersions(t *testing.T) {
	for _, version := range []string{"", "2023-01-01", "2023-06-01", "2026-10-20"} {
		if _, _, err := newSurface(version).translate(small, []byte(with(`"temperature":1,"top_k":1,"top_p":1`))); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for _, version := range []string{"2026-10-21", "2027-01-01"} {
		for _, field := range []string{"temperature", "top_p", "top_k"} {
			_, _, err := newSurface(version).translate(small, []byte(with(`"`+field+`":1`)))
			if err == nil || !strings.Contains(err.Error(), field+": is not supported with anthropic-version "+version) {
				t.Errorf("%s %s: %v", version, field, err)
			}
		}
		if _, _, err := newSurface(version).translate(small, []byte(with(`"temperature":null`))); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for _, version := range []string{"1", "2023-06-0a", "2023_06_01", "2023-06-010"} {
		if _, _, err := newSurface(version).translate(small, []byte(with(""))); err == nil || !strings.Contains(err.Error(), "is not a valid version") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestIgnoredNames: what has no effect is named, with hosted tools and their blocks (M-3).
func TestIgnoredNames(t *testing.T) {
	body := with(`"foo":1,"bar":null,"speed":"fast","output_config":{"task_budget":{"type":"tokens"}},"tools":[{"type":"web_search_20250305","name":"w"},{"type":"bash_20250124","name":"bash"}],` +
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"w","input":{}},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`)
	_, a, err := newSurface("").translate(small, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	a.Headers(func(name, value string) { set[name] = value })
	const want = "foo, output_config.task_budget, tools.web_search_20250305, tools.bash_20250124, messages.content.server_tool_use"
	if len(set) != 1 || set["X-Ignored-Fields"] != want {
		t.Errorf("%q, want %s", set, want)
	}
	var many jsonfields.Names
	for i := range 100 {
		many.Add(strings.Repeat("é,", 10) + string(rune('a'+i%26)) + strings.Repeat("x", i/26))
	}
	s := many.Header()
	if n := strings.Count(s, ", ") + 1; n > 32 || len(s) > 1024 || n < 20 || strings.ContainsAny(s, "é\n") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	if _, a, _ = newSurface("").translate(small, []byte(with(""))); a.ignored != nil {
		t.Errorf("%v", a.ignored)
	}
}

// TestThreads: a conversation goes on from the id of its last answer, with its tools and its system
// prompt, for its tenant and project alone (M-50 to M-53).
func TestThreads(t *testing.T) {
	s := newSurface("")
	_, a, err := s.translate(small, []byte(with(`"thread":{"type":"create"},"system":"S","tools":[`+clock+`],"messages":[{"role":"user","content":"Now?"}]`)))
	if err != nil || a.keep == nil {
		t.Fatal(err)
	}
	a.keep("msg_1", []byte(`[{"type":"tool_use","id":"t","name":"clock","input":{}}]`))
	next := with(`"thread":{"type":"continue","previous_message_id":"msg_1"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"12:30"}]}]`)
	chat, b, err := s.translate(small, []byte(next))
	const want = `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Now?"},{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"clock","arguments":"{}"}}]},` +
		`{"role":"tool","content":"12:30","tool_call_id":"t","name":"clock"}],"tools":[` + clockT + `],"tool_choice":"auto","max_tokens":10}`
	if err != nil || string(chat) != want {
		t.Fatalf("%v\n%s, want\n%s", err, chat, want)
	}
	lost := func(s *surface, body string) {
		t.Helper()
		_, _, err := s.translate(small, []byte(body))
		if err == nil || !strings.Contains(err.Error(), "There is no thread") {
			t.Errorf("%v", err)
		}
	}
	other := *s
	other.owner.tenant = "other"
	lost(&other, next)
	other = *s
	other.owner.project = "team/other"
	lost(&other, next)

	if _, _, err := s.translate(small, []byte(next)); err != nil {
		t.Errorf("again, before there is an answer: %v", err)
	}
	b.keep("msg_2", []byte(`[{"type":"text","text":"It is 12:30."}]`))
	lost(s, next)
	third := with(`"thread":{"type":"continue","previous_message_id":"msg_2"},"messages":[{"role":"user","content":"Thanks."}]`)
	chat, _, err = s.translate(small, []byte(third))
	if err != nil || !strings.Contains(string(chat), `{"role":"assistant","content":"It is 12:30."},{"role":"user","content":"Thanks."}],"tools":`) {
		t.Errorf("%v\n%s", err, chat)
	}
	for _, field := range []string{`"system":"T"`, `"tools":[]`} {
		_, _, err := s.translate(small, []byte(strings.Replace(third, `"thread"`, field+`,"thread"`, 1)))
		if err == nil || !strings.Contains(err.Error(), "differs from that of the thread") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, err := s.translate(small, []byte(strings.Replace(third, `"thread"`, `"system":"S","thread"`, 1))); err != nil {
		t.Errorf("the same system prompt: %v", err)
	}
}

// TestThreadsHaveBounds: threads of one tenant take no more than its part, what is kept longest goes
// first, and others get the memory that they need (M-54).
func TestThreadsHaveBounds(t *testing.T) {
	account := memory.New(1<<30, 0)
	s := newThreads(account)
	id := func(i int) string { return string(rune('a' + i)) }
	big := func() *thread {
		return newThread(nil, nil).with(api.Raw("[" + strings.Repeat(" ", 3<<20) + "]"))
	}
	a, b := owner{"a", ""}, owner{"b", ""}
	s.keep(b, "", "b", big())
	for i := range 8 {
		s.keep(a, "", id(i), big())
	}
	for i := range 8 {
		if kept := s.find(a, id(i)) != nil; kept != (i >= 3) {
			t.Errorf("thread %d is kept: %v", i, kept)
		}
	}
	if s.find(b, "b") == nil {
		t.Error("another tenant's thread has gone")
	}
	s.keep(a, "", "huge", newThread(nil, nil).with(api.Raw("["+strings.Repeat(" ", maxThread)+"]")))
	if s.find(a, "huge") != nil {
		t.Error("a thread beyond the limit is kept")
	}
	for i := range 40 {
		s.keep(owner{id(i), "p"}, "", "x", big())
	}
	if s.size > maxThreads || int64(s.size) != s.memory.Held() || s.find(b, "b") != nil {
		t.Errorf("%d bytes, %d counted", s.size, s.memory.Held())
	}
	r := account.Open()
	if !r.TryGrow(1 << 30) {
		t.Error("the memory is not given back")
	}
	r.Release()
	if len(s.entries) != 0 || s.size != 0 || len(s.tenants) != 0 {
		t.Errorf("%d entries, %d bytes, %d tenants", len(s.entries), s.size, len(s.tenants))
	}
}

// FuzzTranslate: any body is refused or becomes a chat that can be decoded; nothing panics.
func FuzzTranslate(f *testing.F) {
	for _, fields := range []string{"", `"system":[{"type":"text","text":"A"}],"tools":[` + clock + `,` + deferred + `],"tool_choice":{"type":"any"}`, `"messages":[` + twoCalls + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"later"}]}]}]`,
		`"thinking":{"type":"enabled","budget_tokens":5},"output_config":{"effort":"max","format":{"type":"json_schema","schema":{}}},"metadata":{"user_id":"u"},"stop_sequences":["x"]`,
		`"messages":[{"role":"user","content":"a"},{"role":"system","content":"B","clear_at":"next_user_message"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"weir-thoughts.SG0u"}]}]`} {
		f.Add(with(fields), true)
	}
	f.Fuzz(func(t *testing.T, body string, inPlace bool) {
		chat, _, err := newSurface("").translate(facts{context: 100, thinks: true, inPlace: inPlace}, []byte(body))
		if err != nil {
			var known *api.Error
			if !errors.As(err, &known) || known.Status != 400 {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := jsontext.Scan(chat, jsonfields.MaxDepth+10); err != nil {
			t.Fatalf("%v: %s", err, chat)
		}
		if _, bad := api.DecodeChat(chat, api.DefaultLimits()); bad != nil && strings.Contains(bad.Message, "JSON decode error") {
			t.Fatalf("%v: %s", bad, chat)
		}
	})
}
