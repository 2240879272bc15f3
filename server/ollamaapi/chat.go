package ollamaapi

import (
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
)

// request is the body of a chat or of a generation.
type request struct {
	fields  map[string]api.Raw // given ones, by name
	model   string
	stream  bool
	ignored jsonfields.Names
}

// Fields that are taken; those that are false have no effect, because they ask for nothing that an
// answer would lack. Any other is named to the client.
var (
	common = map[string]bool{
		"model": true, "stream": true, "format": true, "options": true, "think": true, "logprobs": true, "top_logprobs": true,
		"keep_alive": false, "shift": false,
	}
	chatFields     = map[string]bool{"messages": true, "tools": true}
	generateFields = map[string]bool{"prompt": true, "system": true, "images": true, "suffix": true, "raw": true, "context": true, "template": true}
)

// decode reads what chats and generations have in common.
func decode(body []byte, own map[string]bool) (*request, error) {
	fields, err := jsonfields.Read(body)
	if err != nil {
		return nil, err
	}
	q := &request{fields: fields, stream: true}
	for name := range fields {
		_, known := common[name]
		if _, here := own[name]; !known && !here {
			q.ignored.Add(name)
		}
	}
	if q.model, err = jsonfields.Text("model", fields["model"]); err != nil {
		return nil, err
	}
	if v := fields["stream"]; v != nil {
		q.stream, err = jsonfields.Bool("stream", v)
	}
	return q, err
}

// served is the name of a model without the tag that Ollama adds to names without one.
func served(name string) string { return strings.TrimSuffix(name, latest) }

const latest = ":latest"

// begin appends the beginning of the body of a chat completion.
func (q *request) begin(dst []byte) []byte {
	return api.AppendString(append(dst, `{"model":`...), served(q.model))
}

