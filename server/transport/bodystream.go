package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"weir/server/failure"
)

// BodyStream reads a request body as it is sent, and never holds it as a whole. Each piece
// has a deadline, the number of bytes is bounded, and io.EOF comes only after a complete
// body.
type BodyStream struct {
	r      io.Reader // nil: there is no body
	c      *Call
	idle   time.Duration
	pace   pace
	length int64 // announced; below 0: chunked
	most   int64
	n      int64
	err    error // the first one other than io.EOF
}

// BodyStream returns the body of a call, which may have at most the given number of bytes,
// both as it is sent and decoded. Reading fails when the client sends nothing for as long
// as idle, or less than Config.BodyRate in as long as idle. There is no limit on the time of
// the whole body.
func (c *Call) BodyStream(most int64, idle time.Duration) *BodyStream {
	return &BodyStream{
		r: c.RequestBodyStream(), c: c, idle: idle, length: int64(c.Request.Header.ContentLength()), most: most,
		pace: pace{least: c.server.cfg.BodyRate, window: idle},
	}
}

// Err returns the first error of the stream other than io.EOF. A decoder may return
// another error in place of it.
func (f *BodyStream) Err() error { return f.err }

// Read implements io.Reader. Its errors are those of package failure, or the cause of the
// call's context.
func (f *BodyStream) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.r == nil {
		return 0, io.EOF
	}
	deadline := time.Now().Add(min(f.idle, f.pace.patience(f.c.server.Now())))
	if f.c.conn.SetReadDeadline(deadline) != nil {
		return 0, f.fail(failure.ErrBrokenBody) // closed
	}
	f.c.conn.reading.Store(true)
	n, err := f.r.Read(p)
	f.c.conn.reading.Store(false)
	f.n += int64(n)
	inTime := f.pace.add(f.c.server.Now(), n)
	switch {
	case f.n > f.most:
		return 0, f.fail(failure.ErrTooLarge)
	case err == io.EOF && (f.n < f.length || f.c.conn.framing.bad != nil):
		return n, f.fail(f.cut()) // fasthttp returns EOF also for a body that was cut
	case err == nil && !inTime:
		return n, f.fail(failure.ErrSlowBody)
	case err == nil || err == io.EOF:
		f.c.bodyRead = f.c.bodyRead || err == io.EOF
		return n, err
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || !time.Now().Before(deadline) {
		return n, f.fail(failure.ErrSlowBody)
	}
	return n, f.fail(f.cut())
}

// cut returns the reason why the body ends too early.
func (f *BodyStream) cut() error {
	if f.c.ctx.Err() != nil {
		return context.Cause(f.c.ctx)
	}
	return failure.ErrBrokenBody
}

// fail keeps err as the error of the stream and returns it.
func (f *BodyStream) fail(err error) error {
	f.err = err
	return err
}

func (f *BodyStream) count() int64  { return f.n }
func (f *BodyStream) failed() error { return f.err }

// Decode returns the body without its Content-Encoding, which KnownEncoding knows, and
// without a byte order mark. Reading
// fails with failure.ErrRatio if there are more than ratio decoded bytes for each byte that
// was sent. reserve is asked for the memory of a decoder. done releases the decoder.
func (f *BodyStream) Decode(encoding string, ratio int, reserve func(n int64) error) (r io.Reader, done func(), err error) {
	r, done, err = decode(f, encoding, bound{most: f.most, ratio: int64(ratio)}, reserve)
	return &unmarked{Reader: r}, done, err
}

// unmarked leaves a byte order mark at the beginning out.
type unmarked struct {
	io.Reader
	begun bool
	first []byte // bytes that were read to look for it
}

func (u *unmarked) Read(p []byte) (int, error) {
	if !u.begun {
		u.begun, u.first = true, make([]byte, len(byteOrderMark))
		n, err := io.ReadFull(u.Reader, u.first)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, err
		}
		if u.first = u.first[:n]; string(u.first) == byteOrderMark {
			u.first = nil
		}
	}
	if len(u.first) > 0 {
		n := copy(p, u.first)
		u.first = u.first[n:]
		return n, nil
	}
	return u.Reader.Read(p)
}
