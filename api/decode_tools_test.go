package api

import (
	"slices"
	"testing"
)

// TestToolChoice (docs/interface/chat-completions.md, section 9.2): every form of tool_choice, what
// is refused, and what a request gets that says nothing.
func TestToolChoice(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object"},"strict":true}},{"function":{"name":"b"}}]`
	for choice, want := range map[string]ToolChoice{
		``:                          {Mode: ChoiceAuto},
		`,"tool_choice":null`:       {Mode: ChoiceAuto},
		`,"tool_choice":"auto"`:     {Mode: ChoiceAuto, Given: true},
		`,"tool_choice":"none"`:     {Mode: ChoiceNone, Given: true},
		`,"tool_choice":"required"`: {Mode: ChoiceRequired, Given: true},
		`,"tool_choice":{"type":"function","function":{"name":"b"}}`:                                                                        {Mode: ChoiceFunction, Given: true, Name: "b"},
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"a"}}]}}`: {Mode: ChoiceRequired, Given: true, Only: []string{"a"}},
	} {
		r := accept(t, tools+choice)
		if bad := r.CheckPrompt(); bad != nil {
			t.Errorf("%s: %v", choice, bad)
		}
		if c := r.ToolChoice; c.Mode != want.Mode || c.Given != want.Given || c.Name != want.Name || !slices.Equal(c.Only, want.Only) {
			t.Errorf("%s: %+v, want %+v", choice, c, want)
		}
		if len(r.Functions) != 2 || r.Functions[0].Name != "a" || string(r.Functions[0].Parameters) != `{"type":"object"}` || !r.Functions[0].Strict ||
			r.Functions[1].Name != "b" || r.Functions[1].Parameters != nil || r.Functions[1].Strict {
			t.Errorf("%+v", r.Functions)
		}
	}
	for _, choice := range []string{
		`"any"`, `1`, `[]`, `{}`, `{"type":"function"}`, `{"type":"function","function":{}}`, `{"type":"function","function":{"name":"c"}}`, `{"type":"function","function":"a"}`,
		`{"type":"custom","custom":{"name":"a"}}`, `{"type":"allowed_tools"}`, `{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[]}}`,
		`{"type":"allowed_tools","allowed_tools":{"tools":[]}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[1]}}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"c"}}]}}`,
	} {
		refuse(t, tools+`,"tool_choice":`+choice, want{"tool-choice", "tool_choice"})
	}
	// Without tools a choice of them is a mistake, unless it asks for nothing.
	for _, choice := range []string{`"auto"`, `"none"`} {
		if r := accept(t, `"tool_choice":`+choice); r.ToolChoice.Mode != ChoiceNone {
			t.Errorf("%s without tools: %+v", choice, r.ToolChoice)
		}
	}
	for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"b"}}`} {
		refuse(t, `"tool_choice":`+choice, want{"tool-choice", "tools"})
		refuse(t, `"tools":[],"tool_choice":`+choice, want{"tool-choice", "tools"})
	}
}

// TestCallDeltas: the pieces of calls in a stream, beside text and reasoning.
func TestCallDeltas(t *testing.T) {
	s := NewStream(Meta{ID: "x", Model: "m"}, Form{})
	for _, c := range []struct {
		chunk Chunk
		want  string
	}{
		{Chunk{NoContent: true, Calls: []CallDelta{{Index: 1, ID: "call_1", Name: `f"`}}}, `{"tool_calls":[{"index":1,"id":"call_1","type":"function","function":{"name":"f\"","arguments":""}}]}`},
		{Chunk{NoContent: true, Calls: []CallDelta{{Arguments: []byte(`{"a":`)}}}, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`},
		{Chunk{Content: "Hi", Calls: []CallDelta{{Arguments: []byte(`}`), End: true}, {Index: 1, ID: "b", Name: "g"}}},
			`{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}],"content":"Hi"}`},
		{Chunk{NoContent: true, Reasoning: "Hm", Calls: []CallDelta{{}}}, `{"tool_calls":[{"index":0,"function":{"arguments":""}}],"reasoning":"Hm"}`},
	} {
		got := string(s.appendDelta([]byte("{"), &c.chunk)) + "}"
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
