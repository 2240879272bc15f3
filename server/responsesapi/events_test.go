package responsesapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
)

// newAnswer returns the answer to a request, without a model.
func newAnswer(t *testing.T, body string) (*answer, *request, *conversation) {
	t.Helper()
	lim := api.DefaultLimits()
	r, err := decode([]byte(body), &lim)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{}
	reader := itemReader{to: c, req: r, lim: &lim, refer: func(string) (api.Raw, error) { return nil, nil }}
	if err := reader.read(r.input); err != nil {
		t.Fatal(err)
	}
	c.end()
	h := New(Config{Limits: lim, Now: func() time.Time { return time.Unix(1000, 0) }})
	return &answer{
		h: h, number: "00000000000000000000000000000001", id: "resp_1", summary: r.summary, encrypted: r.encrypted,
		tools: r.tools, echo: r.appendEcho(nil), metadata: r.sent["metadata"],
	}, r, c
}

// client puts the events of a stream together as SDKs do: items by their index, deltas added to
// them. It checks that events are in a possible order.
type client struct {
	t      *testing.T
	n      int
	open   int // index of the item that is not done; -1: none
	items  []string
	texts  []string
	done   []string
	last   string
	final  jsontext.Value
	status string
}

func (c *client) read(stream []byte) {
	c.t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		if !ok || jsontext.Scan([]byte(data), 100) != nil {
			c.t.Fatalf("not an event: %q", block)
		}
		v := jsontext.Value(data)
		if v.Member("type").Text() != name || string(v.Member("sequence_number")) != fmt.Sprint(c.n) {
			c.t.Fatalf("event %d is %s", c.n, block)
		}
		c.n++
		c.last = name
		c.event(name, v)
	}
}

func (c *client) event(name string, v jsontext.Value) {
	c.t.Helper()
	at := -1
	if i := v.Member("output_index"); i != nil {
		at = int(i[0] - '0')
	}
	switch {
	case name == "response.output_item.added":
		if c.open >= 0 || at != len(c.items) {
			c.t.Fatalf("item %d begins while %d is open", at, c.open)
		}
		c.open = at
		c.items, c.texts = append(c.items, v.Member("item").Member("id").Text()), append(c.texts, "")
	case name == "response.output_item.done":
		if c.open != at {
			c.t.Fatalf("item %d ends while %d is open", at, c.open)
		}
		c.open = -1
		c.done = append(c.done, string(v.Member("item")))
	case strings.HasSuffix(name, ".delta"):
		if c.open != at || v.Member("item_id").Text() != c.items[at] {
			c.t.Fatalf("a delta of item %d while %d is open", at, c.open)
		}
		c.texts[at] += v.Member("delta").Text()
	case strings.HasSuffix(name, ".done") && name != "response.content_part.done" && name != "response.reasoning_summary_part.done":
		for _, key := range []string{"text", "arguments", "input"} {
			if s := v.Member(key); s != nil && s.Text() != c.texts[at] {
				c.t.Errorf("%s has %q, and the deltas %q", name, s.Text(), c.texts[at])
			}
		}
	case v.Member("response") != nil:
		c.final = v.Member("response")
		c.status = c.final.Member("status").Text()
	}
}

// piece is a part of an output.
type piece struct {
	thought, content string
	call             api.CallDelta
}

// outputs are outputs of a model in pieces, and the whole that they are.
var outputs = map[string][]piece{
	"nothing":       {{}},
	"a text":        {{content: "Hel"}, {content: "lo \"you\"\n"}},
	"thought, text": {{thought: "Hm"}, {thought: "…"}, {content: "Four"}},
	"a call":        {{call: api.CallDelta{ID: "call_1", Name: "get", Arguments: []byte(`{"a":`)}}, {call: api.CallDelta{Arguments: []byte(`1}`), End: true}}},
	"thought, text, two calls": {
		{thought: "Let me"}, {content: "I look."}, {call: api.CallDelta{ID: "call_1", Name: "get", Arguments: []byte(`{}`), End: true}},
		{call: api.CallDelta{Index: 1, ID: "call_2", Name: "ns__spawn", Arguments: []byte(`{"x":"é"}`)}}, {call: api.CallDelta{Index: 1, End: true}},
	},
	"custom": {
		{call: api.CallDelta{ID: "call_1", Name: "patch", Arguments: []byte(`{"inp`)}}, {call: api.CallDelta{Arguments: []byte(`ut": "a\nb\u00`)}},
		{call: api.CallDelta{Arguments: []byte(`e9 \"q\""}`), End: true}},
	},
	"custom that is none": {{call: api.CallDelta{ID: "call_1", Name: "patch", Arguments: []byte(`{"other": 1`)}}, {call: api.CallDelta{Arguments: []byte(`}`), End: true}}},
}

