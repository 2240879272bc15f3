package api

import (
	"slices"

	"weir/internal/jsontext"
)

// DecodeChat reads a body of POST /v1/chat/completions. It makes the checks 3 and 5 of
// docs/interface/chat-completions.md, section 1.2. Later checks of the body are left to
// CheckPrompt and CheckSampling, so that the answer about an unknown model (404) can come
// before theirs.
//
// If a member is there more than once the last one counts; of unknown ones the names are kept (Options.Ignored), unless
// they would constrain the output. Only
// the first fault is reported, in the order of the fields table. Body is
// kept by the Raw fields of the request and must not change while those live.
func DecodeChat(body []byte, lim Limits) (*ChatRequest, *Error) {
	r := &ChatRequest{
		Options:          defaultOptions(),
		IncludeReasoning: true, AddGenerationPrompt: true, ParallelToolCalls: true,
	}
	values, err := decodeAll(body, r, fields, fieldIndex, &lim, r.stranger)
	if err != nil {
		return nil, err
	}
	if err := r.crossCheck(values); err != nil {
		return nil, err
	}
	return r, nil
}

// fields is the table of docs/interface/chat-completions.md, section 2.1. An alias
// comes before its field, which overwrites what the alias has set.
var fields = slices.Concat(lift(options, func(r *ChatRequest) *Options { return &r.Options }), []field[*ChatRequest]{
	{"messages", required, decodeMessages},
	{"logprobs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Logprobs, f = boolean(v); return }},
	{"top_logprobs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.TopLogprobs, f = integer(v); return }},
	{"max_completion_tokens", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
		r.MaxCompletionTokens, f = optional(v, integer)
		return
	}},
	{"functions", nullable, decodeFunctions},
	{"function_call", nullable, decodeFunctionCall},
	{"tools", nullable, decodeTools},
	{"tool_choice", nullable, decodeToolChoice},
	{"parallel_tool_calls", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ParallelToolCalls, f = boolean(v); return }},
	{"reasoning_effort", nullable, decodeEffort},
	{"include_reasoning", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.IncludeReasoning, f = boolean(v); return }},
	{"return_prompt_text", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ReturnPromptText, f = boolean(v); return }},
	{"echo", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Echo, f = boolean(v); return }},
	{"add_generation_prompt", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.AddGenerationPrompt, f = boolean(v); return }},
	{"continue_final_message", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ContinueFinalMessage, f = boolean(v); return }},
	{"add_special_tokens", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.AddSpecialTokens, f = boolean(v); return }},
	{"documents", nullable, decodeDocuments},
	{"chat_template", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ChatTemplate, f = optional(v, text); return }},
	{"chat_template_kwargs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ChatTemplateKwargs, f = object(v); return }},
	{"mm_processor_kwargs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.MMProcessorKwargs, f = object(v); return }},
	{"vllm_xargs", nullable, decodeXArgs},
	{"engine_xargs", nullable, decodeXArgs},
})

var fieldIndex = index(fields)

// crossCheck applies the rules between fields, on given values where the rule
// is about what the client wrote and not about what came out.
func (r *ChatRequest) crossCheck(values []Raw) *Error {
	sent := func(name string) Raw { return values[fieldIndex[name]] }
	if err := r.checkPromptLogprobs(); err != nil {
		return err
	}
	switch {
	case r.TopLogprobs < -1:
		return newError(causeTopLogprobs, "`top_logprobs` must be a positive value or -1.", r.TopLogprobs)
	case r.TopLogprobs != 0 && !r.Logprobs:
		return newError(causeTopLogprobs, "when using top_logprobs, logprobs must be set to true.", nil)
	}
	if err := r.checkLogprobTokens(" to true"); err != nil {
		return err
	}
	choice := sent("tool_choice")
	if choice == nil {
		choice = sent("function_call")
	}
	r.checkToolChoice(choice)
	if err := r.checkGenerationPrompt(sent("add_generation_prompt")); err != nil {
		return err
	}
	if err := r.checkStreamOptions(sent("stream_options")); err != nil {
		return err
	}
	if r.Echo && r.PromptLogprobs == nil {
		n := r.TopLogprobs
		r.PromptLogprobs = &n
	}
	return nil
}

// checkGenerationPrompt looks at add_generation_prompt as it was sent.
func (r *ChatRequest) checkGenerationPrompt(sent Raw) *Error {
	if sent != nil && r.AddGenerationPrompt && r.ContinueFinalMessage {
		return newError(causeSchema, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.", nil)
	}
	if r.ContinueFinalMessage {
		r.AddGenerationPrompt = false // absent counts as false here
	}
	return nil
}

func decodeEffort(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
	if r.ReasoningEffort, f = text(v); f != nil {
		return f
	}
	switch r.ReasoningEffort {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		return nil
	}
	return faultf("must be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max', got %s", clip(v))
}

// decodeDocuments takes objects of any JSON values: the reference takes strings
// alone, against the interface document.
func decodeDocuments(r *ChatRequest, v Raw, _ *Limits) *fault {
	if v.Kind() != jsontext.Array {
		return wrongType("an array", v)
	}
	for i, e := range v.Elements() {
		if e.Kind() != jsontext.Object {
			return wrongType("an object", e).index(i)
		}
	}
	r.Documents = v
	return nil
}

func decodeXArgs(r *ChatRequest, v Raw, _ *Limits) *fault { return r.decodeXArgs(v, true) }

// decodeXArgs reads arguments for extensions of the engine; only chat takes lists.
func (r *Options) decodeXArgs(v Raw, lists bool) *fault {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	for key, value := range v.Members() {
		switch value.Kind() {
		case jsontext.Null, jsontext.Object:
			return wrongType("a string, a number or an array of these", value).in(clip(key))
		case jsontext.Array:
			if !lists {
				return wrongType("a string or a number", value).in(clip(key))
			}
			for i, e := range value.Elements() {
				switch e.Kind() {
				case jsontext.Null, jsontext.Object, jsontext.Array:
					return wrongType("a string or a number", e).index(i).in(clip(key))
				}
			}
		}
	}
	r.EngineXArgs = v
	return nil
}
