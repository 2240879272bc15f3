package kvevents

import "sync"

// keptBytes is the most memory of batches that are kept, whatever their number.
const keptBytes = 64 << 20

// message is a batch as it is sent. Its payload never changes, so that all readers share it.
type message struct {
	seq     uint64
	payload []byte
}

// history is the newest batches. Subscribers read it, each at its own pace, and so do those who ask for what they have missed:
// so a subscriber that is slow has no memory of its own, and what it is too late for it finds missing, by the numbers.
type history struct {
	most int

	mu struct {
		sync.Mutex
		list  []message
		first int // list[first:] is kept
		bytes int
		next  uint64        // number of the next batch
		more  chan struct{} // is closed when there is one
	}
}

func newHistory(most int) *history {
	h := &history{most: max(1, most)}
	h.mu.more = make(chan struct{})
	return h
}

// add appends a batch.
func (h *history) add(payload []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.mu
	m.list = append(m.list, message{m.next, payload})
	m.next++
	m.bytes += len(payload)
	for n := len(m.list) - m.first; n > h.most || n > 1 && m.bytes > keptBytes; n-- {
		m.bytes -= len(m.list[m.first].payload)
		m.list[m.first].payload = nil
		m.first++
	}
	if m.first > 64 && m.first > len(m.list)/2 {
		n := copy(m.list, m.list[m.first:])
		clear(m.list[n:])
		m.list, m.first = m.list[:n], 0
	}
	close(m.more)
	m.more = make(chan struct{})
}

// skip leaves out a number, by which those who read see that something is missing.
func (h *history) skip() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.next++
}

// next is the number of the next batch.
func (h *history) next() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.next
}

// from appends up to most batches to dst: those from number seq on that are kept, but of more than lag that there are, the newest. If
// there are none, more is closed when there is one.
func (h *history) from(dst []message, seq uint64, lag, most int) (batches []message, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.mu.list[h.mu.first:]
	if len(kept) > lag {
		kept = kept[len(kept)-lag:]
	}
	lo, hi := 0, len(kept)
	for lo < hi { // the numbers grow
		if mid := (lo + hi) / 2; kept[mid].seq < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return append(dst, kept[lo:min(len(kept), lo+most)]...), h.mu.more
}