const toolsBody = `{"input":"x","tools":[
	{"type":"function","name":"get","parameters":{"type":"object"}},
	{"type":"namespace","name":"ns","description":"Others.","tools":[{"type":"function","name":"spawn","parameters":{"type":"object"}}]},
	{"type":"custom","name":"patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: /a/"}},
	{"type":"web_search"}]}`

// wholeOf is the answer that pieces are together.
func wholeOf(pieces []piece, finish string) *openai.Whole {
	w := &openai.Whole{Meta: api.Meta{Created: 900, Model: "m"}, Finish: finish, Usage: api.Usage{Prompt: 5, Completion: 3, Cached: 2, Reasoning: 1}}
	thought, content := "", ""
	for _, p := range pieces {
		thought, content = thought+p.thought, content+p.content
		if p.call.Name != "" {
			w.Calls = append(w.Calls, api.AnswerCall{ID: p.call.ID, Name: p.call.Name})
		}
		if n := len(w.Calls); n > 0 {
			w.Calls[n-1].Arguments += string(p.call.Arguments)
		}
	}
	if thought != "" {
		w.Thought = &thought
	}
	if content != "" || thought == "" && w.Calls == nil {
		w.Content = &content
	}
	return w
}

// streamed is what a client has read of the stream of an answer.
func streamed(t *testing.T, pieces []piece, w *openai.Whole) *client {
	a, _, _ := newAnswer(t, toolsBody)
	c := &client{t: t, open: -1}
	c.read(a.Open(nil, w))
	for _, p := range pieces {
		d := &openai.Delta{Thought: []byte(p.thought), Content: []byte(p.content)}
		if p.call.Name != "" || p.call.Arguments != nil || p.call.End {
			d.Calls = []api.CallDelta{p.call}
		}
		if b := a.Delta(nil, d); len(b) > 0 {
			c.read(b)
		}
	}
	c.read(a.Close(nil, w))
	return c
}

// TestStreamIsTheWhole: the events of an output, put together, are the answer that does not
// stream, and response.completed has it all (docs/interface/responses-api.md, P-20, P-23 and P-24).
func TestStreamIsTheWhole(t *testing.T) {
	for name, pieces := range outputs {
		for _, finish := range []string{"stop", "length"} {
			w := wholeOf(pieces, finish)
			a, _, _ := newAnswer(t, toolsBody)
			whole := a.Whole(nil, w)
			if err := jsontext.Scan(whole, 100); err != nil {
				t.Fatalf("%s: %v in %s", name, err, whole)
			}
			c := streamed(t, pieces, w)
			if want := map[string]string{"stop": "response.completed", "length": "response.incomplete"}[finish]; c.last != want {
				t.Errorf("%s: the last event is %s", name, c.last)
			}
			if string(c.final) != string(whole) {
				t.Errorf("%s: the stream has\n%s\nthe answer is\n%s", name, c.final, whole)
			}
			if finish == "stop" && string(c.final.Member("output")) != "["+strings.Join(c.done, ",")+"]" {
				t.Errorf("%s: output is\n%s\nthe items were\n%s", name, c.final.Member("output"), c.done)
			}
		}
	}
}

