package ollamaapi

import (
	"strconv"

	"weir/internal/jsontext"
	"weir/server/jsonfields"
	"weir/server/openai"
)

// generate returns the body of the chat completion that a request to /api/generate asks for, and how
// its prompt is made; nil: the model's template renders it.
func (q *request) generate(size int, m *openai.Model) (chat []byte, plain *openai.Plain, err error) {
	if err := q.refuse(); err != nil {
		return nil, nil, err
	}
	raw := false
	if v := q.fields["raw"]; v != nil {
		if raw, err = jsonfields.Bool("raw", v); err != nil {
			return nil, nil, err
		}
	}
	before, err := q.context(m)
	if err != nil {
		return nil, nil, err
	}
	system := ""
	if v := q.fields["system"]; v != nil {
		if system, err = jsonfields.Text("system", v); err != nil {
			return nil, nil, err
		}
	}
	if _, err := jsonfields.Text("prompt", q.fields["prompt"]); err != nil {
		return nil, nil, err
	}
	switch {
	case raw && (system != "" || len(before) > 0): // Ollama refuses these, too
		return nil, nil, jsonfields.Bad("raw", "a raw prompt is the whole prompt; leave system and context out")
	case raw:
		plain = &openai.Plain{Raw: true}
	case len(before) > 0:
		plain = &openai.Plain{Before: before}
	}
	dst := append(q.begin(make([]byte, 0, size)), `,"messages":[`...)
	if system != "" {
		dst = append(append(append(dst, `{"role":"system","content":`...), q.fields["system"]...), "},"...)
	}
	dst = append(append(append(dst, `{"role":"user","content":`...), q.fields["prompt"]...), "}]"...)
	dst, err = q.end(dst, m.MaxLen)
	return dst, plain, err
}

// refuse refuses what a generation cannot have here.
func (q *request) refuse() error {
	if v := q.fields["images"]; v != nil && !v.Empty() {
		return errImages("images")
	}
	given := func(name string) bool {
		v := q.fields[name]
		return v != nil && !(jsonfields.Kind(v) == jsontext.String && len(v) == 2)
	}
	if given("suffix") {
		return jsonfields.Bad("suffix", "the model does not support insertion; leave suffix out")
	}
	if given("template") {
		return jsonfields.Bad("template", "Ollama's templates are not read here, and prompts have the model's own; leave template out, or write the whole prompt and send it with raw")
	}
	return nil
}

// context reads the tokens of an earlier answer, which the prompt goes on from.
func (q *request) context(m *openai.Model) (ids []int32, err error) {
	v := q.fields["context"]
	switch {
	case v == nil:
		return nil, nil
	case jsonfields.Kind(v) != jsontext.Array:
		return nil, jsonfields.WrongType("context", "an array of tokens", v)
	}
	for i, e := range v.Elements() {
		path := jsonfields.At("context", i)
		id, err := jsonfields.Int(path, e, 0)
		switch {
		case err != nil:
			return nil, err
		case id >= m.VocabSize:
			return nil, jsonfields.Bad(path, "must be a token of the model, below %d, got %d; a context is what an earlier answer has returned", m.VocabSize, id)
		case len(ids) >= m.MaxLen:
			return nil, jsonfields.Bad("context", "has more than %d tokens, which is the context of the model; leave it out to begin anew", m.MaxLen)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// Plain says how the prompt is made; nil: the model's template renders it.
func (a *answer) Plain() *openai.Plain { return a.plain }

// Held returns the bytes that the answer keeps of its request.
func (a *answer) Held() int64 {
	if a.plain == nil {
		return 0
	}
	return 4 * int64(len(a.plain.Before))
}

// appendContext appends the tokens of prompt and answer, from which a later generation may go on.
func (a *answer) appendContext(dst []byte, w *openai.Whole) []byte {
	if !a.generates || a.plain != nil && a.plain.Raw {
		return dst
	}
	dst = append(dst, `,"context":[`...)
	for i, ids := range [][]int32{w.PromptIDs, w.IDs} {
		for j, id := range ids {
			if i+j > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
	}
	return append(dst, ']')
}
