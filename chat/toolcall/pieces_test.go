package toolcall

import (
	"regexp"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// TestEndMarkInPieces: where a string stands without quotes, the mark that ends it is looked for in
// text, whatever tokens it came in, special or not. Neither a text nor a regular expression of a grammar
// for such a string has the mark in it, but several together can make it. Then the argument ends there:
// the call is complete, and its argument is a shorter string. Between the quotes of JSON this cannot be.
func TestEndMarkInPieces(t *testing.T) {
	for _, c := range []struct{ format, mark, pieces, before, after, arguments, rest string }{
		{"qwen3_coder", `</parameter>`, `"</para" "meter>"`, "<tool_call>\n<function=patch>\n<parameter=input>\n", "\n</parameter>\n</function>\n</tool_call>", `{"input": "a"}`, "b\n</parameter>\n</function>\n</tool_call>"},
		{"gemma4", `<|"|>`, `"<|\"" "|>"`, `<|tool_call>call:patch{input:<|"|>`, `<|"|>}<tool_call|>`, `{"input": "a", "b<|\"|>": null}`, ""},
		{"hermes", `</tool_call>`, `"</tool" "_call>"`, "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"", "\"}}\n</tool_call>", `{"input": "a</tool_call> b"}`, ""},
	} {
		f, text := format(t, c.format), c.before+"a"+c.mark+" b"+c.after
		of := func(mark string) []Tool {
			lark := jsontext.AppendString(nil, `start: "a" (`+mark+` " b" | "c")`)
			return []Tool{{Name: "patch", Parameters: []byte(`{"type": "object", "properties": {"input": {"type": "string", "x-grammar": ` + string(lark) + `}}, "required": ["input"], "additionalProperties": false}`)}}
		}
		for _, whole := range []string{string(jsontext.AppendString(nil, c.mark)), "/" + strings.ReplaceAll(regexp.QuoteMeta(c.mark), "/", `\/`) + "/"} {
			g := mustCompile(t, f, of(whole), Choice{Mode: Required}, "")
			if _, taken := accepts(g, text); taken != (c.format == "hermes") {
				t.Errorf("%s, %s: %q is taken: %t", c.format, whole, text, taken)
			}
			if _, taken := accepts(g, c.before+"ac"+c.after); !taken {
				t.Errorf("%s, %s: another text is refused", c.format, whole)
			}
		}
		tools := of(c.pieces)
		if n, taken := accepts(mustCompile(t, f, tools, Choice{Mode: Required}, ""), text); !taken {
			t.Errorf("%s, pieces: %q is refused after %q", c.format, text, text[:n])
		}
		content, calls := f.Split([]byte(text), tools)
		if len(calls) != 1 || !calls[0].Complete || string(calls[0].Arguments) != c.arguments || string(content) != c.rest {
			t.Errorf("%s: %q and %s, want %q and %s", c.format, content, shown(calls), c.rest, c.arguments)
		}
		checkPieces(t, f, text)
	}
}
