package messagesapi

import (
	"strings"
	"testing"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
)

func ptr(s string) *string { return &s }

// example is an answer with everything that one may have.
func example() *openai.Whole {
	return &openai.Whole{
		Meta: api.Meta{ID: "msg_1", Model: "m"}, Thought: ptr("Hm.\n"), Content: ptr("I \"look\"."), Finish: "tool_calls",
		Calls: []api.AnswerCall{{ID: "t1", Name: "weather", Arguments: `{"city": "Ulm"}`}, {ID: "t2", Name: "clock"}},
		Usage: api.Usage{Prompt: 20, Cached: 16, Completion: 9, Reasoning: 3},
	}
}

// deltas are the pieces of the example.
func deltas() []openai.Delta {
	return []openai.Delta{
		{Thought: []byte("Hm")}, {Thought: []byte(".\n"), Content: []byte("I ")}, {IDs: []int32{1}}, {Content: []byte(`"look".`)},
		{Calls: []api.CallDelta{{ID: "t1", Name: "weather"}}}, {Calls: []api.CallDelta{{Arguments: []byte(`{"city"`)}}},
		{Calls: []api.CallDelta{{Arguments: []byte(`: "Ulm"}`), End: true}, {Index: 1, ID: "t2", Name: "clock", End: true}}},
	}
}

// TestWhole: an answer that does not stream (M-40 to M-43).
func TestWhole(t *testing.T) {
	a := &answer{context: 1000, asked: 100}
	const want = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm.\n","signature":"weir-digest.HmB81GPDqoD1QHy0A6TC_ykfvcNEdqz9YgUmomrzBOM"},` +
		`{"type":"text","text":"I \"look\"."},{"type":"tool_use","id":"t1","name":"weather","input":{"city": "Ulm"}},{"type":"tool_use","id":"t2","name":"clock","input":{}}],` +
		`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":16,"output_tokens":9,"output_tokens_details":{"thinking_tokens":3}}}`
	if got := string(a.Whole(nil, example())); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	a.hidden = true
	if got := string(a.Whole(nil, example())); !strings.Contains(got, `{"type":"thinking","thinking":"","signature":"weir-thoughts.SG0uCg"}`) {
		t.Error(got)
	}
	a.asked = 0
	if got := string(a.Whole(nil, example())); !strings.Contains(got, `"content":[]`) {
		t.Error(got)
	}
	if id := a.ID("x"); id != "msg_x" {
		t.Error(id)
	}
}

// TestInvalidInput: arguments that are no object are shown in one (M-41).
func TestInvalidInput(t *testing.T) {
	for arguments, want := range map[string]string{
		``: `{}`, ` {} `: `{}`, `{"a":1}`: `{"a":1}`, `{"a":`: `{"INVALID_JSON":"{\"a\":"}`, `[1]`: `{"INVALID_JSON":"[1]"}`, `{}{}`: `{"INVALID_JSON":"{}{}"}`,
		`{"a":1e999}`: `{"a":1e999}`,
	} {
		if got := string(appendInput(nil, arguments)); got != want {
			t.Errorf("%q: %s, want %s", arguments, got, want)
		}
	}
}

// TestStopReason (M-42).
func TestStopReason(t *testing.T) {
	call := []api.AnswerCall{{ID: "t", Name: "n", Arguments: "{}"}}
	for _, c := range []struct {
		w    openai.Whole
		want string
	}{
		{openai.Whole{Finish: "stop"}, `"end_turn","stop_sequence":null`},
		{openai.Whole{Finish: "stop", Stop: api.StoppedByText("A\"")}, `"stop_sequence","stop_sequence":"A\""`},
		{openai.Whole{Finish: "stop", Stop: api.StoppedBy(7)}, `"end_turn","stop_sequence":null`},
		{openai.Whole{Finish: "tool_calls", Calls: call}, `"tool_use","stop_sequence":null`},
		{openai.Whole{Finish: "stop", Calls: call}, `"tool_use","stop_sequence":null`},
		{openai.Whole{Finish: "length", Calls: call, Usage: api.Usage{Prompt: 900, Completion: 50}}, `"max_tokens","stop_sequence":null`},
		{openai.Whole{Finish: "length", Usage: api.Usage{Prompt: 950, Completion: 50}}, `"model_context_window_exceeded","stop_sequence":null`},
		{openai.Whole{Finish: "length", Usage: api.Usage{Prompt: 900, Completion: 100}}, `"max_tokens","stop_sequence":null`},
		{openai.Whole{Finish: "abort"}, `"max_tokens","stop_sequence":null`},
	} {
		a := &answer{context: 1000, asked: 100}
		if got := string(a.appendStop(nil, &c.w)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.w, got, c.want)
		}
	}
}

// TestEvents: the events of a stream, in the order that clients need, add up to the answer that does
// not stream (M-44).
func TestEvents(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		a := &answer{context: 1000, asked: 100, hidden: hidden}
		w := example()
		begun := *w
		begun.Usage.Completion, begun.Usage.Reasoning = 0, 0
		stream := a.Open(nil, &begun)
		for _, d := range deltas() {
			stream = a.Delta(stream, &d)
		}
		stream = a.Close(stream, w)
		if got, want := joined(t, string(stream)), string((&answer{context: 1000, asked: 100, hidden: hidden}).Whole(nil, w)); got != want {
			t.Errorf("hidden %v:\n%s, want\n%s\n%s", hidden, got, want, stream)
		}
	}
}

