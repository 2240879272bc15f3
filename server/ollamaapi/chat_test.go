package ollamaapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
)

// translated is the body of the chat that a request asks for, with a context of 1000 tokens.
func translated(body string, generates bool) (string, *answer, error) {
	m := &openai.Model{Names: []string{"m"}, MaxLen: 1000, VocabSize: 100}
	s := &surface{h: &Handlers{now: time.Now}, generates: generates}
	chat, a, err := s.Translate(context.Background(), m, openai.Sender{}, []byte(body))
	if err != nil {
		return "", nil, err
	}
	return string(chat), a.(*answer), nil
}

// TestTranslate: chats and generations become chat completions.
func TestTranslate(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		rule, body string
		want       string
	}{
		{"O-10", `{"model":"m:latest",` + hi + `}`, `{"model":"m",` + hi + `,"stream":true}`},
		{"O-10 not streamed", `{"model":"m","stream":false,"keep_alive":"5m",` + hi + `}`, `{"model":"m",` + hi + `}`},
		{"O-11", `{"model":"m","stream":false,"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},{"role":"assistant","thinking":"T","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g"}}]},` +
			`{"role":"tool","tool_name":"g","content":"G"},{"role":"tool","tool_name":"f","content":"F"},{"role":"assistant","content":"b","tool_calls":[{"id":"own","function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_call_id":"own","content":"H"},{"role":"tool","content":"lost"}]}`,
			`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},{"role":"assistant","content":"","reasoning":"T","tool_calls":[{"type":"function","id":"call_0","function":{"name":"f","arguments":"{\"x\":1}"}},{"type":"function","id":"call_1","function":{"name":"g","arguments":"{}"}}]},` +
				`{"role":"tool","content":"G","tool_call_id":"call_1","name":"g"},{"role":"tool","content":"F","tool_call_id":"call_0","name":"f"},{"role":"assistant","content":"b","tool_calls":[{"type":"function","id":"own","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"H","tool_call_id":"own","name":"f"},{"role":"tool","content":"lost","tool_call_id":"call_3"}]}`},
		{"O-12", `{"model":"m","stream":false,` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}]}`, `{"model":"m",` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}]}`},
		{"O-12 none", `{"model":"m","stream":false,` + hi + `,"tools":[]}`, `{"model":"m",` + hi + `}`},
		{"O-13", `{"model":"m","stream":false,` + hi + `,"options":{"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"seed":7,"repeat_penalty":1.1,"presence_penalty":0.2,"frequency_penalty":0.3,"num_predict":5,"stop":["A"],"num_ctx":10}}`,
			`{"model":"m",` + hi + `,"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"seed":7,"repetition_penalty":1.1,"presence_penalty":0.2,"frequency_penalty":0.3,"max_tokens":5,"stop":["A"]}`},
		{"O-13 without a bound", `{"model":"m","stream":false,` + hi + `,"options":{"num_predict":-1,"stop":[]}}`, `{"model":"m",` + hi + `}`},
		{"O-13 no number of tokens", `{"model":"m","stream":false,` + hi + `,"options":{"num_predict":0}}`, `{"model":"m",` + hi + `}`},
		{"O-13 capped", `{"model":"m","stream":false,` + hi + `,"options":{"num_predict":5000}}`, `{"model":"m",` + hi + `,"max_tokens":1000}`},
		{"O-14 json", `{"model":"m","stream":false,` + hi + `,"format":"json"}`, `{"model":"m",` + hi + `,"response_format":{"type":"json_object"}}`},
		{"O-14 none", `{"model":"m","stream":false,` + hi + `,"format":""}`, `{"model":"m",` + hi + `}`},
		{"O-14 schema", `{"model":"m","stream":false,` + hi + `,"format":{"type":"object"}}`, `{"model":"m",` + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":{"type":"object"}}}}`},
		{"O-15 on", `{"model":"m","stream":false,` + hi + `,"think":true}`, `{"model":"m",` + hi + `,"chat_template_kwargs":{"enable_thinking":true,"thinking":true}}`},
		{"O-15 off", `{"model":"m","stream":false,` + hi + `,"think":false}`, `{"model":"m",` + hi + `,"reasoning_effort":"none"}`},
		{"O-15 much", `{"model":"m","stream":false,` + hi + `,"think":"high"}`, `{"model":"m",` + hi + `,"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":true,"thinking":true}}`},
		{"O-15 as little as possible", `{"model":"m","stream":false,` + hi + `,"think":"minimal"}`, `{"model":"m",` + hi + `,"reasoning_effort":"minimal","chat_template_kwargs":{"enable_thinking":true,"thinking":true}}`},
		{"O-15 very much", `{"model":"m","stream":false,` + hi + `,"think":"xhigh"}`, `{"model":"m",` + hi + `,"reasoning_effort":"xhigh","chat_template_kwargs":{"enable_thinking":true,"thinking":true}}`},
		{"O-15 none", `{"model":"m","stream":false,` + hi + `,"think":"none"}`, `{"model":"m",` + hi + `,"reasoning_effort":"none"}`},
		{"O-16", `{"model":"m","stream":false,` + hi + `,"logprobs":true,"top_logprobs":3}`, `{"model":"m",` + hi + `,"logprobs":true,"top_logprobs":3}`},
		{"O-20", `{"model":"m","stream":false,"prompt":"hi","system":"S","suffix":"","template":"","context":[],"raw":false,"images":[]}`, `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"hi"}]}`},
		{"O-20 alone", `{"model":"m","prompt":"hi","system":""}`, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`},
	} {
		got, _, err := translated(c.body, strings.HasPrefix(c.rule, "O-2"))
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", c.rule, err, got, c.want)
		}
	}
}

// TestRefused: what is wrong is said with the name of the field (O-40).
func TestRefused(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ body, want string }{
		{`{`, "The body is not valid JSON"}, {`{` + hi + `}`, "model: Field required"}, {`{"model":1,` + hi + `}`, "model: must be a string"}, {`{"model":"m","stream":1,` + hi + `}`, "stream: must be a boolean"},
		{`{"model":"m","messages":{"a":1}}`, "messages: must be an array"}, {`{"model":"m","messages":[1]}`, "messages.0: must be an object"}, {`{"model":"m","messages":[{"content":"a"}]}`, "messages.0.role: Field required"},
		{`{"model":"m","messages":[{"role":"x"}]}`, "messages.0.role: must be"}, {`{"model":"m","messages":[{"role":"user","content":[]}]}`, "messages.0.content: must be a string"},
		{`{"model":"m","messages":[{"role":"user","content":"a","images":["x"]}]}`, "messages.0: the model reads text alone"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":{}}]}`, "tool_calls: must be an array"}, {`{"model":"m","messages":[{"role":"assistant","tool_calls":[{}]}]}`, "messages.0.tool_calls.0.function: must be an object"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, "arguments: must be an object"},
		{`{"model":"m",` + hi + `,"tools":{}}`, "tools: must be an array"}, {`{"model":"m",` + hi + `,"options":[]}`, "options: must be an object"}, {`{"model":"m",` + hi + `,"options":{"seed":"a"}}`, "options.seed: must be a number"},
		{`{"model":"m",` + hi + `,"options":{"num_predict":"a"}}`, "options.num_predict: must be an integer"}, {`{"model":"m",` + hi + `,"options":{"stop":1}}`, "options.stop: must be"},
		{`{"model":"m",` + hi + `,"format":"yaml"}`, "format: must be"}, {`{"model":"m",` + hi + `,"format":1}`, "format: must be"}, {`{"model":"m",` + hi + `,"think":"x"}`, "think: must be"}, {`{"model":"m",` + hi + `,"think":1}`, "think: must be"},
		{`{"model":"m",` + hi + `,"logprobs":1}`, "logprobs: must be a boolean"}, {`{"model":"m",` + hi + `,"logprobs":true,"top_logprobs":-1}`, "top_logprobs: must be at least 0"},
		{`{"model":"m","prompt":1}`, "prompt: must be a string"}, {`{"model":"m","prompt":"a","suffix":"b"}`, "suffix: the model does not support insertion"},
		{`{"model":"m","prompt":"a","raw":1}`, "raw: must be a boolean"}, {`{"model":"m","prompt":"a","raw":true,"system":"S"}`, "raw: a raw prompt is the whole"}, {`{"model":"m","prompt":"a","raw":true,"context":[1]}`, "raw: a raw prompt is the whole"},
		{`{"model":"m","prompt":"a","template":"{{ .Prompt }}"}`, "template: Ollama's templates are not read"}, {`{"model":"m","prompt":"a","template":1}`, "template: Ollama's templates are not read"},
		{`{"model":"m","prompt":"a","context":"1"}`, "context: must be an array"}, {`{"model":"m","prompt":"a","context":[1,-1]}`, "context.1: must be at least 0"}, {`{"model":"m","prompt":"a","context":[100]}`, "context.0: must be a token"},
		{`{"model":"m","prompt":"a","context":[` + strings.Repeat("1,", 1000) + `1]}`, "context: has more than 1000 tokens"},
		{`{"model":"m","prompt":"a","images":["x"]}`, "images: the model reads text alone"}, {`{"model":"m","prompt":"a","system":1}`, "system: must be a string"},
	} {
		_, _, err := translated(c.body, strings.Contains(c.body, `"prompt"`))
		var known *api.Error
		if !errors.As(err, &known) || known.Status != 400 || !strings.Contains(known.Message, c.want) {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
}

// TestIgnored: options and fields without effect are named, but for those of loading a model (O-3).
func TestIgnored(t *testing.T) {
	_, a, err := translated(`{"model":"m","messages":[{"role":"user","content":"hi"}],"foo":1,"keep_alive":5,"options":{"num_ctx":1,"num_gpu":1,"mirostat":1,"tfs_z":1,"typical_p":null}}`, false)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	a.Headers(func(name, value string) { got += name + ": " + value })
	if got != "X-Ignored-Fields: foo, options.mirostat, options.tfs_z" {
		t.Error(got)
	}
}

// clocked is an answer whose clock goes on by a second with each look at it.
func clocked(generates bool) *answer {
	at := time.Unix(1_772_900_000, 0)
	return &answer{generates: generates, model: "m", begun: at, now: func() time.Time { at = at.Add(time.Second); return at }}
}

func ptr(s string) *string { return &s }

// TestArguments: arguments are an object, whatever the model has written.
func TestArguments(t *testing.T) {
	for text, want := range map[string]string{
		"": `{}`, " ": `{}`, `{"x": 1} `: `{"x": 1}`, `{"x": `: `{"INVALID_JSON":"{\"x\": "}`,
		`[1]`: `{"INVALID_JSON":"[1]"}`, `"a"`: `{"INVALID_JSON":"\"a\""}`, `null`: `{"INVALID_JSON":"null"}`,
	} {
		if got := string(appendArguments(nil, text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestAnswers: whole answers and streams, in which a call is one line (O-30, O-31, O-32, O-33).
func TestAnswers(t *testing.T) {
	w := &openai.Whole{Thought: ptr("Hm."), Content: ptr("a\n"), Finish: "tool_calls", Usage: api.Usage{Prompt: 5, Completion: 7},
		Calls: []api.AnswerCall{{Name: "f", Arguments: `{"x": 1}`}, {Name: "g", Arguments: `{"y"`}}}
	a := clocked(false)
	a.First()
	const whole = `{"model":"m","created_at":"2026-03-07T16:13:22Z","message":{"role":"assistant","content":"a\n","thinking":"Hm.","tool_calls":[{"function":{"name":"f","arguments":{"x": 1}}},{"function":{"name":"g","arguments":{"INVALID_JSON":"{\"y\""}}}]},` +
		`"done":true,"done_reason":"stop","total_duration":3000000000,"load_duration":0,"prompt_eval_count":5,"prompt_eval_duration":1000000000,"eval_count":7,"eval_duration":2000000000}`
	if got := string(a.Whole(nil, w)); got != whole {
		t.Errorf("%s, want\n%s", got, whole)
	}

	a = clocked(false)
	stream := a.Open(nil, w)
	for _, d := range []openai.Delta{
		{Thought: []byte("Hm.")}, {IDs: []int32{1}}, {Content: []byte("a\n")}, {Calls: []api.CallDelta{{Name: "f"}}}, {Calls: []api.CallDelta{{Arguments: []byte(`{"x":`)}}},
		{Calls: []api.CallDelta{{Arguments: []byte(` 1}`), End: true}, {Index: 1, Name: "g", Arguments: []byte(`{"y"`)}}},
	} {
		stream = a.Delta(stream, &d)
	}
	w.Finish = "length"
	stream = a.Close(stream, w)
	const lines = `{"model":"m","created_at":"2026-03-07T16:13:22Z","message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}
{"model":"m","created_at":"2026-03-07T16:13:23Z","message":{"role":"assistant","content":"a\n"},"done":false}
{"model":"m","created_at":"2026-03-07T16:13:24Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x": 1}}}]},"done":false}
{"model":"m","created_at":"2026-03-07T16:13:25Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"g","arguments":{"INVALID_JSON":"{\"y\""}}}]},"done":false}
{"model":"m","created_at":"2026-03-07T16:13:26Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":7000000000,"load_duration":0,"prompt_eval_count":5,"prompt_eval_duration":1000000000,"eval_count":7,"eval_duration":6000000000}
`
	if string(stream) != lines {
		t.Errorf("%s, want\n%s", stream, lines)
	}

	a = clocked(true)
	d := openai.Delta{Content: []byte("a"), Logprobs: []api.Logprob{{TokenLogprob: api.TokenLogprob{Text: "a", Logprob: -0.5}, Top: []api.TokenLogprob{{Text: "a", Logprob: -0.5}, {Text: "b", Logprob: -1}}}}}
	if got, want := string(a.Delta(nil, &d)), `{"model":"m","created_at":"2026-03-07T16:13:21Z","response":"a","logprobs":[{"token":"a","logprob":-0.5,"top_logprobs":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-1.0}]}],"done":false}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A call that ends without saying so has a line when the next one begins.
	cut := openai.Delta{Calls: []api.CallDelta{{Name: "f", Arguments: []byte("{}")}, {Index: 1, Name: "g", End: true}}}
	if got := string(clocked(false).Delta(nil, &cut)); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"name":"f","arguments":{}`) || !strings.Contains(got, `"name":"g","arguments":{}`) {
		t.Error(got)
	}
	f := (&failure.Settings{}).Of(failure.Ollama, failure.ErrDraining)
	if got := string(a.Broken(nil, f)); got != `{"error":"The server is stopping."}`+"\n" {
		t.Error(got)
	}
	if media, beat := a.Form(); media != "application/x-ndjson" || beat != "" {
		t.Errorf("%s %q", media, beat)
	}
}

// FuzzTranslate: any body is refused or becomes a chat that can be decoded; nothing panics.
func FuzzTranslate(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","tool_name":"f","content":"G"}],"tools":[],"think":"low","format":{"a":1},"options":{"num_predict":5,"stop":["A"]}}`, false)
	f.Add(`{"model":"m:latest","prompt":"a","system":"b","logprobs":true,"top_logprobs":2}`, true)
	f.Fuzz(func(t *testing.T, body string, generates bool) {
		chat, _, err := translated(body, generates)
		var known *api.Error
		if l := (loads{}); err != nil && !errors.As(err, &l) && (!errors.As(err, &known) || known.Status >= 500) {
			t.Fatalf("%v", err)
		}
		if err != nil {
			return
		}
		if err := jsontext.Scan([]byte(chat), 300); err != nil {
			t.Fatalf("%v: %s", err, chat)
		}
	})
}
