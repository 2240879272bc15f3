// Package objects keeps what calls and feedback refer to: published objects and ops, the
// rows of tables, and files. They are addressed by their content, with the digests of W&B
// Weave, whose clients work with them unchanged. It knows no HTTP.
package objects
