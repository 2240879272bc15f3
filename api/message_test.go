package api

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestC62Parts(t *testing.T) {
	e := refuse(t, `"messages":[{"role":"user","content":[{"type":"file","file":{}}]}]`, want{"part-not-implemented", ""})
	if e.Message != "Unknown part type: file" {
		t.Error(e.Message)
	}
	for _, part := range []string{`{"type":"bogus"}`, `{"type":"bogus","bogus":1}`, `{}`, `{"text":"x"}`, `{"type":null,"text":"x"}`, `{"type":"text"}`, `{"type":"refusal","text":"x"}`, `{"type":"image_url"}`, `{"type":"input_audio","audio":1}`} {
		refuse(t, `"messages":[{"role":"user","content":["ok",`+part+`]}]`, want{"messages", "messages[0].content[1]"})
	}
	for _, part := range []string{`5`, `null`, `[]`, `{"type":5}`, `{"type":"text","text":null}`, `{"type":"text","text":5}`, `{"type":"thinking","thinking":null}`} {
		refuse(t, `"messages":[{"role":"user","content":[`+part+`]}]`, want{"schema", "messages[0].content[0]"})
	}
	for _, part := range []string{`{"type":"image_url","image_url":{"url":"x"}}`, `{"image_url":"x"}`, `{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`,
		`{"type":"audio_url","audio_url":{}}`, `{"type":"video_url","video_url":{}}`, `{"type":"input_image","image_url":"x"}`, `{"type":"image_embeds","image_embeds":""}`, `{"video_url":{}}`} {
		r := accept(t, `"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"look"},`+part+`]}]`)
		if !r.HasMedia() {
			t.Errorf("%s: no media", part)
		}
	}
	if acceptBody(t, base+"}").HasMedia() {
		t.Error("media in a plain text")
	}
	if e := ErrNotMultimodal("weir-tiny"); e.Message != "weir-tiny is not a multimodal model" || e.Status != 400 || e.Type != TypeBadRequest {
		t.Errorf("%+v", e)
	}
	// The first unusable part decides, but a shape that no message has comes before.
	refuse(t, `"messages":[{"role":"user","content":[{"type":"file"},{"type":"bogus"}]},{"role":"user","content":[{}]}]`, want{"part-not-implemented", "file"})
	refuse(t, `"messages":[{"role":"user","content":[{"type":"file"}]},{"role":"user","content":5}]`, want{"schema", "messages[1].content"})
}

func TestC63NullContent(t *testing.T) {
	for _, role := range []string{"user", "system", "developer", "tool", "narrator", ""} {
		refuse(t, `"messages":[{"role":"`+role+`","content":null}]`, want{"schema", "messages[0].content"})
		if r := accept(t, `"messages":[{"role":"`+role+`"}]`); r.Messages[0].Content.Kind != ContentAbsent {
			t.Errorf("%s: %+v", role, r.Messages[0])
		}
	}
	for _, role := range []string{"assistant", "function"} {
		for _, m := range []string{`{"role":"` + role + `","content":null}`, `{"role":"` + role + `"}`} {
			if r := accept(t, `"messages":[`+m+`]`); r.Messages[0].Content.Kind != ContentAbsent {
				t.Errorf("%s: %+v", m, r.Messages[0])
			}
		}
	}
}

