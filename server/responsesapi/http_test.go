package responsesapi_test

import (
	"slices"
	"strings"
	"testing"

	"weir/chat"
	"weir/internal/jsontext"
	"weir/server/responsesapi"
	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const path = "/v1/responses"

// object is a decoded JSON object.
type object = map[string]any

func decoded(t *testing.T, text string) object {
	t.Helper()
	return servertest.Object(t, text)
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := jsontext.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newServer returns a server that keeps responses. Its choices generate the texts, in the order of
// their seeds from servertest.ScriptSeed on.
func newServer(t *testing.T, change func(*servertest.Setup), scripts ...string) *servertest.Server {
	t.Helper()
	store := responsesapi.NewStore(servertest.NewDB(t), responsesapi.DefaultBytes, 0)
	return servertest.New(t, func(s *servertest.Setup) {
		for _, text := range scripts {
			s.Script = append(s.Script, servertest.Encode(text, false))
		}
		s.Config.Responses = store
		if change != nil {
			change(s)
		}
	})
}

// ask sends a request whose output is that of a script, and returns the response.
func ask(t *testing.T, h *servertest.Server, script int, fields object, headers ...string) object {
	t.Helper()
	status, answer, _ := send(t, h, script, fields, headers...)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	return decoded(t, answer)
}

func send(t *testing.T, h *servertest.Server, script int, fields object, headers ...string) (status int, answer, header string) {
	t.Helper()
	all := object{"model": "tiny", "seed": servertest.ScriptSeed + script}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, got := h.Get("POST", path, encoded(t, all), headers...)
	return status, answer, got.Get(responsesapi.IgnoredHeader)
}

// outputText is the text of the messages of a response.
func outputText(r object) (text string) {
	for _, it := range r["output"].([]any) {
		it := it.(object)
		if it["type"] != "message" {
			continue
		}
		for _, p := range it["content"].([]any) {
			text += p.(object)["text"].(string)
		}
	}
	return text
}

// event is an event of a stream.
type event struct {
	name string
	data object
}

// stream sends a request whose answer streams.
func stream(t *testing.T, h *servertest.Server, script int, fields object) (events []event) {
	t.Helper()
	all := object{"stream": true}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, _ := send(t, h, script, all)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(answer, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(strings.TrimLeft(block, "\n"), "event: "), "\ndata: ")
		if !ok {
			t.Fatalf("not an event: %q", block)
		}
		e := event{name, decoded(t, data)}
		if e.data["type"] != name || int(e.data["sequence_number"].(float64)) != len(events) {
			t.Errorf("event %d is %s", len(events), block)
		}
		events = append(events, e)
	}
	return events
}

// TestP1Create: a text and a list of items that says the same have the same answer, whole and
// streamed (docs/interface/responses-api.md, P-1 and P-20).
func TestP1Create(t *testing.T) {
	h := newServer(t, nil, "The answer is 4.")
	whole := ask(t, h, 0, object{"input": "What is 2+2?"})
	if whole["status"] != "completed" || outputText(whole) != "The answer is 4." || whole["object"] != "response" {
		t.Errorf("%v", whole)
	}
	tokens := whole["usage"].(object)["input_tokens"]
	for _, input := range []any{
		[]any{object{"role": "user", "content": "What is 2+2?"}},
		[]any{object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": "What is 2+2?"}}}},
	} {
		got := ask(t, h, 0, object{"input": input})
		if outputText(got) != "The answer is 4." || got["usage"].(object)["input_tokens"] != tokens {
			t.Errorf("%v: %v", input, got)
		}
	}
	events := stream(t, h, 0, object{"input": "What is 2+2?"})
	last := events[len(events)-1]
	if last.name != "response.completed" || outputText(last.data["response"].(object)) != "The answer is 4." {
		t.Errorf("%v", last)
	}
	text := ""
	for _, e := range events {
		if e.name == "response.output_text.delta" {
			text += e.data["delta"].(string)
		}
	}
	if text != "The answer is 4." {
		t.Errorf("the deltas are %q", text)
	}
}

// TestP20Events: the events of a text, in order (docs/interface/responses-api.md, P-20).
func TestP20Events(t *testing.T) {
	h := newServer(t, nil, "Yes")
	var names []string
	for _, e := range stream(t, h, 0, object{"input": "Is it?"}) {
		names = append(names, e.name)
	}
	names = slices.Compact(names)
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestP21Incomplete: an answer that its limit ends is incomplete, and so is the item that it ends
// in (docs/interface/responses-api.md, P-21).
func TestP21Incomplete(t *testing.T) {
	h := newServer(t, nil, "one two three four five six seven")
	check := func(r object) {
		t.Helper()
		details, _ := r["incomplete_details"].(object)
		items := r["output"].([]any)
		if r["status"] != "incomplete" || details["reason"] != "max_output_tokens" || items[len(items)-1].(object)["status"] != "incomplete" {
			t.Errorf("%v", r)
		}
	}
	check(ask(t, h, 0, object{"input": "Count.", "max_output_tokens": 3}))
	events := stream(t, h, 0, object{"input": "Count.", "max_output_tokens": 3})
	last := events[len(events)-1]
	if last.name != "response.incomplete" {
		t.Errorf("the last event is %s", last.name)
	}
	check(last.data["response"].(object))
	// Agents ask for more than small contexts have (P-5).
	if r := ask(t, h, 0, object{"input": "Count.", "max_output_tokens": 128000}); r["status"] != "completed" {
		t.Errorf("%v", r)
	}
}

// thoughtful is a template whose generation prompt opens the thoughts, and that leaves those of
// earlier turns out.
const thoughtful = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning and loop.last %}<think>
{{ m.reasoning }}
</think>
{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}{# ends with </think> #}`

func withTemplate(source string) func(*servertest.Setup) {
	return func(s *servertest.Setup) {
		r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: source}}})
		if err != nil {
			panic(err)
		}
		s.Model.Chat = r
	}
}

