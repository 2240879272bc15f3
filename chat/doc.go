// Package chat turns the messages of a request into the text of a prompt, by the model's
// chat template or, where that is allowed, by the request's own. It does what vLLM does
// between a decoded request and the tokenizer (docs/interface/chat-completions.md,
// sections 3.4 to 3.8). It reads no files and knows no tokens: whether the prompt gets
// special tokens in addition (add_special_tokens) is decided where it is tokenized.
//
// A [Renderer] has the templates of one model, compiled by package jinja. It does not
// change after [New], except for a cache of compiled templates from requests, and any
// number of goroutines may use it. [ParseTokenizerConfig] finds templates and special
// tokens in a tokenizer_config.json.
//
// # An example
//
// The template
//
//	{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}
//	{% if add_generation_prompt %}<|assistant|>{% endif %}
//
// and the messages {"role": "user", "content": "Hi"} give, without the line break,
//
//	<|user|>Hi<|end|><|assistant|>
//
// # Steps of Render
//
//  1. The arguments of the template are merged, from the server's defaults, the tools, the
//     request's chat_template_kwargs and its top-level fields (arguments).
//  2. The template is chosen: the request's, if it is trusted; the one for tools; the
//     default one (choose).
//  3. The messages are converted to values of the template (message.go). Their content
//     is a text or a list of parts, whichever the template expects. A template that has a
//     for loop over the content of a message expects a list.
//  4. The template is rendered. If the last message is to be continued, the text is cut
//     after it (prefill.go).
//  5. Package reasoning says what the model's output begins with (thinking.go).
//
// # Continuing the last message
//
// A template closes every message, so the text has to be cut for a message that the model
// continues, and nothing in it says where. Searching for the text of the message fails if
// it is empty or also occurs later. So a mark is appended to the message, and the text is
// cut where the mark appears, as newer versions of transformers do:
//
//	message          "It is a"
//	with the mark    "It is aCONTINUE_FINAL_MESSAGE_TAG  "
//	rendered         ...<|assistant|>It is aCONTINUE_FINAL_MESSAGE_TAG  <|end|>
//	prompt           ...<|assistant|>It is a
//
// # Special tokens in messages
//
// The text of a special token inside a message becomes that special token when the prompt
// is tokenized, as it does in transformers. Clients that pass on text of other people have
// to remove such texts.
package chat
