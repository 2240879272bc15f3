package chat

import (
	"crypto/sha256"
	"math/rand/v2"
	"strings"

	"weir/api"
	"weir/chat/jinja"
	"weir/chat/toolcall"
)

// conversation is the list of messages as a template sees it.
type conversation struct {
	dicts []jinja.Value
	last  *jinja.Dict
	parts bool // content is a list of parts, not a text
}

// newConversation converts the messages. The keys of a message are in the order in which
// vLLM sets them, because some templates print a whole message.
func newConversation(messages []api.Message, parts bool) (*conversation, error) {
	c := &conversation{parts: parts}
	for i := range messages {
		d, err := toDict(&messages[i], parts)
		if err != nil {
			return nil, err
		}
		c.dicts = append(c.dicts, d)
		c.last = d
	}
	return c, nil
}

// withoutDevelopers makes system messages of the developer's, for a template that does not
// know that role. If there are any, all system messages become one, which is the first of
// the conversation, because many templates accept no other (as vLLM does).
func (c *conversation) withoutDevelopers() {
	found := false
	for i, v := range c.dicts {
		d := v.(*jinja.Dict)
		if role, _ := d.Get("role"); role != "developer" {
			continue
		}
		found = true
		system := jinja.NewDict(d.Len())
		for name, v := range d.All() {
			if name != "tools" {
				system.Set(name, v)
			}
		}
		system.Set("role", "system")
		c.dicts[i] = system
	}
	if found {
		c.mergeSystems()
	}
	c.last = c.dicts[len(c.dicts)-1].(*jinja.Dict)
}

// mergeSystems makes one system message of all, in front, unless there is only one and it is
// there already. Empty ones are left out.
func (c *conversation) mergeSystems() {
	var texts []string
	var others []jinja.Value
	misplaced := false
	for i, v := range c.dicts {
		d := v.(*jinja.Dict)
		if role, _ := d.Get("role"); role != "system" {
			others = append(others, v)
			continue
		}
		misplaced = misplaced || i > 0
		if text := contentOf(d); text != "" {
			texts = append(texts, text)
		}
	}
	if !misplaced {
		return
	}
	merged := jinja.NewDict(2)
	merged.Set("role", "system")
	merged.Set("content", strings.Join(texts, "\n\n"))
	c.dicts = append([]jinja.Value{merged}, others...)
}

// nameThinking gives the thoughts of messages the name that the published template of gpt-oss
// reads too. Other templates do not get it, because some of them print a whole message.
func (c *conversation) nameThinking() {
	for _, v := range c.dicts {
		d := v.(*jinja.Dict)
		if thoughts, ok := d.Get("reasoning"); ok {
			d.Set("thinking", thoughts)
		}
	}
}

// renameCalls gives the calls of the conversation ids of a form's own, where clients have brought
// those of another model along: some templates accept no others.
func (c *conversation) renameCalls(f *toolcall.Format) {
	own := map[string]string{}
	n := 0
	for _, v := range c.dicts {
		d := v.(*jinja.Dict)
		if calls, ok := d.Get("tool_calls"); ok {
			for i := range calls.(*jinja.List).Len() {
				call := calls.(*jinja.List).At(i).(*jinja.Dict)
				id, _ := call.Get("id")
				function, _ := call.Get("function")
				name, _ := function.(*jinja.Dict).Get("name")
				own[id.(string)] = ownID(f, id.(string), name.(string), n)
				call.Set("id", own[id.(string)])
				n++
			}
		}
		if id, ok := d.Get("tool_call_id"); ok {
			to, known := own[id.(string)]
			if !known {
				to = ownID(f, id.(string), "", n)
			}
			d.Set("tool_call_id", to)
		}
	}
}

// ownID is id, or one in its place that has the form of f and is the same for the same id.
func ownID(f *toolcall.Format, id, name string, n int) string {
	random := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(id))))
	own := f.ID(func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = idLetters[random.IntN(len(idLetters))]
		}
		return string(b)
	}, name, n)
	foreign := func(c rune) bool { return !strings.ContainsRune(idLetters, c) }
	if len(id) == len(own) && !strings.ContainsFunc(id, foreign) && !strings.ContainsFunc(own, foreign) {
		return id
	}
	return own
}

// idLetters are what random parts of ids are made of.
const idLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func (c *conversation) messages() *jinja.List { return jinja.NewList(c.dicts...) }

func toDict(msg *api.Message, parts bool) (*jinja.Dict, error) {
	d := jinja.NewDict(4)
	d.Set("role", msg.Role)
	if parts {
		d.Set("content", contentParts(&msg.Content))
	} else {
		d.Set("content", contentText(&msg.Content))
	}
	switch msg.Role {
	case "assistant":
		if len(msg.ToolCalls) > 0 {
			calls, err := toolCalls(msg.ToolCalls)
			if err != nil {
				return nil, err
			}
			d.Set("tool_calls", calls)
		}
		if msg.Reasoning != nil {
			d.Set("reasoning", *msg.Reasoning)
			d.Set("reasoning_content", *msg.Reasoning)
		}
	case "tool":
		if msg.ToolCallID != nil {
			d.Set("tool_call_id", *msg.ToolCallID)
		}
	}
	if msg.Name != nil {
		d.Set("name", *msg.Name)
	}
	if msg.Role == "developer" {
		tools, err := decode("tools", msg.Tools)
		if err != nil {
			return nil, err
		}
		d.Set("tools", tools)
	}
	return d, nil
}

// contentText is content in the string format: parts are joined by newlines, without empty
// ones, as in vLLM. It is "" if there is no content.
func contentText(c *api.Content) string {
	if c.Kind != api.ContentParts {
		return c.Text
	}
	var texts []string
	for _, p := range c.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// contentParts is content in the openai format.
func contentParts(c *api.Content) *jinja.List {
	part := func(text string) jinja.Value {
		d := jinja.NewDict(2)
		d.Set("type", "text")
		d.Set("text", text)
		return d
	}
	switch c.Kind {
	case api.ContentText:
		return jinja.NewList(part(c.Text))
	case api.ContentParts:
		items := make([]jinja.Value, len(c.Parts))
		for i, p := range c.Parts {
			items[i] = part(p.Text)
		}
		return jinja.NewList(items...)
	}
	return jinja.NewList()
}

// toolCalls converts the calls of an assistant message. Clients send their arguments as
// text and templates expect a value, so they are parsed.
func toolCalls(calls []api.ToolCall) (*jinja.List, error) {
	items := make([]jinja.Value, len(calls))
	for i, call := range calls {
		var arguments jinja.Value = jinja.NewDict(0)
		if len(call.Arguments) > 0 {
			v, err := jinja.FromJSON(call.Arguments)
			if err != nil {
				return nil, invalid(errorText(err))
			}
			arguments = v
		}
		function := jinja.NewDict(2)
		function.Set("name", call.Name)
		function.Set("arguments", arguments)
		d := jinja.NewDict(3)
		d.Set("id", call.ID)
		d.Set("type", "function")
		d.Set("function", function)
		items[i] = d
	}
	return jinja.NewList(items...), nil
}

// contentOf is the content of a converted message as one text.
func contentOf(d *jinja.Dict) string {
	content, _ := d.Get("content")
	list, ok := content.(*jinja.List)
	if !ok {
		return content.(string)
	}
	texts := make([]string, list.Len())
	for i := range texts {
		text, _ := list.At(i).(*jinja.Dict).Get("text")
		texts[i] = text.(string)
	}
	return strings.Join(texts, "\n")
}
