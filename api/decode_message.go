package api

import (
	"strconv"

	"weir/internal/jsontext"
)

// decodeMessages reads the history (docs/interface/chat-completions.md, sections 3.1 and
// 3.2). Shapes that no message can
// have are faults of the schema; parts and calls that have the shape and cannot
// be used are noted for CheckPrompt.
func decodeMessages(r *ChatRequest, v Raw, lim *Limits) *fault {
	if v.Kind() != jsontext.Array {
		return wrongType("an array", v)
	}
	d := messageDecoder{lim: lim}
	for i, m := range v.Elements() {
		if i == lim.Messages {
			return faultf("must have at most %d messages", lim.Messages)
		}
		r.Messages = append(r.Messages, Message{})
		if f := d.message(&r.Messages[i], m); f != nil {
			return f.index(i)
		}
		if d.unusable != nil && r.badMessages == nil {
			r.badMessages = d.unusable.index(i).in("messages").error()
		}
	}
	return nil
}

type messageDecoder struct {
	lim   *Limits
	parts int // content parts and tool calls so far, over all messages

	unusable *fault // the first one that CheckPrompt reports

	// older are the identifiers of the calls that came as function_call, the older form of
	// tool_calls, by the names of their functions; olderCalls counts them.
	older      map[string]string
	olderCalls int
}

// note keeps the first fault that CheckPrompt reports.
func (d *messageDecoder) note(c cause, f *fault) {
	if d.unusable == nil {
		f.cause = c
		d.unusable = f
	}
}

// count refuses to hold more parts and calls than the limit.
func (d *messageDecoder) count() *fault {
	if d.parts == d.lim.Parts {
		return faultf("a request must have at most %d content parts and tool calls", d.lim.Parts)
	}
	d.parts++
	return nil
}

func (d *messageDecoder) message(m *Message, v Raw) (f *fault) {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	var role, content, name, calls, older, callID, reasoning, alias, tools Raw
	for key, value := range v.Members() {
		switch string(key) {
		case "role":
			role = value
		case "content":
			content = value
		case "name":
			name = value
		case "tool_calls":
			calls = value
		case "function_call":
			older = value
		case "tool_call_id":
			callID = value
		case "reasoning":
			reasoning = value
		case "reasoning_content":
			alias = value
		case "tools":
			tools = value
		}
	}
	if role == nil {
		return faultf("field required").in("role")
	}
	if m.Role, f = text(role); f != nil {
		return f.in("role")
	}
	if name.Given() {
		if m.Name, f = optional(name, text); f != nil {
			return f.in("name")
		}
	}
	nullContent := false
	switch m.Role {
	case "assistant":
		nullContent = true
		if f = d.assistant(m, reasoning, alias, calls); f == nil && !calls.Given() && older.Given() {
			f = d.olderCall(m, older)
		}
	case "function":
		nullContent = true
		d.olderResult(m)
	case "tool":
		if callID.Given() {
			m.ToolCallID, f = optional(callID, text)
			f = f.in("tool_call_id")
		}
	case "developer":
		if tools.Given() {
			f = d.tools(m, tools)
		}
	}
	switch {
	case f != nil:
		return f
	case content == nil || content.Kind() == jsontext.Null && nullContent:
		return nil
	}
	return d.content(&m.Content, content).in("content")
}

func (d *messageDecoder) assistant(m *Message, reasoning, alias, calls Raw) (f *fault) {
	name := "reasoning"
	if !reasoning.Given() {
		// The name before the reference renamed it; clients still send it.
		reasoning, name = alias, "reasoning_content"
	}
	if reasoning.Given() {
		if m.Reasoning, f = optional(reasoning, text); f != nil {
			return f.in(name)
		}
	}
	if !calls.Given() {
		return nil
	}
	if calls.Kind() != jsontext.Array {
		return wrongType("an array", calls).in("tool_calls")
	}
	for i, c := range calls.Elements() {
		if f := d.count(); f != nil {
			return f.index(i).in("tool_calls")
		}
		if c.Kind() != jsontext.Object {
			return wrongType("an object", c).index(i).in("tool_calls")
		}
		call, f := d.call(c)
		if f != nil {
			d.note(causeMessages, f.index(i).in("tool_calls"))
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return nil
}

// olderCall reads function_call, which has no identifier and gets one. The same conversation gets
// the same, so that its prompt has the same prefix.
func (d *messageDecoder) olderCall(m *Message, v Raw) *fault {
	if f := d.count(); f != nil {
		return f.in("function_call")
	}
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v).in("function_call")
	}
	var c ToolCall
	if f := d.function(&c, v); f != nil {
		d.note(causeMessages, f.in("function_call"))
	}
	c.ID = "call_" + strconv.Itoa(d.olderCalls)
	d.olderCalls++
	if d.older == nil {
		d.older = map[string]string{}
	}
	d.older[c.Name] = c.ID
	m.ToolCalls = append(m.ToolCalls, c)
	return nil
}

