package openai

import (
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"weir/engine"
	"weir/server/failure"
	"weir/server/transport"
)

// burst is the size in bytes from which on no further event is added to a piece. All
// events that are due are written with one call, up to this size.
const burst = 32 << 10

// stream answers with server-sent events. It chooses the status when the first event is
// there. If that takes longer than Config.Heartbeat, the status is 200 and the body begins
// with blank lines.
func (s *Service) stream(c *transport.Call, st *engine.Stream, r *reply) {
	b := newSSE(s, c, st, r)
	if s.cfg.Heartbeat > 0 {
		b.timer = time.NewTimer(s.cfg.Heartbeat - s.http.Now().Sub(c.Begun))
	}
	due, err := await(c.Context(), st, &b.events, b.ticks())
	if due {
		err = failed(&b.events.Items[0])
	}
	if err != nil {
		b.release()
		f := r.fail(c, err)
		s.recordFailure(c, r.recorded, f.Message)
		return
	}
	if !due {
		b.timer.Reset(0) // the body begins with a blank line
	}
	h := &c.Response.Header
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx
	contentType, _ := b.enc.form()
	c.Stream(contentType, b)
}

// failed returns the error that an event ends its choice with, or nil. An abort is an error
// only if it comes without a token.
func failed(ev *engine.Event) error {
	switch {
	case ev.Reason == engine.Failed && ev.Err != nil:
		return ev.Err
	case ev.Reason == engine.Failed:
		return failure.ErrEngineFailed
	case ev.Reason == engine.Aborted && ev.Token < 0:
		return failure.ErrDraining
	}
	return nil
}

// sse is the body of a streaming answer: an io.ReadCloser that waits for events, encodes
// all that are due, and returns them as one piece. fasthttp writes and flushes each piece
// on the goroutine of the connection, so that there is neither a pipe nor a further
// goroutine, and a client that reads slowly delays nobody else. Nothing is allocated for a
// token.
type sse struct {
	s     *Service
	call  *transport.Call // its RequestCtx is not touched here
	st    *engine.Stream
	r     *reply
	enc   encoder
	timer *time.Timer // fires when a heartbeat is due; nil: there are none

	events engine.Events
	at     int  // events.Items[at:] are not encoded yet
	ended  bool // the last piece has been made
	live   int  // choices that have not ended

	buf  []byte // the piece that was returned last
	rest []byte // of buf, for Read
}

func newSSE(s *Service, c *transport.Call, st *engine.Stream, r *reply) *sse {
	return &sse{s: s, call: c, st: st, r: r, live: r.n, enc: r.answer.encoder(r, st)}
}

// SupportsBodyWriteTo makes fasthttp call WriteTo. Read would cut pieces at the size of
// fasthttp's buffer, and some clients fail on an event that comes in two parts.
func (b *sse) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the events, each piece with one Write.
func (b *sse) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for {
		piece, err := b.next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		m, err := w.Write(piece)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
}

// Read returns the same bytes as WriteTo, in pieces that fit into p.
func (b *sse) Read(p []byte) (n int, err error) {
	if len(b.rest) == 0 {
		if b.rest, err = b.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends the call. It is called when the answer is complete, and also when it could
// not be written; in this case it cancels the request.
func (b *sse) Close() error {
	b.release()
	if !b.ended { // its client does not read it any more
		b.s.recordFailure(b.call, b.r.recorded, gone)
	}
	b.call.Done()
	return nil
}

// release stops the timer, and cancels the request if choices are still going on.
func (b *sse) release() {
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.live > 0 {
		b.st.Cancel()
	}
	b.r.budget.close()
}

// next returns the next piece to write, which is valid until the next call, or io.EOF
// after the last one. It waits until there is something to write.
func (b *sse) next() (piece []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.buf = b.buf[:0]
			b.fail(fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack()))
			piece, err = b.buf, nil
		}
	}()
	b.buf = b.buf[:0]
	for len(b.buf) == 0 {
		switch {
		case b.ended:
			return nil, io.EOF
		case b.at < len(b.events.Items):
			b.encode()
		default:
			due, err := await(b.call.Context(), b.st, &b.events, b.ticks())
			b.at = 0
			switch {
			case err != nil: // fail writes to the log, also for a client that has left
				b.fail(err)
			case !due:
				b.heartbeat()
			}
		}
	}
	return b.buf, nil
}

// ticks returns the channel of the heartbeat's timer; nil: there is no heartbeat.
func (b *sse) ticks() <-chan time.Time {
	if b.timer == nil {
		return nil
	}
	return b.timer.C
}

// heartbeat appends what keeps a silent stream open, such as a blank line.
func (b *sse) heartbeat() {
	_, blank := b.enc.form()
	b.buf = append(b.buf, blank...)
	b.timer.Reset(b.s.cfg.Heartbeat)
}

// encode appends the events that are due to buf.
func (b *sse) encode() {
	for b.at < len(b.events.Items) && len(b.buf) < burst && !b.ended {
		ev := &b.events.Items[b.at]
		switch {
		case ev.Reason == engine.Failed:
			b.at++
			b.fail(failed(ev))
		default:
			var opening bool
			if b.buf, opening = b.enc.open(b.buf); !opening {
				b.at++
				b.event(ev)
			}
		}
	}
	if b.timer != nil && len(b.buf) > 0 { // tokens that are not shown do not count as an event
		b.timer.Reset(b.s.cfg.Heartbeat)
	}
}

// event appends the encoding of an event, and after the last event of the last choice
// the end of the stream.
func (b *sse) event(ev *engine.Event) {
	b.r.recorded.add(ev)
	var last bool
	if b.buf, last = b.enc.event(b.buf, ev); !last {
		return
	}
	if b.live--; b.live == 0 {
		b.end()
	}
}

// end appends what follows the last choice.
func (b *sse) end() {
	b.buf = b.enc.end(b.buf)
	b.call.Settle()
	b.ended = true
	b.s.record(b.call, b.r.recorded, b.st)
}

// fail ends the stream with an error event, because some clients would take a connection
// that is only closed for the end of a short answer.
func (b *sse) fail(err error) {
	f := b.call.Failed(err)
	b.call.Settle()
	b.s.recordFailure(b.call, b.r.recorded, f.Message)
	b.buf = b.enc.broken(b.buf, f)
	b.ended = true
}

var _ fasthttp.BodyWriterTo = (*sse)(nil)
