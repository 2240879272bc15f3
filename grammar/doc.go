// Package grammar turns JSON schemas, regular expressions, choices, grammars and
// structural tags into token masks.
//
// A [Compiler] makes a [Grammar] of a [Spec], for the tokens of a [Vocabulary]. A
// [Matcher] follows one sequence through it: Fill says which tokens are legal,
// Accept moves on, Rollback goes back.
//
// # What is kept
//
// Nothing is accepted that is not enforced: every text that a matcher lets end is
// what the spec asks for, and what cannot be kept exactly is refused when it is
// compiled, with the JSON path of the keyword. The reverse does not hold: of the
// texts that satisfy a schema some are never generated. Properties come in the
// order of the schema, undeclared ones last; constants, property names and strings
// with a pattern have one spelling; numbers with bounds have no exponent;
// whitespace is bounded.
//
// No mask leads into a dead end: from every legal token on, the text can be
// completed, given a vocabulary with a token for every byte.
//
// # Goroutines
//
// Vocabulary, Compiler and Grammar are safe for concurrent use. A Matcher belongs
// to one sequence, and one goroutine at a time. Compile and Fill may take long
// (milliseconds, Compile up to its deadline), so they belong on workers.
package grammar
