package transport

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
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

// budget bounds the bytes of all request bodies in memory together. Each single body is
// bounded by Config.MaxBody.
type budget struct {
	most int64
	used atomic.Int64
	held *memory.Reservation // of used bytes; bodies do not wait for memory
}

// take adds n bytes, and reports whether they are within the bound. If not, it adds none.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most || !b.held.TryGrow(n) {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) {
	b.used.Add(-n)
	b.held.Shrink(n)
}

// body is a request's body and its share of the budget.
type body struct {
	bytes  []byte
	budget *budget
	taken  int64
}

// free releases the share. The memory is left to the garbage collector, because a worker
// that still prepares a request whose client has left may be reading it.
func (b *body) free() {
	b.budget.give(b.taken)
	b.bytes, b.taken = nil, 0
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
			return failure.ErrBrokenBody // fasthttp returns EOF also for a body that was cut
		case n > cfg.MaxBody:
			return failure.ErrTooLarge
		case err == io.EOF:
			b.bytes = b.bytes[:n]
			return nil
		case err != nil:
			if !time.Now().Before(deadline) { // not all errors of fasthttp say that they are timeouts
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

// ReadBody reads the whole body, of at most Config.MaxBody bytes, so that Body returns it.
// It fails if the body is too large, is cut, comes too slowly, or does not fit into
// Config.MaxBodies or Config.Memory.
func (c *Call) ReadBody() error {
	if err := c.Memory().Grow(c.Context(), callBytes); err != nil {
		return err
	}
	if err := c.body.read(c.RequestCtx, &c.server.cfg); err != nil {
		return err
	}
	c.bodyRead = true
	return nil
}

// Body returns what ReadBody has read, or nil after FreeBody.
func (c *Call) Body() []byte { return c.body.bytes }

// FreeBody returns the call's share of Config.MaxBodies. A handler calls it as soon as it
// does not need the body any more; otherwise it is called when the handler returns.
func (c *Call) FreeBody() { c.body.free() }

// Reserve takes n bytes of Config.MaxBodies, for the memory of a handler that reads a body
// itself. It reports whether so many were left.
func (s *Server) Reserve(n int64) bool { return s.bodies.take(n) }

// Release returns n bytes that Reserve took.
func (s *Server) Release(n int64) { s.bodies.give(n) }
