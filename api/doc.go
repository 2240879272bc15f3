// Package api holds the wire types of weir's HTTP functions: decoding with
// presence and limits, field rules, error bodies and response encoding. It
// knows neither the HTTP library nor the engine.
//
// # A chat request
//
// DecodeChat scans the body once (Scan: syntax, UTF-8, depth) and then reads
// the values of the known fields in the order of one table, so that a body has
// one verdict whatever the order of its fields. The checks come in the order in
// which the interface wants their errors:
//
//	DecodeChat          400 Bad Request: not JSON, wrong types, contradictions
//	(the server)        404: no such model
//	r.CheckPrompt()     400, 501: tool_choice, messages, content parts
//	(the server)        400: templates, lengths
//	r.CheckSampling()   400: ranges, constraints
//	(the server)        400: what needs the vocabulary or a setting
//
// For its own stages the server finds the error with the right status, type,
// parameter and text among the functions ErrX; docs/interface/errors.md lists all of them.
// docs/interface/fields.md lists the fields.
//
// Completions, tokenize and detokenize are decoded the same way; Options are the
// fields that mean the same in chat and completions. openapi.json describes all
// bodies, and tests hold it against the tables.
//
// # An answer
//
// AppendResponse writes a whole answer; a Stream writes the events of one that
// is streamed. Both append to the caller's buffer. Their output is valid JSON in
// valid UTF-8 whatever they are given: stray bytes become U+FFFD, and what is no
// finite log-probability becomes -9999.0.
package api
