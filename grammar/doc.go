// Package grammar turns constraints on the text that a model writes into token masks:
// which tokens may come next. Constraints are JSON schemas, regular expressions, lists
// of choices, grammars (EBNF in the manner of llama.cpp's GBNF, or Lark) and structural
// tags. The server compiles them for requests with response_format or
// structured_outputs.
//
// README.md in this folder follows one schema from its text to its masks.
//
// # Types
//
// A [Vocabulary] has the tables that masks need of a model's tokens. It is made once
// for a model. A [Compiler] makes a [Grammar] from a [Spec], for one vocabulary, and
// keeps the latest grammars. A [Matcher] follows one text through a grammar:
// [Matcher.Fill] writes the mask, [Matcher.Accept] goes on over a token, and
// [Matcher.Rollback] takes tokens back.
//
//	front ends: schema_*.go, regex.go, ebnf*.go, lark*.go, tag*.go
//	     | lower a constraint to
//	rules: builder.go, json_rules.go (common ones), dfa.go (regular languages)
//	     | determinize.go, left_recursion.go, trim.go
//	network: rules that are automata over bytes and call each other
//	     | machine.go, ambiguity.go: a text has a position, which is the set of its stacks
//	     | record.go: values that must differ from earlier ones
//	position
//	     | shape.go, shape_build.go, shape_template.go, shape_cache.go
//	mask: one bit for each token
//
// # What is promised
//
// Nothing is accepted that is not enforced. Every text that a matcher lets end is
// what the constraint asks for. What cannot be kept exactly is refused when it is
// compiled, with the JSON pointer to the keyword ([Error]).
//
// The reverse does not hold: some texts that satisfy a schema are never generated.
// Properties come in the order of the schema, and undeclared ones last. Constants,
// property names and strings with a pattern have one spelling. Numbers with bounds
// have no exponent, and the exponent of others is at most 299. Elements of arrays with
// uniqueItems have one spelling, and objects among them differ in one property. Whitespace
// between the tokens of JSON is bounded. If a negation demands an undeclared property with
// some value, all later ones that it might be have such a value, too, because a name may
// come up twice.
//
// A text that is given ([Spec.Prefix]) is taken in any order of properties and any spelling
// all the same, and what follows it satisfies the constraint together with it.
//
// A grammar or tag can name tokens (named_token.go). Then it means these tokens and not
// their text; special tokens are legal nowhere else.
//
// No mask leads into a dead end: after every legal token the text can be completed,
// if the vocabulary has a token for every byte.
//
// # Limits
//
// Compiling has a budget of work, which is the same on every machine, and a deadline
// for machines that are slower than expected ([Config], [ErrDeadline]). A [Queue] lets small
// constraints pass large ones. The first mask is a part of
// compiling, because much of what a constraint costs is spent there. Of a grammar that is
// very ambiguous a bounded number of parses is followed, so some of its texts are never
// generated (ambiguity.go). If a mask would take too long, Fill returns [ErrTooComplex].
// Fill and Accept always agree about which tokens are legal. What a grammar builds while it runs
// is bounded by Config.GrammarBytes.
//
// Memory is reserved in an account (internal/memory): that of a compilation, which waits for
// it; that of a grammar that is in use, with its masks, which are dropped and built again if
// there is no room for more; and that of the grammars and shapes that are kept for later,
// which are dropped when the room is needed. [Grammar.Bytes] is what a grammar holds. A
// Compiler knows from [Grammar.Release] that a grammar is not in use any more.
//
// # Goroutines
//
// Vocabulary, Compiler and Grammar are safe for concurrent use. A Matcher belongs to
// one text and to one goroutine at a time. Compile and Fill may take long (Fill
// milliseconds, Compile up to its deadline), so they belong on workers. Go cannot
// interrupt a fill, so [Matcher.FillPaced] calls a function of the caller while it
// works, and the caller decides when it goes on. [Matcher.QuickFill] and
// [Matcher.QuickAccept] tell whether a call is cheap enough for a loop that has no
// time to lose, because a text was in the same place before. They take no lock.
package grammar
