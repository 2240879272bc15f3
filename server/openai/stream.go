package openai

import (
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/engine"
	"weir/server/failure"
	"weir/server/transport"
)

// burst is how many bytes of events are gathered before they are written: all
// that are due go out in one write, up to this.
const burst = 32 << 10

// stream answers with server-sent events. The status is chosen when the first
// event is there, or when the client has waited for so long that it gets 200
// and blank lines.
func (s *Service) stream(c *transport.Call, st *engine.Stream, r *reply) {
	b := newSSE(s, c, st, r)
	if s.cfg.Heartbeat > 0 {
		b.beat = time.NewTimer(s.cfg.Heartbeat - s.http.Now().Sub(c.Begun))
	}
	due, err := await(c.Context(), st, &b.events, b.ticks())
	if due {
		err = failed(&b.events.Items[0])
	}
	if err != nil {
		b.release()
		c.Fail(err)
		return
	}
	if !due {
		b.beat.Reset(0) // the body begins with a blank line
	}
	h := &c.Response.Header
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx
	c.Stream("text/event-stream; charset=utf-8", b)
}

// failed is the error of an event that ends its choice before the answer began.
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

// sse is the body of a streaming answer: an io.ReadCloser that waits for
// events, encodes all that are due, and gives them out in one piece. fasthttp
// writes and flushes each piece on the connection's own goroutine: no pipe, no
// further goroutine, and a client that is slow to read keeps nobody waiting but
// itself. While its body is read nothing is allocated for a token.
type sse struct {
	s    *Service
	call *transport.Call // its RequestCtx is not touched here
	st   *engine.Stream
	r    *reply
	enc  encoder
	beat *time.Timer // nil: no heartbeat

	events engine.Events
	at     int  // events.Items[at:] are not encoded yet
	over   bool // everything has been returned
	live   int  // choices that go on

	buf  []byte // the piece that was returned last
	rest []byte // of buf, for Read
}

func newSSE(s *Service, c *transport.Call, st *engine.Stream, r *reply) *sse {
	return &sse{s: s, call: c, st: st, r: r, live: r.n, enc: r.answer.encoder(r, st)}
}

// SupportsBodyWriteTo makes fasthttp call WriteTo: Read would cut pieces at the
// size of fasthttp's buffer, and an event in two is more than some clients bear.
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

// Read is WriteTo for readers that bring their own buffer.
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

// Close is called when the answer is complete, and when the client does not
// take it; then the request is cancelled.
func (b *sse) Close() error {
	b.release()
	b.call.Done()
	return nil
}

func (b *sse) release() {
	if b.beat != nil {
		b.beat.Stop()
	}
	if b.live > 0 {
		b.st.Cancel()
	}
}

// next is the next piece to write, valid until it is called again; io.EOF when
// there is none.
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
		case b.over:
			return nil, io.EOF
		case b.at < len(b.events.Items):
			b.encode()
		default:
			due, err := await(b.call.Context(), b.st, &b.events, b.ticks())
			b.at = 0
			switch {
			case err != nil: // also when the client has left: the log gets its line
				b.fail(err)
			case !due:
				b.silence()
			}
		}
	}
	return b.buf, nil
}

func (b *sse) ticks() <-chan time.Time {
	if b.beat == nil {
		return nil
	}
	return b.beat.C
}

// silence appends a blank line.
func (b *sse) silence() {
	b.buf = append(b.buf, api.Heartbeat...)
	b.beat.Reset(b.s.cfg.Heartbeat)
}

// encode appends the events that are due to buf.
func (b *sse) encode() {
	for b.at < len(b.events.Items) && len(b.buf) < burst && !b.over {
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
	if b.beat != nil && len(b.buf) > 0 { // hidden thoughts are silence
		b.beat.Reset(b.s.cfg.Heartbeat)
	}
}

// event appends what an event of a choice becomes.
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
	if b.r.usage {
		b.buf = b.enc.usage(b.buf)
	}
	b.call.Settle()
	b.buf = append(b.buf, api.Done...)
	b.over = true
	b.s.record(b.call, b.r.recorded)
}

// fail ends the stream with an error event: just closing the connection would
// look like a short answer to some clients.
func (b *sse) fail(err error) {
	f := b.call.Failed(err)
	b.call.Settle()
	b.buf = append(f.AppendEvent(b.buf), api.Done...)
	b.over = true
}

var _ fasthttp.BodyWriterTo = (*sse)(nil)
