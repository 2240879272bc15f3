// Package hostside measures what a server does besides computing: HTTP, streams, scheduling and memory. The
// servers that it measures run over the simulated device, which takes no time, or as much as a profile says.
// Each figure has a reference that is measured beside it in the same run, on the same processors and through the
// same client: a loop that writes the same bytes to the same kind of sockets, a bare handler of fasthttp, or the
// time inside the simulated device.
//
//	hostside.go    what is measured, in which order
//	client.go      a client that does no more than count
//	refusals.go    how long requests take that a full server refuses
//	idle.go        the memory of streams that wait
//	reference.go   the references that answer over sockets, in a process of their own like a server
//	steps.go       steps of the engine, without a server
//	report.go      how it is printed
//
// The client shares the processors with the server, so figures are of both together, and only the ratio to the
// reference, which has the same client, says something about the server.
package hostside
