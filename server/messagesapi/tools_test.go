package messagesapi

import (
	"fmt"
	"strings"
	"testing"
)

// changes are messages of the role system in which tools come and go, as the tool runners of
// Anthropic's SDKs send them after add_tools and remove_tools.
func changes(blocks ...string) string {
	return `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"go on"},{"role":"system","content":[` + strings.Join(blocks, ",") + `]}]`
}

const (
	addLater    = `{"type":"tool_addition","tool":{"type":"tool_reference","name":"later"}}`
	addDefined  = `{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"new","description":"N","input_schema":{"type":"object"}}}}`
	newT        = `{"type":"function","function":{"name":"new","description":"N","parameters":{"type":"object"}}}`
	removeClock = `{"type":"tool_removal","tool":{"type":"tool_reference","name":"clock"}}`
	addClock    = `{"type":"tool_addition","tool":{"type":"tool_reference","name":"clock"}}`
)

// TestToolsChanged (M-32, M-33): tools that messages refer to, add and remove are told of in their place, and the list
// that the model sees in front stays as it was.
func TestToolsChanged(t *testing.T) {
	both := `"tools":[` + clock + `,` + deferred + `],`
	for _, c := range []struct {
		name, fields       string
		tools, told        string // in the chat
		unlisted, uncalled []int
	}{
		{"none", both + changes(`{"type":"text","text":"T"}`), clockT, `T`, nil, nil},
		{"a reference", both + changes(addLater), clockT + "," + deferredT, `This function can be called now: ` + deferredT, []int{1}, nil},
		{"two references", both + changes(addLater, addLater), clockT + "," + deferredT, "This function can be called now: " + deferredT + "\nThis function can be called now: later", []int{1}, nil},
		{"a definition", both + changes(addDefined), clockT + "," + newT, `This function can be called now: ` + newT, []int{1}, nil},
		{"a definition alone", changes(addDefined), newT, `This function can be called now: ` + newT, []int{0}, nil},
		{"a removal", both + changes(removeClock), clockT, `The function clock cannot be called any more.`, nil, []int{0}},
		{"a removal that is taken back", both + changes(removeClock, addClock), clockT, "The function clock cannot be called any more.\nThis function can be called now: clock", nil, nil},
		{"another definition of a tool", both + changes(strings.Replace(addDefined, `"new"`, `"clock"`, 1)), clockT + "," + strings.Replace(newT, `"new"`, `"clock"`, 1),
			`This function can be called now: ` + strings.Replace(newT, `"new"`, `"clock"`, 1), []int{1}, []int{0}},
		{"a tool that is forced", `"tool_choice":{"type":"tool","name":"later"},` + both + changes(`{"type":"text","text":"T"}`), clockT + "," + deferredT, `T`, nil, nil},
		{"of the vendor", both + changes(`{"type":"tool_addition","tool":{"type":"mcp_tool_reference","name":"x"}}`, `{"type":"text","text":"T"}`), clockT, `T`, nil, nil},
	} {
		chat, a, err := newSurface("").translate(small, []byte(with(c.fields)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		told := fmt.Sprintf(`{"role":"system","content":%s}`, strings.ReplaceAll(fmt.Sprintf("%q", c.told), `\\n`, `\n`))
		if !strings.Contains(string(chat), told) || !strings.Contains(string(chat), `"tools":[`+c.tools+`]`) {
			t.Errorf("%s:\n%s, want %s\nand the tools %s", c.name, chat, told, c.tools)
		}
		if unlisted, uncalled := a.Changed(); fmt.Sprint(unlisted, uncalled) != fmt.Sprint(c.unlisted, c.uncalled) {
			t.Errorf("%s: not listed %v, not callable %v, want %v and %v", c.name, unlisted, uncalled, c.unlisted, c.uncalled)
		}
	}
}

// TestToolsChangedWrongly (M-33).
func TestToolsChangedWrongly(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{changes(addLater), `messages.3.content.0.tool.name: there is no tool "later" in tools or in the messages before`},
		{changes(`{"type":"tool_addition"}`), `messages.3.content.0.tool: must be an object`},
		{changes(`{"type":"tool_addition","tool":{"type":"tool_definition"}}`), `messages.3.content.0.tool.definition: must be an object`},
		{changes(`{"type":"tool_removal","tool":{"type":"tool_definition","definition":{"name":"a","input_schema":{}}}}`), `messages.3.content.0.tool.type: must be`},
		{changes(`{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"a"}}}`), `messages.3.content.0.tool.definition.input_schema: Field required`},
		{`"tool_choice":{"type":"any"},"tools":[` + clock + `],` + changes(removeClock), `tool_choice: "any" needs tools`},
		{`"tool_choice":{"type":"tool","name":"clock"},"tools":[` + clock + `],` + changes(removeClock), `tool_choice.name: the tool "clock" was removed by a message`},
	} {
		if _, _, err := newSurface("").translate(small, []byte(with(c.fields))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.fields, err, c.want)
		}
	}
}
