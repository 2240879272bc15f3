package responsesapi

import (
	"encoding/base64"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
)

// conversation collects the messages of a chat, as elements of a JSON array. What the model
// has written in one turn are several items, and one message: thoughts, text and calls.
type conversation struct {
	messages []byte
	n        int // messages

	// The message of the model that is being put together.
	open    bool
	thought string
	content []byte // parts, as elements of a JSON array, or one string
	parts   int    // of content
	calls   []byte // elements of a JSON array
	called  int
}

func (c *conversation) next() {
	if c.n++; c.n > 1 {
		c.messages = append(c.messages, ',')
	}
}

// end ends the message of the model, if there is one.
func (c *conversation) end() {
	if !c.open {
		return
	}
	c.next()
	c.messages = append(c.messages, `{"role":"assistant"`...)
	if c.thought != "" {
		c.messages = jsontext.AppendString(append(c.messages, `,"reasoning":`...), c.thought)
	}
	c.messages = append(c.messages, `,"content":`...)
	switch {
	case c.parts == 0:
		c.messages = append(c.messages, "null"...)
	case c.parts == 1:
		c.messages = append(c.messages, c.content...)
	default:
		c.messages = append(append(append(c.messages, '['), c.content...), ']')
	}
	if c.called > 0 {
		c.messages = append(append(append(c.messages, `,"tool_calls":[`...), c.calls...), ']')
	}
	c.messages = append(c.messages, '}')
	c.open, c.thought, c.content, c.parts, c.calls, c.called = false, "", c.content[:0], 0, c.calls[:0], 0
}

// say adds a message of a role that is not the model's. content is a JSON value.
func (c *conversation) say(role string, content []byte) {
	c.end()
	c.next()
	c.messages = append(c.messages, `{"role":`...)
	c.messages = jsontext.AppendString(c.messages, role)
	c.messages = append(append(append(c.messages, `,"content":`...), content...), '}')
}

// think adds a thought of the model.
func (c *conversation) think(text string) {
	if c.parts > 0 || c.called > 0 {
		c.end()
	}
	c.open = true
	if c.thought != "" && text != "" {
		c.thought += "\n"
	}
	c.thought += text
}

// answer adds a text of the model.
func (c *conversation) answer(texts []string) {
	if c.parts > 0 && c.called == 0 {
		c.end() // two messages of the model that follow each other are two
	}
	c.open = true
	before := c.parts
	c.parts += len(texts)
	if before == 1 && len(texts) > 0 {
		c.content = append(append([]byte(`{"type":"text","text":`), c.content...), '}')
	}
	for _, s := range texts {
		if c.parts == 1 {
			c.content = jsontext.AppendString(c.content, s)
			continue
		}
		if len(c.content) > 0 {
			c.content = append(c.content, ',')
		}
		c.content = jsontext.AppendString(append(c.content, `{"type":"text","text":`...), s)
		c.content = append(c.content, '}')
	}
}

// call adds a call by the model.
func (c *conversation) call(id, name, arguments string) {
	c.open = true
	if c.called++; c.called > 1 {
		c.calls = append(c.calls, ',')
	}
	c.calls = jsontext.AppendString(append(c.calls, `{"type":"function","id":`...), id)
	c.calls = jsontext.AppendString(append(c.calls, `,"function":{"name":`...), name)
	c.calls = jsontext.AppendString(append(c.calls, `,"arguments":`...), arguments)
	c.calls = append(c.calls, "}}"...)
}

// result adds what a tool has answered. content is a JSON value.
func (c *conversation) result(id string, content []byte) {
	c.end()
	c.next()
	c.messages = append(c.messages, `{"role":"tool","tool_call_id":`...)
	c.messages = jsontext.AppendString(c.messages, id)
	c.messages = append(append(append(c.messages, `,"content":`...), content...), '}')
}

// unshown are items that record what tools of the vendor's servers did. The model is not shown
// them, as it is not shown those tools.
var unshown = map[string]bool{
	"web_search_call": true, "file_search_call": true, "computer_call": true, "computer_call_output": true, "code_interpreter_call": true,
	"image_generation_call": true, "local_shell_call": true, "local_shell_call_output": true, "shell_call": true, "shell_call_output": true,
	"apply_patch_call": true, "apply_patch_call_output": true, "mcp_list_tools": true, "mcp_approval_request": true, "mcp_approval_response": true,
	"mcp_call": true, "tool_search_call": true, "tool_search_output": true, "program": true, "program_output": true,
	"compaction": true, "compaction_trigger": true, "configuration_update": true,
}

