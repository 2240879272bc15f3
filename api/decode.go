package api

import (
	"cmp"
	"slices"
	"strconv"
)

// DecodeChat reads a body of POST /v1/chat/completions: stages 3 and 5 of spec
// 1.2. What later stages have to say of it is left to CheckPrompt and
// CheckSampling, so that an unknown model (404) outranks them.
//
// Of a repeated property the last one counts; unknown ones are ignored. Faults
// are reported in the order of the fields table, the first one only. Body is
// kept by the Raw fields of the request and must not change while those live.
func DecodeChat(body []byte, lim Limits) (*ChatRequest, *Error) {
	if err := scan(body, lim.Depth); err != nil {
		return nil, syntaxError(body, err)
	}
	top := trim(body)
	if top.kind() != kindObject {
		return nil, faultf("must be an object, not %s", top.kind()).in("body").error()
	}
	var values [len(fields)]Raw
	for key, v := range top.members() {
		if i, ok := fieldIndex[string(key)]; ok {
			values[i] = v
		}
	}
	r := &ChatRequest{
		N: 1, LengthPenalty: 1, IncludeReasoning: true, SkipSpecialTokens: true, SpacesBetweenSpecial: true,
		AddGenerationPrompt: true, ParallelToolCalls: true,
	}
	for i := range fields {
		f, v := &fields[i], values[i]
		switch {
		case v == nil && f.null == required:
			return nil, faultf("field required").in(f.name).error()
		case v == nil || v.kind() == kindNull && f.null == nullable:
		case v.kind() == kindNull:
			return nil, faultf("must not be null").in(f.name).error()
		default:
			if fault := f.decode(r, v, &lim); fault != nil {
				return nil, fault.in(f.name).error()
			}
		}
	}
	if err := r.crossCheck(&values); err != nil {
		return nil, err
	}
	return r, nil
}

