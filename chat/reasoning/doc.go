// Package reasoning splits a model's output into thoughts and answer, piece by piece as the
// output is generated. It knows neither tokens nor HTTP
// (docs/interface/chat-completions.md, section 9.1).
//
// A model that thinks writes its thoughts first, between marks ([Marks]): most write <think>
// and </think>, which this page calls tags. The opening
// tag may also be the end of the prompt, and where thinking is off the prompt may end in
// both tags. So two things decide about a byte of the output:
//
//   - what the output begins with, which follows from the prompt: [AtEnd] or [Within] give
//     the state of the think block where the prompt ends, and [Kind.Start] what the output
//     begins with;
//   - the tags in the output itself, which a [Splitter] finds. A <think> at the beginning is
//     dropped, what follows is thought up to the first </think>, and the rest is content.
//
// Every byte of the output is in one of the two parts, except for the two tags and the
// blanks before the opening one.
//
// # An example
//
// The prompt ends in "<|assistant|>\n", so nothing says whether the model will think. A
// Splitter that begins with [Either] gets these pieces:
//
//	piece            thought      content     state afterwards
//	"<thi"                                    may become the opening tag, held back
//	"nk>\nHm"        "\nHm"                   thinking
//	", is it</"      ", is it"                "</" is held back
//	"think>Yes"                   "Yes"       answering
//
// # What was rejected
//
// vLLM has a parser class for each family of models. They differ only in their marks and in
// what the output begins with, and the prompt tells that for all of them. So there is one
// Splitter with a table of marks, and the names of vLLM's parsers are kept as names of a
// [Kind]. Only the channels of gpt-oss need states of their own (channels.go).
//
// Marks are found in the text and not by the ids of tokens, because some formats have marks
// that are no tokens, and a GGUF file may have lost which tokens are special.
package reasoning
