package openai

import (
	"sync"

	"weir/engine"
	"weir/internal/memory"
)

// unreadShare is the part of the memory of all requests that the unread events of streams
// may take: one in so many.
const unreadShare = 4

// unread bounds the memory of events that streams have and that their clients do not read.
// When it is used up, the stream that holds most is ended.
type unread struct {
	memory *memory.Reservation
	most   int64

	mu      sync.Mutex
	used    int64
	streams map[*streamBudget]struct{}
}

func newUnread(account *memory.Account) *unread {
	return &unread{memory: account.Open(), most: account.Limit() / unreadShare, streams: make(map[*streamBudget]struct{})}
}

// streamBudget is the engine.Budget of one stream. Its fields are guarded by unread.mu. The
// engine's loop may still use it for a moment after the call of the stream has ended.
type streamBudget struct {
	all    *unread
	free   int64 // reserved by the call, so that a client that reads is never ended
	held   int64
	stream *engine.Stream // nil: nothing was held yet
	failed bool           // has been ended
	closed bool
}

// open returns the budget of a stream whose call has reserved free bytes.
func (u *unread) open(free int64) *streamBudget {
	b := &streamBudget{all: u, free: free}
	u.mu.Lock()
	u.streams[b] = struct{}{}
	u.mu.Unlock()
	return b
}

// Grow implements engine.Budget.
func (b *streamBudget) Grow(s *engine.Stream, n int64) bool {
	for !b.take(s, n) {
		victim := b.all.largest(b)
		if victim == nil {
			return false
		}
		victim.Fail(engine.ErrUnread)
	}
	return true
}

// charged returns what is held beyond what the call has reserved.
func (b *streamBudget) charged() int64 { return max(0, b.held-b.free) }

// add adds n bytes, which may be less than 0, and returns how many more are charged. The
// caller holds mu.
func (b *streamBudget) add(n int64) int64 {
	before := b.charged()
	b.held += n
	more := b.charged() - before
	b.all.used += more
	return more
}

func (b *streamBudget) take(s *engine.Stream, n int64) bool {
	u := b.all
	u.mu.Lock()
	defer u.mu.Unlock()
	if b.closed {
		return true // the stream has been cancelled and keeps nothing
	}
	b.stream = s
	more := b.add(n)
	if more > 0 && (u.used > u.most || !u.memory.TryGrow(more)) {
		b.add(-n)
		return false
	}
	return true
}

// largest returns the stream that holds most, and marks it as ended; nil: no stream holds
// more than that of b.
func (u *unread) largest(b *streamBudget) *engine.Stream {
	u.mu.Lock()
	defer u.mu.Unlock()
	most := b
	for o := range u.streams {
		if !o.failed && o.charged() > most.charged() {
			most = o
		}
	}
	if most == b {
		return nil
	}
	most.failed = true
	return most.stream
}

// Shrink implements engine.Budget.
func (b *streamBudget) Shrink(n int64) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if !b.closed {
		b.shrink(n)
	}
}

// shrink gives back n bytes. The caller holds mu.
func (b *streamBudget) shrink(n int64) {
	if more := b.add(-n); more < 0 {
		b.all.memory.Shrink(-more)
	}
}

// close gives back everything. nil is ignored.
func (b *streamBudget) close() {
	if b == nil {
		return
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if !b.closed {
		b.shrink(b.held)
		b.closed = true
		delete(b.all.streams, b)
	}
}
