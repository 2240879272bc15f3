package feedbackapi

import (
	"context"
	"strconv"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/feedback"
	"weir/server/transport"
)

// purge answers POST /feedback/purge.
func (h *Handlers) purge(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	var project string
	var ids []string
	err := decode(c, func(ctx context.Context) (err error) {
		project, ids, err = feedback.DecodePurge(ctx, c.Body())
		return err
	})
	if !permitted(c, auth.Write, project, err) {
		return
	}
	if err := h.cfg.Store.Purge(c.Context(), project, ids); err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, "{}")
}

// erase answers POST /feedback/erase.
func (h *Handlers) erase(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	var e *feedback.Erasure
	err := decode(c, func(ctx context.Context) (err error) {
		e, err = feedback.DecodeErasure(ctx, c.Body())
		return err
	})
	if e == nil {
		c.Fail(err)
		return
	}
	if !permitted(c, auth.Admin, e.Project, err) {
		return
	}
	n, others := 0, ""
	if err := c.Query(func(ctx context.Context) (err error) {
		if n, err = h.cfg.Store.Erase(ctx, e); err != nil {
			return err
		}
		if others, err = h.eraseOthers(ctx, e); err == nil && h.cfg.ErasePrefixes != nil && !e.DryRun {
			err = h.cfg.ErasePrefixes(ctx)
		}
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, `{"count":`+strconv.Itoa(n)+others+`,"dry_run":`+strconv.FormatBool(e.DryRun)+`}`)
}

// eraseOthers erases what is not feedback, and returns the members of the answer with the
// numbers of it.
func (h *Handlers) eraseOthers(ctx context.Context, e *feedback.Erasure) (members string, err error) {
	for _, other := range []struct {
		name  string
		erase func(context.Context, *feedback.Erasure) (int, error)
	}{{"calls", h.cfg.EraseCalls}, {"objects", h.cfg.EraseObjects}, {"annotation_queues", h.cfg.EraseQueues}, {"responses", h.cfg.EraseResponses}, {"batches", h.cfg.EraseBatches}} {
		if other.erase == nil {
			continue
		}
		n, err := other.erase(ctx, e)
		if err != nil {
			return "", err
		}
		members += `,"` + other.name + `":` + strconv.Itoa(n)
	}
	return members, nil
}
