package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Events is a batch of events with the memory of their Text and Top. The zero value is
// ready to use. Pass the same Events to every Take or Next, so that its memory is reused.
type Events struct {
	Items []Event
	text  []byte         // of all items, one after the other
	top   []TokenLogprob // likewise
}

func (ev *Events) reset() { ev.Items, ev.text, ev.top = ev.Items[:0], ev.text[:0], ev.top[:0] }

// A batch of Take ends with the event that makes it as large as this.
const (
	mostItems = 256
	mostTop   = 4096
)

// Budget bounds the memory of events that are not read. Grow is called by the engine's loop
// before it takes n more bytes, and has to be fast; if it returns false, the stream is ended
// with ErrUnread. Shrink is called when n bytes are given back, by any goroutine.
type Budget interface {
	Grow(s *Stream, n int64) bool
	Shrink(n int64)
}

// Stream carries the events of one Submit or SubmitAll from the engine to one reader. The
// engine never waits for the reader: what is not taken waits here, and is at most what the
// requests' own limits let them produce, and what the Budget allows.
type Stream struct {
	ready  chan struct{} // capacity 1: something is pending
	cancel func()        // tells the engine to abort the requests
	budget Budget        // nil: there are no bounds

	scheduled atomic.Bool // a step has begun to compute one of the choices

	mu struct {
		sync.Mutex
		pending   backlog
		prompt    [][]PromptLogprob // of each request
		pooled    [][]float32       // of each request
		cached    int
		drawn     int  // tokens, of all choices
		vectors   int  // requests whose vectors are in pooled
		cancelled bool // events are dropped
		times     streamTimes
	}

	reading *piece // what Take is reading, the reader's; nil: none
	rest    decoder
	ends    []ending

	// These fields belong to the loop. What was pushed since the last signal is given to
	// the reader with the next one, after it has been counted.
	fresh records
	drawn int  // tokens in fresh
	dirty bool // the stream is in Engine.unsignalled
}

// push adds an event for the next signal. text and top are copied.
func (s *Stream) push(ev Event, text []byte, top []TokenLogprob) {
	if ev.Token >= 0 {
		s.drawn++
	}
	s.fresh.add(&ev, text, top)
}

// setPrompt stores what is known of the prompt of request i, before its first event.
func (s *Stream) setPrompt(i, cached int, prompt []PromptLogprob) {
	s.mu.Lock()
	s.mu.cached += cached
	s.mu.prompt[i] = prompt
	s.mu.Unlock()
}

// setPooled stores the vectors of request i, before its event.
func (s *Stream) setPooled(i int, vector []float32) {
	s.mu.Lock()
	s.mu.pooled[i] = vector
	s.mu.vectors++
	s.mu.Unlock()
}

// signal gives the reader what was pushed, and wakes it.
func (s *Stream) signal() {
	granted := int64(0)
	for {
		// The budget is asked without the lock, because it may have to end other streams.
		need, unused := s.store(granted)
		if need == 0 {
			granted = unused
			break
		}
		if s.budget.Grow(s, need) {
			granted += need
		} else {
			s.Fail(ErrUnread)
		}
	}
	if granted > 0 {
		s.budget.Shrink(granted)
	}
	s.drawn = 0
	s.fresh.reset()
	s.wake()
}

// store adds fresh to what is pending, for which the budget has granted some bytes. It
// returns how many more are needed before it can do so, or how many were not.
func (s *Stream) store(granted int64) (need, unused int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := int64(s.mu.pending.room(len(s.fresh.b)))
	if !s.mu.cancelled && s.budget != nil && room > max(granted, smallPiece) {
		return room - granted, 0
	}
	s.mu.drawn += s.drawn
	before := s.mu.pending.bytes
	if !s.mu.cancelled {
		s.mu.pending.append(&s.fresh)
	}
	return 0, granted - (s.mu.pending.bytes - before)
}

func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Ready can be received from when Take may find events. Now and then Take finds none
// nevertheless.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Take moves pending events, in order, into ev and reports whether there were any. It takes
// so many at a time that ev stays small; if there are more, Ready can be received from.
func (s *Stream) Take(ev *Events) bool {
	ev.reset()
	for s.next() && len(ev.Items) < mostItems && len(ev.top) < mostTop {
		s.ends = s.rest.take(ev, s.ends)
	}
	if len(s.rest.b) > 0 {
		s.wake()
	}
	text, top := 0, 0
	for i := range ev.Items {
		it := &ev.Items[i]
		it.Text, it.Top = ev.text[text:it.textEnd:it.textEnd], ev.top[top:it.topEnd:it.topEnd]
		text, top = it.textEnd, it.topEnd
	}
	return len(ev.Items) > 0
}

// next makes sure that rest has a record, and reports false if there is none.
func (s *Stream) next() bool {
	if len(s.rest.b) > 0 {
		return true
	}
	s.mu.Lock()
	freed := int64(0)
	if s.reading != nil {
		freed = s.mu.pending.give(s.reading)
	}
	s.reading = s.mu.pending.take()
	s.mu.Unlock()
	if freed > 0 && s.budget != nil {
		s.budget.Shrink(freed)
	}
	if s.reading == nil {
		return false
	}
	s.rest.b, s.ends = s.reading.b, s.reading.ends
	return true
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
func (s *Stream) Cancel() { s.drop(nil) }

// Fail is Cancel, but gives the reader one more event, with the given error.
func (s *Stream) Fail(err error) { s.drop(err) }

// drop cancels the requests and forgets what is pending. An error is given to the reader.
func (s *Stream) drop(err error) {
	s.mu.Lock()
	before := s.mu.cancelled
	s.mu.cancelled = true
	freed := s.mu.pending.drop()
	if err != nil && !before {
		var r records
		r.add(&Event{Token: -1, Reason: Failed, StopID: -1, Err: err}, nil, nil)
		s.mu.pending.append(&r)
	}
	s.mu.Unlock()
	if freed > 0 && s.budget != nil {
		s.budget.Shrink(freed)
	}
	if !before {
		s.cancel()
		s.wake()
	}
}

// Unread is about how many bytes the events take that have not been read.
func (s *Stream) Unread() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pending.bytes
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

// Scheduled reports whether a step has begun to compute something of the requests.
func (s *Stream) Scheduled() bool { return s.scheduled.Load() }

// PromptLogprobs are the scores that request i asked for with Request.Prompt, one for each
// prompt token except the first; i is 0 for Submit. They are complete when the request's
// first event can be taken.
func (s *Stream) PromptLogprobs(i int) []PromptLogprob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.mu.prompt[i])
}

// Pooled is what Request.Pool of request i asks for: one vector [Spec.Hidden], or with PoolAll one for each token
// of the prompt, [tokens, Spec.Hidden]. It is complete when the request's event can be taken, and nil before.
func (s *Stream) Pooled(i int) []float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pooled[i]
}

// Vectors is the number of requests whose vectors have been computed, whether their events have been taken or not.
func (s *Stream) Vectors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.vectors
}
