package messagesapi

import (
	"strconv"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/jsonfields"
)

// facts are what a translation depends on beside the request.
type facts struct {
	context int  // tokens of prompt and output together
	thinks  bool // thoughts are told apart from the answer
	inPlace bool // the template takes a system message between others
}

// appendChat appends the body of the chat completion that a request asks for.
func (q *request) appendChat(dst []byte, f facts, a *answer) ([]byte, error) {
	dst = api.AppendString(append(dst, `{"model":`...), q.model)
	var err error
	if dst, err = q.appendMessages(dst); err != nil {
		return nil, err
	}
	dst = q.appendTools(dst, a)
	// Agents ask for as many tokens as their usual model can give, whatever the context here is.
	dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(min(max(q.maxTokens, 1), f.context)), 10)
	if q.stream {
		dst = append(dst, `,"stream":true`...)
	}
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		if v := q.fields[name]; v != nil {
			dst = append(append(append(append(dst, `,"`...), name...), `":`...), v...)
		}
	}
	if dst, err = q.appendStops(dst); err != nil {
		return nil, err
	}
	dst = q.appendThinking(dst, f)
	if q.schema != nil {
		dst = append(dst, `,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":`...)
		dst = append(append(dst, q.schema...), "}}"...)
	}
	if id, err := q.user(); err != nil {
		return nil, err
	} else if id != nil {
		dst = append(append(dst, `,"user":`...), id...)
	}
	return append(dst, '}'), nil
}

func (q *request) appendMessages(dst []byte) ([]byte, error) {
	dst = append(dst, `,"messages":[`...)
	begun := false
	add := func(role string) {
		if begun {
			dst = append(dst, ',')
		}
		begun = true
		dst = append(append(append(dst, `{"role":"`...), role...), `","content":`...)
	}
	if q.system != "" {
		add("system")
		dst = append(api.AppendString(dst, q.system), '}')
	}
	for i := range q.turns {
		t := &q.turns[i]
		add(t.role)
		if t.role == "assistant" && len(t.texts) == 0 && len(t.calls) > 0 {
			dst = append(dst, "null"...)
		} else {
			dst = api.AppendString(dst, t.text())
		}
		if t.role == "tool" {
			dst = api.AppendString(append(dst, `,"tool_call_id":`...), t.result.id)
			dst = api.AppendString(append(dst, `,"name":`...), t.result.name)
		}
		if t.thought != "" {
			dst = api.AppendString(append(dst, `,"reasoning":`...), t.thought)
		}
		dst = append(appendCalls(dst, t.calls), '}')
	}
	dst = append(dst, ']')
	n := len(q.turns)
	if n == 0 {
		return nil, jsonfields.Bad("messages", "at least one message is required")
	}
	if last := &q.turns[n-1]; last.role == "assistant" {
		if len(last.calls) > 0 {
			return nil, jsonfields.Bad("messages", "the last message calls the tool %q; a tool_result has to follow it", jsonfields.Clip(last.calls[0].name))
		}
		dst = append(dst, `,"continue_final_message":true,"add_generation_prompt":false`...)
	}
	return dst, nil
}

func appendCalls(dst []byte, calls []call) []byte {
	for i := range calls {
		c := &calls[i]
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = api.AppendString(append(dst, `{"id":`...), c.id)
		dst = api.AppendString(append(dst, `,"type":"function","function":{"name":`...), c.name)
		dst = api.AppendString(append(dst, `,"arguments":`...), string(c.input))
		dst = append(dst, "}}"...)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendTools appends the tools that the model sees or may call, and the choice. It notes in the answer which of them are
// only one of both: deferred tools are in the list as soon as a message has referred to them, and the
// model sees them there; those that a message has removed stay, and are called no more.
func (q *request) appendTools(dst []byte, a *answer) []byte {
	n := 0
	for i := range q.tools.list {
		t := &q.tools.list[i]
		listed, callable := q.listed(t), q.callable(t)
		if !listed && !callable {
			continue
		}
		if !listed {
			a.unlisted = append(a.unlisted, n)
		}
		if !callable {
			a.uncallable = append(a.uncallable, n)
		}
		if n++; n == 1 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = t.appendJSON(dst)
	}
	if n == 0 {
		return dst
	}
	dst = append(dst, `],"tool_choice":`...)
	switch q.choice.kind {
	case "any":
		dst = append(dst, `"required"`...)
	case "none":
		dst = append(dst, `"none"`...)
	case "tool":
		dst = api.AppendString(append(dst, `{"type":"function","function":{"name":`...), q.choice.name)
		dst = append(dst, "}}"...)
	default:
		dst = append(dst, `"auto"`...)
	}
	if !q.choice.parallel {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst
}

func (q *request) appendStops(dst []byte) ([]byte, error) {
	v := q.fields["stop_sequences"]
	if v == nil {
		return dst, nil
	}
	if jsonfields.Kind(v) != jsontext.Array {
		return nil, jsonfields.WrongType("stop_sequences", "an array of strings", v)
	}
	n := 0
	for i, e := range v.Elements() {
		s, err := jsonfields.Text(jsonfields.At("stop_sequences", i), e)
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, jsonfields.Bad(jsonfields.At("stop_sequences", i), "must not be empty")
		}
		n++
	}
	if n == 0 {
		return dst, nil
	}
	return append(append(dst, `,"stop":`...), v...), nil
}

// appendThinking appends what makes templates think or not. Which argument a template reads
// differs; those that it does not read have no effect.
func (q *request) appendThinking(dst []byte, f facts) []byte {
	switch q.thinking.kind {
	case "disabled":
		return append(dst, `,"reasoning_effort":"none"`...)
	case "enabled", "adaptive":
		dst = append(dst, `,"chat_template_kwargs":{"enable_thinking":true,"thinking":true}`...)
	}
	if q.effort != "" {
		dst = api.AppendString(append(dst, `,"reasoning_effort":`...), q.effort)
	}
	if q.thinking.budget > 0 && f.thinks {
		dst = strconv.AppendInt(append(dst, `,"thinking_token_budget":`...), int64(min(q.thinking.budget, f.context)), 10)
	}
	return dst
}

// user returns metadata.user_id as it was sent; nil: it was not.
func (q *request) user() (api.Raw, error) {
	v := q.fields["metadata"]
	if v == nil {
		return nil, nil
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return nil, jsonfields.WrongType("metadata", "an object", v)
	}
	id := v.Member("user_id")
	if !id.Given() {
		return nil, nil
	}
	if jsonfields.Kind(id) != jsontext.String {
		return nil, jsonfields.WrongType("metadata.user_id", "a string", id)
	}
	return id, nil
}