func TestC64ToolCalls(t *testing.T) {
	call := func(rest string) string {
		return `"messages":[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f"` + rest + `}}]}]`
	}
	refuse(t, call(`,"arguments":{"a":1}`), want{"messages", "messages[0].tool_calls[0].function.arguments"})
	refuse(t, call(`,"arguments":5`), want{"messages", "arguments"})
	for rest, arguments := range map[string]string{
		``: "", `,"arguments":null`: "", `,"arguments":""`: "", `,"arguments":"{}"`: "{}", `,"arguments":" {\"b\": 1.0, \"a\": \"\\ud800\"} "`: `{"b": 1.0, "a": "\ud800"}`,
		// K7: what is not an object counts as absent.
		`,"arguments":"{bad"`: "", `,"arguments":"[1]"`: "", `,"arguments":"5"`: "", `,"arguments":"null"`: "", `,"arguments":" "`: "", `,"arguments":"{} {}"`: "",
	} {
		r := accept(t, call(rest))
		if want := []ToolCall{{ID: "c1", Name: "f", Arguments: Raw(arguments)}}; len(r.Messages[0].ToolCalls) != 1 || r.Messages[0].ToolCalls[0].ID != "c1" ||
			r.Messages[0].ToolCalls[0].Name != "f" || string(r.Messages[0].ToolCalls[0].Arguments) != arguments {
			t.Errorf("%s: %+v, want %+v", rest, r.Messages[0].ToolCalls, want)
		}
	}
	for _, c := range []string{`{}`, `{"function":{"name":"f"}}`, `{"id":null,"function":{"name":"f"}}`, `{"id":"x"}`, `{"id":"x","function":"f"}`, `{"id":"x","function":{}}`, `{"id":"x","type":"custom","function":{"name":"f"}}`} {
		refuse(t, `"messages":[{"role":"assistant","tool_calls":[`+c+`]}]`, want{"messages", "messages[0].tool_calls[0]"})
		accept(t, `"messages":[{"role":"user","tool_calls":[`+c+`]}]`) // dropped unseen where they do not belong
	}
	for _, v := range []string{`5`, `{}`, `[5]`} {
		refuse(t, `"messages":[{"role":"assistant","tool_calls":`+v+`}]`, want{"schema", "messages[0].tool_calls"})
	}
	for _, v := range []string{`[]`, `null`} {
		if r := accept(t, `"messages":[{"role":"assistant","tool_calls":`+v+`}]`); len(r.Messages[0].ToolCalls) != 0 {
			t.Error(v)
		}
	}
}

// TestOlderCalls: function_call and the role function, the older forms of a call and its result,
// become the newer ones.
func TestOlderCalls(t *testing.T) {
	r := accept(t, `"messages":[{"role":"user","content":"a"},
		{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\": 1}"}},{"role":"function","name":"f","content":"1"},
		{"role":"assistant","content":null,"function_call":{"name":"g","arguments":""}},{"role":"function","name":"g","content":"2"},
		{"role":"assistant","content":null,"function_call":{"name":"f"}},{"role":"function","name":"f","content":"3"},
		{"role":"function","name":"other","content":"4"}]`)
	var got []string
	for _, m := range r.Messages[1:] {
		line := m.Role
		for _, c := range m.ToolCalls {
			line += " " + c.ID + " " + c.Name + string(c.Arguments)
		}
		if m.ToolCallID != nil {
			line += " " + *m.ToolCallID + " " + m.Content.Text
		}
		got = append(got, line)
	}
	lines := []string{`assistant call_0 f{"a": 1}`, "tool call_0 1", "assistant call_1 g", "tool call_1 2", "assistant call_2 f", "tool call_2 3", "function"}
	if !slices.Equal(got, lines) {
		t.Errorf("%q, want %q", got, lines)
	}
	for _, c := range []string{`{}`, `{"name":1}`, `{"name":"f","arguments":{}}`} {
		refuse(t, `"messages":[{"role":"assistant","function_call":`+c+`}]`, want{"messages", "messages[0].function_call"})
	}
	refuse(t, `"messages":[{"role":"assistant","function_call":"f"}]`, want{"schema", "messages[0].function_call"})
}

