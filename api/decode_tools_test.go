package api

import (
	"fmt"
	"slices"
	"strings"
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

// TestOlderFunctions: functions and function_call are tools and tool_choice, which win.
func TestOlderFunctions(t *testing.T) {
	const functions = `"functions":[{"name":"a","description":"d","parameters":{"type":"object"}}]`
	r := accept(t, functions)
	if want := `[{"type":"function","function":{"name":"a","description":"d","parameters":{"type":"object"}}}]`; string(r.Tools) != want || r.ToolChoice.Mode != ChoiceAuto || r.Functions[0].Name != "a" {
		t.Errorf("%s %+v", r.Tools, r.ToolChoice)
	}
	for choice, mode := range map[string]ChoiceMode{`"none"`: ChoiceNone, `"auto"`: ChoiceAuto, `{"name":"a"}`: ChoiceFunction} {
		if r := accept(t, functions+`,"function_call":`+choice); r.ToolChoice.Mode != mode {
			t.Errorf("%s: %+v", choice, r.ToolChoice)
		}
	}
	for _, choice := range []string{`"a"`, `{"name":"b"}`, `{}`, `1`} {
		refuse(t, functions+`,"function_call":`+choice, want{"tool-choice", ""})
	}
	for _, bad := range []string{`{}`, `[1]`, `[{}]`, `[{"name":"a","description":1}]`, `[{"name":"a","parameters":1}]`} {
		refuse(t, `"functions":`+bad, want{"schema", "functions"})
	}
	r = accept(t, functions+`,"function_call":"bad","tools":[{"function":{"name":"b"}}],"tool_choice":"required"`)
	if len(r.Functions) != 1 || r.Functions[0].Name != "b" || r.ToolChoice.Mode != ChoiceRequired {
		t.Errorf("%+v %+v", r.Functions, r.ToolChoice)
	}
}

// TestDropped: fields that would constrain the output are refused with what to use in their
// place, unless they ask for nothing, for chats and for completions.
func TestDropped(t *testing.T) {
	for _, name := range []string{"guided_json", "guided_regex", "guided_choice", "guided_grammar", "regex", "ebnf", "json_schema", "use_beam_search", "logits_processors", "prompt_embeds"} {
		if dropped[name] == "" {
			t.Errorf("%s is not dropped", name)
		}
	}
	for name, instead := range dropped {
		for _, value := range []string{`"x"`, `{"a":1}`, `["x"]`, `true`, `5`} {
			field := `"` + name + `":` + value
			refuse(t, field, want{"schema", name + ": is not supported: use " + instead})
			if _, bad := DecodeCompletion([]byte(`{"prompt":"x",`+field+`}`), DefaultLimits()); bad == nil || bad.Status != 400 {
				t.Errorf("completions: %s: %v", field, bad)
			}
		}
		for _, value := range []string{`null`, `false`, `0`, `""`, `[]`, `{}`} {
			if r := accept(t, `"`+name+`":`+value); len(r.Ignored()) > 0 {
				t.Errorf("%s: %s is named as ignored", name, value)
			}
		}
	}
}

// TestIgnored: the names of other members that are no fields are kept, each once, up to limits.
func TestIgnored(t *testing.T) {
	if r := accept(t, `"store":true,"metadata":{},"store":false`); !slices.Equal(r.Ignored(), []string{"store", "metadata"}) {
		t.Error(r.Ignored())
	}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf(`"x%d":1`, i))
	}
	if r := accept(t, strings.Join(many, ",")); len(r.Ignored()) != maxIgnored {
		t.Error(len(r.Ignored()))
	}
	if r := accept(t, `"`+strings.Repeat("a", maxIgnoredBytes)+`":1,"b":2,"`+strings.Repeat("c", maxIgnoredBytes+1)+`":3`); len(r.Ignored()) != 1 || len(r.Ignored()[0]) != maxIgnoredBytes {
		t.Error(r.Ignored())
	}
}

// TestHideTools: tools are taken from the list that a template shows and from those that may be called, each for itself.
func TestHideTools(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"c"}}]`
	for _, c := range []struct {
		unlisted, uncallable []int
		listed, callable     string
		mode                 ChoiceMode
	}{
		{nil, nil, "abc", "abc", ChoiceAuto},
		{[]int{0, 2}, []int{1}, "b", "ac", ChoiceAuto},
		{[]int{0, 1, 2}, []int{2}, "", "ab", ChoiceAuto},
		{nil, []int{0, 1, 2}, "abc", "", ChoiceNone},
	} {
		r, bad := DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],`+tools+`}`), DefaultLimits())
		if bad != nil {
			t.Fatal(bad)
		}
		r.HideTools(c.unlisted, c.uncallable)
		listed, callable := "", ""
		for _, e := range r.Tools.Elements() {
			listed += e.Member("function").Member("name").Text()
		}
		for _, f := range r.Functions {
			callable += f.Name
		}
		if listed != c.listed || callable != c.callable || r.ToolChoice.Mode != c.mode || (r.Tools == nil) != (listed == "") {
			t.Errorf("%v: %q listed, %q callable, %v", c, listed, callable, r.ToolChoice)
		}
	}
}
