// Package toolcall knows how families of models write calls of tools, in both directions: a
// [Parser] reads the calls in an output, piece by piece as it is generated, and
// [Format.Grammar] returns the constraint under which a model can write nothing but such
// calls. Both are made of the same definition, a [Format], so what the one allows the other
// reads. The package knows neither HTTP nor tokens; a constraint is a structural tag, in the
// language of package grammar.
//
// # What a call is
//
// A call has a beginning, its head, which ends where the arguments begin; the arguments; and an
// end. Until the head is complete nothing is certain, so its text is held back, and if it turns
// out not to be one, it is content as it stands. With the head, the call has begun: its name is
// returned, and its arguments follow as they come, as JSON. Where a family writes the arguments
// in another way (XML, Python), they are converted on the way.
//
// The arguments of a call that has begun cannot become content any more, so they are taken as
// they are: brackets and quotes decide where they end, and whether they are valid is for their
// reader to find out. Under the grammar they always are. If the output ends within them, the
// call has no end, and what there is of its arguments is returned.
//
// White space next to a call belongs to it and not to the content, except that texts before and
// after a call keep the white space that follows the call between them.
//
// # An example
//
//	piece                                     content    call
//	"Let me see.\n<tool"                      "Let me see."
//	"_call>\n{\"name\": \"look_up\", \"arg"
//	"uments\": {\"word\": "                              0, look_up, {"word":
//	"\"cat\"}}\n</tool_call>"                            "cat"}, end
//
// # What was rejected
//
// vLLM has a parser class for each family, most of which read the whole text again with every
// token and compare what they find with what they returned before. Their differences are data
// here: marks, what stands around a name, and one of a few ways to write arguments.
package toolcall
