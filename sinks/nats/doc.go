// Package nats sends messages to a stream of NATS JetStream, and the newest version of every record of
// feedback to a bucket of its key-value store.
//
//	s, err := nats.New("nats://user:password@localhost:4222/WEIR")
//
// A message goes to the subject weir.KIND.TEAM.PROJECT, with its id as Nats-Msg-Id, by which the
// server drops what it has got within the window of the stream. Messages are published without
// waiting for each other, and Send waits for the acknowledgments of all of them. A stream or bucket that
// does not exist is made; one that exists is used as it is.
//
// The client library does not keep what it is given while there is no connection: a message would
// be sent after its Send has failed, in the middle of its repetition.
package nats
