package api

import "fmt"

// The errors of a prompt that cannot be made or has the wrong length.

// ErrTemplate reports a template that failed, with its own words.
func ErrTemplate(detail string) *Error { return newError(causeTemplate, detail, nil) }

// ErrNotMultimodal answers media for a model that takes text.
func ErrNotMultimodal(model string) *Error {
	return newError(causeMedia, clipName(model)+" is not a multimodal model", nil)
}

// ErrCharacters says, before tokenizing, that a prompt of that many characters
// cannot fit the context: context tokens have at most most characters.
func ErrCharacters(context, characters, most int) *Error {
	return newError(causeCharacters, fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d characters (more than %d characters, which is the upper bound for %d input tokens). Please reduce the length of the input prompt.",
		context, characters, most, context), characters)
}

// ErrTooComplex says that the tokenizer gave up on a text.
func ErrTooComplex() *Error {
	return newError(causeTooComplex, "The tokenizer needs too many steps to cut this text into words.", nil)
}

// ErrContextLength says that a prompt is longer than the context.
func ErrContextLength(context, prompt int) *Error {
	return newError(causeContext, fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
		context, prompt), prompt)
}

// ErrTruncate says that truncate_prompt_tokens is more than the context.
func ErrTruncate(tokens, context int) *Error {
	return newError(causeTruncate, fmt.Sprintf("truncate_prompt_tokens=%d cannot be greater than max_model_len = %d. Please request a smaller truncation size.", tokens, context), tokens)
}

// ErrEmptyPrompt says that rendering and truncation left no token.
func ErrEmptyPrompt() *Error {
	return newError(causeEmptyPrompt, "The decoder prompt cannot be empty", nil)
}

// ErrPromptIDs names the ids of a prompt outside a vocabulary of vocab tokens.
func ErrPromptIDs(ids []int, vocab int) *Error {
	return newError(causePromptIDs, fmt.Sprintf("Token id(s) %s are out of vocabulary. Vocabulary size: %d", python(ids), vocab), nil)
}