// end appends the fields that chats and generations have in common, and the end.
func (q *request) end(dst []byte, context int) ([]byte, error) {
	if q.stream {
		dst = append(dst, `,"stream":true`...)
	}
	var err error
	for _, f := range []func([]byte) ([]byte, error){
		func(b []byte) ([]byte, error) { return q.appendOptions(b, context) }, q.appendFormat, q.appendThink, q.appendLogprobs,
	} {
		if dst, err = f(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// optionNames are the options that a chat completion has, under its names.
var optionNames = []struct{ name, ours string }{
	{"temperature", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"}, {"seed", "seed"},
	{"repeat_penalty", "repetition_penalty"}, {"presence_penalty", "presence_penalty"}, {"frequency_penalty", "frequency_penalty"},
}

// loading are the options about how Ollama loads a model, which is loaded here.
var loading = []string{
	"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa", "low_vram", "f16_kv", "vocab_only", "logits_all", "embedding_only", "draft_num_predict",
}

// appendOptions appends the options.
func (q *request) appendOptions(dst []byte, context int) ([]byte, error) {
	v := q.fields["options"]
	if v == nil {
		return dst, nil
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return nil, jsonfields.WrongType("options", "an object", v)
	}
	given := map[string]api.Raw{}
	for key, value := range v.Members() {
		if value.Given() {
			given[string(key)] = value
		}
	}
	for _, o := range optionNames {
		if value := given[o.name]; value != nil {
			if jsonfields.Kind(value) != jsontext.Number {
				return nil, jsonfields.WrongType("options."+o.name, "a number", value)
			}
			dst = append(append(append(append(dst, `,"`...), o.ours...), `":`...), value...)
			delete(given, o.name)
		}
	}
	if value := given["num_predict"]; value != nil { // below 1: as many as there is room for
		n, err := jsonfields.Int("options.num_predict", value, -1e9)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(min(n, context)), 10)
		}
		delete(given, "num_predict")
	}
	if value := given["stop"]; value != nil {
		if k := jsonfields.Kind(value); k != jsontext.Array && k != jsontext.String {
			return nil, jsonfields.WrongType("options.stop", "an array of strings", value)
		}
		if !value.Empty() || jsonfields.Kind(value) == jsontext.String {
			dst = append(append(dst, `,"stop":`...), value...)
		}
		delete(given, "stop")
	}
	q.ignore(given)
	return dst, nil
}

// ignore names the options that are not known, in alphabetical order.
func (q *request) ignore(options map[string]api.Raw) {
	names := make([]string, 0, len(options))
	for name := range options {
		if !slices.Contains(loading, name) {
			names = append(names, "options."+name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		q.ignored.Add(name)
	}
}

// appendFormat appends the constraint: "json" or a schema.
func (q *request) appendFormat(dst []byte) ([]byte, error) {
	switch v := q.fields["format"]; jsonfields.Kind(v) {
	case jsontext.Null:
		return dst, nil
	case jsontext.Object:
		dst = append(dst, `,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":`...)
		return append(append(dst, v...), "}}"...), nil
	case jsontext.String:
		switch v.Text() {
		case "":
			return dst, nil
		case "json":
			return append(dst, `,"response_format":{"type":"json_object"}`...), nil
		}
		return nil, jsonfields.Bad("format", "must be \"json\" or a JSON schema, got %q", jsonfields.Clip(v.Text()))
	default:
		return nil, jsonfields.WrongType("format", "\"json\" or a JSON schema", v)
	}
}

// appendThink appends what makes templates think or not.
func (q *request) appendThink(dst []byte) ([]byte, error) {
	v := q.fields["think"]
	switch jsonfields.Kind(v) {
	case jsontext.Null:
		return dst, nil
	case jsontext.Bool:
		if v[0] == 'f' {
			return append(dst, `,"reasoning_effort":"none"`...), nil
		}
	case jsontext.String:
		switch s := v.Text(); s {
		case "none":
			return append(dst, `,"reasoning_effort":"none"`...), nil
		case "minimal", "low", "medium", "high", "xhigh", "max":
			dst = api.AppendString(append(dst, `,"reasoning_effort":`...), s)
		default:
			return nil, jsonfields.Bad("think", "must be true, false, \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\", got %q", jsonfields.Clip(s))
		}
	default:
		return nil, jsonfields.WrongType("think", "a boolean or a string", v)
	}
	return append(dst, `,"chat_template_kwargs":{"enable_thinking":true,"thinking":true}`...), nil
}

func (q *request) appendLogprobs(dst []byte) ([]byte, error) {
	v := q.fields["logprobs"]
	if v == nil {
		return dst, nil
	}
	on, err := jsonfields.Bool("logprobs", v)
	if err != nil || !on {
		return dst, err
	}
	dst = append(dst, `,"logprobs":true`...)
	if top := q.fields["top_logprobs"]; top != nil {
		n, err := jsonfields.Int("top_logprobs", top, 0)
		if err != nil {
			return nil, err
		}
		dst = strconv.AppendInt(append(dst, `,"top_logprobs":`...), int64(n), 10)
	}
	return dst, nil
}

// chat returns the body of the chat completion that a request to /api/chat asks for.
func (q *request) chat(size, context int) ([]byte, error) {
	dst := q.begin(make([]byte, 0, size))
	dst = append(dst, `,"messages":[`...)
	var c calls
	for i, e := range q.fields["messages"].Elements() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = c.appendMessage(dst, jsonfields.At("messages", i), e); err != nil {
			return nil, err
		}
	}
	dst = append(dst, ']')
	if v := q.fields["tools"]; v != nil {
		if jsonfields.Kind(v) != jsontext.Array {
			return nil, jsonfields.WrongType("tools", "an array", v)
		}
		if !v.Empty() {
			dst = append(append(dst, `,"tools":`...), v...)
		}
	}
	return q.end(dst, context)
}

// calls are those of a conversation so far, which have numbers for ids.
type calls struct {
	n    int
	open []call // without a result
}

type call struct{ id, name string }

// appendThinking appends the thoughts of a message, if there are any.
func appendThinking(dst []byte, path string, thinking api.Raw) ([]byte, error) {
	if thinking == nil {
		return dst, nil
	}
	if jsonfields.Kind(thinking) != jsontext.String {
		return nil, jsonfields.WrongType(path+".thinking", "a string", thinking)
	}
	if len(thinking) > 2 {
		dst = append(append(dst, `,"reasoning":`...), thinking...)
	}
	return dst, nil
}

// appendMessage appends a message in the form of a chat completion.
func (c *calls) appendMessage(dst []byte, path string, v api.Raw) ([]byte, error) {
	if jsonfields.Kind(v) != jsontext.Object {
		return nil, jsonfields.WrongType(path, "an object", v)
	}
	var role, content, thinking, images, made, name, id api.Raw
	for key, value := range v.Members() {
		if !value.Given() {
			continue
		}
		switch string(key) {
		case "role":
			role = value
		case "content":
			content = value
		case "thinking":
			thinking = value
		case "images":
			images = value
		case "tool_calls":
			made = value
		case "tool_name":
			name = value
		case "tool_call_id":
			id = value
		}
	}
	who, err := jsonfields.Text(path+".role", role)
	if err != nil {
		return nil, err
	}
	switch who {
	case "system", "user", "assistant", "tool":
	default:
		return nil, jsonfields.Bad(path+".role", "must be \"system\", \"user\", \"assistant\" or \"tool\", got %q", jsonfields.Clip(who))
	}
	if images != nil && !images.Empty() {
		return nil, errImages(path)
	}
	dst = api.AppendString(append(dst, `{"role":`...), who)
	if content == nil {
		content = api.Raw(`""`)
	}
	if jsonfields.Kind(content) != jsontext.String {
		return nil, jsonfields.WrongType(path+".content", "a string", content)
	}
	dst = append(append(dst, `,"content":`...), content...)
	if who == "assistant" {
		if dst, err = appendThinking(dst, path, thinking); err != nil {
			return nil, err
		}
		if dst, err = c.appendCalls(dst, path+".tool_calls", made); err != nil {
			return nil, err
		}
	}
	if who == "tool" {
		of, err := c.resultOf(path, name, id)
		if err != nil {
			return nil, err
		}
		dst = api.AppendString(append(dst, `,"tool_call_id":`...), of.id)
		if of.name != "" {
			dst = api.AppendString(append(dst, `,"name":`...), of.name)
		}
	}
	return append(dst, '}'), nil
}

// appendCalls appends the calls of a message of the assistant.
func (c *calls) appendCalls(dst []byte, path string, v api.Raw) ([]byte, error) {
	c.open = c.open[:0]
	if v == nil {
		return dst, nil
	}
	if jsonfields.Kind(v) != jsontext.Array {
		return nil, jsonfields.WrongType(path, "an array", v)
	}
	n := 0
	for i, e := range v.Elements() {
		at := jsonfields.At(path, i)
		if jsonfields.Kind(e) != jsontext.Object || jsonfields.Kind(e.Member("function")) != jsontext.Object {
			return nil, jsonfields.Bad(at+".function", "must be an object")
		}
		f := e.Member("function")
		name, err := jsonfields.Text(at+".function.name", f.Member("name"))
		if err != nil {
			return nil, err
		}
		arguments := f.Member("arguments")
		if !arguments.Given() {
			arguments = api.Raw("{}")
		}
		if jsonfields.Kind(arguments) != jsontext.Object {
			return nil, jsonfields.WrongType(at+".function.arguments", "an object", arguments)
		}
		id := "call_" + strconv.Itoa(c.n)
		if own := e.Member("id"); jsonfields.Kind(own) == jsontext.String && len(own) > 2 {
			id = own.Text()
		}
		c.n++
		c.open = append(c.open, call{id, name})
		if n++; n == 1 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = api.AppendString(append(dst, `{"type":"function","id":`...), id)
		dst = api.AppendString(append(dst, `,"function":{"name":`...), name)
		dst = api.AppendString(append(dst, `,"arguments":`...), string(arguments))
		dst = append(dst, "}}"...)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst, nil
}

// resultOf returns the call that a message of role tool is the result of: the one with its id, the
// first of its tool, or the first. A result without a call has the name alone.
func (c *calls) resultOf(path string, name, id api.Raw) (call, error) {
	of := call{id: "call_" + strconv.Itoa(c.n)}
	i := 0
	switch {
	case id != nil:
		s, err := jsonfields.Text(path+".tool_call_id", id)
		if err != nil {
			return of, err
		}
		of.id = s
		i = slices.IndexFunc(c.open, func(o call) bool { return o.id == s })
	case name != nil:
		s, err := jsonfields.Text(path+".tool_name", name)
		if err != nil {
			return of, err
		}
		of.name = s
		i = slices.IndexFunc(c.open, func(o call) bool { return o.name == s })
	}
	if i < 0 || i >= len(c.open) {
		return of, nil
	}
	of = c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return of, nil
}

func errImages(path string) error {
	return failure.BadRequest("", "%s: the model reads text alone, and no images; leave the images out or describe them in words.", path)
}
