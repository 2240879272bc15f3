package api

import (
	"cmp"
	"slices"
	"strconv"

	"weir/internal/jsontext"
)

// options is the part of docs/interface/chat-completions.md, section 2.1, that chat and completions share.
var options = []field[*Options]{
	{"model", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.Model, f = text(v); return }},
	{"frequency_penalty", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.FrequencyPenalty, f = number(v); return }},
	{"presence_penalty", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.PresencePenalty, f = number(v); return }},
	{"repetition_penalty", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) {
		r.RepetitionPenalty, f = optional(v, number)
		return
	}},
	{"logit_bias", nullable, decodeBias},
	{"prompt_logprobs", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.PromptLogprobs, f = optional(v, integer); return }},
	{"logprob_token_ids", nullable, func(r *Options, v Raw, lim *Limits) (f *fault) {
		if r.LogprobTokenIDs, f = list(v, lim.AllowedIDs, integer); len(r.LogprobTokenIDs) == 0 {
			r.LogprobTokenIDs = nil
		}
		return f
	}},
	{"thinking_token_budget", nullable, decodeThinkingBudget},
	{"max_tokens", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.MaxTokens, f = optional(v, integer); return }},
	{"min_tokens", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.MinTokens, f = integer(v); return }},
	{"n", nullable, decodeN},
	{"seed", nullable, decodeSeed},
	{"stop", nullable, decodeStop},
	{"stop_token_ids", nullable, func(r *Options, v Raw, lim *Limits) (f *fault) {
		r.StopTokenIDs, f = list(v, lim.StopTokenIDs, integer)
		return
	}},
	{"include_stop_str_in_output", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.IncludeStop, f = boolean(v); return }},
	{"ignore_eos", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.IgnoreEOS, f = boolean(v); return }},
	{"stream", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.Stream, f = boolean(v); return }},
	{"stream_options", nullable, decodeStreamOptions},
	{"stream_interval", nullable, decodeStreamInterval},
	{"temperature", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.Temperature, f = optional(v, number); return }},
	{"top_p", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.TopP, f = optional(v, number); return }},
	{"top_k", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.TopK, f = optional(v, integer); return }},
	{"min_p", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.MinP, f = optional(v, number); return }},
	{"length_penalty", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.LengthPenalty, f = number(v); return }},
	{"allowed_token_ids", nullable, func(r *Options, v Raw, lim *Limits) (f *fault) {
		r.AllowedTokenIDs, f = list(v, lim.AllowedIDs, integer)
		return
	}},
	{"bad_words", notNull, func(r *Options, v Raw, lim *Limits) (f *fault) {
		r.BadWords, f = list(v, lim.BadWords, text)
		return
	}},
	{"response_format", nullable, decodeResponseFormat},
	{"structured_outputs", nullable, decodeStructuredOutputs},
	{"skip_special_tokens", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.SkipSpecialTokens, f = boolean(v); return }},
	{"spaces_between_special_tokens", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.SpacesBetweenSpecial, f = boolean(v); return }},
	{"truncate_prompt_tokens", nullable, decodeTruncate},
	{"truncation_side", nullable, decodeTruncationSide},
	{"priority", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.Priority, f = integer(v); return }},
	{"request_id", notNull, func(r *Options, v Raw, _ *Limits) (f *fault) { r.RequestID, f = optional(v, text); return }},
	{"return_tokens_as_token_ids", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) {
		r.ReturnTokensAsIDs, f = optional(v, boolean)
		return
	}},
	{"return_token_ids", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.ReturnTokenIDs, f = boolean(v); return }},
	{"cache_salt", nullable, decodeSalt},
	{"kv_transfer_params", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.KVTransferParams, f = object(v); return }},
	{"repetition_detection", nullable, decodeRepetition},
	{"user", nullable, func(r *Options, v Raw, _ *Limits) (f *fault) { r.User, f = text(v); return }},
}

