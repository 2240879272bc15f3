// Package api holds the types of weir's HTTP functions on the wire: it decodes and checks
// requests, and encodes answers and errors. It knows neither the HTTP library nor the engine.
//
// # A chat request
//
// [DecodeChat] scans the body once (jsontext.Scan checks syntax, UTF-8 and depth) and then
// reads the values of the known fields in the order of one table, so that the answer about a
// body does not depend on the order of its members. The checks are made in the order in
// which docs/interface/chat-completions.md, section 1.2, wants their errors:
//
//	DecodeChat          400 Bad Request: not JSON, wrong types, contradictions
//	(the server)        404: no such model
//	r.CheckPrompt()     400, 501: tool_choice, messages, content parts
//	(the server)        400: templates, lengths
//	r.CheckSampling()   400: ranges, constraints
//	(the server)        400: what needs the vocabulary or a setting
//
// For its own checks the server finds the error with the right status, type, parameter and
// text among the functions ErrX; docs/interface/errors.md lists all of them, and
// docs/interface/fields.md lists the fields.
//
// Completions, tokenize and detokenize are decoded in the same way; [Options] are the fields
// that mean the same in chat and completions. openapi.json describes all bodies, and tests
// compare it with the tables.
//
// What a template or a grammar is given stays a [Raw]: a part of the body, with the spelling
// of numbers and the order of members that the client sent.
//
// # An answer
//
// [AppendResponse] writes a whole answer, and a [Stream] writes the events of one that is
// streamed. Both append to the caller's buffer. Their output is valid JSON in valid UTF-8
// whatever they are given: stray bytes become U+FFFD, and what is not a finite
// log-probability becomes -9999.0. They are written by hand, because an event then costs a
// few copies and no allocation (21 ns, and 270 ns with an encoder of Go values).
//
// # Files
//
// decode_table.go has the table and the loop over it, the other files decode_*.go the fields;
// coerce.go reads values as pydantic does, and fault.go has the errors with their paths.
// errors.go is the table of all errors, errors_*.go the functions that make them. The tests
// conformance_*_test.go have the numbers of the rows of the interface document.
package api
