// Package batch is the form of OpenAI's batches, and how they are computed: files with a request
// in each line, and files with an answer in each line. It knows neither HTTP nor an engine.
//
//	{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}
//	{"id": "batch_req_…", "custom_id": "a", "response": {"status_code": 200, "request_id": "…", "body": {…}}, "error": null}
//
// [Parse] reads a line of the first kind, [Result] writes one of the second. [Pool] keeps so many
// requests in flight that steps of the engine are full, bounds what they hold, and does a request
// again that was refused for lack of something. [Output] is an output file that a run which was
// cut short goes on with:
//
//	lines ─▶ Pool.Run ─▶ do (one goroutine for each request in flight) ─▶ Output.Add
//
// # What has been done
//
// A run that goes on with a file leaves out what is in it. Requests are known by their custom_id,
// so that lines may be added to the input, or taken out of it. A line that cannot be computed, because it
// is no request, is known by its number in the input and its text, so that one that was mended is computed.
//
// The last line of a file may have been cut by a crash. It is cut off, and computed again. A file
// that has anything else in it than lines of this kind is left alone.
package batch