// TestMessageShapes is the table of docs/interface/chat-completions.md, sections 3.1 and 3.2.
func TestMessageShapes(t *testing.T) {
	text := func(s string) Content { return Content{Kind: ContentText, Text: s} }
	for in, want := range map[string]Message{
		`{"role":"user","content":"Hi\n\u00e9","name":"bob","tool_call_id":"x","reasoning":"r","refusal":null}`: {Role: "user", Content: text("Hi\né"), Name: ptr("bob")},
		`{"role":"system","content":""}`:                                                                 {Role: "system", Content: text("")},
		`{"role":"developer","content":"d","tools":[{"a":1}]}`:                                           {Role: "developer", Content: text("d"), Tools: Raw(`[{"a":1}]`)},
		`{"role":"developer","content":"d","tools":null,"name":null}`:                                    {Role: "developer", Content: text("d")},
		`{"role":"tool","content":"42","tool_call_id":"c1"}`:                                             {Role: "tool", Content: text("42"), ToolCallID: ptr("c1")},
		`{"role":"tool","content":[{"type":"text","text":"42"}]}`:                                        {Role: "tool", Content: Content{Kind: ContentParts, Parts: []Part{{Type: "text", Text: "42"}}}},
		`{"role":"function","name":"f","content":null}`:                                                  {Role: "function", Name: ptr("f")},
		`{"role":"narrator","content":"x"}`:                                                              {Role: "narrator", Content: text("x")},
		`{"role":"","content":"x"}`:                                                                      {Content: text("x")},
		`{"role":"assistant","content":"a","reasoning":"r"}`:                                             {Role: "assistant", Content: text("a"), Reasoning: ptr("r")},
		`{"role":"assistant","content":"a","reasoning_content":"old"}`:                                   {Role: "assistant", Content: text("a"), Reasoning: ptr("old")},
		`{"role":"assistant","content":"a","reasoning_content":"old","reasoning":"r"}`:                   {Role: "assistant", Content: text("a"), Reasoning: ptr("r")},
		`{"role":"assistant","content":"a","reasoning_content":"old","reasoning":null}`:                  {Role: "assistant", Content: text("a"), Reasoning: ptr("old")},
		`{"role":"assistant","content":"a","audio":{"id":"x"},"function_call":{"name":"f"}}`:             {Role: "assistant", Content: text("a"), ToolCalls: []ToolCall{{ID: "call_0", Name: "f"}}},
		`{"role":"assistant","content":"a","tool_calls":[],"function_call":{"name":"f"}}`:                {Role: "assistant", Content: text("a")},
		`{"role":"assistant","content":"a","function_call":null}`:                                        {Role: "assistant", Content: text("a")},
		`{"role":"user","content":"first","content":"last"}`:                                             {Role: "user", Content: text("last")},
		`{"role":"user","content":5,"content":"last"}`:                                                   {Role: "user", Content: text("last")},
		`{"r\u006fle":"user","content":"x"}`:                                                             {Role: "user", Content: text("x")},
		`{"role":"user","content":[]}`:                                                                   {Role: "user", Content: Content{Kind: ContentParts}},
		`{"role":"user","content":["a","b"]}`:                                                            {Role: "user", Content: Content{Kind: ContentParts, Parts: []Part{{Type: "text", Text: "a"}, {Type: "text", Text: "b"}}}},
		`{"role":"user","content":"\ud83d\ude00|\ud83d|\ude00|\ud83dx|\ud83d\u0041|\ud83d\ud83d\ude00"}`: {Role: "user", Content: text("😀|\uFFFD|\uFFFD|\uFFFDx|\uFFFDA|\uFFFD😀")},
		`{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"output_text","text":"b"},{"type":"refusal","refusal":"c"},{"type":"thinking","thinking":"d","closed":true},{"type":"text","text":"e"},"f"]}`: {
			Role: "user", Content: Content{Kind: ContentParts, Parts: []Part{{Type: "input_text", Text: "a"}, {Type: "output_text", Text: "b"}, {Type: "refusal", Text: "c"}, {Type: "thinking", Text: "d"}, {Type: "text", Text: "e"}, {Type: "text", Text: "f"}}}},
	} {
		r := accept(t, `"messages":[`+in+`]`)
		if !reflect.DeepEqual(r.Messages, []Message{want}) {
			t.Errorf("%s:\n got %+v\nwant %+v", in, r.Messages, want)
		}
	}
	for in, where := range map[string]string{
		`{"role":"user","content":"x","name":5}`:                    "messages[0].name",
		`{"role":"tool","content":"x","tool_call_id":5}`:            "messages[0].tool_call_id",
		`{"role":"assistant","content":"x","reasoning":5}`:          "messages[0].reasoning",
		`{"role":"assistant","content":"x","reasoning_content":{}}`: "messages[0].reasoning_content",
		`{"role":"developer","content":"x","tools":{}}`:             "messages[0].tools",
		`{"role":null,"content":"x"}`:                               "messages[0].role",
	} {
		refuse(t, `"messages":[`+in+`]`, want{"schema", where})
	}
}

// TestStringsOutliveTheBody: only Raw fields may point into it.
func TestStringsOutliveTheBody(t *testing.T) {
	body := []byte(with(`"messages":[{"role":"user","content":"plain","name":"n"}],"user":"u","stop":["s"],"request_id":"r","cache_salt":"c","bad_words":["b"]`))
	r, err := DecodeChat(body, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = '#'
	}
	m := r.Messages[0]
	if got := strings.Join([]string{m.Role, m.Content.Text, *m.Name, r.User, r.Stop[0], *r.RequestID, *r.CacheSalt, r.BadWords[0], r.Model}, " "); got != "user plain n u s r c b M" {
		t.Error(got)
	}
}

