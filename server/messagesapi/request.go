package messagesapi

import (
	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
)

// request is a body of POST /v1/messages. Raw values point into it, or into the thread that it
// continues.
type request struct {
	fields map[string]api.Raw // given ones, by name

	model     string
	maxTokens int // 0: the client wants the prompt cached and no answer
	stream    bool
	system    string // "": none
	turns     []turn
	tools     tools
	hosted    map[string]bool // names of tools that run on the vendor's servers
	choice    choice
	thinking  thinking
	effort    string  // "": not given
	schema    api.Raw // of the output; nil: none
	thread    threadField
	ignored   jsonfields.Names
}

// choice is tool_choice.
type choice struct {
	kind     string // "auto", "any", "tool", "none"; "": not given
	name     string // with kind "tool"
	parallel bool
}

// thinking is the field of that name.
type thinking struct {
	kind   string // "enabled", "adaptive", "disabled", "between_tools"; "": not given
	budget int    // 0: none
	hidden bool   // thoughts are kept in the signature alone
}

// threadField is the field thread.
type threadField struct {
	kind     string // "create", "continue"; "": not given
	previous string // id of the message that is continued
}

// known are the fields of a request. Those that are false are taken and have no effect, because
// they ask for nothing that an answer would lack; any other field is named to the client.
var known = map[string]bool{
	"model": true, "messages": true, "max_tokens": true, "stream": true, "system": true, "tools": true, "tool_choice": true, "thinking": true,
	"output_config": true, "output_format": true, "stop_sequences": true, "temperature": true, "top_p": true, "top_k": true, "metadata": true, "thread": true,
	"compaction":    true,
	"cache_control": false, "service_tier": false, "inference_geo": false, "speed": false, "diagnostics": false, "betas": false, "billing_policy": false,
	"anthropic_version": false, "user_profile_id": false, "context_management": false,
}

// decode reads all fields but those of the conversation, which may be kept elsewhere: system, tools
// and messages.
func (q *request) decode(version string, counts bool) error {
	for name := range q.fields {
		if _, ok := known[name]; !ok {
			q.ignored.Add(name)
		}
	}
	if q.fields["compaction"] != nil {
		return jsonfields.Bad("compaction", "is not supported; leave the field out and shorten the conversation in the client")
	}
	if err := q.decodePlain(counts); err != nil {
		return err
	}
	if err := q.decodeChoice(); err != nil {
		return err
	}
	if err := q.decodeThinking(); err != nil {
		return err
	}
	if err := q.decodeOutput(); err != nil {
		return err
	}
	if err := q.decodeThread(); err != nil {
		return err
	}
	return q.checkVersion(version)
}

// decodePlain reads the fields that are one value.
func (q *request) decodePlain(counts bool) (err error) {
	if q.fields["model"] == nil {
		return jsonfields.Bad("model", "Field required")
	}
	if q.model, err = q.text("model"); err != nil {
		return err
	}
	if v := q.fields["stream"]; v != nil {
		if q.stream, err = jsonfields.Bool("stream", v); err != nil {
			return err
		}
	}
	if v := q.fields["max_tokens"]; v != nil {
		if q.maxTokens, err = jsonfields.Int("max_tokens", v, 0); err != nil {
			return err
		}
	} else if !counts {
		return jsonfields.Bad("max_tokens", "Field required")
	}
	if q.maxTokens == 0 && q.stream {
		return jsonfields.Bad("max_tokens", "must be at least 1 with stream; 0 asks for no answer")
	}
	return nil
}

func (q *request) text(name string) (string, error) {
	v := q.fields[name]
	if jsonfields.Kind(v) != jsontext.String {
		return "", jsonfields.WrongType(name, "a string", v)
	}
	return v.Text(), nil
}

func (q *request) decodeChoice() (err error) {
	q.choice.parallel = true
	v := q.fields["tool_choice"]
	if v == nil {
		return nil
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return jsonfields.WrongType("tool_choice", "an object", v)
	}
	kind, name, single := v.Member("type"), v.Member("name"), v.Member("disable_parallel_tool_use")
	if q.choice.kind, err = jsonfields.Text("tool_choice.type", kind); err != nil {
		return err
	}
	switch q.choice.kind {
	case "auto", "any", "none":
	case "tool":
		if q.choice.name, err = jsonfields.Text("tool_choice.name", name); err != nil {
			return err
		}
	default:
		return jsonfields.Bad("tool_choice.type", "must be \"auto\", \"any\", \"tool\" or \"none\", got %q", jsonfields.Clip(q.choice.kind))
	}
	if single.Given() {
		on, err := jsonfields.Bool("tool_choice.disable_parallel_tool_use", single)
		if err != nil {
			return err
		}
		q.choice.parallel = !on
	}
	return nil
}

