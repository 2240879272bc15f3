// Package server answers HTTP, from the socket to engine.Submit and back.
//
// One goroutine per connection, fasthttp's, walks a request through its stages:
//
//	headers    route.go     key, path, method, project; nothing is read yet that is refused here
//	body       body.go      bounded, in time, counted against a budget
//	queue      queue.go     waits for a worker, fair between projects
//	prepare    prepare.go   decode, check, render, tokenize: every 4xx is found here
//	engine     chat.go      Submit
//	answer     stream.go    events as they come, or
//	           complete.go  everything at the end
//
// /v1/completions goes the same way; completions.go has what is its own. The
// functions that need no engine end behind the queue (tokenize.go).
//
// Whatever a request waits for, it waits for its context as well, which ends
// when its client leaves: watch.go notices that, conn.go knows the connection.
// errors.go says what the client is told of every error.
//
// A server may listen before it has a model. Server is what others use, Config
// its settings, Model what it answers with.
package server
