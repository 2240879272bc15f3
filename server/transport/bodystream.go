package transport

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/server/failure"
)

// BodyStream is a request body as it is sent: read with a deadline for each piece,
// bounded, and known to be complete when it ends.
type BodyStream struct {
	r      io.Reader // nil: there is no body
	c      *Call
	idle   time.Duration
	length int64 // announced; below 0: chunked
	most   int64
	n      int64
	err    error // the first that is not the end
}

// BodyStream returns the body of a call, of at most the given number of bytes, sent and
// decoded. A client that sends nothing for as long as idle fails it; there is no limit
// for the body as a whole.
func (c *Call) BodyStream(most int64, idle time.Duration) *BodyStream {
	return &BodyStream{r: c.RequestBodyStream(), c: c, idle: idle, length: int64(c.Request.Header.ContentLength()), most: most}
}

// Err is the first error of the stream that is not its end. Decoders have names of their
// own for it.
func (f *BodyStream) Err() error { return f.err }

func (f *BodyStream) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.r == nil {
		return 0, io.EOF
	}
	deadline := time.Now().Add(f.idle)
	if f.c.conn.SetReadDeadline(deadline) != nil {
		return 0, f.fail(failure.ErrBrokenBody) // closed
	}
	n, err := f.r.Read(p)
	f.n += int64(n)
	switch {
	case f.n > f.most:
		return 0, f.fail(failure.ErrTooLarge)
	case err == io.EOF && f.n < f.length:
		return n, f.fail(f.cut()) // fasthttp says EOF for a body that was cut, too
	case err == nil || err == io.EOF:
		f.c.bodyRead = f.c.bodyRead || err == io.EOF
		return n, err
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || !time.Now().Before(deadline) {
		return n, f.fail(failure.ErrSlowBody)
	}
	return n, f.fail(f.cut())
}

// cut is why the body ends too early.
func (f *BodyStream) cut() error {
	if f.c.ctx.Err() != nil {
		return context.Cause(f.c.ctx)
	}
	return failure.ErrBrokenBody
}

func (f *BodyStream) fail(err error) error {
	f.err = err
	return err
}

// KnownEncoding reports whether Decode knows a Content-Encoding, in lower case.
func KnownEncoding(name string) bool {
	switch name {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// Decode undoes a Content-Encoding. At most ratio bytes may come out for each byte that
// was sent. done releases what decoding takes.
func (f *BodyStream) Decode(encoding string, ratio int) (r io.Reader, done func(), err error) {
	bound := &bound{in: f, most: f.most, ratio: int64(ratio)}
	switch encoding {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, nil, failure.ErrEncoding
		}
		bound.r = z
		return bound, func() {}, nil
	case "zstd":
		const window = 32 << 20 // more than zstd's levels up to 22 take without --ultra --long
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, failure.ErrEncoding
		}
		bound.r = z
		return bound, z.Close, nil
	}
	return f, func() {}, nil
}

// bound guards what comes out of a decoder.
type bound struct {
	r           io.Reader
	in          *BodyStream
	most, ratio int64
	n           int64
}

// slack is how much may come out before the ratio counts: the beginning of a body
// often repeats itself.
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
