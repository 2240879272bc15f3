// Package transport is everything between the socket and the handlers: connections and
// clients that leave, bodies and their bounds, CORS, keys and projects, the queue in which
// requests wait for preparation, and what a request leaves in the log and the metrics. It
// knows no function of the server; a [Router] finds them.
//
//	t, err := transport.New(config, router, failures, counts)
//	err = t.Serve(listener)
//
// # A request
//
// One goroutine per connection, which belongs to fasthttp, takes a request through its
// stages. A [Call] is the request from its headers to the last byte of its answer:
//
//	bytes     framing.go  what a proxy may read in another way is refused; nothing of the next request passes
//	page      pages.go    which web pages may call, and under which names of the server
//	headers   route.go    path, key, method, project: what is refused here is
//	                      refused before its body is read
//	handler               Route.Serve(call), which uses the methods of Call:
//	body      body.go     ReadBody: bounded in size and time
//	          bodies.go   the memory for all bodies, shared among clients; slow bodies end first
//	          bodystream.go  BodyStream: for bodies that are never held as a whole
//	turns     turns.go    Call.Query and Download: queries, in turns of their tenants
//	places    fair.go     FairPlaces: a number of requests of a kind at a time, shared among owners
//	queue     queue.go    Server.Queue().Do: waits for a worker, fair between tenants
//	memory    call.go     Memory: what the request holds or may come to hold, reserved before
//	answer    call.go     Reply, Answer, Fail; Stream and Download for long answers
//	account   account.go  Settle: a line in the log, counts of HTTP, tokens of the project
//
// Whatever a request waits for, it waits for [Call.Context] as well, which ends
// when its client leaves. watch.go notices that; conn.go knows the connection, and places.go
// which address may have how many. secure.go is TLS, beneath all of this.
//
// # Clients that leave
//
// One goroutine watches the sockets of all connections. On Linux it has an epoll queue of
// its own, which a connection is in from accept to close, so that a request costs no system
// call; elsewhere it peeks at the sockets of requests in flight ten times a second. A
// half-close counts as leaving. With TLS the end of the client's side is a record like any other,
// so that the connection reads ahead as soon as a request has come (secure.go).
//
// # Fairness
//
// Queries on what is stored can take minutes, so they do not keep a worker until their end,
// as requests in the queue do. They take turns of half a millisecond ([Turns]), and so does
// the decoding of large bodies with records.
//
// The queue takes one request of each tenant in turn, and of its projects in turn. The package ants keeps the
// goroutines of the workers. Its own queue is not used, because it is in order of arrival,
// and a request whose client leaves could not be taken out of it.
package transport
