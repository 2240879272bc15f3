package transport

import (
	"bytes"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/longcopy"
	"weir/server/failure"
)

// prefetched is the number of bytes of a body with a Content-Length that fasthttp reads
// before it calls the handler (readBodyWithStreaming in its http.go).
const prefetched = 8 << 10

// unread reports whether some of the request's body has not been read from the connection
// when the handler begins.
func unread(rc *fasthttp.RequestCtx) bool {
	n := rc.Request.Header.ContentLength()
	return n == -1 || n > prefetched // -1: chunked
}

// free releases the share. The memory is left to the garbage collector, because a worker
// that still prepares a request whose client has left may be reading it.
func (b *body) free() {
	if b.bytes == nil {
		return
	}
	b.bytes = nil
	b.all.mu.Lock()
	b.all.release(b)
	b.all.mu.Unlock()
}

// size returns the bytes of its share.
func (b *body) size() int64 {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	return b.taken
}

// read reads the body into b. It allocates memory as bytes arrive, and not by the length
// that was announced.
func (b *body) read(rc *fasthttp.RequestCtx, cfg *Config) error {
	length := rc.Request.Header.ContentLength()
	if length > cfg.MaxBody {
		return failure.ErrTooLarge
	}
	stream := rc.RequestBodyStream()
	if stream == nil {
		return nil
	}
	most := cfg.MaxBody + 1 // with one more byte, a body that is too large differs from one that just fits
	if length >= 0 {
		most = length
	}
	end := time.Now().Add(cfg.BodyTimeout)
	for n := 0; ; {
		if n == len(b.bytes) && n < most {
			if err := b.grow(most); err != nil {
				return err
			}
		}
		deadline, err := b.await(min(cfg.ReadTimeout, time.Until(end)))
		if err != nil {
			return err
		}
		m, err := stream.Read(b.bytes[n:])
		n += m
		inTime := b.pace.add(b.all.now(), m)
		switch {
		case err == io.EOF && (n < length || b.conn.framing.bad != nil):
			return failure.ErrBrokenBody // fasthttp returns EOF also for a body that was cut
		case n > cfg.MaxBody:
			return failure.ErrTooLarge
		case err == io.EOF:
			b.bytes = b.bytes[:n]
			if !b.all.arrived(b) {
				return failure.ErrSlowBody
			}
			return nil
		case b.ended.Load() || err == nil && !inTime:
			return failure.ErrSlowBody
		case err != nil:
			if !time.Now().Before(deadline) { // not all errors of fasthttp say that they are timeouts
				return failure.ErrSlowBody
			}
			return failure.ErrBrokenBody
		}
	}
}

// await sets the deadline for the next piece, which may take as long as most at the most.
func (b *body) await(most time.Duration) (deadline time.Time, err error) {
	deadline = time.Now().Add(min(most, b.pace.patience(b.all.now())))
	switch {
	case b.conn.SetReadDeadline(deadline) != nil:
		return deadline, failure.ErrBrokenBody // closed
	case b.ended.Load(): // bodies.end may have set its deadline before this one
		return deadline, failure.ErrSlowBody
	}
	return deadline, nil
}

// grow makes space for more bytes, twice as much as there is, but at most most in all. With
// less at a time a body of 12 MB would come to 45 MB of memory on its way, and not 28, and new
// memory is what other clients notice of large bodies.
func (b *body) grow(most int) error {
	const first = 16 << 10
	size := max(2*len(b.bytes), first)
	size = min(size, most)
	if err := b.all.reserve(b, int64(size-len(b.bytes))); err != nil {
		return err
	}
	next := make([]byte, size)
	longcopy.Copy(next, b.bytes)
	b.bytes = next
	return nil
}

// ReadBody reads the whole body, of at most Config.MaxBody bytes, so that Body returns it.
// It fails if the body is too large, is cut, comes too slowly, or does not fit into
// Config.MaxBodies or Config.Memory beside those of others.
func (c *Call) ReadBody() error {
	if err := c.Memory().Grow(c.Context(), callBytes); err != nil {
		return err
	}
	c.body.client = c.Tenant()
	c.conn.reading.Store(true)
	defer c.conn.reading.Store(false)
	if err := c.body.read(c.RequestCtx, &c.server.cfg); err != nil {
		return err
	}
	c.bodyRead = true
	c.Memory().Beside(c.body.size())
	return nil
}

// byteOrderMark is what some editors and tools put in front of a text in UTF-8. A body may
// begin with it, as with Python's json, although RFC 8259 asks senders not to do so.
const byteOrderMark = "\uFEFF"

// Body returns what ReadBody has read, without a byte order mark, or nil after FreeBody.
func (c *Call) Body() []byte {
	if c.decoded != nil {
		return c.decoded
	}
	return bytes.TrimPrefix(c.body.bytes, []byte(byteOrderMark))
}

// FreeBody returns the call's share of Config.MaxBodies. A handler calls it as soon as it
// does not need the body any more; otherwise it is called when the handler returns.
func (c *Call) FreeBody() {
	c.body.free()
	c.Memory().Beside(0)
}

// Holds returns the bytes that the call holds in its reservation and for its body.
func (c *Call) Holds() int64 { return c.Memory().Held() + c.body.size() }

// Reserve takes n bytes of Config.MaxBodies, as a body of that size does, and reports whether
// so many were left. It is for tests of what happens when there are none.
func (s *Server) Reserve(n int64) bool { return s.bodies.take(n) }

// Release returns n bytes that Reserve took.
func (s *Server) Release(n int64) { s.bodies.give(n) }
