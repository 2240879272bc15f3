package responsesapi

import (
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
)

// request is a decoded body of POST /v1/responses. The values of type api.Raw are parts of the
// body and are valid as long as it is.
type request struct {
	model           api.Raw // nil: the base model
	input           api.Raw // a string or an array; nil: absent
	instructions    *string
	previous        string // previous_response_id; "": none
	stream, noStore bool
	background      bool
	logprobs        bool
	encrypted       bool // thoughts are wanted in a form that can be sent back
	summary         bool // thoughts are wanted as a summary
	parallel        bool
	tools           []tool
	choice          choice
	maxOutput       *int
	truncate        bool
	format          api.Raw // text.format; nil: any text

	// sent are the members that the answer repeats as they were sent, by name.
	sent map[string]api.Raw
	// passed are members that go into the body of the chat as they are, in their order:
	// extensions of sampling, and names that nobody here knows.
	passed []member
	// ignored names what has no effect here, for a header.
	ignored []string
}

type member struct {
	name  string
	value api.Raw
}

// choice is tool_choice.
type choice struct {
	mode string // "auto", "none", "required", or "" for the default
	name string // of the function that has to be called, as the model knows it; "": any
}

// echoed are the members that an answer repeats, with what it has for those that were not sent.
var echoed = []struct{ name, otherwise string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"parallel_tool_calls", "true"},
	{"previous_response_id", "null"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"service_tier", `"default"`},
	{"temperature", "null"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "null"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

// chatNames are fields of chat completions whose names here are others.
var chatNames = map[string]string{
	"messages": "input", "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens",
	"response_format": "text.format", "reasoning_effort": "reasoning.effort", "logprobs": "include",
	"functions": "tools", "function_call": "tool_choice",
	"echo": "", "add_generation_prompt": "", "continue_final_message": "", "n": "", "prompt_logprobs": "",
	"include_reasoning": "", "return_prompt_text": "", "return_tokens_as_token_ids": "", "truncate_prompt_tokens": "truncation",
}

// refused are fields that ask for what this server does not have.
var refused = map[string]string{
	"conversation": "conversations are not kept here; continue with previous_response_id, or send the whole input",
	"prompt":       "there are no stored prompts here; send instructions and input",
}

// silent are fields that can have no effect on what a model writes.
var silent = map[string]bool{
	"stream_options": true, "client_metadata": true, "prompt_cache_retention": true, "prompt_cache_options": true,
	"store": true,
}

// decode reads a body.
func decode(body []byte, lim *api.Limits) (*request, error) {
	if bad := jsontext.Check(body, lim.Depth); bad != nil {
		return nil, failure.BadRequest("", "The body is not JSON that can be read: %s.", bad.Error())
	}
	root := jsontext.Trim(body)
	if root.Kind() != jsontext.Object {
		return nil, failure.BadRequest("", "The body must be a JSON object, not %s.", root.Kind())
	}
	all := map[string]api.Raw{}
	var order []string
	for name, v := range root.Members() {
		if _, again := all[string(name)]; !again {
			order = append(order, string(name))
		}
		all[string(name)] = v // the last one counts, as everywhere
	}
	r := &request{sent: map[string]api.Raw{}, parallel: true}
	for _, name := range order {
		v := all[name]
		if !v.Given() {
			continue
		}
		if err := r.field(name, v); err != nil {
			return nil, err
		}
	}
	if err := r.decodeTools(all["tools"], lim); err != nil {
		return nil, err
	}
	if err := r.decodeChoice(all["tool_choice"]); err != nil {
		return nil, err
	}
	if r.background && r.noStore {
		return nil, failure.BadRequest("background", "background is true, and store is false: a response in the background is asked for later, so it has to be kept.")
	}
	if r.input == nil && r.previous == "" {
		return nil, failure.BadRequest("input", "input is missing: send a text, or a list of items.")
	}
	return r, nil
}

// field takes a member that is not null.
func (r *request) field(name string, v api.Raw) error {
	if f, ok := fields[name]; ok {
		if err := f(r, v); err != nil {
			return err
		}
		r.sent[name] = v
		return nil
	}
	if why, ok := refused[name]; ok {
		return failure.BadRequest(name, "%s is not supported: %s.", name, why)
	}
	if other, ok := chatNames[name]; ok {
		if other == "" {
			return failure.BadRequest(name, "%s is a field of chat completions, and not of responses; leave it out.", name)
		}
		return failure.BadRequest(name, "%s is a field of chat completions; its name in responses is %s.", name, other)
	}
	if !silent[name] {
		r.passed = append(r.passed, member{name, v})
	}
	return nil
}

// fields are the fields that are read here. tools and tool_choice are read when all others are.
var fields = map[string]func(*request, api.Raw) error{
	"model": func(r *request, v api.Raw) error { r.model = v; return stringAt("model", v) },
	"input": func(r *request, v api.Raw) error {
		if k := v.Kind(); k != jsontext.String && k != jsontext.Array {
			return failure.BadRequest("input", "input must be a string or an array of items, not %s.", k)
		}
		r.input = v
		return nil
	},
	"instructions":         func(r *request, v api.Raw) error { return text("instructions", v, &r.instructions) },
	"previous_response_id": decodePrevious,
	"stream":               func(r *request, v api.Raw) error { return boolean("stream", v, &r.stream) },
	"store": func(r *request, v api.Raw) error {
		keep := true
		err := boolean("store", v, &keep)
		r.noStore = !keep
		return err
	},
	"background":          func(r *request, v api.Raw) error { return boolean("background", v, &r.background) },
	"include":             decodeInclude,
	"max_output_tokens":   decodeMaxOutput,
	"max_tool_calls":      func(_ *request, v api.Raw) error { return numberAt("max_tool_calls", v) },
	"metadata":            decodeMetadata,
	"parallel_tool_calls": func(r *request, v api.Raw) error { return boolean("parallel_tool_calls", v, &r.parallel) },
	"prompt_cache_key":    func(_ *request, v api.Raw) error { return stringAt("prompt_cache_key", v) },
	"reasoning":           decodeReasoning,
	"safety_identifier":   func(_ *request, v api.Raw) error { return stringAt("safety_identifier", v) },
	"service_tier":        func(_ *request, v api.Raw) error { return stringAt("service_tier", v) },
	"temperature":         passed("temperature"),
	"text":                decodeText,
	"tool_choice":         func(*request, api.Raw) error { return nil },
	"tools":               func(*request, api.Raw) error { return nil },
	"top_logprobs":        decodeTopLogprobs,
	"top_p":               passed("top_p"),
	"truncation":          decodeTruncation,
	"user":                passed("user"),
}

// passed takes a field that has the same name and meaning in a chat.
func passed(name string) func(*request, api.Raw) error {
	return func(r *request, v api.Raw) error {
		r.passed = append(r.passed, member{name, v})
		return nil
	}
}

func decodePrevious(r *request, v api.Raw) error {
	var id *string
	if err := text("previous_response_id", v, &id); err != nil {
		return err
	}
	if r.previous = *id; r.previous == "" {
		return failure.BadRequest("previous_response_id", "previous_response_id is empty; it must be the id of a response, or be left out.")
	}
	return nil
}

// includable are the values of include. All but two are about tools that are not here, and
// have no effect.
var includable = map[string]bool{
	"file_search_call.results": true, "web_search_call.results": true, "web_search_call.action.sources": true,
	"message.input_image.image_url": true, "computer_call_output.output.image_url": true, "code_interpreter_call.outputs": true,
	"reasoning.encrypted_content": true, "message.output_text.logprobs": true,
}

func decodeInclude(r *request, v api.Raw) error {
	if v.Kind() != jsontext.Array {
		return failure.BadRequest("include", "include must be an array of names, not %s.", v.Kind())
	}
	for _, e := range v.Elements() {
		if e.Kind() != jsontext.String || !includable[e.Text()] {
			return failure.BadRequest("include", "include has %s, which is not among the names that can be included.", clip(e))
		}
		switch e.Text() {
		case "reasoning.encrypted_content":
			r.encrypted = true
		case "message.output_text.logprobs":
			r.logprobs = true
		}
	}
	return nil
}

func decodeMaxOutput(r *request, v api.Raw) error {
	n, err := whole("max_output_tokens", v)
	if err == nil && n < 1 {
		err = failure.BadRequest("max_output_tokens", "max_output_tokens must be at least 1, got %d.", n)
	}
	r.maxOutput = &n
	return err
}

// Bounds of metadata.
const (
	maxPairs         = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
)

func decodeMetadata(_ *request, v api.Raw) error {
	if v.Kind() != jsontext.Object {
		return failure.BadRequest("metadata", "metadata must be an object, not %s.", v.Kind())
	}
	n := 0
	for name, value := range v.Members() {
		n++
		switch {
		case n > maxPairs:
			return failure.BadRequest("metadata", "metadata must have at most %d pairs.", maxPairs)
		case len([]rune(string(name))) > maxMetadataName:
			return failure.BadRequest("metadata", "A name in metadata has more than %d characters.", maxMetadataName)
		case value.Kind() != jsontext.String:
			return failure.BadRequest("metadata", "Values of metadata must be strings, and that of %s is %s.", clip(name), value.Kind())
		case len([]rune(value.Text())) > maxMetadataValue:
			return failure.BadRequest("metadata", "The value of %s in metadata has more than %d characters.", clip(name), maxMetadataValue)
		}
	}
	return nil
}

func decodeReasoning(r *request, v api.Raw) error {
	if v.Kind() != jsontext.Object {
		return failure.BadRequest("reasoning", "reasoning must be an object, not %s.", v.Kind())
	}
	if effort := v.Member("effort"); effort.Given() {
		r.passed = append(r.passed, member{"reasoning_effort", effort})
	}
	for _, name := range []string{"summary", "generate_summary"} { // the second is the older name
		s := v.Member(name)
		if !s.Given() {
			continue
		}
		if err := oneOf("reasoning."+name, s, "auto", "concise", "detailed"); err != nil {
			return err
		}
		r.summary = true
	}
	return nil
}

func decodeText(r *request, v api.Raw) error {
	if v.Kind() != jsontext.Object {
		return failure.BadRequest("text", "text must be an object, not %s.", v.Kind())
	}
	if verbosity := v.Member("verbosity"); verbosity.Given() {
		if err := oneOf("text.verbosity", verbosity, "low", "medium", "high"); err != nil {
			return err
		}
	}
	format := v.Member("format")
	if !format.Given() {
		return nil
	}
	if format.Kind() != jsontext.Object {
		return failure.BadRequest("text.format", "text.format must be an object, not %s.", format.Kind())
	}
	if err := oneOf("text.format.type", format.Member("type"), "text", "json_schema", "json_object"); err != nil {
		return err
	}
	if format.Member("type").Text() == "json_schema" && format.Member("schema").Empty() && !format.Member("schema").Given() {
		return failure.BadRequest("text.format.schema", "text.format.schema is missing: text.format of the type json_schema needs it.")
	}
	r.format = format
	return nil
}

func decodeTopLogprobs(r *request, v api.Raw) error {
	n, err := whole("top_logprobs", v)
	switch {
	case err != nil:
		return err
	case n < 0:
		return failure.BadRequest("top_logprobs", "top_logprobs must be at least 0, got %d.", n)
	case n > 0:
		r.logprobs = true
		r.passed = append(r.passed, member{"top_logprobs", v})
	}
	return nil
}

func decodeTruncation(r *request, v api.Raw) error {
	if err := oneOf("truncation", v, "auto", "disabled"); err != nil {
		return err
	}
	r.truncate = v.Text() == "auto"
	return nil
}

// oneOf checks that a value is one of some strings.
func oneOf(param string, v api.Raw, values ...string) error {
	if v != nil && v.Kind() == jsontext.String {
		for _, s := range values {
			if v.Text() == s {
				return nil
			}
		}
	}
	list := strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
	if !v.Given() {
		return failure.BadRequest(param, "%s is missing; it must be %s.", param, list)
	}
	return failure.BadRequest(param, "%s must be %s, got %s.", param, list, clip(v))
}

func text(param string, v api.Raw, to **string) error {
	if v.Kind() != jsontext.String {
		return failure.BadRequest(param, "%s must be a string, not %s.", param, v.Kind())
	}
	s := v.Text()
	*to = &s
	return nil
}

func stringAt(param string, v api.Raw) error {
	var s *string
	return text(param, v, &s)
}

func numberAt(param string, v api.Raw) error {
	_, err := whole(param, v)
	return err
}

func boolean(param string, v api.Raw, to *bool) error {
	if v.Kind() != jsontext.Bool {
		return failure.BadRequest(param, "%s must be true or false, not %s.", param, v.Kind())
	}
	*to = v[0] == 't'
	return nil
}

// whole reads an integer, which may be written as 12.0.
func whole(param string, v api.Raw) (int, error) {
	x, ok := v.Float()
	if !ok || x != float64(int32(x)) {
		return 0, failure.BadRequest(param, "%s must be a whole number, got %s.", param, clip(v))
	}
	return int(x), nil
}

// clip is a value of the client in a message, cut to a length that no log or client minds.
func clip(v []byte) string {
	const shown = 64
	s := strings.ToValidUTF8(string(v[:min(len(v), shown)]), "")
	if len(v) > shown {
		s += "…"
	}
	return s
}

// at is the name of an element of an array in messages to clients.
func at(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }
