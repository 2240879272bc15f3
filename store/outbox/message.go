package outbox

import (
	"context"
	"strconv"

	"weir/internal/jsontext"
)

// Message is what a sink is told of one key: that it has a new value, or that it is gone.
type Message struct {
	Kind  string   // such as feedback
	Route []string // to whom it belongs, from the general to the particular, such as a team and a project
	Key   string   // what has changed; unique within the kind
	// ID is the same whenever this message is sent, and no other message's, so that a sink can
	// drop a repetition.
	ID   string
	Seq  uint64 // of its entry; 0: it is part of a snapshot
	At   int64  // when its entry was written, in milliseconds of Unix time
	Gone bool   // the key has no value any more: a tombstone
	Body []byte // the value, as JSON; nil if it is gone
	// Omitted is the size of a value that is larger than the sink takes, so that Body is the text
	// of Omitted; 0 if it is not.
	Omitted int64
}

// Limits bound what a source returns at a time.
type Limits struct {
	Messages int // at least 1
	Bytes    int // of bodies; a source may exceed them by one body
	Body     int // a larger value is left out and replaced by the text of Omitted
}

// Full reports whether a source that has made this much should return.
func (l Limits) Full(messages, bytes int) bool { return messages >= l.Messages || bytes >= l.Bytes }

// Omitted is the body of a message whose value is larger than a sink takes. It says how large.
func Omitted(key string, size int64) []byte {
	b := jsontext.AppendString([]byte(`{"key":`), key)
	b = strconv.AppendInt(append(b, `,"omitted_bytes":`...), size, 10)
	return append(b, '}')
}

// Source turns entries into messages. Its methods are called by one goroutine for each sink.
type Source interface {
	// Messages calls add with what an entry says now, from a position within it on, nil at its
	// beginning, and returns the position to go on at, nil if there is no more. An entry that a
	// later one has made obsolete has no messages.
	Messages(ctx context.Context, e Entry, from []byte, l Limits, add func(Message)) (next []byte, err error)
	// Snapshot returns up to n entries of records that are there, those after a position, nil at
	// the beginning, and the position of the last of them.
	Snapshot(ctx context.Context, after []byte, n int) (list []Entry, at []byte, err error)
	// Belongings returns keys of the database that are needed only as long as the entry is.
	Belongings(e Entry) [][]byte
}