// TestP23Calls: calls have the names that the client knows, and the namespace of their tool; the
// input of a custom tool is a text (docs/interface/responses-api.md, P-23 and P-24).
func TestP23Calls(t *testing.T) {
	for name, want := range map[string]string{
		"thought, text, two calls": `{"id":"fc_0000000000000000000000000000000103","type":"function_call","call_id":"call_2","name":"spawn","namespace":"ns","arguments":"{\"x\":\"é\"}","status":"completed"}`,
		"custom":                   `{"id":"ctc_0000000000000000000000000000000100","type":"custom_tool_call","call_id":"call_1","name":"patch","input":"a\nbé \"q\"","status":"completed"}`,
		"custom that is none":      `{"id":"ctc_0000000000000000000000000000000100","type":"custom_tool_call","call_id":"call_1","name":"patch","input":"{\"other\": 1}","status":"completed"}`,
	} {
		a, _, _ := newAnswer(t, toolsBody)
		if got := string(a.Whole(nil, wholeOf(outputs[name], "tool_calls"))); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nhas no\n%s", name, got, want)
		}
	}
}

// TestP25Broken: an error in the middle of a stream is an event error, and the response has failed
// (docs/interface/responses-api.md, P-25).
func TestP25Broken(t *testing.T) {
	a, _, _ := newAnswer(t, `{"input":"x"}`)
	w := wholeOf(nil, "stop")
	c := &client{t: t, open: -1}
	c.read(a.Open(nil, w))
	c.read(a.Delta(nil, &openai.Delta{Content: []byte("Hel")}))
	out := a.Broken(nil, failure.Failure{Status: 500, Message: "It \"broke\"."})
	c.read(out)
	if c.last != "response.failed" || c.status != "failed" || c.final.Member("error").Member("message").Text() != `It "broke".` || !strings.HasPrefix(string(out), "event: error\n") {
		t.Errorf("%s", out)
	}
	if s := string(c.final.Member("output")); !strings.Contains(s, `"status":"incomplete"`) {
		t.Errorf("%s", s)
	}
}

// TestInputText: the input of a custom tool is the same however its JSON comes in pieces.
func TestInputText(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"plain"}`:                        "plain",
		"{ \"input\" :\n \"a\\tb\" }":              "a\tb",
		`{"input":""}`:                             "",
		`{"input":"\ud83d\ude00 \\ \/ \" \u00e9"}`: "😀 \\ / \" é",
		`{"input":"\ud83dx"}`:                      "\uFFFDx",
		`{"input":"cut`:                            "cut",
		`{"first":1,"input":"later"}`:              "later",
		`{"in put":"x"}`:                           `{"in put":"x"}`,
		`[1]`:                                      `[1]`,
		`{"inpu`:                                   `{"inpu`,
		``:                                         ``,
	} {
		for size := 1; size <= len(arguments)+1; size++ {
			var in inputText
			got := ""
			for i := 0; i < len(arguments); i += size {
				got += string(in.next([]byte(arguments[i:min(i+size, len(arguments))])))
			}
			if got += string(in.rest()); got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", arguments, size, got, want)
			}
		}
	}
}

// FuzzInputText: no text makes it fail, and the pieces do not matter.
func FuzzInputText(f *testing.F) {
	f.Add([]byte(`{"input":"a\ud83d\ude00b"}`), uint8(3))
	f.Add([]byte(`{"input": "\ud83d`), uint8(1))
	f.Fuzz(func(t *testing.T, arguments []byte, size uint8) {
		want := string(unwrapInput(arguments))
		var in inputText
		got := ""
		for rest := arguments; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			got += string(in.next(rest[:n]))
			rest = rest[n:]
		}
		if got += string(in.rest()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestHeld: what an answer keeps of its request is counted.
func TestHeld(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	empty, _, _ := newAnswer(t, `{"input":"x"}`)
	for name, body := range map[string]string{
		"instructions": `{"input":"x","instructions":"` + large + `"}`,
		"metadata":     `{"input":"x","metadata":{"a":"` + large[:512] + `"}}`,
		"tools":        `{"input":"x","tools":[{"type":"function","name":"f","description":"` + large + `"}]}`,
	} {
		h := New(Config{Limits: api.DefaultLimits(), Now: time.Now})
		_, form, err := h.Translate(t.Context(), &openai.Model{MaxLen: 100}, openai.Sender{}, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := form.(*answer).Held() - empty.Held(); got < int64(len(body)-100) {
			t.Errorf("%s: %d bytes for a body of %d", name, got, len(body))
		}
	}
}
