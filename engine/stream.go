package engine

import (
	"context"
	"slices"
	"sync"
)

// Events is a batch of events with the memory of their Text and Top. The zero value is
// ready to use. Pass the same Events to every Take or Next, so that its memory is reused.
type Events struct {
	Items []Event
	text  []byte         // of all items, one after the other
	top   []TokenLogprob // likewise
}

func (ev *Events) reset() { ev.Items, ev.text, ev.top = ev.Items[:0], ev.text[:0], ev.top[:0] }

// add appends an event and copies its text and top.
func (ev *Events) add(it Event, text []byte, top []TokenLogprob) {
	ev.text = append(ev.text, text...)
	ev.top = append(ev.top, top...)
	it.textEnd, it.topEnd = len(ev.text), len(ev.top)
	ev.Items = append(ev.Items, it)
}

// join appends copies of the events of more.
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

// Stream carries the events of one Submit or SubmitAll from the engine to one reader. The
// engine never waits for the reader: what is not taken waits here, and is at most what the
// requests' own limits let them produce.
type Stream struct {
	ready  chan struct{} // capacity 1: something is pending
	cancel func()        // tells the engine to abort the requests

	mu struct {
		sync.Mutex
		pending   Events
		prompt    [][]PromptLogprob // of each request
		cached    int
		drawn     int  // tokens, of all choices
		cancelled bool // events are dropped
	}

	// These fields belong to the loop. What was pushed since the last signal is given to
	// the reader with the next one, after it has been counted.
	fresh Events
	drawn int  // tokens in fresh
	dirty bool // the stream is in Engine.unsignalled
}

// push adds an event for the next signal. text and top are copied.
func (s *Stream) push(ev Event, text []byte, top []TokenLogprob) {
	if ev.Token >= 0 {
		s.drawn++
	}
	s.fresh.add(ev, text, top)
}

// setPrompt stores what is known of the prompt of request i, before its first event.
func (s *Stream) setPrompt(i, cached int, prompt []PromptLogprob) {
	s.mu.Lock()
	s.mu.cached += cached
	s.mu.prompt[i] = prompt
	s.mu.Unlock()
}

// signal gives the reader what was pushed, and wakes it.
func (s *Stream) signal() {
	s.mu.Lock()
	s.mu.drawn += s.drawn
	if !s.mu.cancelled {
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

// Ready can be received from when Take may find events. Now and then Take finds none
// nevertheless.
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

// Next waits for events and takes them as Take does. It returns the error of ctx if that
// ends and there are no events.
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

// Cancel aborts the requests of the stream and drops all further events. Their KV blocks
// are free as soon as no step in flight writes to them. Cancel never blocks and is never
// refused, and does nothing if every choice has ended.
func (s *Stream) Cancel() {
	s.mu.Lock()
	before := s.mu.cancelled
	s.mu.cancelled = true
	s.mu.pending = Events{}
	s.mu.Unlock()
	if !before {
		s.cancel()
	}
}

// Cached is the number of prompt tokens that were found in the prefix cache, of all
// requests together. A request counts from its first event on.
func (s *Stream) Cached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cached
}

// Drawn is the number of output tokens of all choices so far, whether they have been taken
// or not. It still counts after Cancel.
func (s *Stream) Drawn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.drawn
}

// PromptLogprobs are the scores that request i asked for with Request.Prompt, one for each
// prompt token except the first; i is 0 for Submit. They are complete when the request's
// first event can be taken.
func (s *Stream) PromptLogprobs(i int) []PromptLogprob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.mu.prompt[i])
}
