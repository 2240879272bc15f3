// Package batchesapi is OpenAI's interface for batches: /v1/files, /v1/uploads and /v1/batches. A batch is a
// file of requests that nobody waits for, an upload a file that is sent in parts. docs/interface/batches.md has the rules, and package
// batch the form of the files.
//
//	files, batches ─▶ Handlers ─▶ Store                     files.go, uploads.go, batches.go, store.go, record.go
//	                     └─▶ runner ─▶ transport.Server.Do  runner.go, finish.go
//	                            └─▶ Store: a result for each line, then the files of results
//
// # What survives
//
// All that a batch is lies in the store: its record with its status, and the result of each line
// under the number of the line. A result is on disk before another line takes its place in flight.
// After a crash the lines without results are computed, so that no result is lost, and as a line has one
// key, none is there twice. When there is a result for each line, the files are written from
// them, in the order of the lines. Their ids were chosen when the batch was made, and they are
// visible from the update on that completes the batch; so finishing that was interrupted is done
// once more, with the same bytes.
//
// The parts of an upload become a file without being copied: the file has a list of them.
// What a crash leaves of a file or a part that was being received has no row, and is deleted at the next start.
//
// # What was considered
//
// Appending results to a file as they come needs an order of its own, and a crash between two
// lines has to be found in it. Requests over a socket to this server itself would need a key, and
// the keys of clients are not kept.
package batchesapi
