package messagesapi

import (
	"bytes"
	"container/list"
	"sync"

	"weir/api"
	"weir/internal/memory"
)

// Bounds of what is kept for the next turns of conversations.
const (
	maxThreads       = 64 << 20 // bytes of all of them
	maxTenantThreads = 16 << 20 // bytes of a tenant's
	maxThread        = 4 << 20  // bytes of one
	threadBytes      = 1 << 10  // what an entry takes beside its text
)

// thread is a conversation that is kept for its next turn: what the client has sent, and the answers.
type thread struct {
	system, tools api.Raw   // nil: none
	messages      []api.Raw // arrays of messages, in order
	size          int
}

// with returns a thread that goes on with further arrays of messages.
func (t *thread) with(messages ...api.Raw) *thread {
	next := &thread{system: t.system, tools: t.tools, size: t.size}
	next.messages = append(append(make([]api.Raw, 0, len(t.messages)+len(messages)), t.messages...), messages...)
	for _, m := range messages {
		next.size += len(m) + 24
	}
	return next
}

// newThread returns a thread with copies of the parts of a request.
func newThread(system, tools api.Raw) *thread {
	t := &thread{system: bytes.Clone(system), tools: bytes.Clone(tools)}
	t.size = threadBytes + len(system) + len(tools)
	return t
}

// owner tells the threads of one tenant, and of one project of it, from those of others.
type owner struct{ tenant, project string }

type threadKey struct {
	owner
	id string // of the last answer
}

// threads keeps conversations by the id of their last answer. When there is no room, those that
// were used longest ago go first: of the tenant that has more than its part, and else of all.
type threads struct {
	mu      sync.Mutex
	entries map[threadKey]*list.Element // of *threadEntry
	order   list.List                   // the one that was kept last is at the front
	tenants map[string]int              // bytes of each
	size    int
	memory  *memory.Reservation // of what is kept
}

type threadEntry struct {
	key threadKey
	t   *thread
}

func newThreads(account *memory.Account) *threads {
	s := &threads{entries: map[threadKey]*list.Element{}, tenants: map[string]int{}}
	held := account.Cache(func(n int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for freed := int64(0); freed < n && s.order.Len() > 0; {
			freed += int64(s.drop(s.order.Back()))
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = held
	return s
}

// find returns the thread whose last answer has an id; nil: there is none.
func (s *threads) find(o owner, id string) *thread {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[threadKey{o, id}]
	if e == nil {
		return nil
	}
	return e.Value.(*threadEntry).t
}

// keep keeps a thread under the id of its last answer, in place of the one that it continues; "": it
// continues none. One that is too large is not kept.
func (s *threads) keep(o owner, previous, id string, t *thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[threadKey{o, previous}]; e != nil {
		s.drop(e)
	}
	if e := s.entries[threadKey{o, id}]; e != nil { // a client may choose the ids of its requests
		s.drop(e)
	}
	if t.size > maxThread || !s.memory.TryGrow(int64(t.size)) {
		return
	}
	key := threadKey{o, id}
	s.entries[key] = s.order.PushFront(&threadEntry{key, t})
	s.size += t.size
	s.tenants[o.tenant] += t.size
	for e := s.order.Back(); s.tenants[o.tenant] > maxTenantThreads && e != nil; {
		before := e.Prev()
		if e.Value.(*threadEntry).key.tenant == o.tenant {
			s.drop(e)
		}
		e = before
	}
	for s.size > maxThreads {
		s.drop(s.order.Back())
	}
}

// drop removes an entry and returns the bytes that it gives back. The caller holds mu.
func (s *threads) drop(e *list.Element) int {
	entry := s.order.Remove(e).(*threadEntry)
	delete(s.entries, entry.key)
	n := entry.t.size
	s.size -= n
	if s.tenants[entry.key.tenant] -= n; s.tenants[entry.key.tenant] == 0 {
		delete(s.tenants, entry.key.tenant)
	}
	s.memory.Shrink(int64(n))
	return n
}
