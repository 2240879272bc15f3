package messagesapi

import (
	"encoding/base64"
	"slices"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/jsonfields"
)

// A turn is a message of the chat. A user's message with results of tools is several.
type turn struct {
	role    string // "system", "user", "assistant", "tool"
	texts   []string
	thought string // of the assistant; "": none
	calls   []call // of the assistant
	result  call   // of role "tool": what it is the result of
	until   bool   // it is there until the next message of the user
}

// call is a call of a tool.
type call struct {
	id, name string
	input    api.Raw
}

func (t *turn) text() string { return strings.Join(t.texts, "\n") }

// conversation is what messages are decoded into.
type conversation struct {
	q *request
	// inPlace says that the template takes a system message between others.
	inPlace bool
	path    string // of the message that is decoded
}

// billing begins a block that Claude Code puts in front of its system prompt, with digits that
// depend on the conversation.
const billing = "x-anthropic-billing-header"

// decodeSystem reads the field system.
func (q *request) decodeSystem(v api.Raw) error {
	if v == nil {
		return nil
	}
	var texts []string
	add := func(s string) {
		if s != "" && !strings.HasPrefix(s, billing) {
			texts = append(texts, s)
		}
	}
	switch jsonfields.Kind(v) {
	case jsontext.String:
		add(v.Text())
	case jsontext.Array:
		for i, e := range v.Elements() {
			kind, err := blockType(jsonfields.At("system", i), e)
			if err != nil {
				return err
			}
			if kind != "text" {
				return jsonfields.Bad(jsonfields.At("system", i)+".type", "must be \"text\", got %q", jsonfields.Clip(kind))
			}
			s, err := jsonfields.Text(jsonfields.At("system", i)+".text", e.Member("text"))
			if err != nil {
				return err
			}
			add(s)
		}
	default:
		return jsonfields.WrongType("system", "a string or an array of text blocks", v)
	}
	q.system = strings.Join(texts, "\n")
	return nil
}