// TestLimits exceeds every limit by one, and meets it.
func TestLimits(t *testing.T) {
	lim := Limits{Depth: 6, Messages: 2, Parts: 3, ToolBytes: 50, Choices: 4, Prompts: 4, Stop: 2, StopBytes: 3, StopTokenIDs: 2, LogitBias: 2, AllowedIDs: 2, BadWords: 2, Alternatives: 2, Repetition: 5}
	if err := lim.Validate(); err != nil {
		t.Fatal(err)
	}
	user := `{"role":"user","content":"x"}`
	parts := func(n int) string {
		return `{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`"p",`, n), ",") + `]}`
	}
	call := `{"id":"c","function":{"name":"f"}}`
	for _, c := range []struct{ good, bad, text string }{
		{`"x":[[[[[1]]]]]`, `"x":[[[[[[1]]]]]]`, "6 levels"},
		{`"messages":[` + user + `,` + user + `]`, `"messages":[` + user + `,` + user + `,` + user + `]`, "messages: must have at most 2 messages"},
		{`"messages":[` + parts(1) + `,` + parts(2) + `]`, `"messages":[` + parts(2) + `,` + parts(2) + `]`, "at most 3 content parts"},
		{`"messages":[{"role":"assistant","tool_calls":[` + call + `,` + call + `,` + call + `]}]`,
			`"messages":[{"role":"assistant","content":["a"],"tool_calls":[` + call + `,` + call + `,` + call + `]}]`, "at most 3 content parts and tool calls"},
		{`"messages":[{"role":"assistant","tool_calls":[` + call + `]}]`, `"messages":[{"role":"assistant","tool_calls":[` + call + `,` + call + `,` + call + `,` + call + `]}]`, "messages[0].tool_calls[3]: a request must have at most 3"},
		{`"tools":[{"function":{"name":"f","description":"123456"}}]`, `"tools":[{"function":{"name":"f","description":"1234567"}}]`, "tools: must be at most 50 bytes"},
		{`"messages":[{"role":"developer","tools":["` + strings.Repeat("a", 46) + `"]}]`, `"messages":[{"role":"developer","tools":["` + strings.Repeat("a", 47) + `"]}]`, "messages[0].tools: must be at most 50 bytes"},
		{`"n":4,"temperature":1`, `"n":5,"temperature":1`, "n must be at most 4"},
		{`"stop":["a","b"]`, `"stop":["a","b","c"]`, "stop: must have at most 2 entries"},
		{`"stop":["é","b"]`, `"stop":["é","bc"]`, "stop: must have at most 3 bytes in all stop strings together"},
		{`"stop":"abc"`, `"stop":"abcd"`, "stop: must have at most 3 bytes in all stop strings together"},
		{`"stop_token_ids":[1,2]`, `"stop_token_ids":[1,2,3]`, "stop_token_ids: must have at most 2"},
		{`"allowed_token_ids":[1,2]`, `"allowed_token_ids":[1,2,3]`, "allowed_token_ids: must have at most 2"},
		{`"logit_bias":{"1":1,"2":1}`, `"logit_bias":{"1":1,"2":1,"3":1}`, "logit_bias: must have at most 2"},
		{`"bad_words":["a","b"]`, `"bad_words":["a","b","c"]`, "bad_words: must have at most 2"},
		{`"structured_outputs":{"choice":["a","b"]}`, `"structured_outputs":{"choice":["a","b","c"]}`, "structured_outputs.choice: must have at most 2"},
		{`"repetition_detection":{"max_pattern_size":5,"min_count":5}`, `"repetition_detection":{"max_pattern_size":5,"min_count":6}`, "at most 5"},
	} {
		run := func(fields string) *Error {
			r, err := DecodeChat([]byte(with(fields)), lim)
			if err != nil {
				return err
			}
			if err := r.CheckPrompt(); err != nil {
				return err
			}
			return r.CheckSampling()
		}
		if err := run(c.good); err != nil {
			t.Errorf("%s: %v", c.good, err)
		}
		if err := run(c.bad); err == nil || err.Status != 400 || !strings.Contains(err.Message, c.text) {
			t.Errorf("%s: %v, want %q", c.bad, err, c.text)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	lim := DefaultLimits()
	if err := lim.Validate(); err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(&lim).Elem()
	for i := range v.NumField() {
		if !v.Field(i).CanInt() { // Done
			continue
		}
		old := v.Field(i).Int()
		v.Field(i).SetInt(0)
		if err := lim.Validate(); err == nil || !strings.Contains(err.Error(), v.Type().Field(i).Name) {
			t.Errorf("%s 0: %v", v.Type().Field(i).Name, err)
		}
		v.Field(i).SetInt(old)
	}
	lim.Depth = maxDepth + 1
	if lim.Validate() == nil {
		t.Error("any depth")
	}
	lim = DefaultLimits()
	lim.Repetition = 1
	if lim.Validate() == nil {
		t.Error("a repetition of one copy")
	}
}
