package feedbackapi

import (
	"context"
	"io"
	"strings"

	"weir/auth"
	"weir/feedback"
	"weir/server/transport"
)

// one answers GET /feedback/{id}?project_id=…
func (h *Handlers) one(c *transport.Call) {
	project := string(c.QueryArgs().Peek("project_id"))
	if project == "" {
		c.Fail(feedback.Invalid{{Loc: []string{"query", "project_id"}, Type: "missing", Msg: "Field required"}})
		return
	}
	if !permitted(c, auth.Read, project, nil) {
		return
	}
	record, err := h.cfg.Store.Get(project, strings.TrimPrefix(c.Target, Prefix))
	switch {
	case err != nil:
		c.Fail(err)
	case record == nil:
		c.Fail(&feedback.Refusal{Status: 404, Reason: "Feedback not found"})
	case fromWeave(c):
		c.Reply(record.AppendJSON(nil, feedback.WeaveNames))
	default:
		c.Reply(record.AppendJSON(nil, feedback.WeirNames))
	}
}

// query answers POST /feedback/query.
func (h *Handlers) query(c *transport.Call) {
	q := h.readQuery(c, feedback.ForQuery)
	if q == nil {
		return
	}
	ctx := c.Context()
	c.Download("application/json", func(w io.Writer) error { return h.cfg.Store.Query(ctx, q, w) })
}

// export answers POST /feedback/export, with lines of JSON or with CSV.
func (h *Handlers) export(c *transport.Call) {
	q := h.readQuery(c, feedback.ForExport)
	if q == nil {
		return
	}
	ctx := c.Context()
	if strings.Contains(string(c.Request.Header.Peek("Accept")), "text/csv") {
		c.Download("text/csv; charset=utf-8", func(w io.Writer) error { return h.cfg.Store.ExportCSV(ctx, q, w) })
		return
	}
	c.Download("application/x-ndjson", func(w io.Writer) error { return h.cfg.Store.ExportLines(ctx, q, w) })
}

// stats answers POST /feedback/stats.
func (h *Handlers) stats(c *transport.Call) { h.sumUp(c, false, h.cfg.Store.Stats) }

// payloadSchema answers POST /feedback/payload_schema.
func (h *Handlers) payloadSchema(c *transport.Call) { h.sumUp(c, true, h.cfg.Store.PayloadSchema) }

// readQuery reads and checks a query, or answers the request and returns nil.
func (h *Handlers) readQuery(c *transport.Call, kind feedback.Kind) *feedback.Query {
	if !h.readBody(c) {
		return nil
	}
	q, err := h.cfg.Store.DecodeQuery(c.Body(), kind, fromWeave(c))
	switch {
	case q == nil:
		c.Fail(err)
	case permitted(c, auth.Read, q.Project, err):
		return q
	}
	return nil
}

// sumUp answers a request for figures about many records.
func (h *Handlers) sumUp(c *transport.Call, schema bool, figures func(context.Context, *feedback.Stats) ([]byte, error)) {
	if !h.readBody(c) {
		return
	}
	q, err := h.cfg.Store.DecodeStats(c.Body(), schema)
	if q == nil {
		c.Fail(err)
		return
	}
	if !permitted(c, auth.Read, q.Project, err) {
		return
	}
	answer, err := figures(c.Context(), q)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

// permitted tells whether the caller has a right in a project and its request was
// decoded without an error; otherwise it answers the request. What is wrong with the
// form comes before rights, and what is wrong with the meaning after them
// (docs/interface/feedback.md, F-6).
func permitted(c *transport.Call, right auth.Rights, project string, err error) bool {
	if _, malformed := err.(feedback.Invalid); malformed {
		c.Fail(err)
		return false
	}
	if project != "" && !c.Who.May(right, project) {
		err = feedback.Forbidden
	}
	if err != nil {
		c.Fail(err)
	}
	return err == nil
}
