// Package objects keeps what calls and feedback refer to: published objects and ops, the
// rows of tables, and files. They are addressed by their content, with the digests of W&B
// Weave, whose clients work with them unchanged. It knows no HTTP. The rules are in
// docs/interface/weave.md, section 3.
//
//	s := objects.New(db)
//	request, err := objects.DecodeObject(ctx, body)
//	digest, err := s.Create(ctx, user, request)       // on stable storage
//
// # Keys
//
//	'O' project object digest   what is known of a version
//	'P' project object digest   the value of a version, if it was not deleted
//	'Q' project digest          a table: the digests of its rows
//	'R' project digest          a row
//	'S' project digest          a file
//	'T' project                 how many bytes 'P' to 'S' take
//
// All of them but the last begin with the user who sent the content first and the time when it
// was sent last. The time is written anew only if it is more than an hour old, so that sending
// the same thing again and again writes little, and what is in use does not expire.
//
// # What is deleted
//
// Retention and erasure delete rows only if no table has them that stays, because tables of
// different times and users share rows. No count of references is kept: it would have to be
// written for each row of each table, and a damaged table would make it wrong for good.
// Instead a deletion reads all tables of the project and asks which rows are in none. While it
// does so it watches the tables that are written (type watch), so that it takes no row from
// one of them. Other references are not followed: they stand in any text of any value.
package objects
