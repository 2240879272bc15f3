// Package chat turns the messages of a request into the text of a prompt, by
// the model's chat template or, where that is allowed, by the request's own.
//
// It does what the reference engine does between a decoded request and its
// tokenizer (spec chat-completions 3.4 to 3.8): it chooses the template, finds
// out whether the template wants a message's content as text or as a list of
// parts, merges the template's arguments, renders, and cuts the rendering open
// where the last message is to be continued. It reads no files and knows no
// tokens: whether the prompt gets special tokens on top (add_special_tokens)
// is the tokenizer's business.
//
// A Renderer does not change after New except for its cache of compiled
// request templates, and may be used by any number of goroutines.
package chat
