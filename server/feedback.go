package server

import (
	"io"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/feedback"
	"weir/server/failure"
	"weir/server/transport"
)

// feedbackPath is in front of all that is about feedback.
const feedbackPath = "/feedback/"

// feedbackRoutes are the functions below /feedback/ (spec feedback 4 and 8).
var feedbackRoutes = map[string]route{
	"replace":        {methods: "POST", serve: feedbackWrite(feedback.Replace)},
	"create":         {methods: "POST", serve: feedbackWrite(feedback.Create)},
	"batch/create":   {methods: "POST", serve: (*Server).feedbackBatch},
	"query":          {methods: "POST", serve: (*Server).feedbackQuery},
	"export":         {methods: "POST", serve: (*Server).feedbackExport},
	"purge":          {methods: "POST", serve: (*Server).feedbackPurge},
	"erase":          {methods: "POST", serve: (*Server).feedbackErase},
	"stats":          {methods: "POST", serve: feedbackFigures(false)},
	"payload_schema": {methods: "POST", serve: feedbackFigures(true)},
}

// feedbackBody reads the body of a request, or answers it and returns false.
func (s *Server) feedbackBody(c *transport.Call) bool {
	if c.Request.Header.ContentLength() > s.cfg.MaxBody {
		c.Fail(failure.ErrTooLarge)
		return false
	}
	if !transport.JSONType(string(c.Request.Header.ContentType())) {
		c.Fail(failure.ErrMedia)
		return false
	}
	if s.http.Draining() {
		c.Fail(failure.ErrDraining)
		return false
	}
	if err := c.ReadBody(); err != nil {
		c.Fail(err)
		return false
	}
	return true
}

// theirs reports whether the reference's client sent a request, which says so in
// one header or the other, by its version.
func theirs(c *transport.Call) bool {
	h := &c.Request.Header
	return len(h.Peek("X-Weave-Client-Capabilities"))+len(h.Peek("X-Weave-Retry-Id")) > 0
}

// once is the request's idempotency key, or false if it sent one that is not
// well-formed. X-Weave-Retry-Id is never a key, although its name suggests one:
// W&B Weave's client from 0.53 on leaves the last id in its headers, so that many
// different writes arrive with the same one.
func once(c *transport.Call, path string) (feedback.Once, bool) {
	key := string(c.Request.Header.Peek("Idempotency-Key"))
	if len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return feedback.Once{}, false
	}
	return feedback.Once{Key: key, Path: path, Body: c.Body()}, true
}

func author(c *transport.Call) feedback.Author {
	return feedback.Author{User: c.Who.User, Key: c.Who.Key, Tenant: c.Who.Tenant}
}

// may reports whether the caller may write a request: it needs the right to write
// in its project, and to read in those that its references name (spec F-33).
func may(c *transport.Call, r *feedback.Request) bool {
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

func feedbackWrite(item feedback.Operation) func(*Server, *transport.Call) {
	return func(s *Server, c *transport.Call) {
		if !s.feedbackBody(c) {
			return
		}
		r, err := feedback.DecodeRequest(c.Body(), item)
		if err != nil {
			c.Fail(err)
			return
		}
		s.feedbackStore(c, []*feedback.Request{r}, func(once feedback.Once) ([]byte, error) {
			if item == feedback.Create {
				return s.cfg.Feedback.Create(c.Context(), author(c), r, once)
			}
			return s.cfg.Feedback.Replace(c.Context(), author(c), r, once)
		})
	}
}

func (s *Server) feedbackBatch(c *transport.Call) {
	if !s.feedbackBody(c) {
		return
	}
	batch, err := feedback.DecodeBatch(c.Body())
	if err != nil {
		c.Fail(err)
		return
	}
	s.feedbackStore(c, batch, func(once feedback.Once) ([]byte, error) {
		return s.cfg.Feedback.CreateAll(c.Context(), author(c), batch, once)
	})
}

func (s *Server) feedbackStore(c *transport.Call, requests []*feedback.Request, write func(feedback.Once) ([]byte, error)) {
	for _, r := range requests {
		if !may(c, r) {
			c.Fail(feedback.Forbidden)
			return
		}
	}
	once, ok := once(c, c.Target)
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
		if call := r.Call(); call != "" {
			s.linker.Add(c.Who.Tenant, call)
		}
	}
	c.Reply(answer)
}