// decodeMessages reads messages, which is an array of them. It may be called for several arrays, of
// which first is the number of messages in the earlier ones.
func (c *conversation) decodeMessages(v api.Raw, first int) (n int, err error) {
	if v == nil {
		return 0, jsonfields.Bad("messages", "Field required")
	}
	if jsonfields.Kind(v) != jsontext.Array {
		return 0, jsonfields.WrongType("messages", "an array", v)
	}
	for i, e := range v.Elements() {
		c.path = jsonfields.At("messages", first+i)
		if jsonfields.Kind(e) != jsontext.Object {
			return n, jsonfields.WrongType(c.path, "an object", e)
		}
		if err := c.message(e); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (c *conversation) message(v api.Raw) error {
	role, err := jsonfields.Text(c.path+".role", v.Member("role"))
	if err != nil {
		return err
	}
	content := v.Member("content")
	switch {
	case role == "system" && !content.Given() && v.Member("output_config").Given():
		c.q.ignored.Add("messages.output_config")
		return nil
	case !content.Given():
		return jsonfields.Bad(c.path+".content", "Field required")
	case jsonfields.Kind(content) != jsontext.String && jsonfields.Kind(content) != jsontext.Array:
		return jsonfields.WrongType(c.path+".content", "a string or an array of blocks", content)
	}
	switch role {
	case "user":
		return c.user(content)
	case "assistant":
		return c.assistant(content)
	case "system":
		return c.systemMessage(v, content)
	}
	return jsonfields.Bad(c.path+".role", "must be \"user\", \"assistant\" or \"system\", got %q", jsonfields.Clip(role))
}

// eachBlock calls f with the blocks of a content; a string is one block of text.
func (c *conversation) eachBlock(content api.Raw, f func(path, kind string, v api.Raw) error) error {
	for i, e := range content.Elements() {
		path := jsonfields.At(c.path+".content", i)
		kind, err := blockType(path, e)
		if err != nil {
			return err
		}
		if hostedBlock(kind) {
			c.q.ignored.Add("messages.content." + kind)
			continue
		}
		if err := f(path, kind, e); err != nil {
			return err
		}
	}
	return nil
}

func blockType(path string, v api.Raw) (string, error) {
	if jsonfields.Kind(v) != jsontext.Object {
		return "", jsonfields.WrongType(path, "an object", v)
	}
	return jsonfields.Text(path+".type", v.Member("type"))
}

// user adds a message of the user. Results of tools come first, in the order of the calls, because
// some templates tell results apart by nothing else.
func (c *conversation) user(content api.Raw) error {
	c.q.turns = slices.DeleteFunc(c.q.turns, func(t turn) bool { return t.until })
	if jsonfields.Kind(content) == jsontext.String {
		c.say("user", content.Text())
		return nil
	}
	calls := c.openCalls()
	results := make([]*turn, len(calls))
	var texts []string
	err := c.eachBlock(content, func(path, kind string, v api.Raw) error {
		if kind != "tool_result" {
			s, err := c.shownBlock(path, kind, v)
			texts = appendText(texts, s)
			return err
		}
		id, err := jsonfields.Text(path+".tool_use_id", v.Member("tool_use_id"))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(calls, func(c call) bool { return c.id == id })
		if i < 0 || results[i] != nil {
			return jsonfields.Bad(path, "unexpected tool_use_id %q: a tool_result needs a tool_use of that id in the message before it, and is its only one", jsonfields.Clip(id))
		}
		results[i] = &turn{role: "tool", result: calls[i]}
		results[i].texts, err = c.result(path+".content", v.Member("content"))
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range results {
		if r != nil {
			c.q.turns = append(c.q.turns, *r)
		}
	}
	if len(texts) > 0 {
		c.say("user", texts...)
	} else if !slices.ContainsFunc(results, func(t *turn) bool { return t != nil }) {
		c.say("user", "") // a template may want a message there
	}
	return nil
}

// openCalls are the calls of the last message of the assistant, if nothing but system messages
// follows it.
func (c *conversation) openCalls() []call {
	for i := len(c.q.turns) - 1; i >= 0; i-- {
		switch t := &c.q.turns[i]; t.role {
		case "system":
		case "assistant":
			return t.calls
		default:
			return nil
		}
	}
	return nil
}

// say adds texts to the last turn, if it has the role, or as a turn of their own. Two messages of a
// user in a row are one, because many templates want the roles to alternate.
func (c *conversation) say(role string, texts ...string) *turn {
	if n := len(c.q.turns); n == 0 || c.q.turns[n-1].role != role || c.q.turns[n-1].until {
		c.q.turns = append(c.q.turns, turn{role: role})
	}
	last := &c.q.turns[len(c.q.turns)-1]
	for _, s := range texts {
		last.texts = appendText(last.texts, s)
	}
	return last
}

func appendText(texts []string, s string) []string {
	if s == "" {
		return texts
	}
	return append(texts, s)
}

func (c *conversation) assistant(content api.Raw) error {
	t := c.say("assistant")
	if jsonfields.Kind(content) == jsontext.String {
		t.texts = appendText(t.texts, content.Text())
		return nil
	}
	return c.eachBlock(content, func(path, kind string, v api.Raw) error {
		switch kind {
		case "thinking":
			s, err := thoughts(path, v)
			if t.thought != "" && s != "" {
				t.thought += "\n"
			}
			t.thought += s
			return err
		case "redacted_thinking": // another server's, and only it can read them
			return nil
		case "tool_use":
			call, err := decodeCall(path, v)
			t.calls = append(t.calls, call)
			return err
		}
		s, err := c.shownBlock(path, kind, v)
		t.texts = appendText(t.texts, s)
		return err
	})
}

func decodeCall(path string, v api.Raw) (c call, err error) {
	if c.id, err = jsonfields.Text(path+".id", v.Member("id")); err != nil {
		return c, err
	}
	if c.name, err = jsonfields.Text(path+".name", v.Member("name")); err != nil {
		return c, err
	}
	switch c.input = v.Member("input"); {
	case !c.input.Given():
		c.input = api.Raw("{}")
	case jsonfields.Kind(c.input) != jsontext.Object:
		return c, jsonfields.WrongType(path+".input", "an object", c.input)
	}
	return c, nil
}

// kept begins a signature that holds the thoughts themselves.
const kept = "weir-thoughts."

// thoughts returns the thoughts of a block: those that are shown, or those in the signature of one
// that this server has made without showing them.
func thoughts(path string, v api.Raw) (string, error) {
	s := ""
	if t := v.Member("thinking"); t.Given() {
		var err error
		if s, err = jsonfields.Text(path+".thinking", t); err != nil {
			return "", err
		}
	}
	signature := v.Member("signature")
	if s != "" || jsonfields.Kind(signature) != jsontext.String {
		return s, nil
	}
	if packed, ours := strings.CutPrefix(signature.Text(), kept); ours {
		b, err := base64.RawURLEncoding.DecodeString(packed)
		if err != nil {
			return "", jsonfields.Bad(path+".signature", "is not as this server has made it")
		}
		return strings.ToValidUTF8(string(b), "\uFFFD"), nil
	}
	return "", nil
}

// systemMessage adds a message of the role system. In front of all others it is a part of the system
// prompt.
func (c *conversation) systemMessage(v, content api.Raw) error {
	var texts []string
	if jsonfields.Kind(content) == jsontext.String {
		texts = appendText(nil, content.Text())
	} else if err := c.eachBlock(content, func(path, kind string, v api.Raw) error {
		var s string
		var err error
		switch kind {
		case "text":
			s, err = jsonfields.Text(path+".text", v.Member("text"))
		case "tool_addition", "tool_removal":
			s, err = c.change(path, kind, v)
		default:
			err = jsonfields.Bad(path+".type", "must be \"text\", \"tool_addition\" or \"tool_removal\" in a system message, got %q", jsonfields.Clip(kind))
		}
		texts = appendText(texts, s)
		return err
	}); err != nil {
		return err
	}
	if v.Member("output_config").Given() {
		c.q.ignored.Add("messages.output_config")
	}
	until := false
	if clear := v.Member("clear_at"); clear.Given() {
		when, err := jsonfields.Text(c.path+".clear_at", clear)
		if err != nil {
			return err
		}
		switch when {
		case "next_user_message":
			until = true
		case "never":
		default:
			return jsonfields.Bad(c.path+".clear_at", "must be \"next_user_message\" or \"never\", got %q", jsonfields.Clip(when))
		}
	}
	s := strings.Join(texts, "\n")
	switch {
	case s == "" || strings.HasPrefix(s, billing):
	case len(c.q.turns) == 0 && !until:
		c.q.system = strings.Join(appendText(appendText(nil, c.q.system), s), "\n")
	case c.inPlace:
		c.q.turns = append(c.q.turns, turn{role: "system", texts: []string{s}, until: until})
	default:
		s = "<system-reminder>\n" + s + "\n</system-reminder>"
		if until {
			c.q.turns = append(c.q.turns, turn{role: "user", texts: []string{s}, until: true})
		} else {
			c.say("user", s)
		}
	}
	return nil
}

// result reads the content of a tool's result.
func (c *conversation) result(path string, v api.Raw) (texts []string, err error) {
	switch {
	case !v.Given():
		return nil, nil
	case jsonfields.Kind(v) == jsontext.String:
		return appendText(nil, v.Text()), nil
	case jsonfields.Kind(v) != jsontext.Array:
		return nil, jsonfields.WrongType(path, "a string or an array of blocks", v)
	}
	for i, e := range v.Elements() {
		kind, err := blockType(jsonfields.At(path, i), e)
		if err != nil {
			return nil, err
		}
		var s string
		if kind == "tool_reference" {
			if s, err = jsonfields.Text(jsonfields.At(path, i)+".tool_name", e.Member("tool_name")); err == nil {
				s, err = c.refer(jsonfields.At(path, i), s)
			}
		} else {
			s, err = c.shownBlock(jsonfields.At(path, i), kind, e)
		}
		if err != nil {
			return nil, err
		}
		texts = appendText(texts, s)
	}
	return texts, nil
}

// shownBlock returns the text of a block that any message may have.
func (c *conversation) shownBlock(path, kind string, v api.Raw) (string, error) {
	switch kind {
	case "text":
		return jsonfields.Text(path+".text", v.Member("text"))
	case "document":
		return c.document(path, v)
	case "search_result":
		content := v.Member("content")
		if jsonfields.Kind(content) != jsontext.Array {
			return "", jsonfields.Bad(path+".content", "must be an array of text blocks")
		}
		head := make([]string, 0, 8)
		for _, name := range []string{"title", "source"} {
			if s := v.Member(name); jsonfields.Kind(s) == jsontext.String {
				head = appendText(head, s.Text())
			}
		}
		return c.join(path+".content", head, content)
	case "image":
		return "", jsonfields.Bad(path, "the model reads text alone, and no images; leave the image out or describe it in words")
	}
	return "", jsonfields.Bad(path+".type", "blocks of type %q are not supported here", jsonfields.Clip(kind))
}

// document returns the text of a document that is text.
func (c *conversation) document(path string, v api.Raw) (string, error) {
	source := v.Member("source")
	if jsonfields.Kind(source) != jsontext.Object {
		return "", jsonfields.Bad(path+".source", "must be an object")
	}
	var head []string
	for _, name := range []string{"title", "context"} {
		if s := v.Member(name); jsonfields.Kind(s) == jsontext.String {
			head = appendText(head, s.Text())
		}
	}
	kind, err := jsonfields.Text(path+".source.type", source.Member("type"))
	if err != nil {
		return "", err
	}
	switch content := source.Member("content"); {
	case kind == "text":
		s, err := jsonfields.Text(path+".source.data", source.Member("data"))
		return strings.Join(appendText(head, s), "\n"), err
	case kind == "content" && jsonfields.Kind(content) == jsontext.String:
		return strings.Join(appendText(head, content.Text()), "\n"), nil
	case kind == "content" && jsonfields.Kind(content) == jsontext.Array:
		return c.join(path+".source.content", head, content)
	}
	return "", jsonfields.Bad(path+".source", "the model reads text alone, and no documents of type %q; send the document's text with the source type \"text\"", jsonfields.Clip(kind))
}

// join joins texts and blocks of text by newlines.
func (c *conversation) join(path string, texts []string, blocks api.Raw) (string, error) {
	for i, e := range blocks.Elements() {
		kind, err := blockType(jsonfields.At(path, i), e)
		if err != nil {
			return "", err
		}
		if kind != "text" {
			return "", jsonfields.Bad(jsonfields.At(path, i)+".type", "must be \"text\", got %q", jsonfields.Clip(kind))
		}
		s, err := jsonfields.Text(jsonfields.At(path, i)+".text", e.Member("text"))
		if err != nil {
			return "", err
		}
		texts = appendText(texts, s)
	}
	return strings.Join(texts, "\n"), nil
}
