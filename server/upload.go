package server

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"

	"weir/auth"
	"weir/server/failure"
	"weir/server/recording"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// logTrajectories answers POST /v1/preview/models/{model_id}/log. Checks come in
// the order of T-6; the body passes through in pieces, and nothing of it is seen
// before all of it is known to be good and on the disk.
func (s *Server) logTrajectories(c *transport.Call, model string) {
	cfg := &s.cfg.Trajectories
	if int64(c.Request.Header.ContentLength()) > cfg.MaxBody {
		c.Fail(failure.ErrTooLarge)
		return
	}
	encoding := strings.ToLower(strings.TrimSpace(string(c.Request.Header.Peek("Content-Encoding"))))
	if !transport.JSONType(string(c.Request.Header.ContentType())) || !transport.KnownEncoding(encoding) {
		c.Fail(failure.ErrMedia)
		return
	}
	key := string(c.Request.Header.Peek("Idempotency-Key"))
	if !validKey(key) {
		c.Fail(invalid([]string{"header", "Idempotency-Key"}, "value_error", "Value error, want 1 to 255 printable ASCII characters"))
		return
	}
	if s.http.Draining() {
		c.Fail(failure.ErrDraining)
		return
	}
	if err := recording.Quota(cfg.Archive, cfg.Quota, c.Who.Tenant, 0); err != nil {
		c.Fail(err)
		return
	}
	if n := s.uploads.Add(1); n > int64(cfg.MaxUploads) {
		s.uploads.Add(-1)
		c.Fail(failure.ErrUploads)
		return
	}
	defer s.uploads.Add(-1)
	receipt, err := s.upload(c, model, encoding, key)
	if err != nil {
		c.Fail(err)
		return
	}
	if !receipt.Duplicate {
		s.counts.Logged(receipt.Trajectories, receipt.Bytes)
	}
	d := appendReceipt(nil, model, &receipt)
	c.Reply(append(strconv.AppendBool(append(d, `,"duplicate":`...), receipt.Duplicate), '}'))
}

// validKey reports whether an Idempotency-Key is one, or absent (section 7).
func validKey(key string) bool {
	return len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}

// upload stages and commits the body.
func (s *Server) upload(c *transport.Call, model, encoding, key string) (archive.Receipt, error) {
	cfg := &s.cfg.Trajectories
	raw := c.BodyStream(cfg.MaxBody, cfg.Idle)
	body, done, err := raw.Decode(encoding, cfg.MaxRatio)
	if err != nil {
		return archive.Receipt{}, errors.Join(raw.Err(), err)
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
	allowed := c.Who.Rights&auth.Write != 0 && c.Who.MayUse(model)
	if allowed {
		if up, err = cfg.Archive.Begin(c.Context(), c.Who.Tenant, model); err != nil {
			return archive.Receipt{}, err
		}
		defer up.Abort()
		sink = up
	}
	limits := cfg.Limits
	var taken int64
	limits.Reserve = func(n int) bool {
		if !s.http.Reserve(int64(n)) {
			return false
		}
		taken += int64(n)
		return true
	}
	defer func() { s.http.Release(taken) }()
	envelope, err := trajectory.Read(body, limits, sink)
	switch {
	case raw.Err() != nil: // decoders have names of their own for it
		return archive.Receipt{}, raw.Err()
	case err != nil:
		return archive.Receipt{}, err
	}
	if !allowed {
		return archive.Receipt{}, failure.ErrForbidden
	}
	if cfg.Registered {
		if err := cfg.Archive.View(c.Who.Tenant, func(v *archive.View) error { return v.Known(model) }); err != nil {
			return archive.Receipt{}, err
		}
	}
	if err := recording.Quota(cfg.Archive, cfg.Quota, c.Who.Tenant, envelope.Bytes); err != nil {
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