// syntaxError says where in the terms of an editor, and as an offset.
func syntaxError(body []byte, err *SyntaxError) *Error {
	line, column := 1, 1
	for _, c := range body[:err.Offset] {
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return newError(causeSyntax, "JSON decode error: "+err.Reason+": line "+strconv.Itoa(line)+
		" column "+strconv.Itoa(column)+" (byte "+strconv.Itoa(err.Offset)+")", nil)
}

// nulls says what JSON null means for a field.
type nulls uint8

const (
	nullable nulls = iota // the same as absent
	notNull               // an error, although the field may be absent
	required
)

type field struct {
	name   string
	null   nulls
	decode func(r *ChatRequest, v Raw, lim *Limits) *fault
}

// fields is the matrix of spec 2.1. An alias stands before its field, which
// overwrites what the alias left.
var fields = [...]field{
	{"messages", required, decodeMessages},
	{"model", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Model, f = text(v); return }},
	{"frequency_penalty", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.FrequencyPenalty, f = number(v); return }},
	{"presence_penalty", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.PresencePenalty, f = number(v); return }},
	{"repetition_penalty", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
		r.RepetitionPenalty, f = optional(v, number)
		return
	}},
	{"logit_bias", nullable, decodeBias},
	{"logprobs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Logprobs, f = boolean(v); return }},
	{"top_logprobs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.TopLogprobs, f = integer(v); return }},
	{"prompt_logprobs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.PromptLogprobs, f = optional(v, integer); return }},
	{"max_tokens", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.MaxTokens, f = optional(v, integer); return }},
	{"max_completion_tokens", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
		r.MaxCompletionTokens, f = optional(v, integer)
		return
	}},
	{"min_tokens", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.MinTokens, f = integer(v); return }},
	{"n", nullable, decodeN},
	{"seed", nullable, decodeSeed},
	{"stop", nullable, decodeStop},
	{"stop_token_ids", nullable, func(r *ChatRequest, v Raw, lim *Limits) (f *fault) {
		r.StopTokenIDs, f = list(v, lim.StopTokenIDs, integer)
		return
	}},
	{"include_stop_str_in_output", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.IncludeStop, f = boolean(v); return }},
	{"ignore_eos", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.IgnoreEOS, f = boolean(v); return }},
	{"stream", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Stream, f = boolean(v); return }},
	{"stream_options", nullable, decodeStreamOptions},
	{"temperature", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Temperature, f = optional(v, number); return }},
	{"top_p", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.TopP, f = optional(v, number); return }},
	{"top_k", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.TopK, f = optional(v, integer); return }},
	{"min_p", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.MinP, f = optional(v, number); return }},
	{"length_penalty", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.LengthPenalty, f = number(v); return }},
	{"allowed_token_ids", nullable, func(r *ChatRequest, v Raw, lim *Limits) (f *fault) {
		r.AllowedTokenIDs, f = list(v, lim.AllowedIDs, integer)
		return
	}},
	{"bad_words", notNull, func(r *ChatRequest, v Raw, lim *Limits) (f *fault) {
		r.BadWords, f = list(v, lim.BadWords, text)
		return
	}},
	{"response_format", nullable, decodeResponseFormat},
	{"structured_outputs", nullable, decodeStructuredOutputs},
	{"tools", nullable, decodeTools},
	{"tool_choice", nullable, decodeToolChoice},
	{"parallel_tool_calls", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ParallelToolCalls, f = boolean(v); return }},
	{"reasoning_effort", nullable, decodeEffort},
	{"include_reasoning", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.IncludeReasoning, f = boolean(v); return }},
	{"echo", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Echo, f = boolean(v); return }},
	{"add_generation_prompt", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.AddGenerationPrompt, f = boolean(v); return }},
	{"continue_final_message", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ContinueFinalMessage, f = boolean(v); return }},
	{"add_special_tokens", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.AddSpecialTokens, f = boolean(v); return }},
	{"documents", nullable, decodeDocuments},
	{"chat_template", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ChatTemplate, f = optional(v, text); return }},
	{"chat_template_kwargs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ChatTemplateKwargs, f = object(v); return }},
	{"mm_processor_kwargs", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.MMProcessorKwargs, f = object(v); return }},
	{"skip_special_tokens", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.SkipSpecialTokens, f = boolean(v); return }},
	{"spaces_between_special_tokens", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.SpacesBetweenSpecial, f = boolean(v); return }},
	{"truncate_prompt_tokens", nullable, decodeTruncate},
	{"priority", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.Priority, f = integer(v); return }},
	{"request_id", notNull, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.RequestID, f = optional(v, text); return }},
	{"return_tokens_as_token_ids", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
		r.ReturnTokensAsIDs, f = optional(v, boolean)
		return
	}},
	{"return_token_ids", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.ReturnTokenIDs, f = boolean(v); return }},
	{"cache_salt", nullable, decodeSalt},
	{"kv_transfer_params", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.KVTransferParams, f = object(v); return }},
	{"vllm_xargs", nullable, decodeXArgs},
	{"engine_xargs", nullable, decodeXArgs},
	{"repetition_detection", nullable, decodeRepetition},
	{"user", nullable, func(r *ChatRequest, v Raw, _ *Limits) (f *fault) { r.User, f = text(v); return }},
}

var fieldIndex = func() map[string]int {
	m := make(map[string]int, len(fields))
	for i := range fields {
		m[fields[i].name] = i
	}
	return m
}()

