package responsesapi_test

import (
	"regexp"
	"strings"
	"testing"

	"weir/internal/jsontext"
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

// applyPatch is the grammar of the custom tool apply_patch as Codex CLI sends it
// (github.com/openai/codex, codex-rs/core/src/tools/handlers/apply_patch.lark, Apache-2.0).
const applyPatch = `start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
`

// TestP15ApplyPatch: a patch that a model writes for Codex's tool is the input of its call as it stands,
// with the grammar enforced, forced and freely; what is no patch is never the input of a whole call
// (docs/interface/responses-api.md, P-15 and P-24).
func TestP15ApplyPatch(t *testing.T) {
	patches := []string{
		"*** Begin Patch\n*** Add File: a/b c.go\n+package \"b\"\n+\n+\t// \\ é 日\n*** End Patch\n",
		"*** Begin Patch\n*** Update File: x.py\n*** Move to: y.py\n@@ def f():\n     a = 1\n-    return a\n+    return '</tool_call>'\n@@\n-last\n*** End of File\n*** Delete File: z\n*** End Patch",
	}
	call := func(input string) string {
		return "<tool_call>\n" + `{"name": "apply_patch", "arguments": {"input": ` + string(jsontext.AppendString(nil, input)) + "}}\n</tool_call>"
	}
	h := newServer(t, nil, call(patches[0]), call(patches[1]))
	tool := object{"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": object{"type": "grammar", "syntax": "lark", "definition": applyPatch}}
	whole := regexp.MustCompile(`(?s)^\*\*\* Begin Patch\n\*\*\* (Add|Delete|Update) File: .*\n\*\*\* End Patch\n?$`)
	for _, choice := range []any{"auto", "required", object{"type": "custom", "name": "apply_patch"}} {
		for i, script := range []int{0, 1, 500, 501, 502} { // from 500 on the model draws at random
			if script >= 500 && choice == "auto" {
				break
			}
			r := ask(t, h, script, object{"input": "x", "tool_choice": choice, "tools": []any{tool}, "max_output_tokens": 400})
			got := r["output"].([]any)[0].(object)
			switch {
			case got["type"] != "custom_tool_call" || got["name"] != "apply_patch":
				t.Errorf("%v, %d: %v", choice, i, r["output"])
			case i < len(patches) && (got["input"] != patches[i] || got["status"] != "completed"):
				t.Errorf("%v: %v, want %q", choice, got, patches[i])
			case got["status"] == "completed" && !whole.MatchString(got["input"].(string)):
				t.Errorf("%v: %v is no patch", choice, got)
			}
		}
	}
}
