// Package failure is the one classification of errors of the HTTP server. It says, for
// every error that a handler or a package below it returns, what the client is told and
// what the log and the metrics say:
//
//	Go error ─▶ Of ─▶ Failure ─▶ status and body, in the form of its interface
//	                          ─▶ kind, for the log
//	                          ─▶ reason, for the counter of refusals
//
// # The interfaces
//
// The clients of the server speak several interfaces, which agree on statuses and disagree
// on bodies and words:
//
//	OpenAI        {"error":{"message":"…","type":"…","param":null,"code":503}}
//	Feedback      {"reason":"…"}
//	Trajectories  {"detail":"…"}
//	Messages      {"type":"error","error":{"type":"overloaded_error","message":"…"},"request_id":"…"}
//	Ollama        {"error":"…"}
//
// Messages and Ollama have their form for all errors. Of the others a few errors have another form, because the reference servers of these interfaces
// answer so: 401, 404 for an unknown path, 405 and 415 (see table.go), and 422, which
// lists everything that is wrong with a request.
//
// # Two sources
//
// Packages that decode requests make errors that know their own answer: [api.Error],
// feedback.Invalid, feedback.Refusal and trajectory.Invalid. They pass through Of as
// they are. All other errors are values that are compared with errors.Is, those of this
// package among them, and each has a row in the table of table.go. An error without a
// row is a fault of the server: the client gets 500 and no details, the log gets the
// error.
//
// docs/interface/errors.md is written from the two tables by a test of this package:
//
//	go test ./server/failure -rewrite
//
// # What it was before
//
// Each interface had a table and a pipeline of its own. They drifted apart: a refusal of
// the trajectory interface was not counted and left no error in the line that the log
// has for every request, a 415 of the feedback interface left no line at all, and the
// same error of the transport was 503 in one interface and 500 in another.
package failure
