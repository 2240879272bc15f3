package routerapi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
	"weir/server/transport"
	"weir/tokenizer"
)

// Generate answers POST /generate.
func (h *Handlers) Generate(c *transport.Call) {
	h.cfg.Service.Serve(c, &surface{h: h, begun: c.Begun})
}

// surface is one request. It implements openai.Surface.
type surface struct {
	h     *Handlers
	begun time.Time
}

// Fail answers with an error.
func (s *surface) Fail(c *transport.Call, err error) failure.Failure { return c.Fail(err) }

// Fields of a body. What has no effect is false: it is about logs, or asks for what every answer has. Any other is named to the client.
var (
	fields = map[string]bool{
		"text": true, "input_ids": true, "sampling_params": true, "stream": true, "rid": true, "model": true, "return_logprob": true, "logprob_start_len": true,
		"top_logprobs_num": true, "return_text_in_logprobs": true, "priority": true,
		"log_metrics": false, "background": false, "no_logs": false,
	}
	// refused are fields without which the answer would be another one.
	refused = []string{
		"image_data", "video_data", "audio_data", "input_embeds", "lora_path", "lora_id", "session_params", "token_ids_logprob", "return_hidden_states",
		"return_routed_experts", "custom_logit_processor", "return_bytes", "return_entropy",
	}
	// sampling are the parameters that a chat completion has, under its names.
	sampling = map[string]string{
		"min_new_tokens": "min_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "frequency_penalty": "frequency_penalty",
		"presence_penalty": "presence_penalty", "repetition_penalty": "repetition_penalty", "stop": "stop", "stop_token_ids": "stop_token_ids", "ignore_eos": "ignore_eos",
		"skip_special_tokens": "skip_special_tokens", "spaces_between_special_tokens": "spaces_between_special_tokens", "no_stop_trim": "include_stop_str_in_output",
		"logit_bias": "logit_bias", "sampling_seed": "seed",
	}
	// constraints are the parameters that constrain the output, under the names of structured_outputs.
	constraints = map[string]string{"json_schema": "json", "regex": "regex", "ebnf": "grammar", "structural_tag": "structural_tag"}
)

// usualTokens is how many tokens an answer has at most whose request does not say, as in SGLang.
const usualTokens = 128

// Translate returns the body of the chat completion that a request asks for.
func (s *surface) Translate(_ context.Context, m *openai.Model, _ openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	q := &request{model: m}
	var err error
	if q.fields, err = jsonfields.Read(body); err != nil {
		return nil, nil, err
	}
	a := &answer{now: s.h.cfg.Now, begun: s.begun}
	dst, err := q.chat(make([]byte, 0, len(body)+len(body)/4+512), a)
	if err != nil {
		return nil, nil, err
	}
	a.ignored = q.ignored
	return dst, a, nil
}

// request is the body of a generation.
type request struct {
	fields  map[string]api.Raw // given ones, by name
	model   *openai.Model
	ignored jsonfields.Names
}

