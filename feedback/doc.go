// Package feedback is the records of feedback: how requests are read and checked,
// what they do to the records, and how those are queried. It knows no HTTP.
//
//	decode.go   a request's JSON: presence and types (422)
//	ref.go      references such as weave:///team/project/call/<id>
//	rules.go    what the known types of feedback demand (400); emoji.go: of reactions
//	weave.go    columns that only W&B Weave's clients know
//	record.go   a record, on disk and as JSON
//	book.go     Replace, Create, Get, Purge, Erase: the records of all projects
//	expr.go     the language of queries; eval.go: what it means
//	query.go    Query: fields, order, pages; stats.go, export.go: the other ways to read
//
// JSON comes back as it was sent: a payload is kept as text, without the white
// space between its tokens.
package feedback