// TestP22Thoughts: thoughts are a reasoning item in front of the message; with reasoning.summary
// they are its summary, and with include their encrypted content can be sent back
// (docs/interface/responses-api.md, P-22).
func TestP22Thoughts(t *testing.T) {
	h := newServer(t, withTemplate(thoughtful), "Two and two.\n</think>\nFour.")
	r := ask(t, h, 0, object{"input": "2+2?"})
	items := r["output"].([]any)
	thought := items[0].(object)
	if len(items) != 2 || thought["type"] != "reasoning" || outputText(r) == "" {
		t.Fatalf("%v", items)
	}
	content := thought["content"].([]any)[0].(object)
	if content["type"] != "reasoning_text" || !strings.Contains(content["text"].(string), "Two and two.") || thought["encrypted_content"] != nil {
		t.Errorf("%v", thought)
	}
	if n := r["usage"].(object)["output_tokens_details"].(object)["reasoning_tokens"].(float64); n < 3 {
		t.Errorf("%v tokens of thought", n)
	}
	fields := object{"input": "2+2?", "reasoning": object{"summary": "auto"}, "include": []any{"reasoning.encrypted_content"}, "store": false}
	r = ask(t, h, 0, fields)
	thought = r["output"].([]any)[0].(object)
	if thought["summary"].([]any)[0].(object)["text"] != content["text"] || thought["content"] != nil {
		t.Errorf("%v", thought)
	}
	names := map[string]bool{}
	for _, e := range stream(t, h, 0, fields) {
		names[e.name] = true
	}
	if !names["response.reasoning_summary_text.delta"] || !names["response.reasoning_summary_part.done"] || names["response.reasoning_text.delta"] {
		t.Errorf("%v", names)
	}
	// Sent back by its encrypted content alone, the thought is in the prompt again.
	tokens := func(item object) any {
		status, answer, _ := h.Get("POST", path+"/input_tokens", encoded(t, object{"input": []any{
			object{"role": "user", "content": "2+2?"}, item, object{"role": "assistant", "content": "Four."},
		}}))
		if status != 200 {
			t.Fatal(answer)
		}
		return decoded(t, answer)["input_tokens"]
	}
	sealed := tokens(object{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": thought["encrypted_content"]})
	open := tokens(object{"type": "reasoning", "id": "rs_1", "summary": []any{}, "content": []any{content}})
	none := tokens(object{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": "gAAAAA"})
	if sealed != open || none.(float64) >= sealed.(float64) {
		t.Errorf("%v tokens with the sealed thought, %v with the open one, %v with a foreign one", sealed, open, none)
	}
}

// TestP4Refused: what cannot be answered is refused with the field that is wrong
// (docs/interface/responses-api.md, P-4).
func TestP4Refused(t *testing.T) {
	h := newServer(t, nil, "Yes")
	for _, c := range []struct {
		fields object
		param  string
	}{
		{object{}, "input"},
		{object{"input": 3}, "input"},
		{object{"input": []any{}}, "input"},
		{object{"input": []any{"x"}}, "input[0]"},
		{object{"input": []any{object{"type": "martian"}}}, "input[0].type"},
		{object{"input": []any{object{"role": "king", "content": "x"}}}, "input[0].role"},
		{object{"input": []any{object{"role": "user"}}}, "input[0].content"},
		{object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_file", "file_id": "f"}}}}}, "input[0].content[0]"},
		{object{"input": []any{object{"type": "function_call", "name": "f", "arguments": "{}"}}}, "input[0].call_id"},
		{object{"input": []any{object{"type": "function_call_output", "call_id": "c"}}}, "input[0].output"},
		{object{"input": "x", "max_output_tokens": 0}, "max_output_tokens"},
		{object{"input": "x", "max_output_tokens": "many"}, "max_output_tokens"},
		{object{"input": "x", "metadata": object{"a": 1}}, "metadata"},
		{object{"input": "x", "metadata": object{"a": strings.Repeat("é", 513)}}, "metadata"},
		{object{"input": "x", "include": []any{"everything"}}, "include"},
		{object{"input": "x", "truncation": "some"}, "truncation"},
		{object{"input": "x", "reasoning": object{"summary": "long"}}, "reasoning.summary"},
		{object{"input": "x", "text": object{"format": object{"type": "xml"}}}, "text.format.type"},
		{object{"input": "x", "text": object{"format": object{"type": "json_schema", "name": "x"}}}, "text.format.schema"},
		{object{"input": "x", "text": object{"verbosity": "chatty"}}, "text.verbosity"},
		{object{"input": "x", "conversation": "conv_1"}, "conversation"},
		{object{"input": "x", "prompt": object{"id": "p"}}, "prompt"},
		{object{"input": "x", "messages": []any{}}, "messages"},
		{object{"input": "x", "max_tokens": 3}, "max_tokens"},
		{object{"input": "x", "n": 2}, "n"},
		{object{"input": "x", "tools": []any{object{"type": "martian"}}}, "tools[0].type"},
		{object{"input": "x", "tools": []any{object{"type": "function"}}}, "tools[0].name"},
		{object{"input": "x", "tools": []any{fn("f"), fn("f")}}, "tools[1].name"},
		{object{"input": "x", "tools": []any{object{"type": "custom", "name": "c", "format": object{"type": "grammar", "syntax": "ebnf"}}}}, "tools[0].format.syntax"},
		{object{"input": "x", "tools": []any{object{"type": "namespace", "name": "n"}}}, "tools[0].tools"},
		{object{"input": "x", "tool_choice": "perhaps"}, "tool_choice"},
		{object{"input": "x", "tool_choice": "required"}, "tool_choice"},
		{object{"input": "x", "tool_choice": object{"type": "web_search_preview"}}, "tool_choice"},
		{object{"input": "x", "tools": []any{fn("f")}, "tool_choice": object{"type": "function", "name": "g"}}, "tool_choice"},
		{object{"input": "x", "tools": []any{object{"type": "web_search"}}, "tool_choice": "required"}, "tool_choice"},
	} {
		status, answer, _ := send(t, h, 0, c.fields)
		servertest.Refused(t, status, answer, 400, c.param)
	}
	status, answer, _ := h.Get("POST", path, `{"input":`)
	servertest.Refused(t, status, answer, 400, "")
	status, answer, _ = send(t, h, 0, object{"input": "x", "model": "other"})
	servertest.Refused(t, status, answer, 404, "model")
	if status, _, _ = h.Get("GET", path, ""); status != 405 {
		t.Errorf("GET: status %d", status)
	}
	for _, p := range []string{path + "/", path + "x", path + "/a/b", path + "/a/"} {
		if status, _, _ = h.Get("GET", p, ""); status != 404 && (p != path+"/" || status != 405) {
			t.Errorf("%s: status %d", p, status)
		}
	}
}

func fn(name string) object {
	return object{"type": "function", "name": name, "parameters": object{"type": "object", "properties": object{}}}
}

// TestP8Logprobs: include adds the log-probabilities of the tokens (docs/interface/responses-api.md, P-8).
func TestP8Logprobs(t *testing.T) {
	h := newServer(t, nil, "Yes it is")
	part := func(r object) object { return r["output"].([]any)[0].(object)["content"].([]any)[0].(object) }
	if list := part(ask(t, h, 0, object{"input": "Is it?"}))["logprobs"].([]any); len(list) != 0 {
		t.Errorf("%v", list)
	}
	fields := object{"input": "Is it?", "include": []any{"message.output_text.logprobs"}, "top_logprobs": 2}
	list := part(ask(t, h, 0, fields))["logprobs"].([]any)
	if len(list) < 3 {
		t.Fatalf("%v", list)
	}
	one := list[0].(object)
	if one["token"] != "Yes" || len(one["bytes"].([]any)) != 3 || len(one["top_logprobs"].([]any)) < 2 || one["logprob"].(float64) > 0 {
		t.Errorf("%v", one)
	}
	streamed := 0
	for _, e := range stream(t, h, 0, fields) {
		if e.name == "response.output_text.delta" {
			streamed += len(e.data["logprobs"].([]any))
		}
	}
	if streamed < 3 {
		t.Errorf("%d in the stream", streamed)
	}
}

// TestP7Format: text.format constrains the text (docs/interface/responses-api.md, P-7).
func TestP7Format(t *testing.T) {
	h := newServer(t, nil)
	r := ask(t, h, 0, object{"input": "x", "text": object{"format": object{
		"type": "json_schema", "name": "x", "schema": object{"type": "object", "properties": object{"a": object{"enum": []any{"only"}}}, "required": []any{"a"}, "additionalProperties": false},
	}}})
	if got := decoded(t, outputText(r)); got["a"] != "only" {
		t.Errorf("%v", got)
	}
	r = ask(t, h, 0, object{"input": "x", "text": object{"format": object{"type": "text"}, "verbosity": "low"}, "max_output_tokens": 2})
	if r["text"].(object)["verbosity"] != "low" {
		t.Errorf("%v", r["text"])
	}
}

// TestP6Truncation: a prompt that is too long is refused, or loses its first tokens
// (docs/interface/responses-api.md, P-6).
func TestP6Truncation(t *testing.T) {
	h := newServer(t, nil, "Yes")
	long := strings.Repeat("word ", 2000)
	status, answer, _ := send(t, h, 0, object{"input": long})
	servertest.Refused(t, status, answer, 400, "-")
	r := ask(t, h, 0, object{"input": long, "truncation": "auto", "max_output_tokens": 100})
	if n := r["usage"].(object)["input_tokens"]; n != 1024.0-100 {
		t.Errorf("%v tokens", n)
	}
}

// TestP16Ignored: what the vendor's servers would run is left out and named in a header
// (docs/interface/responses-api.md, P-16).
func TestP16Ignored(t *testing.T) {
	h := newServer(t, nil, "Yes")
	many := []any{object{"type": "web_search"}}
	for range 40 {
		many = append(many, object{"type": "mcp", "server_label": "x"})
	}
	for want, fields := range map[string]object{
		"": {"input": "Is it?"},
		"tools[0].web_search, tools[1].tool_search, input[1].web_search_call": {
			"input": []any{object{"role": "user", "content": "Is it?"}, object{"type": "web_search_call", "id": "ws_1"}},
			"tools": []any{object{"type": "web_search"}, object{"type": "tool_search", "execution": "client"}}, "tool_choice": "auto",
		},
	} {
		for _, streams := range []bool{false, true} {
			fields["stream"] = streams
			status, answer, ignored := send(t, h, 0, fields)
			if status != 200 || ignored != want {
				t.Errorf("stream %v: %d, %q, want %q: %.200s", streams, status, ignored, want, answer)
			}
		}
	}
	if _, _, ignored := send(t, h, 0, object{"input": "Is it?", "tools": many}); strings.Count(ignored, ",") != 31 || len(ignored) > 1024 {
		t.Errorf("%q", ignored)
	}
}

// TestP27Compact: compaction is refused in OpenAI's form, and nothing is said to be at that path but POST.
func TestP27Compact(t *testing.T) {
	h := newServer(t, nil)
	for _, body := range []string{`{"model":"tiny","input":[{"role":"user","content":"Hi"}]}`, ""} {
		status, answer, header := h.Get("POST", "/v1/responses/compact", body)
		if status != 400 || !strings.Contains(answer, `"error":{`) || !strings.Contains(answer, "does not compact conversations") {
			t.Errorf("%q: %d %s %v", body, status, answer, header)
		}
	}
	if status, answer, _ := h.Get("GET", "/v1/responses/compact", ""); status != 405 {
		t.Errorf("GET: %d %s", status, answer)
	}
}
