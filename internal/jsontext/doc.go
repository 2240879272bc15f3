// Package jsontext is the one reader of JSON text in weir. Every JSON text that comes from
// outside, a request body, a log of trajectories, a tokenizer.json, goes through its
// scanner first.
//
// # Scan, then read
//
// [Scan] checks a text in memory: the grammar of RFC 8259, valid UTF-8, a bound on
// nesting, nothing after the value. It looks at each byte once and allocates nothing. What
// it has accepted is a [Value], whose methods trust the syntax and therefore have no errors
// to handle:
//
//	text := []byte(`{"model": "weir-tiny", "seed": 1.0}`)
//	if err := jsontext.Scan(text, 100); err != nil { ... }
//	seed := jsontext.Trim(text).Member("seed")  // the Value 1.0, as it is written
//
// A Value is a part of the text. So numbers keep their spelling (1.0, or an integer of 30
// digits), members keep their order, and equal names are all there: it is the caller who
// takes the last one as Python does, or refuses the second. There are three ways to go over
// a Value:
//
//	Members, Elements   iterators, for callers that look into few of the values
//	Cursor              goes into every level and looks at each byte once
//	Scanner             checks and reads in one pass, over memory or a stream
//
// A [Scanner] calls back at each member or element of an object or array that its user
// looks into. [NewStream] reads through a window of 128 KiB, so that a body of gigabytes
// takes the memory of the largest value that is captured, which a limit and a function
// that reserves memory bound:
//
//	s := jsontext.NewStream(body, 200, reserve)
//	ok := s.Object(func() bool {
//		name, ok := s.Name(limit)
//		if !ok || name != "trajectories" {
//			return ok && s.Value() // checked and passed over
//		}
//		return s.Array(func(int) bool {
//			v, ok := s.Capture(limit) // without white space between tokens
//			return ok && store(v)
//		})
//	}) && s.Over()
//
// A [SyntaxError] has the offset, the reason in words, which are part of the answers that
// clients see, and the kind of the reason with the beginning of the token, from which
// package chat/jinja makes the messages of Python's json module.
//
// # Work that can be stopped
//
// PacedScan and the methods of Value whose names begin with Paced do the same at a [Pace]: a
// function that is told of the bytes passed over, at least every 64 KiB, and may stop them. A
// query that reads a text of 64 MiB so ends soon after its client has left. Without a pace
// they are the others: Members is PacedMembers(nil).
//
// # Decoding and encoding Go values
//
// [Decode] and [Encode] are for configurations, records and reports, where a Go type says
// what is wanted. They use github.com/goccy/go-json; tests of internal/arch hold that no
// other package imports it, or encoding/json. Decode scans first, so the decoder never sees
// a malformed text: its releases up to 0.10.6 could panic on one.
//
// The fuzz test FuzzDecode compares version 0.12.0 with encoding/json: 210,000 texts gave
// the same values in five Go types, the same bytes when they were encoded again, and the
// same refusals. These differences are known:
//
//   - Text that is not UTF-8, which encoding/json repairs, is refused by the scanner.
//   - The words of syntax errors are those of the scanner.
//   - An error of a method UnmarshalJSON is not given the name of the field.
//
// # What is written by hand
//
// The requests and the streamed answers of the chat interface do not use Decode and
// Encode. This is why, measured for a request body of 35 KB and for one chunk of a stream:
//
//   - Encoding a chunk takes 21 ns and no allocation with package api's append functions,
//     because what all chunks repeat is copied, and 270 ns and one allocation with Encode.
//     A logarithm of a probability also has to be written as -1.0, not -1, for clients with
//     typed readers, and text is not escaped for HTML.
//   - The answers name the path of what is wrong and follow pydantic where it takes one type
//     for another ("0.5" or true as a number). Decode stops at the first value that does not
//     fit and reports Go's types.
//   - Values that go to templates, grammars and archives keep their spelling and the order
//     of their members, which a decoded Go value has lost.
//
// The vocabulary and the merges of a tokenizer.json are read with a Scanner too: 150,000
// tokens load in 145 ms; with the byte-wise scanner before it they took 221 ms.
//
// # Alternatives
//
//   - A scanner for text in memory beside one for streams, as there was. The common one
//     takes about 2 % longer for a text in memory (23.4 µs instead of 23.0 for 35 KB, a
//     fiftieth of decoding it) and 13 % less over a stream, because white space is looked at without a
//     call where there is none.
//   - The loop over a string as a loop over the fields of the scanner took 3 % longer than a
//     function of a slice, escapes of two bytes by the function that reads all escapes 1 %,
//     and a window without a length of its own (len(buf)) 8 %.
//   - A loop for passing over objects that calls a function for each member. It cost 15 %:
//     object and array therefore have a branch for it.
//   - encoding/json's Decoder.Token, which weights and grammar used: it allocates for each
//     token, and its errors differ between versions of Go.
package jsontext