// olderResult makes a message of the role function, which has the name of what was called, one of
// the role tool, if there was such a call.
func (d *messageDecoder) olderResult(m *Message) {
	if m.Name == nil {
		return
	}
	if id, ok := d.older[*m.Name]; ok {
		m.Role, m.ToolCallID = "tool", &id
	}
}

// call reads a tool call of the history. Its arguments are a JSON text inside a JSON
// string, and the template gets them as an object. A model may have written something else,
// and the conversation has to go on: such arguments count as absent.
func (d *messageDecoder) call(v Raw) (c ToolCall, f *fault) {
	id, typ, function := v.Member("id"), v.Member("type"), v.Member("function")
	switch {
	case id == nil || id.Kind() != jsontext.String:
		return c, faultf("must be a string").in("id")
	case typ != nil && (typ.Kind() != jsontext.String || typ.Text() != "function"):
		return c, faultf("must be \"function\"").in("type")
	case function == nil || function.Kind() != jsontext.Object:
		return c, faultf("must be an object").in("function")
	}
	if f = d.function(&c, function); f != nil {
		return c, f.in("function")
	}
	c.ID = id.Text()
	return c, nil
}

// function reads the name and the arguments of a call.
func (d *messageDecoder) function(c *ToolCall, v Raw) *fault {
	name, arguments := v.Member("name"), v.Member("arguments")
	if name == nil || name.Kind() != jsontext.String {
		return faultf("must be a string").in("name")
	}
	c.Name = name.Text()
	if !arguments.Given() {
		return nil
	}
	if arguments.Kind() != jsontext.String {
		return wrongType("a JSON text in a string", arguments).in("arguments")
	}
	s := []byte(arguments.Text())
	if len(s) == 0 || jsontext.Check(s, d.lim.Depth) != nil {
		return nil
	}
	if s = jsontext.Trim(s); Raw(s).Kind() == jsontext.Object {
		c.Arguments = s
	}
	return nil
}

func (d *messageDecoder) tools(m *Message, v Raw) *fault {
	if len(v) > d.lim.ToolBytes {
		return faultf("must be at most %d bytes long", d.lim.ToolBytes).in("tools")
	}
	if v.Kind() != jsontext.Array {
		return wrongType("an array", v).in("tools")
	}
	m.Tools = v
	return nil
}

func (d *messageDecoder) content(c *Content, v Raw) *fault {
	switch v.Kind() {
	case jsontext.String:
		c.Kind, c.Text = ContentText, v.Text()
		return nil
	case jsontext.Array:
	default:
		return wrongType("a string or an array of parts", v)
	}
	c.Kind = ContentParts
	for i, e := range v.Elements() {
		if f := d.count(); f != nil {
			return f.index(i)
		}
		p, f := d.part(e, i)
		if f != nil {
			return f.index(i)
		}
		c.Parts = append(c.Parts, p)
	}
	return nil
}

// textKeys are the part types that carry text, with the key it is under.
var textKeys = map[string]string{
	"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking",
}

// mediaKeys are the part types that carry something else, with the key it is
// under. Such a part may leave its type out.
var mediaKeys = map[string]string{
	"image_url": "image_url", "input_image": "image_url", "image_embeds": "image_embeds", "image_pil": "image_pil",
	"input_audio": "input_audio", "audio_url": "audio_url", "audio_embeds": "audio_embeds", "video_url": "video_url",
}

func (d *messageDecoder) part(v Raw, i int) (p Part, f *fault) {
	switch v.Kind() {
	case jsontext.String:
		return Part{Type: "text", Text: v.Text()}, nil
	case jsontext.Object:
	default:
		return p, wrongType("a string or an object", v)
	}
	typ := v.Member("type")
	if !typ.Given() {
		for key := range v.Members() {
			if mediaKeys[string(key)] == string(key) {
				return Part{Type: string(key), Media: true}, nil
			}
		}
		d.note(causeMessages, faultf("Missing 'type' field in a content part.").index(i).in("content"))
		return p, nil
	}
	if typ.Kind() != jsontext.String {
		return p, wrongType("a string", typ).in("type")
	}
	p.Type = typ.Text()
	if key, ok := textKeys[p.Type]; ok {
		payload := v.Member(key)
		if payload == nil {
			d.note(causeMessages, faultf("the part lacks the field %q", key).index(i).in("content"))
			return p, nil
		}
		p.Text, f = text(payload)
		return p, f.in(key)
	}
	if key, ok := mediaKeys[p.Type]; ok {
		if p.Media = true; v.Member(key) == nil {
			d.note(causeMessages, faultf("the part lacks the field %q", key).index(i).in("content"))
		}
		return p, nil
	}
	if p.Type == "file" {
		d.note(causePart, faultf("Unknown part type: file"))
		return p, nil
	}
	d.note(causeMessages, faultf("Unknown part type: %s", clip([]byte(p.Type))).index(i).in("content"))
	return p, nil
}
