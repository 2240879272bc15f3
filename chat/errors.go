package chat

import "errors"

// Why a request was refused, for errors.Is. For a template that does not compile or fails
// while rendering it is one of package jinja's errors.
var (
	ErrUntrustedTemplate = errors.New("chat: untrusted chat template")
	ErrNoTemplate        = errors.New("chat: no chat template")
	ErrContinue          = errors.New("chat: the final message cannot be continued")
	ErrInvalid           = errors.New("chat: invalid request")
)

// Error is the type of all errors of Renderer.Render: the request cannot be turned into a
// prompt. The server answers 400 BadRequestError with Text, word for word
// (docs/interface/chat-completions.md, sections 1.6 and 3.4 to 3.7).
type Error struct {
	Text string
	// Err is one of this package's errors or a *jinja.Error.
	Err error
}

func (e *Error) Error() string { return "chat: " + e.Text }

func (e *Error) Unwrap() error { return e.Err }

// These texts are vLLM's and transformers', because clients may know them.
const (
	textUntrusted = "Chat template is passed with request, but --trust-request-chat-template is not set. " +
		"Refused request with untrusted chat template."
	textNoTemplate = "As of transformers v4.44, default chat template is no longer allowed, so you must provide a " +
		"chat template if the tokenizer does not define one."
	textBothPrompts = "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
	textNoText      = "continue_final_message is set but we could not find any text to continue in the final message!"
	textContinue    = "continue_final_message is set but the final message does not appear in the chat after applying " +
		"the chat template! This can happen if the chat template deletes portions of the final message. Please verify " +
		"the chat template and final message in your chat to ensure they are compatible."
)

func invalid(text string) *Error { return &Error{text, ErrInvalid} }
