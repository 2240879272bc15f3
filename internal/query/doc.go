// Package query reads and evaluates the query language of W&B Weave, a small part of
// MongoDB's aggregation language (docs/interface/feedback.md, section 8.3). A [Parser] reads
// an expression, with names that its user gives a meaning; [Expr.Truth] evaluates it on a
// [Row].
//
// Reading and evaluating are counted on a meter (package pace): an $in is looked up in a set
// (in.go), and texts are searched in linear time (contains.go), so that an expression costs
// what its size and that of the row say.
package query
