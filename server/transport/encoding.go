package transport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"weir/server/failure"
)

// encoded is a body as it was sent.
type encoded interface {
	io.Reader
	count() int64  // bytes that were read so far
	failed() error // what ended the reading, other than io.EOF
}

// KnownEncoding reports whether Decode knows a Content-Encoding, which is in lower case.
func KnownEncoding(name string) bool {
	switch name {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// decode returns the body without its Content-Encoding, which KnownEncoding knows. Reading fails
// with failure.ErrTooLarge and failure.ErrRatio beyond the bound. reserve is asked for the memory of
// a decoder. done releases the decoder.
func decode(f encoded, encoding string, b bound, reserve func(n int64) error) (r io.Reader, done func(), err error) {
	done = func() {}
	switch encoding {
	case "gzip", "x-gzip":
		if err := reserve(gzipBytes); err != nil {
			return nil, done, err
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, done, failure.ErrEncoding
		}
		b.in, b.r = f, z
		return &b, done, nil
	case "zstd":
		in := bufio.NewReaderSize(f, zstd.HeaderMaxSize)
		window := zstdWindow(in)
		if err := reserve(int64(window) + zstdBytes); err != nil {
			return nil, done, err
		}
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, done, failure.ErrEncoding
		}
		b.in, b.r = f, z
		return &b, z.Close, nil
	}
	return f, done, nil
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
	in          encoded
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
	case b.n > slack && b.n > b.ratio*b.in.count():
		return 0, failure.ErrRatio
	case err == nil || err == io.EOF || b.in.failed() != nil:
		return n, err
	}
	return n, failure.ErrEncoding
}

// whole is a body that is in memory.
type whole struct {
	*bytes.Reader
	size int64
}

func (w *whole) count() int64  { return w.size - int64(w.Len()) }
func (w *whole) failed() error { return nil }

// encoding is the Content-Encoding of the request.
func (c *Call) encoding() string {
	return strings.ToLower(strings.TrimSpace(string(c.Request.Header.Peek("Content-Encoding"))))
}

// decodeBody replaces a body that has been read by what it is without its Content-Encoding, at
// most max bytes, and at most ratio for each that was sent. The memory is reserved as it grows.
func (c *Call) decodeBody(max, ratio int) error {
	encoding := c.encoding()
	if encoding == "" || encoding == "identity" {
		return nil
	}
	reserve := func(n int64) error { return c.Memory().Grow(c.Context(), n) }
	sent := c.Body()
	r, done, err := decode(&whole{bytes.NewReader(sent), int64(len(sent))}, encoding, bound{most: int64(max), ratio: int64(ratio)}, reserve)
	if err != nil {
		return err
	}
	defer done()
	var out []byte
	for {
		if len(out) == cap(out) {
			next := 2*cap(out) + 4*len(sent) + 1<<10
			if err := reserve(int64(next)); err != nil {
				return err
			}
			out = append(make([]byte, 0, next), out...)
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err == io.EOF {
			c.decoded = out
			return nil
		}
		if err != nil {
			return err
		}
	}
}
