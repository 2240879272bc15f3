package messagesapi_test

import (
	"strconv"
	"testing"

	"weir/server/servertest"
)

// TestToolsChangedInPlace (M-32, M-33): a tool that a message adds can be called, the beginning of the prompt stays as it was,
// so that it is in the prefix cache, and a tool that a message removes is called no more.
func TestToolsChangedInPlace(t *testing.T) {
	h := servertest.New(t, nil)
	const (
		tool  = `{"name":"clock","description":"Tells the time.","input_schema":{"type":"object","properties":{"zone":{"enum":["A","B"]}},"required":["zone"],"additionalProperties":false}}`
		later = `{"name":"later","description":"Waits until later.","input_schema":{"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],"additionalProperties":false}}`
		begin = `{"model":"tiny","max_tokens":100,"tools":[` + tool + `],"messages":[{"role":"user","content":"What is the time in the capital of France, and what is it in Oslo?"}`
		add   = `,{"role":"assistant","content":"It is late."},{"role":"user","content":"Wait."},{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":` + later + `}}]}`
	)
	number := func(body, member string) int {
		n, err := strconv.Atoi(string(ask(t, h, path, body).Member("usage").Member(member)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := number(begin+"]}", "input_tokens")
	if cached := number(begin+add+"]}", "cache_read_input_tokens"); cached < first-16-32 || cached < 64 {
		t.Errorf("%d tokens of a prompt that begins with most of %d were cached", cached, first)
	}
	for _, c := range []struct{ more, want string }{
		{add + `],"tool_choice":{"type":"tool","name":"later"}}`, "later"},
		{add + `,{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"clock"}}]}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`, "later"},
		{add + `,{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"later"}}]}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`, "clock"},
	} {
		for range 4 { // the model draws at random
			v := ask(t, h, path, begin+c.more)
			for _, b := range v.Member("content").Elements() {
				if b.Member("type").Text() != "tool_use" || b.Member("name").Text() != c.want {
					t.Errorf("%s\n%s, want a call of %s", c.more, v, c.want)
				}
			}
		}
	}
}
