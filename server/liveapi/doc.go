// Package liveapi answers GET /v1/live: a stream of server-sent events that says, once a second,
// what the server is doing (docs/interface/live.md).
//
// Each viewer is the goroutine of its connection, with a ticker of its own, which gathers a state
// when its turn comes and writes it. There is no hub: without viewers there is neither a goroutine
// nor a ticker, nothing is queued for a viewer that reads slowly, and nobody waits for it. Its
// write has the deadline that all answers have, and when it reads again it gets the state of that
// time. A hub that gathers once for all viewers would save little, since what a viewer may see
// differs, and would have to bound a queue for each of them.
//
// What a state costs is bounded by the requests and steps in it, not by what the server does: the
// flight recorder, the counts of the engine and the list of requests in flight are kept anyway, and
// are copied. Only the spread of the waits is counted while somebody watches (metrics.Watch),
// because the buckets of the series are too wide for percentiles.
package liveapi
