package transport

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/server/failure"
)

var ()

// prefetched is how much of a body with a Content-Length fasthttp has read
// before it calls the handler (its readBodyWithStreaming).
const prefetched = 8 << 10

// unread reports whether some of the request's body is still on its way, if
// the handler has not asked for it.
func unread(rc *fasthttp.RequestCtx) bool {
	n := rc.Request.Header.ContentLength()
	return n == -1 || n > prefetched // -1: chunked
}

// budget counts the bytes of request bodies in hand: of one client they are
// bounded by MaxBody, of all together here.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// body is a request's body and its share of the budget.
type body struct {
	bytes  []byte
	budget *budget
	taken  int64
}

// free releases the share. The bytes are the garbage collector's: whoever
// still prepares a request whose client has gone may read them.
func (b *body) free() {
	b.budget.give(b.taken)
	b.bytes, b.taken = nil, 0
}

// read reads the body into b. Memory is taken as bytes arrive, not as they are
// announced.
func (b *body) read(rc *fasthttp.RequestCtx, cfg *Config) error {
	length := rc.Request.Header.ContentLength()
	if length > cfg.MaxBody {
		return failure.ErrTooLarge
	}
	stream := rc.RequestBodyStream()
	if stream == nil {
		return nil
	}
	most := cfg.MaxBody + 1 // one more tells a body that is too large from one that just fits
	if length >= 0 {
		most = length
	}
	c := rc.Conn()
	end := time.Now().Add(cfg.BodyTimeout)
	for n := 0; ; {
		if n == len(b.bytes) && n < most && !b.grow(most) {
			return failure.ErrMemory
		}
		deadline := time.Now().Add(cfg.ReadTimeout)
		if deadline.After(end) {
			deadline = end
		}
		if c.SetReadDeadline(deadline) != nil {
			return failure.ErrBrokenBody // closed
		}
		m, err := stream.Read(b.bytes[n:])
		n += m
		switch {
		case err == io.EOF && n < length:
			return failure.ErrBrokenBody // fasthttp says EOF for a body that was cut, too
		case n > cfg.MaxBody:
			return failure.ErrTooLarge
		case err == io.EOF:
			b.bytes = b.bytes[:n]
			return nil
		case err != nil:
			if !time.Now().Before(deadline) { // some of fasthttp's errors do not say so
				return failure.ErrSlowBody
			}
			return failure.ErrBrokenBody
		}
	}
}

// grow makes space for more bytes, at most most in all.
func (b *body) grow(most int) bool {
	const first = 16 << 10
	size := min(max(2*len(b.bytes), first), most)
	more := int64(size - len(b.bytes))
	if !b.budget.take(more) {
		return false
	}
	b.taken += more
	next := make([]byte, size)
	copy(next, b.bytes)
	b.bytes = next
	return true
}

// ReadBody reads the whole body, at most Config.MaxBody bytes, for Body.
func (c *Call) ReadBody() error {
	if err := c.body.read(c.RequestCtx, &c.server.cfg); err != nil {
		return err
	}
	c.bodyRead = true
	return nil
}

// Body is what ReadBody has read, until FreeBody.
func (c *Call) Body() []byte { return c.body.bytes }

// FreeBody gives up what the call holds of the bound on all bodies. It is called as soon
// as nothing needs the body any more, and has been when the call ends.
func (c *Call) FreeBody() { c.body.free() }

// Reserve takes n bytes of the bound on the bodies of all requests, for what a handler
// holds of a body that it reads itself. It reports whether there were so many left.
func (s *Server) Reserve(n int64) bool { return s.bodies.take(n) }

// Release gives back what Reserve took.
func (s *Server) Release(n int64) { s.bodies.give(n) }
