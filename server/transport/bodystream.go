package transport

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/klauspost/compress/zstd"

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

// KnownEncoding reports whether Decode knows a Content-Encoding, which is in lower case.
func KnownEncoding(name string) bool {
	switch name {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// Decode returns the body without its Content-Encoding, which KnownEncoding knows, and
// without a byte order mark. Reading
// fails with failure.ErrRatio if there are more than ratio decoded bytes for each byte that
// was sent. reserve is asked for the memory of a decoder. done releases the decoder.
func (f *BodyStream) Decode(encoding string, ratio int, reserve func(n int64) error) (r io.Reader, done func(), err error) {
	bound := &bound{in: f, most: f.most, ratio: int64(ratio)}
	switch encoding {
	case "gzip", "x-gzip":
		if err := reserve(gzipBytes); err != nil {
			return nil, nil, err
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, nil, failure.ErrEncoding
		}
		bound.r = z
		return &unmarked{Reader: bound}, func() {}, nil
	case "zstd":
		in := bufio.NewReaderSize(f, zstd.HeaderMaxSize)
		window := zstdWindow(in)
		if err := reserve(int64(window) + zstdBytes); err != nil {
			return nil, nil, err
		}
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, failure.ErrEncoding
		}
		bound.r = z
		return &unmarked{Reader: bound}, z.Close, nil
	}
	return &unmarked{Reader: f}, func() {}, nil
}

const (
	// What decoders take, that of zstd beside its window. TestDecoderSizes measures them.
	gzipBytes = 64 << 10
	zstdBytes = 1 << 20

	// mostWindow is more than zstd's levels up to 22 take without --ultra --long. RFC 8878
	// recommends leastWindow to decoders.
	mostWindow  = 32 << 20
	leastWindow = 8 << 20
)

// zstdWindow returns the largest window that the frames of a body may have: that of the first
// one, so that the memory for a larger one is reserved by those who need it.
func zstdWindow(in *bufio.Reader) uint64 {
	var h zstd.Header
	first, _ := in.Peek(zstd.HeaderMaxSize) // an error comes again when the body is read
	if h.Decode(first) != nil {
		return leastWindow
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	return min(max(window, leastWindow), mostWindow)
}

// bound bounds the output of a decoder.
type bound struct {
	r           io.Reader
	in          *BodyStream
	most, ratio int64
	n           int64
}

// slack is the number of decoded bytes from which on the ratio is checked. The beginning of
// a body is often very repetitive.
const slack = 1 << 20

func (b *bound) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	switch {
	case b.n > b.most:
		return 0, failure.ErrTooLarge
	case b.n > slack && b.n > b.ratio*b.in.n:
		return 0, failure.ErrRatio
	case err == nil || err == io.EOF || b.in.err != nil:
		return n, err
	}
	return n, failure.ErrEncoding
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
