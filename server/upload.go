package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/auth"
	"weir/server/failure"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// logTrajectories answers POST /v1/preview/models/{model_id}/log. Checks come in
// the order of T-6; the body passes through in pieces, and nothing of it is seen
// before all of it is known to be good and on the disk.
func (s *Server) logTrajectories(c *call, model string) {
	cfg := &s.cfg.Trajectories
	if int64(c.Request.Header.ContentLength()) > cfg.MaxBody {
		s.fail(c, failure.ErrTooLarge)
		return
	}
	encoding := strings.ToLower(strings.TrimSpace(string(c.Request.Header.Peek("Content-Encoding"))))
	if !feedbackType(string(c.Request.Header.ContentType())) || !knownEncoding(encoding) {
		s.fail(c, failure.ErrMedia)
		return
	}
	key := string(c.Request.Header.Peek("Idempotency-Key"))
	if !validKey(key) {
		s.fail(c, invalid([]string{"header", "Idempotency-Key"}, "value_error", "Value error, want 1 to 255 printable ASCII characters"))
		return
	}
	if s.draining.Load() {
		s.fail(c, failure.ErrDraining)
		return
	}
	if err := s.quota(c.who.Tenant, 0); err != nil {
		s.fail(c, err)
		return
	}
	if n := s.uploads.Add(1); n > int64(cfg.MaxUploads) {
		s.uploads.Add(-1)
		s.fail(c, failure.ErrUploads)
		return
	}
	defer s.uploads.Add(-1)
	receipt, err := s.upload(c, model, encoding, key)
	if err != nil {
		s.fail(c, err)
		return
	}
	if !receipt.Duplicate {
		s.counts.Logged(receipt.Trajectories, receipt.Bytes)
	}
	d := appendReceipt(nil, model, &receipt)
	c.found(append(strconv.AppendBool(append(d, `,"duplicate":`...), receipt.Duplicate), '}'))
}

// quota reports whether a tenant may log so many bytes more. Two uploads at a time
// may both be the last one.
func (s *Server) quota(tenant string, more int64) error {
	most := s.cfg.Trajectories.Quota
	if most <= 0 {
		return nil
	}
	used, err := s.cfg.Trajectories.Archive.Used(tenant)
	if err == nil && used+more > most {
		err = failure.ErrQuota
	}
	return err
}

func knownEncoding(name string) bool {
	switch name {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// validKey reports whether an Idempotency-Key is one, or absent (section 7).
func validKey(key string) bool {
	return len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}

// upload stages and commits the body.
func (s *Server) upload(c *call, model, encoding, key string) (archive.Receipt, error) {
	cfg := &s.cfg.Trajectories
	raw := &inflow{r: c.RequestBodyStream(), c: c, idle: cfg.Idle, length: int64(c.Request.Header.ContentLength()), most: cfg.MaxBody}
	body, done, err := decoded(raw, encoding, cfg)
	if err != nil {
		return archive.Receipt{}, errors.Join(raw.err, err)
	}
	defer done()
	var digest hash.Hash
	if key != "" {
		digest = sha256.New()
		body = io.TeeReader(body, digest)
	}
	// Who may not write learns that behind the errors of the body (T-6), but
	// nothing of it is staged.
	var sink trajectory.Sink = discard{}
	var up *archive.Upload
	allowed := c.who.Rights&auth.Write != 0 && c.who.MayUse(model)
	if allowed {
		if up, err = cfg.Archive.Begin(c.ctx, c.who.Tenant, model); err != nil {
			return archive.Receipt{}, err
		}
		defer up.Abort()
		sink = up
	}
	limits := cfg.Limits
	var taken int64
	limits.Reserve = func(n int) bool {
		if !s.bodies.take(int64(n)) {
			return false
		}
		taken += int64(n)
		return true
	}
	defer func() { s.bodies.give(taken) }()
	envelope, err := trajectory.Read(body, limits, sink)
	c.bodyRead = c.bodyRead || raw.over
	switch {
	case raw.err != nil: // decoders have names of their own for it
		return archive.Receipt{}, raw.err
	case err != nil:
		return archive.Receipt{}, err
	}
	if !allowed {
		return archive.Receipt{}, failure.ErrForbidden
	}
	if cfg.Registered {
		if err := cfg.Archive.View(c.who.Tenant, func(v *archive.View) error { return v.Known(model) }); err != nil {
			return archive.Receipt{}, err
		}
	}
	if err := s.quota(c.who.Tenant, envelope.Bytes); err != nil {
		return archive.Receipt{}, err
	}
	m := archive.Meta{Split: envelope.Split, Step: envelope.Step, Bytes: envelope.Bytes, Key: key}
	if digest != nil {
		m.Digest = digest.Sum(nil)
	}
	return up.Commit(m)
}

// discard is a sink for bodies that are only checked.
type discard struct{}

func (discard) Trajectory(*trajectory.Trajectory) error { return nil }
func (discard) Group(*trajectory.Group) error           { return nil }

// inflow is a request body as it is sent: read with a deadline for each piece,
// bounded, and known to be complete when it ends.
type inflow struct {
	r      io.Reader // nil: there is no body
	c      *call
	idle   time.Duration
	length int64 // announced; below 0: chunked
	most   int64
	n      int64
	over   bool
	err    error // the first that is not the end
}

func (f *inflow) Read(p []byte) (int, error) {
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
		f.over = err == io.EOF
		return n, err
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || !time.Now().Before(deadline) {
		return n, f.fail(failure.ErrSlowBody)
	}
	return n, f.fail(f.cut())
}

// cut is why the body ends too early.
func (f *inflow) cut() error {
	if f.c.ctx.Err() != nil {
		return context.Cause(f.c.ctx)
	}
	return failure.ErrBrokenBody
}

func (f *inflow) fail(err error) error {
	f.err = err
	return err
}

// decoded undoes the Content-Encoding. done releases what that takes.
func decoded(f *inflow, encoding string, cfg *Trajectories) (r io.Reader, done func(), err error) {
	bound := &bound{in: f, most: cfg.MaxBody, ratio: int64(cfg.MaxRatio)}
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
	in          *inflow
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