func (q *request) decodeThinking() (err error) {
	v := q.fields["thinking"]
	if v == nil {
		return nil
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return jsonfields.WrongType("thinking", "an object", v)
	}
	t := &q.thinking
	if t.kind, err = jsonfields.Text("thinking.type", v.Member("type")); err != nil {
		return err
	}
	switch t.kind {
	case "enabled":
		// The vendor wants at least 1024, and less than max_tokens; agents send as many as max_tokens.
		budget := v.Member("budget_tokens")
		if !budget.Given() {
			return jsonfields.Bad("thinking.budget_tokens", "Field required")
		}
		if t.budget, err = jsonfields.Int("thinking.budget_tokens", budget, 1); err != nil {
			return err
		}
	case "adaptive", "disabled", "between_tools":
	default:
		return jsonfields.Bad("thinking.type", "must be \"enabled\", \"adaptive\", \"between_tools\" or \"disabled\", got %q", jsonfields.Clip(t.kind))
	}
	if d := v.Member("display"); d.Given() {
		display, err := jsonfields.Text("thinking.display", d)
		if err != nil {
			return err
		}
		switch display {
		case "omitted":
			t.hidden = true
		case "summarized", "updates":
		default:
			return jsonfields.Bad("thinking.display", "must be \"summarized\", \"omitted\" or \"updates\", got %q", jsonfields.Clip(display))
		}
	}
	return nil
}

// decodeOutput reads output_config, and output_format, which was its format before.
func (q *request) decodeOutput() (err error) {
	format, path := q.fields["output_format"], "output_format"
	if v := q.fields["output_config"]; v != nil {
		if jsonfields.Kind(v) != jsontext.Object {
			return jsonfields.WrongType("output_config", "an object", v)
		}
		for key, value := range v.Members() {
			if !value.Given() {
				continue
			}
			switch string(key) {
			case "effort":
				if q.effort, err = jsonfields.Text("output_config.effort", value); err != nil {
					return err
				}
			case "format":
				format, path = value, "output_config.format"
			default:
				q.ignored.Add("output_config." + string(key))
			}
		}
	}
	switch q.effort {
	case "", "none", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		return jsonfields.Bad("output_config.effort", "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\", got %q", jsonfields.Clip(q.effort))
	}
	if format == nil {
		return nil
	}
	return q.decodeFormat(format, path)
}

// decodeFormat reads the format of the output, which is at path.
func (q *request) decodeFormat(format api.Raw, path string) error {
	if jsonfields.Kind(format) != jsontext.Object {
		return jsonfields.WrongType(path, "an object", format)
	}
	kind, err := jsonfields.Text(path+".type", format.Member("type"))
	if err != nil {
		return err
	}
	if kind != "json_schema" {
		return jsonfields.Bad(path+".type", "must be \"json_schema\", got %q", jsonfields.Clip(kind))
	}
	if q.schema = format.Member("schema"); q.schema == nil || jsonfields.Kind(q.schema) != jsontext.Object {
		return jsonfields.Bad(path+".schema", "must be an object")
	}
	return nil
}

func (q *request) decodeThread() (err error) {
	v := q.fields["thread"]
	if v == nil {
		return nil
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return jsonfields.WrongType("thread", "an object", v)
	}
	t := &q.thread
	if t.kind, err = jsonfields.Text("thread.type", v.Member("type")); err != nil {
		return err
	}
	switch t.kind {
	case "create":
	case "continue":
		if t.previous, err = jsonfields.Text("thread.previous_message_id", v.Member("previous_message_id")); err != nil {
			return err
		}
	default:
		return jsonfields.Bad("thread.type", "must be \"create\" or \"continue\", got %q", jsonfields.Clip(t.kind))
	}
	return nil
}

// withoutSampling is the first version of the interface that refuses the fields of sampling.
const withoutSampling = "2026-10-21"

// checkVersion refuses a version that is no date, and fields that a version does not have. A client
// that names none gets the oldest.
func (q *request) checkVersion(version string) error {
	if version == "" {
		return nil
	}
	if !isDate(version) {
		return failure.BadRequest("", "anthropic-version: %q is not a valid version; it is a date such as 2023-06-01 or 2026-10-21.", jsonfields.Clip(version))
	}
	if version < withoutSampling {
		return nil
	}
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		if q.fields[name] != nil {
			return jsonfields.Bad(name, "is not supported with anthropic-version %s; leave it out, or send the version 2023-06-01", version)
		}
	}
	return nil
}

func isDate(s string) bool {
	if len(s) != len("2023-06-01") {
		return false
	}
	for i, c := range []byte(s) {
		if dash := i == 4 || i == 7; dash != (c == '-') || !dash && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
