package feedbackapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"weir/auth"
	"weir/feedback"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
)

// replace answers POST /feedback/replace.
func (h *Handlers) replace(c *transport.Call) { h.writeOne(c, feedback.Replace, h.cfg.Store.Replace) }

// create answers POST /feedback/create.
func (h *Handlers) create(c *transport.Call) { h.writeOne(c, feedback.Create, h.cfg.Store.Create) }

// createBatch answers POST /feedback/batch/create.
func (h *Handlers) createBatch(c *transport.Call) {
	if !h.readBody(c) || !reserve(c, min(feedback.MaxBatch, bytes.Count(c.Body(), []byte{'{'}))) {
		return
	}
	var batch []*feedback.Request
	err := decode(c, func(ctx context.Context) (err error) {
		batch, err = feedback.DecodeBatch(ctx, c.Body())
		return err
	})
	if err != nil {
		c.Fail(err)
		return
	}
	h.write(c, batch, func(once feedback.Once) ([]byte, error) {
		return h.cfg.Store.CreateAll(c.Context(), author(c), batch, once)
	})
}

// decode runs f, which decodes a call's body: a large one in turns with the queries. Bodies that
// are decoded on all processors at once hold up everybody who needs one for a moment.
func decode(c *transport.Call, f func(ctx context.Context) error) error {
	if len(c.Body()) < transport.LargeBody {
		return f(c.Context())
	}
	return c.Query(f)
}

// What a body takes until its records are written, beside itself: for each of its bytes and for
// each record.
const (
	byteBytes   = 7
	recordBytes = 3 << 10
)

// reserve reserves the memory of a body's records, which may be at most so many.
func reserve(c *transport.Call, records int) bool {
	err := c.Memory().Grow(c.Context(), byteBytes*int64(len(c.Body()))+recordBytes*int64(records))
	if errors.Is(err, memory.ErrNever) {
		err = failure.ErrTooLarge
	}
	if err != nil {
		c.Fail(err)
	}
	return err == nil
}

// writeOne writes the one record of a request's body.
func (h *Handlers) writeOne(c *transport.Call, op feedback.Operation, write func(context.Context, feedback.Author, *feedback.Request, feedback.Once) ([]byte, error)) {
	if !h.readBody(c) || !reserve(c, 1) {
		return
	}
	var r *feedback.Request
	err := decode(c, func(ctx context.Context) (err error) {
		r, err = feedback.DecodeRequest(ctx, c.Body(), op)
		return err
	})
	if err != nil {
		c.Fail(err)
		return
	}
	h.write(c, []*feedback.Request{r}, func(once feedback.Once) ([]byte, error) {
		return write(c.Context(), author(c), r, once)
	})
}

// write checks the rights to write records, writes them, and answers.
func (h *Handlers) write(c *transport.Call, requests []*feedback.Request, write func(feedback.Once) ([]byte, error)) {
	for _, r := range requests {
		if !mayWrite(c, r) {
			c.Fail(feedback.Forbidden)
			return
		}
	}
	once, ok := idempotency(c)
	if !ok {
		c.Fail(&feedback.Refusal{Status: 400, Reason: "Invalid Idempotency-Key"})
		return
	}
	answer, err := write(once)
	if err != nil {
		c.Fail(err)
		return
	}
	for _, r := range requests {
		for _, name := range r.Unknown {
			h.cfg.Unknown(name)
		}
	}
	h.rewarded(c, requests)
	c.Reply(answer)
}

// rewarded passes the rewards of requests on that were written. If one of them sets no reward
// although it is about one, the answer says so in a header (docs/interface/feedback.md, F-42).
func (h *Handlers) rewarded(c *transport.Call, requests []*feedback.Request) {
	unset, first := 0, ""
	for _, r := range requests {
		w, why := r.Reward()
		switch {
		case why != "":
			h.cfg.Unset()
		case w.Call != "":
			why = h.cfg.Written(c.Who.Tenant, w)
		}
		if why != "" {
			if unset++; unset == 1 {
				first = why
			}
		}
	}
	if unset > 0 {
		if len(requests) > 1 {
			first = fmt.Sprintf("%d of %d: %s", unset, len(requests), first)
		}
		c.Response.Header.Set("X-Weir-Reward", "not set: "+first)
	}
}

// idempotency returns the request's idempotency key, or false if it is not well-formed.
// X-Weave-Retry-Id is never a key, although its name suggests one: W&B Weave's client
// from 0.53 on leaves the last id in its headers, so that many different writes
// arrive with the same one.
func idempotency(c *transport.Call) (feedback.Once, bool) {
	key := string(c.Request.Header.Peek("Idempotency-Key"))
	return feedback.Once{Key: key, Path: c.Target, Body: c.Body()}, transport.ValidIdempotencyKey(key)
}

func author(c *transport.Call) feedback.Author {
	return feedback.Author{User: c.Who.User, Key: c.Who.Key, Tenant: c.Who.Tenant}
}

// mayWrite tells whether the caller may write a record: it needs the right to write in
// its project, and to read in those that its references name
// (docs/interface/feedback.md, F-33).
func mayWrite(c *transport.Call, r *feedback.Request) bool {
	if !c.Who.May(auth.Write, r.Project) {
		return false
	}
	for _, p := range r.RefProjects() {
		if p != r.Project && !c.Who.May(auth.Read, p) {
			return false
		}
	}
	return true
}
