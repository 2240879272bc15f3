package weaveapi

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strconv"

	"weir/auth"
	"weir/calls"
	"weir/feedback"
	"weir/server/transport"
)

var callRoutes = []route{
	{"POST", "/call/start", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormStart, "") }},
	{"POST", "/call/end", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormEnd, "") }},
	{"POST", "/call/upsert_batch", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormUpsert, "") }},
	{"POST", "/v2/{entity}/{project}/call/start", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormStart, pathProject(c)) }},
	{"POST", "/v2/{entity}/{project}/call/end", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormEnd, pathProject(c)) }},
	{"POST", "/v2/{entity}/{project}/calls/complete", func(h *Handlers, c *transport.Call) { h.writeCalls(c, calls.FormComplete, pathProject(c)) }},
	{"POST", "/call/read", (*Handlers).readCall},
	{"POST", "/call/update", (*Handlers).updateCall},
	{"POST", "/calls/delete", (*Handlers).deleteCalls},
}

// pathProject is the project that a path below /v2/ names.
func pathProject(c *transport.Call) string {
	entity, err := url.PathUnescape(param(c, 1))
	project, err2 := url.PathUnescape(param(c, 2))
	if errors.Join(err, err2) != nil {
		return ""
	}
	return entity + "/" + project
}

// What a body takes until its calls are written, beside itself: for each of its bytes (a copy
// without white space, the record, the database's copy and its checksum) and for each call.
const (
	callByteBytes = 7
	callBytes     = 4 << 10
)

// writeCalls answers the functions that write calls. project is that of the path.
func (h *Handlers) writeCalls(c *transport.Call, form calls.Form, project string) {
	if !h.readBody(c) {
		return
	}
	n := 1
	if form == calls.FormUpsert || form == calls.FormComplete {
		n = min(calls.MaxBatch, bytes.Count(c.Body(), []byte(`"project_id"`))+1)
	}
	if !reserve(c, callByteBytes*int64(len(c.Body()))+callBytes*int64(n)) {
		return
	}
	var r *calls.Request
	err := decodeBody(c, func(ctx context.Context) (err error) {
		r, err = calls.DecodeRequest(ctx, c.Body(), form, project)
		return err
	})
	if _, refused := err.(*feedback.Refusal); err != nil && (!refused || r == nil) {
		c.Fail(err)
		return
	}
	last := "" // nearly always all calls are of one project
	for _, change := range r.Changes {
		if p := change.Project(); p != last {
			if !c.Who.May(auth.Write, p) {
				c.Fail(feedback.Forbidden)
				return
			}
			last = p
		}
	}
	var answer []byte
	if err == nil {
		answer, err = h.cfg.Calls.Write(c.Context(), calls.Author{User: c.Who.User}, r)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

// single reads the body of a request about calls by their ids, and checks the rights to it.
func (h *Handlers) single(c *transport.Call, right auth.Rights, decode func(context.Context, []byte) (*calls.Single, error)) (*calls.Single, bool) {
	if !h.readBody(c) {
		return nil, false
	}
	return decoded(c, right, decode, func(q *calls.Single) string { return q.Project })
}

// readCall answers POST /call/read.
func (h *Handlers) readCall(c *transport.Call) {
	q, ok := h.single(c, auth.Read, calls.DecodeRead)
	if !ok {
		return
	}
	var answer []byte
	read := func(ctx context.Context) (err error) {
		answer, err = h.cfg.Calls.Read(ctx, q)
		return err
	}
	var err error
	if q.TraceSize { // it reads all calls of the trace
		err = c.Query(read)
	} else {
		err = read(c.Context())
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

// updateCall answers POST /call/update.
func (h *Handlers) updateCall(c *transport.Call) {
	q, ok := h.single(c, auth.Write, calls.DecodeUpdate)
	if !ok {
		return
	}
	if err := h.cfg.Calls.Rename(c.Context(), calls.Author{User: c.Who.User}, q.Project, q.IDs[0], q.Name); err != nil {
		c.Fail(err)
		return
	}
	c.Reply([]byte("{}"))
}

// deleteCalls answers POST /calls/delete.
func (h *Handlers) deleteCalls(c *transport.Call) {
	q, ok := h.single(c, auth.Write, calls.DecodeDelete)
	if !ok {
		return
	}
	n := 0
	if err := c.Query(func(ctx context.Context) (err error) {
		n, err = h.cfg.Calls.Delete(ctx, q.Project, q.IDs)
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Answer(200, `{"num_deleted":`+strconv.Itoa(n)+"}")
}
