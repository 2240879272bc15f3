package api

import (
	"bytes"
	"slices"

	"weir/internal/jsontext"
)

// CompletionRequest is a decoded body of POST /v1/completions
// (docs/interface/chat-completions.md, section 17.3). Echo puts the prompt in front of each choice, and its
// scores in front of theirs.
type CompletionRequest struct {
	Options
	Prompts []TextPrompt // at least one, none empty

	// PromptOnly says that echo was asked for with max_tokens 0: the answer is the
	// prompt, scored if asked for. One token has to be computed for that all the
	// same, so MaxTokens is 1.
	PromptOnly bool

	suffix bool
}

// TextPrompt is one prompt: a text, or the ids that a text would become.
type TextPrompt struct {
	Text string
	IDs  []int // nil: Text
}

// defaultMaxTokens is how long a completion may be that does not say.
const defaultMaxTokens = 16

var completionFields = slices.Concat(lift(options, func(r *CompletionRequest) *Options { return &r.Options }), []field[*CompletionRequest]{
	{"prompt", nullable, decodePrompts},
	{"suffix", nullable, func(r *CompletionRequest, v Raw, _ *Limits) *fault {
		_, f := text(v)
		r.suffix = true
		return f
	}},
	{"echo", nullable, func(r *CompletionRequest, v Raw, _ *Limits) (f *fault) { r.Echo, f = boolean(v); return }},
	{"logprobs", nullable, func(r *CompletionRequest, v Raw, _ *Limits) (f *fault) {
		r.Logprobs = true
		r.TopLogprobs, f = integer(v)
		return f
	}},
	{"add_special_tokens", notNull, func(r *CompletionRequest, v Raw, _ *Limits) (f *fault) { r.AddSpecialTokens, f = boolean(v); return }},
	{"vllm_xargs", nullable, func(r *CompletionRequest, v Raw, _ *Limits) *fault { return r.decodeXArgs(v, false) }},
	{"engine_xargs", nullable, func(r *CompletionRequest, v Raw, _ *Limits) *fault { return r.decodeXArgs(v, false) }},
})

var completionIndex = index(completionFields)

// DecodeCompletion reads a body of POST /v1/completions, as DecodeChat does. The texts of
// prompts share its memory: nothing may be written to it as long as they are in use.
// What later stages have to say is left to CheckPrompt and CheckSampling.
func DecodeCompletion(body []byte, lim Limits) (*CompletionRequest, *Error) {
	r := &CompletionRequest{Options: defaultOptions()}
	r.AddSpecialTokens = true
	values, err := decodeAll(body, r, completionFields, completionIndex, &lim, r.stranger)
	if err != nil {
		return nil, err
	}
	if err := r.checkPromptLogprobs(); err != nil {
		return nil, err
	}
	if r.TopLogprobs < -1 {
		return nil, newError(causeLogprobs, "`logprobs` must be a positive value or -1.", r.TopLogprobs)
	}
	if err := r.checkLogprobTokens(""); err != nil {
		return nil, err
	}
	if r.LogprobTokenIDs != nil && r.Echo && r.MaxTokens != nil && *r.MaxTokens == 0 {
		return nil, newError(causeLogprobTokens, "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output tokens are generated.", nil)
	}
	if err := r.checkStreamOptions(values[completionIndex["stream_options"]]); err != nil {
		return nil, err
	}
	if len(r.Prompts) == 0 {
		return nil, newError(causePrompt, "prompt must be provided and non-empty.", nil)
	}
	if r.N > lim.Prompts/len(r.Prompts) { // n below 1 is CheckSampling's
		return nil, newError(causePrompt, "the number of prompts times n must be at most "+python(lim.Prompts)+".", nil)
	}
	if r.MaxTokens == nil {
		n := defaultMaxTokens
		r.MaxTokens = &n
	}
	if r.Echo && *r.MaxTokens == 0 {
		*r.MaxTokens, r.PromptOnly = 1, true
	}
	if r.Echo && r.Logprobs && r.PromptLogprobs == nil {
		n := r.TopLogprobs
		r.PromptLogprobs = &n
	}
	return r, nil
}

// CheckPrompt returns the first violation of check 10 of
// docs/interface/chat-completions.md, section 1.2, that the body alone shows.
func (r *CompletionRequest) CheckPrompt() *Error {
	if r.suffix {
		return newError(causeSuffix, "suffix is not currently supported", nil)
	}
	return nil
}

// decodePrompts tells by the first element what an array is an array of.
func decodePrompts(r *CompletionRequest, v Raw, lim *Limits) (f *fault) {
	switch v.Kind() {
	case jsontext.String:
		if s := v.SharedText(); s != "" {
			r.Prompts = []TextPrompt{{Text: s}}
		}
		return nil
	case jsontext.Array:
	default:
		return wrongType("a string or an array", v)
	}
	var first jsontext.Kind
	for _, e := range v.Elements() {
		first = e.Kind()
		break
	}
	switch first {
	case 0:
		return nil
	case jsontext.String:
		r.Prompts, f = list(v, lim.Prompts, func(e Raw) (p TextPrompt, f *fault) { p.Text, f = sharedText(e); return })
	case jsontext.Array:
		r.Prompts, f = list(v, lim.Prompts, func(e Raw) (p TextPrompt, f *fault) {
			if p.IDs, f = decodeIDs(e, lim); f == nil && len(p.IDs) == 0 {
				f = faultf("must not be empty")
			}
			return
		})
	default:
		var p TextPrompt
		p.IDs, f = decodeIDs(v, lim)
		r.Prompts = []TextPrompt{p}
	}
	return f
}

var comma = []byte{','}

// decodeIDs reads token ids. Their number has no limit but the body's: how many
// a prompt may have is the context's affair.
func decodeIDs(v Raw, lim *Limits) ([]int, *fault) {
	if v.Kind() != jsontext.Array {
		return nil, wrongType("an array of token ids", v)
	}
	ids := make([]int, 0, bytes.Count(v, comma)+1) // a list that doubles would hold three times as much
	for i, e := range v.Elements() {
		if lim.stopped(i) {
			return nil, faultf("was not read to its end")
		}
		if e.Kind() != jsontext.Number {
			return nil, wrongType("a token id", e).index(i)
		}
		id, f := integer(e)
		if f == nil && id < 0 {
			f = faultf("must be 0 or more, got %s", clip(e))
		}
		if f != nil {
			return nil, f.index(i)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
