package responsesapi_test

import (
	"regexp"
	"strings"
	"testing"

	"weir/server/servertest"
)

// lines is a grammar whose texts have what JSON has to escape.
const lines = `start: "<<" LF line+ ">>" LF?
line: ("+" | "-") /[a-c"\\\t]{1,3}/ LF
%import common.LF`

var lineTexts = regexp.MustCompile("^<<\n([+-][a-c\"\\\\\t]{1,3}\n)+>>\n?$")

// TestP15Grammar: the input of a call of a custom tool obeys its grammar, whatever the model would
// write, whole and streamed; a grammar that cannot be kept is refused with the reason
// (docs/interface/responses-api.md, P-15 and P-24).
func TestP15Grammar(t *testing.T) {
	h := newServer(t, nil)
	tool := func(syntax, definition string) object {
		return object{"type": "custom", "name": "edit", "format": object{"type": "grammar", "syntax": syntax, "definition": definition}}
	}
	fields := object{"input": "x", "tool_choice": object{"type": "custom", "name": "edit"}, "tools": []any{tool("lark", lines)}, "max_output_tokens": 300}
	complete := 0
	for seed := range 12 {
		r := ask(t, h, 500+seed, fields)
		call := r["output"].([]any)[0].(object)
		if call["type"] != "custom_tool_call" {
			t.Fatalf("%v", call)
		}
		if call["status"] != "completed" {
			continue
		}
		complete++
		if in := call["input"].(string); !lineTexts.MatchString(in) {
			t.Errorf("seed %d: %q", seed, in)
		}
		text := ""
		for _, e := range stream(t, h, 500+seed, fields) {
			if e.name == "response.custom_tool_call_input.delta" {
				text += e.data["delta"].(string)
			}
		}
		if text != call["input"] {
			t.Errorf("seed %d: %q streamed, and whole %q", seed, text, call["input"])
		}
	}
	if complete < 3 {
		t.Errorf("only %d calls have ended", complete)
	}
	for _, bad := range []object{tool("lark", "start: nothing"), tool("lark", "start: \"a"), tool("regex", "(a"), tool("regex", "(?<=a)\\1b")} {
		for _, choice := range []string{"auto", "required"} {
			status, answer, _ := send(t, h, 0, object{"input": "x", "tool_choice": choice, "tools": []any{bad}})
			if f := servertest.Refused(t, status, answer, 400, "tools"); !strings.Contains(f.Message, "edit") || len(f.Message) < 40 {
				t.Errorf("%v: %s", bad, answer)
			}
		}
	}
	status, answer, _ := send(t, h, 0, object{"input": "x", "tools": []any{tool("lark", " ")}})
	servertest.Refused(t, status, answer, 400, "tools[0].format.definition")
}
