package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/models"
	"weir/tokenizer"
)

// documentedScript is the script that docs/models.md shows.
func documentedScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```json\n(\\[\\{\"prompt\".*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/models.md shows no script")
	}
	return string(found[1])
}

// TestSimScript: the script in the documentation makes the simulated device hold a loop of one
// call, whole and streamed.
func TestSimScript(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(documentedScript(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, nil, "--data-dir", "", "--device", "sim", "--sim-script", file)
	const (
		tools = `"tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`
		turn1 = `{"role": "user", "content": "How warm is it in Oslo?"}`
		turn2 = turn1 + `, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]},
			{"role": "tool", "tool_call_id": "c1", "content": "21"}`
	)
	for _, c := range []struct{ messages, more, want, end string }{
		{turn1, "", `"arguments":"{\"city\": \"Oslo\"}"`, `"finish_reason":"tool_calls"`},
		{turn2, "", `"content":"It is 21 degrees in Oslo."`, `"finish_reason":"stop"`},
		{turn1, `, "stream": true`, `"name":"weather"`, `"finish_reason":"tool_calls"`},
		{turn2, `, "stream": true`, ` degrees`, `"finish_reason":"stop"`},
		{turn1, `, "tool_choice": "required", "max_tokens": 64`, `"arguments":"{\"city\": \"Oslo\"}"`, `"finish_reason":"tool_calls"`},
	} {
		code, text, _ := do(t, http.DefaultClient, "POST", p.url+"/v1/chat/completions", `{"messages": [`+c.messages+`], `+tools+c.more+`}`)
		if code != 200 || !strings.Contains(text, c.want) || !strings.Contains(text, c.end) {
			t.Errorf("%s%s: %d %s", c.messages, c.more, code, text)
		}
	}
}

func TestParseScript(t *testing.T) {
	tok, err := tokenizer.Open(models.Bundled())
	if err != nil {
		t.Fatal(err)
	}
	const end, other = 2, 1
	rules, err := parseScript([]byte(`[{"answer": ""}, {"prompt": "^x+$", "answer": "<|im_end|>"}, {"answer": "a b"}]`), tok, end, nil)
	if err != nil || len(rules) != 3 || len(rules[0].answer) != 1 || len(rules[1].answer) != 1 || rules[1].answer[0] != end || rules[2].answer[len(rules[2].answer)-1] != end {
		t.Errorf("%v, %v", rules, err)
	}
	if rules, err := parseScript([]byte(`[{"answer": "<|im_end|>"}]`), tok, other, []int32{end}); err != nil || len(rules[0].answer) != 1 {
		t.Errorf("a second end token was added: %v, %v", rules, err)
	}
	if rules, err := parseScript([]byte(`[{"answer": ""}]`), tok, -1, nil); err != nil || len(rules[0].answer) != 0 {
		t.Errorf("an end token was added though there is none: %v, %v", rules, err)
	}
	for text, want := range map[string]string{
		``: "", `{}`: "not a list", `[]`: "not a list", `[1]`: "rule 1: it is not an object",
		`[{"answer": "a"}, {"prompt": "("}]`: "rule 2: error parsing regexp", `[{"prompt": "a"}]`: "no answer",
		`[{"answer": 1}]`: "answer is not a string", `[{"answer": "a", "promt": "b"}]`: `"promt"`, `[{"answer": "a"}] x`: "",
	} {
		if _, err := parseScript([]byte(text), tok, end, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
