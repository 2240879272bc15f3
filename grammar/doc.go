// Package grammar will turn JSON schemas, regular expressions and grammars into
// token masks. Nothing is here yet.
package grammar