// chat appends the body of the chat completion, and fills in what its answer needs.
func (q *request) chat(dst []byte, a *answer) ([]byte, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	dst, err := q.prompt(dst, a)
	if err != nil {
		return nil, err
	}
	for _, f := range []func([]byte, *answer) ([]byte, error){q.logprobs, q.sampling, q.rest} {
		if dst, err = f(dst, a); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// check names what is not known, and refuses what is not possible here.
func (q *request) check() error {
	names := make([]string, 0, len(q.fields))
	for name := range q.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, known := fields[name]; known {
			continue
		}
		if slices.Contains(refused, name) {
			if v := q.fields[name]; !v.Empty() && string(v) != "false" && string(v) != `""` {
				return jsonfields.Bad(name, "is not possible here; leave it out")
			}
			continue
		}
		q.ignored.Add(name)
	}
	// smg writes "unknown" where a request names no model.
	if v := q.fields["model"]; v != nil {
		name, err := jsonfields.Text("model", v)
		if err != nil {
			return err
		}
		if name != "unknown" && !q.model.Serves(name) {
			return api.ErrModelNotFound(name)
		}
	}
	return nil
}

// prompt appends the beginning of the body with the prompt as its only message.
func (q *request) prompt(dst []byte, a *answer) ([]byte, error) {
	text, ids := q.fields["text"], q.fields["input_ids"]
	dst = api.AppendString(append(dst, `{"model":`...), q.model.Names[0])
	dst = append(dst, `,"messages":[{"role":"user","content":`...)
	switch {
	case text == nil && ids == nil:
		return nil, jsonfields.Bad("text", "Field required, or input_ids")
	case text != nil && ids != nil:
		return nil, jsonfields.Bad("input_ids", "the prompt is either text or input_ids; leave one of them out")
	case text != nil:
		if jsonfields.Kind(text) == jsontext.Array {
			return nil, jsonfields.Bad("text", "must be one text; send a request for each of several")
		}
		if _, err := jsonfields.Text("text", text); err != nil {
			return nil, err
		}
		a.plain = openai.Plain{Raw: true}
		dst = append(dst, text...)
	default:
		list, err := q.tokens(ids)
		if err != nil {
			return nil, err
		}
		a.plain = openai.Plain{IDs: list}
		dst = api.AppendString(dst, q.model.Tokenizer.Decode(list, tokenizer.DecodeOptions{})) // for records
	}
	return append(dst, `}]`...), nil
}

// tokens reads the tokens of the prompt.
func (q *request) tokens(v api.Raw) (ids []int32, err error) {
	if jsonfields.Kind(v) != jsontext.Array {
		return nil, jsonfields.WrongType("input_ids", "an array of tokens", v)
	}
	for i, e := range v.Elements() {
		path := jsonfields.At("input_ids", i)
		if jsonfields.Kind(e) == jsontext.Array {
			return nil, jsonfields.Bad("input_ids", "must be the tokens of one prompt; send a request for each of several")
		}
		id, err := jsonfields.Int(path, e, 0)
		switch {
		case err != nil:
			return nil, err
		case id >= q.model.VocabSize:
			return nil, jsonfields.Bad(path, "must be a token of the model, below %d, got %d", q.model.VocabSize, id)
		case len(ids) >= q.model.MaxLen:
			return nil, jsonfields.Bad("input_ids", "has more than %d tokens, which is the context of the model", q.model.MaxLen)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, jsonfields.Bad("input_ids", "must not be empty")
	}
	return ids, nil
}

// flag reads a boolean that may be absent.
func (q *request) flag(name string) (bool, error) {
	v := q.fields[name]
	if v == nil {
		return false, nil
	}
	return jsonfields.Bool(name, v)
}

// logprobs appends what asks for log-probabilities.
func (q *request) logprobs(dst []byte, a *answer) (_ []byte, err error) {
	if a.scored, err = q.flag("return_logprob"); err != nil || !a.scored {
		return dst, err
	}
	if a.texts, err = q.flag("return_text_in_logprobs"); err != nil {
		return nil, err
	}
	if v := q.fields["logprob_start_len"]; v != nil {
		n, err := jsonfields.Int("logprob_start_len", v, -1)
		if err != nil {
			return nil, err
		}
		if n >= 0 {
			return nil, jsonfields.Bad("logprob_start_len", "log-probabilities of the prompt are not possible here; leave it out, or ask /v1/completions for prompt_logprobs")
		}
	}
	dst = append(dst, `,"logprobs":true`...)
	if v := q.fields["top_logprobs_num"]; v != nil {
		n, err := jsonfields.Int("top_logprobs_num", v, 0)
		if err != nil {
			return nil, err
		}
		if a.top = n > 0; a.top {
			dst = strconv.AppendInt(append(dst, `,"top_logprobs":`...), int64(n), 10)
		}
	}
	return dst, nil
}

// sampling appends the parameters of the generation.
func (q *request) sampling(dst []byte, a *answer) ([]byte, error) {
	a.most = usualTokens
	v := q.fields["sampling_params"]
	if v == nil {
		return strconv.AppendInt(append(dst, `,"max_tokens":`...), usualTokens, 10), nil
	}
	if jsonfields.Kind(v) == jsontext.Array {
		return nil, jsonfields.Bad("sampling_params", "must be those of one prompt; send a request for each of several")
	}
	if jsonfields.Kind(v) != jsontext.Object {
		return nil, jsonfields.WrongType("sampling_params", "an object", v)
	}
	given := map[string]api.Raw{}
	for key, value := range v.Members() {
		if value.Given() {
			given[string(key)] = value
		}
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	bound := ""
	for _, name := range names {
		value, path := given[name], "sampling_params."+name
		switch {
		case name == "max_new_tokens":
			n, err := jsonfields.Int(path, value, 1)
			if err != nil {
				return nil, err
			}
			a.most = min(n, q.model.MaxLen)
		case name == "n":
			if n, err := jsonfields.Int(path, value, 1); err != nil {
				return nil, err
			} else if n > 1 {
				return nil, jsonfields.Bad(path, "must be 1; send a request for each of several answers")
			}
		case name == "stop_regex" && !value.Empty():
			return nil, jsonfields.Bad(path, "is not possible here; leave it out, or use stop")
		case name == "stop" && jsonfields.Kind(value) == jsontext.Array && value.Empty():
		case sampling[name] != "":
			dst = append(append(append(append(dst, `,"`...), sampling[name]...), `":`...), value...)
		case constraints[name] != "":
			if bound != "" {
				return nil, jsonfields.Bad(path, "only one of json_schema, regex, ebnf and structural_tag can be given, and there is %s", bound)
			}
			bound = name
			dst = append(append(append(dst, `,"structured_outputs":{"`...), constraints[name]...), `":`...)
			dst = append(append(dst, value...), '}')
		default:
			q.ignored.Add(path)
		}
	}
	return strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(a.most), 10), nil
}

// rest appends the other fields.
func (q *request) rest(dst []byte, a *answer) (_ []byte, err error) {
	if a.stream, err = q.flag("stream"); err != nil {
		return nil, err
	}
	if a.stream {
		dst = append(dst, `,"stream":true`...)
	}
	if v := q.fields["priority"]; v != nil {
		dst = append(append(dst, `,"priority":`...), v...)
	}
	v := q.fields["rid"]
	if v == nil {
		return dst, nil
	}
	if _, err := jsonfields.Text("rid", v); err != nil {
		return nil, err
	}
	return append(append(dst, `,"request_id":`...), v...), nil
}
