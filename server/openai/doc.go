// Package openai is the HTTP side of the OpenAI interface: chat completions, completions,
// models, tokenizing and rendering, over one model that can be published late.
//
//	service, err := openai.New(config, transport, recorder, counts)
//	err = service.SetModel(model)
//	service.ChatCompletions(call) // and the other functions, from a router
//
// # The path of a request
//
// ChatCompletions (chat.go) and Completions (completions.go) differ in how a body is
// prepared and in the form of the answer. What they have in common is generate.go:
//
//	body      generate.go   read by package transport
//	prepare   chat.go, completions.go, prepare.go, sampling.go
//	                        on a worker of the preparation queue: decode, check, render,
//	                        tokenize. Everything that a client can get wrong is found
//	                        here, before a status has been sent.
//	          preparing.go  the memory for that, reserved before it begins
//	constrain constrain.go  compiles a grammar, on a queue of its own, so that one which
//	                        takes seconds does not delay other requests; mask.go has
//	                        its state for a choice, which the engine calls
//	submit    generate.go   engine.SubmitAll, with all prompts of a request in one call
//	answer    complete.go   the whole answer at the end, or
//	          stream.go     server-sent events as tokens are generated
//
// A [Surface] (surface.go) is another interface that speaks of chats in its own words: its
// requests become chat completions, and its answers are made of what those say.
//
// An [answer] is the form of one of the functions: chatAnswer, textAnswer and surfaceAnswer. Its
// encoder writes the events of a stream. reasoning.go divides the text of a chat into
// thoughts and content. transcript.go gathers an answer for package recording.
//
// Embeddings (embeddings.go) is prepared like the others, and its answer is made of the vectors that the engine
// gives in place of tokens.
//
// The functions that need no engine end after their preparation: tokenize.go, render.go.
//
// # Streaming
//
// The connection's goroutine waits for the engine's events, encodes all that are due and
// writes them with one system call. It is woken once for all the tokens that a step of
// the engine gave a request. There is no pipe and no further goroutine, and a client that
// reads slowly delays nobody else. Nothing is allocated for a token, which tests check.
// A stream that is silent for too long gets a blank line, never a comment, because some
// clients fail on comments. The status is chosen when the first event is there, so an
// error before that has its own status.
package openai
