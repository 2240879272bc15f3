package trajectoryapi

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"

	"weir/auth"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// logTrajectories answers POST /v1/preview/models/{model_id}/log. Checks come in the
// order of docs/interface/trajectories.md, T-6. The body passes through in pieces, and
// nothing of it can be read before all of it was checked and is on the disk.
func (h *Handlers) logTrajectories(c *transport.Call, model string) {
	cfg := &h.cfg
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
	if !transport.ValidIdempotencyKey(key) {
		c.Fail(invalid([]string{"header", "Idempotency-Key"}, "value_error", "Value error, want 1 to 255 printable ASCII characters"))
		return
	}
	if h.transport.Draining() {
		c.Fail(failure.ErrDraining)
		return
	}
	if err := cfg.Archive.CheckQuota(c.Who.Tenant, 0, cfg.Quota); err != nil {
		c.Fail(err)
		return
	}
	give, err := h.uploads.Take(c.Tenant())
	if err != nil {
		c.Fail(err)
		return
	}
	defer give()
	receipt, err := h.upload(c, model, encoding, key)
	if err != nil {
		c.Fail(err)
		return
	}
	if !receipt.Duplicate {
		h.counts.Logged(receipt.Trajectories, receipt.Bytes)
	}
	d := appendReceipt(nil, model, &receipt)
	c.Reply(append(strconv.AppendBool(append(d, `,"duplicate":`...), receipt.Duplicate), '}'))
}

// upload stages and commits the body.
func (h *Handlers) upload(c *transport.Call, model, encoding, key string) (archive.Receipt, error) {
	cfg := &h.cfg
	reserve, release := h.reserving(c)
	defer release()
	if err := reserve(uploadBytes); err != nil {
		return archive.Receipt{}, err
	}
	raw := c.BodyStream(cfg.MaxBody, cfg.Idle)
	body, done, err := raw.Decode(encoding, cfg.MaxRatio, reserve)
	if err != nil {
		return archive.Receipt{}, errors.Join(raw.Err(), err)
	}
	defer done()
	var digest hash.Hash
	if key != "" {
		digest = sha256.New()
		body = io.TeeReader(body, digest)
	}
	// A caller who may not write is told of errors in the body first (T-6), but nothing
	// of it is staged.
	var sink trajectory.Sink = discard{}
	var up *archive.Upload
	allowed := c.Who.Rights&auth.Write != 0
	if allowed {
		if allowed, err = h.mayUse(c, model); err != nil {
			return archive.Receipt{}, err
		}
	}
	if allowed {
		if up, err = cfg.Archive.Begin(memory.With(c.Context(), reserve), c.Who.Tenant, model); err != nil {
			return archive.Receipt{}, err
		}
		defer up.Abort()
		sink = up
	}
	limits := cfg.Limits
	limits.Reserve = reserve
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
	if err := cfg.Archive.CheckQuota(c.Who.Tenant, envelope.Bytes, cfg.Quota); err != nil {
		return archive.Receipt{}, err
	}
	m := archive.Meta{Split: envelope.Split, Step: envelope.Step, Bytes: envelope.Bytes, Key: key}
	if digest != nil {
		m.Digest = digest.Sum(nil)
	}
	return up.Commit(m)
}

const (
	// uploadBytes is what reading a body takes that is not compressed, beside the texts and
	// what is made of them: the buffers of the connection.
	uploadBytes = 64 << 10

	// uploadsShare is the part of the memory that log requests may hold together: one in so
	// many, but leastUploads. They may last for hours.
	uploadsShare = 4
	leastUploads = 16 << 20
)

// reserving returns what reserves memory for a log request, among that of all of them and
// among that of all requests, and what gives it back at the end. A body for which there can
// never be enough is failure.ErrBodyMemory.
func (h *Handlers) reserving(c *transport.Call) (reserve func(n int64) error, release func()) {
	part := h.memory.OpenFor(c.Tenant())
	spare := int64(0)
	return func(n int64) error {
		if spare >= n {
			spare -= n
			return nil
		}
		const together = 64 << 10 // small amounts are reserved together
		n += together - spare
		err := part.Grow(c.Context(), n)
		if err == nil {
			err = c.Memory().Grow(c.Context(), n)
		}
		if errors.Is(err, memory.ErrNever) {
			return failure.ErrBodyMemory
		}
		spare = together
		return err
	}, part.Release
}

// discard is a sink for bodies that are only checked.
type discard struct{}

func (discard) Trajectory(*trajectory.Trajectory) error { return nil }

func (discard) Group(*trajectory.Group) error { return nil }