// joined reads a stream as clients do, and returns the message that its events make.
func joined(t *testing.T, stream string) string {
	t.Helper()
	r := &reader{t: t}
	events := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
	for n, e := range events {
		name, data, ok := strings.Cut(e, "\ndata: ")
		v := jsontext.Value(data)
		if err := jsontext.Scan(v, 100); err != nil || !ok || name != "event: "+v.Member("type").Text() {
			t.Fatalf("event %d: %v: %s", n, err, e)
		}
		typ := v.Member("type").Text()
		if (typ == "message_start") != (n == 0) || (typ == "message_stop") != (n == len(events)-1) {
			t.Fatalf("event %d is %s", n, e)
		}
		switch typ {
		case "message_start":
			r.start(v)
		case "content_block_start":
			r.open(v)
		case "content_block_delta":
			r.delta(v)
		case "content_block_stop":
			r.close(v)
		case "message_delta":
			if r.opened {
				t.Errorf("a block is open at %s", e)
			}
			r.stop, r.usage = strings.TrimPrefix(string(v.Member("delta")), "{"), string(v.Member("usage"))
		}
	}
	return r.head + "[" + strings.Join(r.blocks, ",") + "]," + strings.TrimSuffix(r.stop, "}") + `,"usage":` + r.usage + "}"
}

// reader puts the events of a stream together.
type reader struct {
	t                     *testing.T
	head, usage, stop     string
	blocks                []string
	opened                bool
	kind, text, signature string // of the block that is open
}

func (r *reader) start(v jsontext.Value) {
	m := v.Member("message")
	r.head = string(m[:strings.Index(string(m), "[]")])
	if m.Member("stop_reason").Given() || m.Member("usage").Member("input_tokens") == nil {
		r.t.Errorf("%s", v)
	}
}

func (r *reader) open(v jsontext.Value) {
	if r.opened || string(v.Member("index")) != string(rune('0'+len(r.blocks))) {
		r.t.Errorf("%s", v)
	}
	r.opened, r.text, r.signature = true, "", ""
	r.kind = v.Member("content_block").Member("type").Text()
	r.blocks = append(r.blocks, string(v.Member("content_block")))
}

func (r *reader) delta(v jsontext.Value) {
	d := v.Member("delta")
	want := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}[d.Member("type").Text()]
	if !r.opened || r.kind != want || r.signature != "" {
		r.t.Errorf("%s", v)
	}
	for _, field := range []string{"text", "thinking", "partial_json"} {
		if p := d.Member(field); p != nil {
			r.text += p.Text()
		}
	}
	if s := d.Member("signature"); s != nil {
		r.signature = s.Text()
	}
}

func (r *reader) close(v jsontext.Value) {
	if !r.opened || string(v.Member("index")) != string(rune('0'+len(r.blocks)-1)) {
		r.t.Errorf("%s", v)
	}
	r.opened = false
	b := &r.blocks[len(r.blocks)-1]
	switch r.kind {
	case "text":
		*b = strings.Replace(*b, `"text":""`, `"text":`+string(api.AppendString(nil, r.text)), 1)
	case "thinking":
		*b = strings.Replace(*b, `"thinking":""`, `"thinking":`+string(api.AppendString(nil, r.text)), 1)
		*b = strings.Replace(*b, `"signature":""`, `"signature":"`+r.signature+`"`, 1)
	case "tool_use":
		if r.text != "" {
			*b = strings.Replace(*b, `"input":{}`, `"input":`+r.text, 1)
		}
	}
}

// TestBroken: an error in the middle of a stream is an event, and what keeps a stream open is one (M-45).
func TestBroken(t *testing.T) {
	f := (&failure.Settings{}).Of(failure.Messages, failure.ErrDraining)
	f.RequestID = "r"
	if got, want := string((&answer{}).Broken(nil, f)), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"The server is stopping.\"},\"request_id\":\"r\"}\n\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if media, beat := (&answer{}).Form(); media != "text/event-stream; charset=utf-8" || beat != "event: ping\ndata: {\"type\": \"ping\"}\n\n" {
		t.Errorf("%s %s", media, beat)
	}
}

// TestKeeping: a conversation is kept with the whole answer, streamed or not, and not with one that
// was aborted (M-50).
func TestKeeping(t *testing.T) {
	var kept []string
	for _, finish := range []string{"tool_calls", "abort"} {
		a := &answer{context: 1000, asked: 100, keep: func(id string, reply []byte) { kept = append(kept, id+string(reply)) }}
		w := example()
		w.Finish = finish
		a.Whole(nil, w)
		a.Close(nil, w)
	}
	if len(kept) != 2 || kept[0] != kept[1] || !strings.HasPrefix(kept[0], `msg_1[{"type":"thinking"`) || !strings.HasSuffix(kept[0], `{"type":"tool_use","id":"t2","name":"clock","input":{}}]`) {
		t.Errorf("%q", kept)
	}
}

// TestDeltaAllocatesNothing: a token costs no allocation.
func TestDeltaAllocatesNothing(t *testing.T) {
	a := &answer{}
	buf := make([]byte, 0, 1<<16)
	d := []openai.Delta{{Thought: []byte(strings.Repeat("Hm", 50))}, {Content: []byte(strings.Repeat("ab", 50))}, {Calls: []api.CallDelta{{Arguments: []byte(strings.Repeat("1", 100))}}}}
	for i := range d {
		a.Delta(buf, &d[i])
		if n := testing.AllocsPerRun(100, func() { a.Delta(buf[:0], &d[i]) }); n != 0 {
			t.Errorf("delta %d: %v allocations", i, n)
		}
	}
}
