package engine

import (
	"context"
	"slices"
	"sync"
)

// Events is a batch of events and the memory they point into. The zero value
// is ready; pass the same one to every Take or Next, so that nothing is
// allocated.
type Events struct {
	Items []Event
	text  []byte
	top   []TokenLogprob
}

func (ev *Events) reset() { ev.Items, ev.text, ev.top = ev.Items[:0], ev.text[:0], ev.top[:0] }

// add appends an event; text and top are copied.
func (ev *Events) add(it Event, text []byte, top []TokenLogprob) {
	ev.text = append(ev.text, text...)
	ev.top = append(ev.top, top...)
	it.textEnd, it.topEnd = len(ev.text), len(ev.top)
	ev.Items = append(ev.Items, it)
}

// join appends the events of more.
func (ev *Events) join(more *Events) {
	text, top, n := len(ev.text), len(ev.top), len(ev.Items)
	ev.text = append(ev.text, more.text...)
	ev.top = append(ev.top, more.top...)
	ev.Items = append(ev.Items, more.Items...)
	for i := range ev.Items[n:] {
		ev.Items[n+i].textEnd += text
		ev.Items[n+i].topEnd += top
	}
}

// Stream carries the events of a request, or of some, from the engine to one reader. Pushing
// never blocks: what the reader has not taken waits here, and is at most what
// the request's own limits let it produce.
type Stream struct {
	ready  chan struct{} // capacity 1: something is pending
	cancel func()

	mu struct {
		sync.Mutex
		pending Events
		prompt  [][]PromptLogprob // of each request
		cached  int
		drawn   int  // tokens, of all choices
		left    bool // the reader has gone; events are dropped
	}

	// The engine's: what was pushed since the last signal. The reader gets it
	// when it has been counted.
	fresh Events
	drawn int // tokens in fresh
	dirty bool
}

// push adds an event for the next signal; text and top are copied.
func (s *Stream) push(ev Event, text []byte, top []TokenLogprob) {
	if ev.Token >= 0 {
		s.drawn++
	}
	s.fresh.add(ev, text, top)
}

// begin settles what belongs to the prompt of request i, before its first event.
func (s *Stream) begin(i, cached int, prompt []PromptLogprob) {
	s.mu.Lock()
	s.mu.cached += cached
	s.mu.prompt[i] = prompt
	s.mu.Unlock()
}

// signal hands over what was pushed and wakes the reader.
func (s *Stream) signal() {
	s.mu.Lock()
	s.mu.drawn += s.drawn
	if !s.mu.left {
		s.mu.pending.join(&s.fresh)
	}
	s.mu.Unlock()
	s.drawn = 0
	s.fresh.reset()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Ready is readable when Take may find something. It may be readable when Take
// finds nothing.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Take moves all pending events, in order, into ev and reports whether there
// were any.
func (s *Stream) Take(ev *Events) bool {
	ev.reset()
	s.mu.Lock()
	*ev, s.mu.pending = s.mu.pending, *ev
	s.mu.Unlock()
	text, top := 0, 0
	for i := range ev.Items {
		it := &ev.Items[i]
		it.Text, it.Top = ev.text[text:it.textEnd:it.textEnd], ev.top[top:it.topEnd:it.topEnd]
		text, top = it.textEnd, it.topEnd
	}
	return len(ev.Items) > 0
}

// Next waits until it can Take, or until ctx ends and there is nothing to take.
func (s *Stream) Next(ctx context.Context, ev *Events) error {
	for !s.Take(ev) {
		select {
		case <-s.ready:
		case <-ctx.Done():
			if !s.Take(ev) {
				return ctx.Err()
			}
			return nil
		}
	}
	return nil
}

// Cancel tells the engine that nobody reads any more: the request's blocks are
// freed as soon as no step in flight writes them. It never blocks, is never
// refused, and does nothing once every choice has ended.
func (s *Stream) Cancel() {
	s.mu.Lock()
	left := s.mu.left
	s.mu.left = true
	s.mu.pending = Events{}
	s.mu.Unlock()
	if !left {
		s.cancel()
	}
}

// Cached is the number of prompt tokens that the prefix cache had, of all
// requests together. The part of a request is settled when its first event can
// be taken.
func (s *Stream) Cached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cached
}

// Drawn is the number of tokens drawn so far for all choices together, taken or
// not, also after Cancel.
func (s *Stream) Drawn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.drawn
}

// PromptLogprobs are the scores that Request.Prompt of request i asked for (0
// for Submit's), one for each prompt token but the first. They are complete
// when the request's first event can be taken.
func (s *Stream) PromptLogprobs(i int) []PromptLogprob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.mu.prompt[i])
}