func decodeBias(r *Options, v Raw, lim *Limits) *fault {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	for key, value := range v.Members() {
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

func decodeN(r *Options, v Raw, lim *Limits) (f *fault) {
	if r.N, f = integer(v); f == nil && r.N > lim.Choices {
		r.late.choices = outOfRange("n must be at most %d, got %d.", lim.Choices, r.N)
	}
	return f
}

func decodeSeed(r *Options, v Raw, _ *Limits) *fault {
	seed, f := clamped(v)
	if f == nil && seed != -1 {
		r.Seed = &seed
	}
	return f
}

func decodeStop(r *Options, v Raw, lim *Limits) (f *fault) {
	if v.Kind() == jsontext.String {
		r.Stop = []string{v.Text()}
	} else if v.Kind() != jsontext.Array {
		return wrongType("a string or an array of strings", v)
	} else if r.Stop, f = list(v, lim.Stop, text); f != nil {
		return f
	}
	total := 0
	for _, s := range r.Stop {
		if total += len(s); total > lim.StopBytes {
			return faultf("must have at most %d bytes in all stop strings together", lim.StopBytes)
		}
	}
	return nil
}

func decodeStreamOptions(r *Options, v Raw, _ *Limits) (f *fault) {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	if u := v.Member("include_usage"); u.Given() {
		if r.IncludeUsage, f = boolean(u); f != nil {
			return f.in("include_usage")
		}
	}
	if u := v.Member("continuous_usage_stats"); u.Given() {
		if r.ContinuousUsage, f = boolean(u); f != nil {
			return f.in("continuous_usage_stats")
		}
	}
	r.ContinuousUsage = r.ContinuousUsage && r.IncludeUsage
	return nil
}

func decodeStreamInterval(r *Options, v Raw, _ *Limits) (f *fault) {
	if r.StreamInterval, f = integer(v); f == nil && r.StreamInterval < 1 {
		return faultf("must be 1 or more, got %s", clip(v))
	}
	return f
}

func decodeThinkingBudget(r *Options, v Raw, _ *Limits) *fault {
	n, f := integer(v)
	switch {
	case f != nil:
		return f
	case n < -1:
		return faultf("must be a non-negative integer, or -1 for unlimited, got %s", clip(v))
	case n >= 0:
		r.ThinkingBudget = &n
	}
	return nil
}

func decodeTruncate(r *Options, v Raw, _ *Limits) (f *fault) {
	r.TruncatePrompt, f = optional(v, clamped)
	if f == nil && *r.TruncatePrompt < -1 {
		return faultf("must be -1 or more, got %s", clip(v))
	}
	return f
}

func decodeTruncationSide(r *Options, v Raw, _ *Limits) *fault {
	side, f := text(v)
	if f == nil && side != "left" && side != "right" {
		f = faultf("must be 'left' or 'right', got %s", clip(v))
	}
	r.TruncateRight = side == "right"
	return f
}

func decodeSalt(r *Options, v Raw, _ *Limits) *fault {
	if v.Kind() != jsontext.String || len(v) == len(`""`) {
		return faultf("Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	s := v.Text()
	r.CacheSalt = &s
	return nil
}

func decodeRepetition(r *Options, v Raw, lim *Limits) *fault {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	var d RepetitionDetection
	for _, p := range []struct {
		name string
		to   *int
	}{{"max_pattern_size", &d.MaxSize}, {"min_pattern_size", &d.MinSize}, {"min_count", &d.Count}} {
		value := v.Member(p.name)
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

// defaultOptions are those of a body that says nothing.
func defaultOptions() Options {
	return Options{N: 1, LengthPenalty: 1, SkipSpecialTokens: true, SpacesBetweenSpecial: true}
}

func (r *Options) checkPromptLogprobs() *Error {
	switch n := r.PromptLogprobs; {
	case n == nil:
	case r.Stream && (*n > 0 || *n == -1):
		return newError(causePromptLogprobs, "`prompt_logprobs` are not available when `stream=True`.", nil)
	case *n < -1:
		return newError(causePromptLogprobs, "`prompt_logprobs` must be a positive value or -1.", *n)
	}
	return nil
}

// checkLogprobTokens looks at logprob_token_ids beside logprobs, which are said to be on by
// how.
func (r *Options) checkLogprobTokens(how string) *Error {
	if r.LogprobTokenIDs != nil && !r.Logprobs {
		return newError(causeLogprobTokens, "when using `logprob_token_ids`, `logprobs` must be set"+how+".", nil)
	}
	return nil
}

// checkStreamOptions looks at stream_options as they were sent.
func (r *Options) checkStreamOptions(sent Raw) *Error {
	if r.Stream {
		return nil
	}
	if !sent.Empty() {
		return newError(causeStreamOptions, "Stream options can only be defined when `stream=True`.", nil)
	}
	r.IncludeUsage, r.ContinuousUsage = false, false
	return nil
}
