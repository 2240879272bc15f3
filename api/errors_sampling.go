package api

import "fmt"

// The errors of sampling parameters and constraints that need the vocabulary, the length of
// the prompt or a setting.

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

// ErrLogprobTokens says that logprob_token_ids has more than most ids.
func ErrLogprobTokens(n, most int) *Error {
	return newError(causeLogprobIDs, fmt.Sprintf("Requested logprob_token_ids of length %d, which is greater than max allowed: %d", n, most), n)
}

// ErrLogprobTokenIDs names the ids of logprob_token_ids outside a vocabulary of vocab tokens.
func ErrLogprobTokenIDs(ids []int, vocab int) *Error {
	return newError(causeLogprobIDs, fmt.Sprintf("token_id(s) %s in logprob_token_ids contain out-of-vocab token ids. Vocabulary size: %d", python(ids), vocab), ids)
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

// ErrContinued says that the final message, which is to be continued, is not the beginning of
// an output that satisfies the constraint; detail says why not.
func ErrContinued(detail string) *Error {
	return newError(causeConstraint, "continue_final_message is set but the final message is not the beginning of an output that the constraint allows: "+detail, nil)
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " " + detail
}
