// Package sinks sends what a server stores to other systems: feedback, trajectories and the
// counts of usage. It knows neither what the records mean nor how a system is spoken to; packages
// nats and s3 below it do that.
//
//	g := sinks.Start(sinks.Config{Feeds: feeds, Sinks: []sinks.Sink{s}})
//	defer g.Close(3 * time.Second)
//
// A feed is a log of changes (package store/outbox). For every pair of a feed and a sink there is
// a pump, a goroutine that reads entries, makes messages of them, sends them, and then moves the
// sink's cursor on the disk:
//
//	database ── entries ──▶ pump ── messages ──▶ Sink.Send
//	   ▲                     │
//	   └────── cursor ◀──────┘ when Send has returned
//
// So a sink gets everything in the order of the commits, and after a crash what it got last
// a second time, with the same ids. Send is never called with two messages of one key, so that a
// sink which stores some of a call and fails cannot bring a key's messages out of order.
//
// A sink that fails is tried again after a pause that doubles up to half a minute, half of it
// random. No request waits for a pump. What waits is bounded by Config.Backlog entries of the log,
// beyond which the sink gets a snapshot (package store/outbox).
//
// A sink that stores files is [Ranged]: it gets whole ranges of entries, of an hour or of as many as
// make a file. The range is noted on the disk before the file is written, so a file that is
// written twice has the same name.
package sinks