// permitted answers a request that the caller has no right to, or that is refused,
// and returns false. Rights come first (spec F-6).
func (s *Server) permitted(c *transport.Call, right auth.Rights, project string, err error) bool {
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

func (s *Server) feedbackQuery(c *transport.Call) {
	if !s.feedbackBody(c) {
		return
	}
	q, err := s.cfg.Feedback.DecodeQuery(c.Body(), feedback.ForQuery, theirs(c))
	if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
		if q == nil {
			c.Fail(err)
		}
		return
	}
	ctx := c.Context()
	c.Download("application/json", func(w io.Writer) error { return s.cfg.Feedback.Query(ctx, q, w) })
}

func (s *Server) feedbackExport(c *transport.Call) {
	if !s.feedbackBody(c) {
		return
	}
	q, err := s.cfg.Feedback.DecodeQuery(c.Body(), feedback.ForExport, theirs(c))
	if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
		if q == nil {
			c.Fail(err)
		}
		return
	}
	ctx := c.Context()
	if strings.Contains(string(c.Request.Header.Peek("Accept")), "text/csv") {
		c.Download("text/csv; charset=utf-8", func(w io.Writer) error { return s.cfg.Feedback.ExportCSV(ctx, q, w) })
		return
	}
	c.Download("application/x-ndjson", func(w io.Writer) error { return s.cfg.Feedback.ExportLines(ctx, q, w) })
}

func (s *Server) feedbackPurge(c *transport.Call) {
	if !s.feedbackBody(c) {
		return
	}
	project, ids, err := feedback.DecodePurge(c.Body())
	if !s.permitted(c, auth.Write, project, err) {
		return
	}
	if err := s.cfg.Feedback.Purge(c.Context(), project, ids); err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, "{}")
}

func (s *Server) feedbackErase(c *transport.Call) {
	if !s.feedbackBody(c) {
		return
	}
	e, err := feedback.DecodeErasure(c.Body())
	if e == nil || !s.permitted(c, auth.Admin, e.Project, err) {
		if e == nil {
			c.Fail(err)
		}
		return
	}
	n, err := s.cfg.Feedback.Erase(c.Context(), e)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, `{"count":`+strconv.Itoa(n)+`,"dry_run":`+strconv.FormatBool(e.DryRun)+`}`)
}

func feedbackFigures(schema bool) func(*Server, *transport.Call) {
	return func(s *Server, c *transport.Call) {
		if !s.feedbackBody(c) {
			return
		}
		q, err := s.cfg.Feedback.DecodeStats(c.Body(), schema)
		if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
			if q == nil {
				c.Fail(err)
			}
			return
		}
		figures := s.cfg.Feedback.Stats
		if schema {
			figures = s.cfg.Feedback.PayloadSchema
		}
		answer, err := figures(c.Context(), q)
		if err != nil {
			c.Fail(err)
			return
		}
		c.Reply(answer)
	}
}

// feedbackGet answers GET /feedback/{id}?project_id=...
func (s *Server) feedbackGet(c *transport.Call) {
	project := string(c.QueryArgs().Peek("project_id"))
	if project == "" {
		c.Fail(feedback.Invalid{{Loc: []string{"query", "project_id"}, Type: "missing", Msg: "Field required"}})
		return
	}
	if !s.permitted(c, auth.Read, project, nil) {
		return
	}
	rec, err := s.cfg.Feedback.Get(project, strings.TrimPrefix(c.Target, feedbackPath))
	switch {
	case err != nil:
		c.Fail(err)
	case rec == nil:
		c.Fail(&feedback.Refusal{Status: 404, Reason: "Feedback not found"})
	case theirs(c):
		c.Reply(rec.AppendJSON(nil, feedback.WeaveNames))
	default:
		c.Reply(rec.AppendJSON(nil, feedback.WeirNames))
	}
}
