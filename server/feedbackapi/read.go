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
		c.Reply(record.AppendJSON(nil, weaveDialect(c)))
	default:
		c.Reply(record.AppendJSON(nil, feedback.WeirNames))
	}
}

// query answers POST /feedback/query.
func (h *Handlers) query(c *transport.Call) {
	h.download(c, feedback.ForQuery, "application/json", h.cfg.Store.Query)
}

// export answers POST /feedback/export, with lines of JSON or with CSV.
func (h *Handlers) export(c *transport.Call) {
	if strings.Contains(string(c.Request.Header.Peek("Accept")), "text/csv") {
		raw := string(c.QueryArgs().Peek("raw")) == "true"
		h.download(c, feedback.ForExport, "text/csv; charset=utf-8", func(ctx context.Context, q *feedback.Query, w io.Writer) error {
			return h.cfg.Store.ExportCSV(ctx, q, w, raw)
		})
		return
	}
	h.download(c, feedback.ForExport, "application/x-ndjson", h.cfg.Store.ExportLines)
}

// stats answers POST /feedback/stats.
func (h *Handlers) stats(c *transport.Call) { h.sumUp(c, false, h.cfg.Store.Stats) }

// payloadSchema answers POST /feedback/payload_schema.
func (h *Handlers) payloadSchema(c *transport.Call) { h.sumUp(c, true, h.cfg.Store.PayloadSchema) }

// aggregate answers POST /feedback/aggregate.
func (h *Handlers) aggregate(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	var answer []byte
	if err := c.Query(func(ctx context.Context) error {
		q, err := h.cfg.Store.DecodeAggregate(ctx, c.Body())
		project := ""
		if q != nil {
			project = q.Project
		}
		if err = permission(c.Who, auth.Read, project, err); err != nil {
			return err
		}
		answer, err = h.cfg.Store.Aggregate(ctx, q)
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

// download reads a query and answers it with what write writes. The body is decoded in
// the query's turn too: a list of thousands of values takes milliseconds.
func (h *Handlers) download(c *transport.Call, kind feedback.Kind, contentType string, write func(context.Context, *feedback.Query, io.Writer) error) {
	if !h.readBody(c) {
		return
	}
	body, who, weave, names := c.Body(), c.Who, fromWeave(c), weaveDialect(c)
	c.Download(contentType, func(ctx context.Context, w io.Writer) error {
		q, err := h.cfg.Store.DecodeQuery(ctx, body, kind, weave)
		project := ""
		if q != nil {
			project = q.Project
		}
		if err = permission(who, auth.Read, project, err); err != nil {
			return err
		}
		if q.Dialect == feedback.WeaveNames {
			q.Dialect = names
		}
		return write(ctx, q, w)
	})
}

// weaveDialect is how records are written to a client of Weave. Those that say what they can
// take (from 0.53 on) take all columns.
func weaveDialect(c *transport.Call) feedback.Dialect {
	if len(c.Request.Header.Peek("X-Weave-Client-Capabilities")) > 0 {
		return feedback.WeaveNames
	}
	return feedback.WeaveBrief
}

// sumUp answers a request for figures about many records.
func (h *Handlers) sumUp(c *transport.Call, schema bool, figures func(context.Context, *feedback.Stats) ([]byte, error)) {
	if !h.readBody(c) {
		return
	}
	var answer []byte
	if err := c.Query(func(ctx context.Context) error {
		q, err := h.cfg.Store.DecodeStats(ctx, c.Body(), schema)
		project := ""
		if q != nil {
			project = q.Project
		}
		if err = permission(c.Who, auth.Read, project, err); err != nil {
			return err
		}
		answer, err = figures(ctx, q)
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

// permitted tells whether the caller has a right in a project and its request was
// decoded without an error; otherwise it answers the request.
func permitted(c *transport.Call, right auth.Rights, project string, err error) bool {
	if err = permission(c.Who, right, project, err); err != nil {
		c.Fail(err)
	}
	return err == nil
}

// permission returns why a request for a project is refused; nil: it is not. err is what
// is wrong with the request. What is wrong with the form comes before rights, and what is
// wrong with the meaning after them (docs/interface/feedback.md, F-6).
func permission(who *auth.Identity, right auth.Rights, project string, err error) error {
	if _, malformed := err.(feedback.Invalid); !malformed && project != "" && !who.May(right, project) {
		return feedback.Forbidden
	}
	return err
}