// itemReader puts the items of a request into a conversation.
type itemReader struct {
	to  *conversation
	req *request
	lim *api.Limits
	// refer returns the item with an id, of a response that is kept; nil: there is none.
	refer func(id string) (api.Raw, error)
}

// read reads input.
func (d *itemReader) read(input api.Raw) error {
	if input == nil {
		return nil
	}
	if input.Kind() == jsontext.String {
		d.to.say("user", input)
		return nil
	}
	for i, e := range input.Elements() {
		where := at("input", i)
		if i == d.lim.Messages {
			return failure.BadRequest("input", "input must have at most %d items.", d.lim.Messages)
		}
		if e.Kind() != jsontext.Object {
			return failure.BadRequest(where, "%s must be an object, not %s.", where, e.Kind())
		}
		if err := d.item(where, e); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is the type of an item. A message may leave its type out, and so may a reference.
func kindOf(v api.Raw) string {
	if t := v.Member("type"); t.Given() {
		if t.Kind() != jsontext.String {
			return ""
		}
		return t.Text()
	}
	if v.Member("role") != nil {
		return "message"
	}
	if v.Member("id") != nil {
		return "item_reference"
	}
	return ""
}

func (d *itemReader) item(where string, v api.Raw) error {
	switch kind := kindOf(v); kind {
	case "message":
		return d.message(where, v)
	case "reasoning":
		d.to.think(thoughtOf(v))
		return nil
	case "function_call":
		return d.call(where, v, "arguments")
	case "custom_tool_call":
		return d.call(where, v, "input")
	case "function_call_output", "custom_tool_call_output":
		return d.output(where, v)
	case "item_reference":
		return d.reference(where, v)
	case "additional_tools":
		return d.req.decodeTools(v.Member("tools"), d.lim)
	default:
		if unshown[kind] {
			d.req.ignored = append(d.req.ignored, where+"."+kind)
			return nil
		}
		return failure.BadRequest(where+".type", "%s has the type %s, which is not known; messages, reasoning, function_call, function_call_output, custom_tool_call and custom_tool_call_output are.", where, clip(orNull(v.Member("type"))))
	}
}

func (d *itemReader) message(where string, v api.Raw) error {
	if err := oneOf(where+".role", v.Member("role"), "user", "assistant", "system", "developer"); err != nil {
		return err
	}
	role, content := v.Member("role").Text(), v.Member("content")
	if !content.Given() {
		return failure.BadRequest(where+".content", "%s.content is missing.", where)
	}
	if role == "assistant" {
		texts, err := textsOf(where+".content", content)
		if err == nil {
			d.to.answer(texts)
		}
		return err
	}
	b, err := contentOf(where+".content", content)
	if err == nil {
		d.to.say(role, b)
	}
	return err
}

// textKeys are the types of parts that have a text, with its name.
var textKeys = map[string]string{
	"input_text": "text", "output_text": "text", "text": "text", "summary_text": "text", "reasoning_text": "text", "refusal": "refusal",
}

// partText returns the text of a part of a content; ok is false for a part that has none, such
// as an image.
func partText(where string, v api.Raw) (s string, ok bool, err error) {
	if v.Kind() == jsontext.String {
		return v.Text(), true, nil
	}
	if v.Kind() != jsontext.Object {
		return "", false, failure.BadRequest(where, "%s must be an object, not %s.", where, v.Kind())
	}
	var kind, out *string
	if err := text(where+".type", orNull(v.Member("type")), &kind); err != nil {
		return "", false, err
	}
	key, ok := textKeys[*kind]
	if !ok {
		switch *kind {
		case "input_image":
			return "", false, nil
		case "input_file", "input_audio":
			return "", false, failure.BadRequest(where, "%s is %s, which no model here reads; send its text.", where, *kind)
		}
		return "", false, failure.BadRequest(where+".type", "%s has the type %s, which is not known; input_text, output_text and refusal are.", where, clip(v.Member("type")))
	}
	err = text(where+"."+key, orNull(v.Member(key)), &out)
	if err != nil {
		return "", false, err
	}
	return *out, true, nil
}

// textsOf returns the texts of a content.
func textsOf(where string, v api.Raw) (texts []string, err error) {
	switch v.Kind() {
	case jsontext.String:
		return []string{v.Text()}, nil
	case jsontext.Array:
	default:
		return nil, failure.BadRequest(where, "%s must be a string or an array of parts, not %s.", where, v.Kind())
	}
	for i, e := range v.Elements() {
		s, ok, err := partText(at(where, i), e)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, failure.BadRequest(at(where, i), "%s must be a text here.", at(where, i))
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// contentOf returns a content in the form that chats have. One text is a string, so that it does
// not matter in which form it was sent.
func contentOf(where string, v api.Raw) ([]byte, error) {
	switch v.Kind() {
	case jsontext.String:
		return v, nil
	case jsontext.Array:
	default:
		return nil, failure.BadRequest(where, "%s must be a string or an array of parts, not %s.", where, v.Kind())
	}
	dst := []byte{'['}
	n, last, texts := 0, "", 0
	for i, e := range v.Elements() {
		s, ok, err := partText(at(where, i), e)
		if err != nil {
			return nil, err
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		if !ok { // the chat refuses it, or reads it
			dst = append(dst, e...)
			continue
		}
		texts, last = texts+1, s
		dst = jsontext.AppendString(append(dst, `{"type":"text","text":`...), s)
		dst = append(dst, '}')
	}
	if n == 1 && texts == 1 {
		return jsontext.AppendString(dst[:0], last), nil
	}
	return append(dst, ']'), nil
}

// sealed begins the encrypted content that this server makes of a thought. It is an encoding
// and keeps no secret: whoever gets it has got the thought as well.
const sealed = "weir1."

func seal(thought string) string {
	return sealed + base64.RawURLEncoding.EncodeToString([]byte(thought))
}

// thoughtOf returns the thought of a reasoning item: its content, or else its summary, or what
// this server has put into its encrypted content. The encrypted content of others cannot be read.
func thoughtOf(v api.Raw) string {
	for _, name := range []string{"content", "summary"} {
		var all []string
		for _, e := range v.Member(name).Elements() {
			if e.Kind() == jsontext.Object {
				if t := e.Member("text"); t.Given() && t.Kind() == jsontext.String {
					all = append(all, t.Text())
				}
			}
		}
		if len(all) > 0 {
			return strings.Join(all, "\n")
		}
	}
	e := v.Member("encrypted_content")
	if !e.Given() || e.Kind() != jsontext.String {
		return ""
	}
	body, ok := strings.CutPrefix(e.Text(), sealed)
	if !ok {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// call reads a call of the history. payload is the member that has what it was called with.
func (d *itemReader) call(where string, v api.Raw, payload string) error {
	var id, name, arguments *string
	for _, m := range []struct {
		name string
		to   **string
	}{{"call_id", &id}, {"name", &name}, {payload, &arguments}} {
		if err := text(where+"."+m.name, orNull(v.Member(m.name)), m.to); err != nil {
			return err
		}
	}
	space := ""
	if s := v.Member("namespace"); s.Given() && s.Kind() == jsontext.String {
		space = s.Text()
	}
	if payload == "input" {
		d.to.call(*id, named(space, *name), string(wrapInput(*arguments)))
		return nil
	}
	d.to.call(*id, named(space, *name), *arguments)
	return nil
}

// wrapInput makes arguments of a function of the input of a custom tool.
func wrapInput(input string) []byte {
	return append(jsontext.AppendString([]byte(`{"`+inputName+`":`), input), '}')
}

// output reads what a tool has answered.
func (d *itemReader) output(where string, v api.Raw) error {
	var id *string
	if err := text(where+".call_id", orNull(v.Member("call_id")), &id); err != nil {
		return err
	}
	out := v.Member("output")
	if !out.Given() {
		return failure.BadRequest(where+".output", "%s.output is missing.", where)
	}
	b, err := contentOf(where+".output", out)
	if err == nil {
		d.to.result(*id, b)
	}
	return err
}

// reference reads an item of an earlier response, by its id.
func (d *itemReader) reference(where string, v api.Raw) error {
	var id *string
	if err := text(where+".id", orNull(v.Member("id")), &id); err != nil {
		return err
	}
	found, err := d.refer(*id)
	if err != nil {
		return err
	}
	if found == nil {
		return failure.BadRequest(where, "%s refers to %s, which is not kept here; send the item itself.", where, clip([]byte(*id)))
	}
	if kindOf(found) == "item_reference" {
		return failure.BadRequest(where, "%s refers to a reference.", where)
	}
	return d.item(where, found)
}
