package api

import (
	"slices"
	"strconv"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
)

// TokenizeRequest is a decoded body of POST /tokenize (docs/interface/chat-completions.md,
// section 17.2): a text, or a chat whose prompt is rendered as POST /v1/chat/completions
// would.
type TokenizeRequest struct {
	ChatRequest         // of it what makes a prompt; the chat form alone has messages
	Prompt      *string // nil: the chat form
	TokenStrs   bool    // return_token_strs
}

// tokenizeFields are those of chat that decide about the prompt, and three more.
var tokenizeFields = slices.Concat(lift(pick(fields, "messages", "model", "add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template",
	"chat_template_kwargs", "mm_processor_kwargs", "tools", "documents", "reasoning_effort"), func(r *TokenizeRequest) *ChatRequest { return &r.ChatRequest }), []field[*TokenizeRequest]{
	{"prompt", notNull, func(r *TokenizeRequest, v Raw, _ *Limits) (f *fault) { r.Prompt, f = optional(v, sharedText); return }},
	{"return_token_strs", nullable, func(r *TokenizeRequest, v Raw, _ *Limits) (f *fault) { r.TokenStrs, f = boolean(v); return }},
})

var tokenizeIndex = index(tokenizeFields)

// pick selects fields. None is required any more: which are depends on the form.
func pick(from []field[*ChatRequest], names ...string) []field[*ChatRequest] {
	var out []field[*ChatRequest]
	for _, f := range from {
		if slices.Contains(names, f.name) {
			f.null = min(f.null, notNull)
			out = append(out, f)
		}
	}
	return out
}

// DecodeTokenize reads a body of POST /tokenize, as DecodeChat does. Of the chat
// form CheckPrompt has the rest to say. Prompt shares the memory of the body.
func DecodeTokenize(body []byte, lim Limits) (*TokenizeRequest, *Error) {
	r := &TokenizeRequest{ChatRequest: ChatRequest{Options: defaultOptions(), AddGenerationPrompt: true}}
	values, err := decode(body, r, tokenizeFields, tokenizeIndex, &lim)
	if err != nil {
		return nil, err
	}
	sent := func(name string) Raw { return values[tokenizeIndex[name]] }
	switch {
	case r.Prompt != nil && sent("messages") != nil:
		return nil, faultf("a request has either prompt or messages").in("prompt").error()
	case r.Prompt == nil && sent("messages") == nil:
		return nil, faultf("field required").in("prompt").error()
	}
	if r.Prompt != nil && sent("add_special_tokens") == nil {
		r.AddSpecialTokens = true // unlike a chat, whose template spells them out
	}
	if err := r.checkGenerationPrompt(sent("add_generation_prompt")); err != nil {
		return nil, err
	}
	return r, nil
}

// Tokenized is the answer of POST /tokenize.
type Tokenized struct {
	Tokens      []int32
	MaxModelLen int
	Strs        func(id int32) string // the vocabulary's spelling of a token; nil: token_strs is null
}

// Size returns the number of bytes that the answer takes at most.
func (t *Tokenized) Size() int {
	n := 128 + lengthOfIDs(t.Tokens)
	if t.Strs != nil {
		for _, id := range t.Tokens {
			n += jsontext.MaxLen(t.Strs(id)) + len(",")
		}
	}
	return n
}

// AppendTokenized appends the body of the answer.
func AppendTokenized(dst []byte, t *Tokenized) []byte {
	dst = append(dst, `{"count":`...)
	dst = strconv.AppendInt(dst, int64(len(t.Tokens)), 10)
	dst = append(dst, `,"max_model_len":`...)
	dst = strconv.AppendInt(dst, int64(t.MaxModelLen), 10)
	dst = append(dst, `,"tokens":`...)
	dst = appendIDs(dst, t.Tokens)
	dst = append(dst, `,"token_strs":`...)
	if t.Strs == nil {
		return append(dst, `null}`...)
	}
	dst = append(dst, '[')
	for i, id := range t.Tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, t.Strs(id))
	}
	return append(dst, `]}`...)
}

// DetokenizeRequest is a decoded body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string
	Tokens []int // none negative
}

var detokenizeFields = []field[*DetokenizeRequest]{
	{"model", nullable, func(r *DetokenizeRequest, v Raw, _ *Limits) (f *fault) { r.Model, f = text(v); return }},
	{"tokens", required, func(r *DetokenizeRequest, v Raw, lim *Limits) (f *fault) { r.Tokens, f = decodeIDs(v, lim); return }},
}

var detokenizeIndex = index(detokenizeFields)

// DecodeDetokenize reads a body of POST /detokenize, as DecodeChat does.
func DecodeDetokenize(body []byte, lim Limits) (*DetokenizeRequest, *Error) {
	r := &DetokenizeRequest{}
	if _, err := decode(body, r, detokenizeFields, detokenizeIndex, &lim); err != nil {
		return nil, err
	}
	return r, nil
}

// SizeDetokenized returns the number of bytes that the answer takes at most.
func SizeDetokenized(text string) int { return 32 + jsontext.MaxLen(text) }

// AppendDetokenized appends the answer of POST /detokenize.
func AppendDetokenized(dst []byte, text string) []byte {
	dst = append(dst, `{"prompt":`...)
	dst = AppendString(dst, text)
	return append(dst, '}')
}

func appendIDs(dst []byte, ids []int32) []byte {
	if len(ids) > manyIDs {
		dst = longcopy.Grow(dst, lengthOfIDs(ids)+1024) // and what follows
	}
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// manyIDs is the length of a list of ids from which on appendIDs makes room for it first, and
// does not leave that to append (see [weir/internal/longcopy]).
const manyIDs = 1 << 16

// lengthOfIDs is the number of bytes that appendIDs appends.
func lengthOfIDs(ids []int32) int {
	n := len("[]") + len(ids)
	for _, id := range ids {
		for n++; id >= 10; id /= 10 {
			n++
		}
	}
	return n
}
