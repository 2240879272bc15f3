// Package feedbackapi answers the functions below /feedback/ over HTTP: it reads requests,
// checks the rights of their callers, and passes them to package feedback, which knows what
// they mean. The rules are in docs/interface/feedback.md.
//
// A request goes through a handler from top to bottom: readBody checks what can be
// checked before the body is read (its length, its type, that the server is not
// stopping) and reads it; a decoder of package feedback reads the JSON; mayWrite or
// permitted checks the rights; a method of feedback.Store does the work; and the answer,
// or the error by way of [transport.Call.Fail], ends it. write.go has the functions
// that add records, read.go those that find, sum up and export them, delete.go those
// that remove them.
package feedbackapi
