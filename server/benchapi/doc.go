// Package benchapi answers /v1/bench: a bounded load that this server puts on itself, measured by
// "weir bench serve" in a process of its own (docs/interface/bench.md).
//
// A run is a list of points, each with so many requests in flight. Each point is one process, so
// that its report is complete when the process has ended, and a curve grows point by point. The
// process calls the server through its listener, as any client does, with the key of whoever
// started the run: it is admitted, limited, counted and logged as that key is.
//
// Nothing that a client sends becomes a part of a command line but numbers in their ranges. The name
// of a run is kept beside it. The key goes to the process in its environment, which other users of the machine cannot read, and
// is not kept.
//
// The load runs on the same machine as the server, and takes some of it. What it measures is less
// than what clients on another machine would see, and says so in the documentation. A load
// generator inside of the server's process was not considered: what it measured would leave out
// the sockets, and its garbage would be the server's.
package benchapi