// crossCheck applies the rules between fields, on given values where the rule
// is about what the client wrote and not about what came out.
func (r *ChatRequest) crossCheck(values *[len(fields)]Raw) *Error {
	sent := func(name string) Raw { return values[fieldIndex[name]] }
	switch {
	case r.Stream && r.PromptLogprobs != nil && (*r.PromptLogprobs > 0 || *r.PromptLogprobs == -1):
		return newError(causePromptLogprobs, "`prompt_logprobs` are not available when `stream=True`.", nil)
	case r.PromptLogprobs != nil && *r.PromptLogprobs < -1:
		return newError(causePromptLogprobs, "`prompt_logprobs` must be a positive value or -1.", *r.PromptLogprobs)
	case r.TopLogprobs < -1:
		return newError(causeTopLogprobs, "`top_logprobs` must be a positive value or -1.", r.TopLogprobs)
	case r.TopLogprobs != 0 && !r.Logprobs:
		return newError(causeTopLogprobs, "when using top_logprobs, logprobs must be set to true.", nil)
	case !r.Stream && !sent("stream_options").empty():
		return newError(causeStreamOptions, "Stream options can only be defined when `stream=True`.", nil)
	case sent("add_generation_prompt") != nil && r.AddGenerationPrompt && r.ContinueFinalMessage:
		return newError(causeSchema, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.", nil)
	}
	if r.ContinueFinalMessage {
		r.AddGenerationPrompt = false // absent counts as false here (spec 23)
	}
	top := sent("top_logprobs")
	if top != nil && !top.given() {
		// Surprising but relied upon: null does not mean the default 0 (spec 7.1).
		r.Logprobs = false
	} else if r.Echo && r.PromptLogprobs == nil {
		n := r.TopLogprobs
		r.PromptLogprobs = &n
	}
	if !r.Stream {
		r.IncludeUsage, r.ContinuousUsage = false, false
	}
	return nil
}

// empty reports whether v is absent, null or {}.
func (v Raw) empty() bool {
	if !v.given() {
		return true
	}
	for range v.members() {
		return false
	}
	return true
}

// lookup returns the last property of that name of an object, nil if v is nil
// or has none.
func (v Raw) lookup(name string) (found Raw) {
	if v == nil {
		return nil
	}
	for key, value := range v.members() {
		if string(key) == name {
			found = value
		}
	}
	return found
}

func decodeBias(r *ChatRequest, v Raw, lim *Limits) *fault {
	if v.kind() != kindObject {
		return wrongType("an object", v)
	}
	for key, value := range v.members() {
		bias, f := number(value)
		if f != nil {
			return f.in(clip(key))
		}
		token, err := strconv.Atoi(string(key))
		if err != nil {
			if r.late.bias == nil {
				r.late.bias = outOfRange("logit_bias keys must be token ids in decimal, got %q.", clip(key))
			}
			continue
		}
		if len(r.LogitBias) == lim.LogitBias {
			return faultf("must have at most %d entries", lim.LogitBias)
		}
		r.LogitBias = append(r.LogitBias, TokenBias{token, max(-100, min(bias, 100))})
	}
	// The last entry of a token wins, as it would in a map.
	slices.SortStableFunc(r.LogitBias, func(a, b TokenBias) int { return cmp.Compare(a.Token, b.Token) })
	kept := r.LogitBias[:0]
	for i, b := range r.LogitBias {
		if i+1 == len(r.LogitBias) || r.LogitBias[i+1].Token != b.Token {
			kept = append(kept, b)
		}
	}
	r.LogitBias = kept
	return nil
}

func decodeN(r *ChatRequest, v Raw, lim *Limits) (f *fault) {
	if r.N, f = integer(v); f == nil && r.N > lim.Choices {
		r.late.choices = outOfRange("n must be at most %d, got %d.", lim.Choices, r.N)
	}
	return f
}

func decodeSeed(r *ChatRequest, v Raw, _ *Limits) *fault {
	seed, f := clamped(v)
	if f == nil && seed != -1 {
		r.Seed = &seed
	}
	return f
}

func decodeStop(r *ChatRequest, v Raw, lim *Limits) (f *fault) {
	if v.kind() == kindString {
		r.Stop = []string{v.text()}
		return nil
	}
	if v.kind() != kindArray {
		return wrongType("a string or an array of strings", v)
	}
	r.Stop, f = list(v, lim.Stop, text)
	return f
}

func decodeStreamOptions(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
	if v.kind() != kindObject {
		return wrongType("an object", v)
	}
	r.IncludeUsage = true
	if u := v.lookup("include_usage"); u != nil {
		if r.IncludeUsage = false; u.given() {
			if r.IncludeUsage, f = boolean(u); f != nil {
				return f.in("include_usage")
			}
		}
	}
	if u := v.lookup("continuous_usage_stats"); u.given() {
		if r.ContinuousUsage, f = boolean(u); f != nil {
			return f.in("continuous_usage_stats")
		}
	}
	r.ContinuousUsage = r.ContinuousUsage && r.IncludeUsage
	return nil
}

func decodeEffort(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
	if r.ReasoningEffort, f = text(v); f != nil {
		return f
	}
	switch r.ReasoningEffort {
	case "low", "medium", "high":
		return nil
	}
	return faultf("must be 'low', 'medium' or 'high', got %s", clip(v))
}

func decodeToolChoice(r *ChatRequest, v Raw, _ *Limits) *fault {
	if v.kind() != kindString || v.text() != "none" {
		r.late.toolChoice = newError(causeToolChoice, "tool_choice must be \"none\": this server does not parse tool calls.", clip(v))
	}
	return nil
}

// decodeTools keeps the definitions as sent, extra keys and key order included:
// the template shows them to the model.
func decodeTools(r *ChatRequest, v Raw, lim *Limits) *fault {
	if len(v) > lim.ToolBytes {
		return faultf("must be at most %d bytes long", lim.ToolBytes)
	}
	if v.kind() != kindArray {
		return wrongType("an array", v)
	}
	for i, e := range v.elements() {
		if f := checkTool(e); f != nil {
			return f.index(i)
		}
		r.Tools = v
	}
	return nil
}

func checkTool(v Raw) *fault {
	if v.kind() != kindObject {
		return wrongType("an object", v)
	}
	var typ, function, name, description, parameters Raw
	for key, value := range v.members() {
		switch string(key) {
		case "type":
			typ = value
		case "function":
			function = value
		}
	}
	if typ != nil && (typ.kind() != kindString || typ.text() != "function") {
		return faultf("must be \"function\"").in("type")
	}
	if function == nil || function.kind() != kindObject {
		return faultf("must be an object").in("function")
	}
	for key, value := range function.members() {
		switch string(key) {
		case "name":
			name = value
		case "description":
			description = value
		case "parameters":
			parameters = value
		}
	}
	var f *fault
	switch {
	case name == nil || name.kind() != kindString:
		f = faultf("must be a string").in("name")
	case description.given() && description.kind() != kindString:
		f = wrongType("a string", description).in("description")
	case parameters.given() && parameters.kind() != kindObject:
		f = wrongType("an object", parameters).in("parameters")
	}
	return f.in("function")
}

// decodeDocuments takes objects of any JSON values: the reference takes strings
// alone, against the interface document (spec 23).
func decodeDocuments(r *ChatRequest, v Raw, _ *Limits) *fault {
	if v.kind() != kindArray {
		return wrongType("an array", v)
	}
	for i, e := range v.elements() {
		if e.kind() != kindObject {
			return wrongType("an object", e).index(i)
		}
	}
	r.Documents = v
	return nil
}

func decodeTruncate(r *ChatRequest, v Raw, _ *Limits) (f *fault) {
	r.TruncatePrompt, f = optional(v, clamped)
	if f == nil && *r.TruncatePrompt < -1 {
		return faultf("must be -1 or more, got %s", clip(v))
	}
	return f
}

func decodeSalt(r *ChatRequest, v Raw, _ *Limits) *fault {
	if v.kind() != kindString || len(v) == len(`""`) {
		return faultf("Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	s := v.text()
	r.CacheSalt = &s
	return nil
}

func decodeXArgs(r *ChatRequest, v Raw, _ *Limits) *fault {
	if v.kind() != kindObject {
		return wrongType("an object", v)
	}
	for key, value := range v.members() {
		switch value.kind() {
		case kindNull, kindObject:
			return wrongType("a string, a number or an array of these", value).in(clip(key))
		case kindArray:
			for i, e := range value.elements() {
				switch e.kind() {
				case kindNull, kindObject, kindArray:
					return wrongType("a string or a number", e).index(i).in(clip(key))
				}
			}
		}
	}
	r.EngineXArgs = v
	return nil
}

func decodeRepetition(r *ChatRequest, v Raw, lim *Limits) *fault {
	if v.kind() != kindObject {
		return wrongType("an object", v)
	}
	var d RepetitionDetection
	for _, p := range []struct {
		name string
		to   *int
	}{{"max_pattern_size", &d.MaxSize}, {"min_pattern_size", &d.MinSize}, {"min_count", &d.Count}} {
		value := v.lookup(p.name)
		if value == nil {
			continue
		}
		n, f := integer(value)
		if f != nil {
			return f.in(p.name)
		}
		*p.to = n
	}
	switch {
	case d.MaxSize < 0 || d.MinSize < 0 || d.MinSize > d.MaxSize:
		return faultf("max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. Got max_pattern_size=%d, min_pattern_size=%d.", d.MaxSize, d.MinSize)
	case d.MaxSize == 0:
		return nil
	case d.Count < 2:
		return faultf("min_count must be >= 2 to detect repetitive patterns in engine output. Got min_count=%d.", d.Count)
	case max(d.MaxSize, d.Count) > lim.Repetition:
		return faultf("max_pattern_size and min_count must be at most %d.", lim.Repetition)
	}
	d.MinSize = max(1, d.MinSize)
	r.RepetitionDetection = &d
	return nil
}
