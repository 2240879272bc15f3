package api

import "fmt"

// The constructors: one per situation that somebody outside this package
// detects, with the texts of the specification. They never return nil.

// ErrContentType answers a request whose body is not announced as JSON.
func ErrContentType() *Error {
	return newError(causeContentType, "Unsupported Media Type: Only 'application/json' is allowed", nil)
}

// ErrModelNotFound answers a request for a model that is not served.
func ErrModelNotFound(name string) *Error {
	// The one text with a parameter and without the suffix, as in spec 2.2.
	return bareError(causeModel, "The model `"+clipName(name)+"` does not exist.")
}

// clipName keeps a model's name whole in any sane case.
func clipName(name string) string {
	if len(name) > 256 {
		return clip([]byte(name))
	}
	return name
}

// ErrTemplate reports a template that failed, with its own words.
func ErrTemplate(detail string) *Error { return newError(causeTemplate, detail, nil) }

// ErrNotMultimodal answers media for a model that takes text.
func ErrNotMultimodal(model string) *Error {
	return newError(causeMedia, clipName(model)+" is not a multimodal model", nil)
}

// ErrProject answers a malformed Compat-Project header.
func ErrProject(value string) *Error {
	return newError(causeProject, fmt.Sprintf("Compat-Project must be <team>/<project>, got %q.", clip([]byte(value))), nil)
}

// ErrPriority answers a priority on a server that serves in order of arrival.
func ErrPriority(priority int) *Error {
	return newError(causePriority, fmt.Sprintf("Got priority %d but Priority scheduling is not enabled.", priority), priority)
}

// ErrOverContext says that max output tokens alone exceed the context of
// context tokens. param is the field that was sent (ChatRequest.MaxOutput).
func ErrOverContext(param string, tokens, context int) *Error {
	e := bareError(causeOverContext, fmt.Sprintf("%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", param, tokens, context))
	e.Param = &param
	e.addSuffix(tokens)
	return e
}

// ErrCharacters says, before tokenizing, that a prompt of that many characters
// cannot fit the context beside the output asked for.
func ErrCharacters(context, output, characters, most int) *Error {
	return newError(causeCharacters, fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d characters, more than the %d characters that can fit. Please reduce the length of the input prompt or the number of requested output tokens.",
		context, output, characters, most), characters)
}

// ErrTooComplex says that the tokenizer gave up on a text.
func ErrTooComplex() *Error {
	return newError(causeTooComplex, "The tokenizer needs too many steps to cut this text into words.", nil)
}

// ErrContextLength says that prompt and output do not fit the context together.
// atLeast: tokenizing stopped at prompt tokens, there may be more.
func ErrContextLength(context, output, prompt int, atLeast bool) *Error {
	s := ""
	if atLeast {
		s = "at least "
	}
	return newError(causeContext, fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %s%d input tokens, for a total of %s%d tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
		context, output, s, prompt, s, prompt+output), prompt)
}

// ErrTruncate says that truncate_prompt_tokens leaves no room for the output.
func ErrTruncate(tokens, room int) *Error {
	return newError(causeTruncate, fmt.Sprintf("truncate_prompt_tokens=%d cannot be greater than max_model_len - max_tokens = %d. Please request a smaller truncation size.", tokens, room), tokens)
}

// ErrEmptyPrompt says that rendering and truncation left no token.
func ErrEmptyPrompt() *Error {
	return newError(causeEmptyPrompt, "The decoder prompt cannot be empty", nil)
}

// ErrPromptIDs names the ids of a prompt outside a vocabulary of vocab tokens.
func ErrPromptIDs(ids []int, vocab int) *Error {
	return newError(causePromptIDs, fmt.Sprintf("Token id(s) %s are out of vocabulary. Vocabulary size: %d", python(ids), vocab), nil)
}

// ErrMaxTokens says that the effective output limit is below one.
func ErrMaxTokens(tokens int) *Error {
	return newError(causeMaxTokens, fmt.Sprintf("max_tokens must be at least 1, got %d.", tokens), tokens)
}

// ErrMinTokens says that min_tokens exceeds the effective output limit.
func ErrMinTokens(most, tokens int) *Error {
	return newError(causeMinTokens, fmt.Sprintf("min_tokens must be less than or equal to max_tokens=%d, got %d.", most, tokens), nil)
}

// ErrGreedyN says that more than one choice was asked of a greedy request.
func ErrGreedyN(n int) *Error {
	return newError(causeRange, fmt.Sprintf("n must be 1 when using greedy sampling, got %d.", n), nil)
}

// ErrMaxLogprobs says that top_logprobs exceeds the server's limit.
func ErrMaxLogprobs(n, most int) *Error {
	return newError(causeMaxLogprobs, fmt.Sprintf("Requested sample logprobs of %d, which is greater than max allowed: %d", n, most), n)
}

// ErrMaxPromptLogprobs says that prompt_logprobs exceeds the server's limit.
func ErrMaxPromptLogprobs(n, most int) *Error {
	return newError(causeMaxPromptLogprobs, fmt.Sprintf("Requested prompt logprobs of %d, which is greater than max allowed: %d", n, most), n)
}

// ErrLogitBias names the ids of logit_bias outside a vocabulary of vocab tokens.
func ErrLogitBias(ids []int, vocab int) *Error {
	return newError(causeBias, fmt.Sprintf("token_id(s) %s in logit_bias contain out-of-vocab token ids. Vocabulary size: %d", python(ids), vocab), ids)
}

// ErrAllowedTokenID says that allowed_token_ids has an id outside the vocabulary.
func ErrAllowedTokenID(ids []int) *Error {
	return newError(causeAllowed, "allowed_token_ids contains out-of-vocab token id!", ids)
}

// ErrStopTokenIDs names the ids of stop_token_ids outside a vocabulary of vocab tokens.
func ErrStopTokenIDs(ids []int, vocab int) *Error {
	return newError(causeStopIDs, fmt.Sprintf("token_id(s) %s in stop_token_ids contain out-of-vocab token ids. Vocabulary size: %d", python(ids), vocab), ids)
}

// ErrBadWord says that an entry of bad_words cannot be spelt with the vocabulary.
func ErrBadWord(word string) *Error {
	return newError(causeBadWords, "bad_words has an entry that the vocabulary cannot spell.", word)
}

// ErrConstraint refuses a constraint that does not compile, in the words for its
// kind; detail says why and may be "".
func ErrConstraint(kind ConstraintKind, detail string) *Error {
	switch kind {
	case ConstraintRegex:
		return newError(causeConstraint, "Failed to transform regex into a grammar: "+detail, nil)
	case ConstraintJSON, ConstraintJSONObject:
		return newError(causeConstraint, "Failed to transform json schema into a grammar: "+detail, nil)
	case ConstraintTag:
		return newError(causeConstraint, withDetail("Invalid structural tag specification.", detail), nil)
	}
	return newError(causeConstraint, withDetail("Invalid grammar specification.", detail), nil)
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " " + detail
}

// ErrPermission says what the key may not do.
func ErrPermission(text string) *Error { return newError(causePermission, text, nil) }

// ErrTooLarge answers a body of more than limit bytes.
func ErrTooLarge(limit int) *Error {
	return newError(causeTooLarge, fmt.Sprintf("Request body too large (limit %d bytes).", limit), nil)
}

// ErrUnavailable says why the server takes no work now.
func ErrUnavailable(text string) *Error { return newError(causeUnavailable, text, nil) }

// ErrInternal answers every fault of our own; the cause belongs in the log.
func ErrInternal() *Error { return newError(causeInternal, "Internal server error", nil) }
