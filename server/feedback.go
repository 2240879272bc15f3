package server

import (
	"io"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/feedback"
	"weir/server/failure"
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
func (s *Server) feedbackBody(c *call) bool {
	if c.Request.Header.ContentLength() > s.cfg.MaxBody {
		s.fail(c, failure.ErrTooLarge)
		return false
	}
	if !feedbackType(string(c.Request.Header.ContentType())) {
		s.fail(c, failure.ErrMedia)
		return false
	}
	if s.draining.Load() {
		s.fail(c, failure.ErrDraining)
		return false
	}
	if err := c.body.read(c.RequestCtx, &s.cfg); err != nil {
		s.fail(c, err)
		return false
	}
	c.bodyRead = true
	return true
}

// feedbackType reports whether a Content-Type is JSON's, or none at all, as feedback and trajectories have it: the
// reference's client sends none (spec F-2).
func feedbackType(header string) bool {
	media, _, _ := strings.Cut(header, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	sub, ok := strings.CutPrefix(media, "application/")
	return media == "" || ok && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

// theirs reports whether the reference's client sent a request, which says so in
// one header or the other, by its version.
func theirs(c *call) bool {
	h := &c.Request.Header
	return len(h.Peek("X-Weave-Client-Capabilities"))+len(h.Peek("X-Weave-Retry-Id")) > 0
}

// once is the request's idempotency key, or false if it sent one that is not
// well-formed. X-Weave-Retry-Id is never a key, although its name suggests one:
// W&B Weave's client from 0.53 on leaves the last id in its headers, so that many
// different writes arrive with the same one.
func (c *call) once(path string) (feedback.Once, bool) {
	key := string(c.Request.Header.Peek("Idempotency-Key"))
	if len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return feedback.Once{}, false
	}
	return feedback.Once{Key: key, Path: path, Body: c.body.bytes}, true
}

func (c *call) author() feedback.Author {
	return feedback.Author{User: c.who.User, Key: c.who.Key, Tenant: c.who.Tenant}
}

// may reports whether the caller may write a request: it needs the right to write
// in its project, and to read in those that its references name (spec F-33).
func (c *call) may(r *feedback.Request) bool {
	if !c.who.May(auth.Write, r.Project) {
		return false
	}
	for _, p := range r.RefProjects() {
		if p != r.Project && !c.who.May(auth.Read, p) {
			return false
		}
	}
	return true
}

func feedbackWrite(item feedback.Operation) func(*Server, *call) {
	return func(s *Server, c *call) {
		if !s.feedbackBody(c) {
			return
		}
		r, err := feedback.DecodeRequest(c.body.bytes, item)
		if err != nil {
			s.fail(c, err)
			return
		}
		s.feedbackStore(c, []*feedback.Request{r}, func(once feedback.Once) ([]byte, error) {
			if item == feedback.Create {
				return s.cfg.Feedback.Create(c.ctx, c.author(), r, once)
			}
			return s.cfg.Feedback.Replace(c.ctx, c.author(), r, once)
		})
	}
}

func (s *Server) feedbackBatch(c *call) {
	if !s.feedbackBody(c) {
		return
	}
	batch, err := feedback.DecodeBatch(c.body.bytes)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.feedbackStore(c, batch, func(once feedback.Once) ([]byte, error) {
		return s.cfg.Feedback.CreateAll(c.ctx, c.author(), batch, once)
	})
}

func (s *Server) feedbackStore(c *call, requests []*feedback.Request, write func(feedback.Once) ([]byte, error)) {
	for _, r := range requests {
		if !c.may(r) {
			s.fail(c, feedback.Forbidden)
			return
		}
	}
	once, ok := c.once(c.path)
	if !ok {
		s.fail(c, &feedback.Refusal{Status: 400, Reason: "Invalid Idempotency-Key"})
		return
	}
	answer, err := write(once)
	if err != nil {
		s.fail(c, err)
		return
	}
	for _, r := range requests {
		if call := r.Call(); call != "" {
			s.linker.add(c.who.Tenant, call)
		}
	}
	c.reply(answer)
}

// reply answers with JSON.
func (c *call) reply(body []byte) {
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(body)
}

// permitted answers a request that the caller has no right to, or that is refused,
// and returns false. Rights come first (spec F-6).
func (s *Server) permitted(c *call, right auth.Rights, project string, err error) bool {
	if _, malformed := err.(feedback.Invalid); malformed {
		s.fail(c, err)
		return false
	}
	if project != "" && !c.who.May(right, project) {
		err = feedback.Forbidden
	}
	if err != nil {
		s.fail(c, err)
	}
	return err == nil
}

func (s *Server) feedbackQuery(c *call) {
	if !s.feedbackBody(c) {
		return
	}
	q, err := s.cfg.Feedback.DecodeQuery(c.body.bytes, feedback.ForQuery, theirs(c))
	if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
		if q == nil {
			s.fail(c, err)
		}
		return
	}
	ctx := c.ctx
	s.pour(c, "application/json", func(w io.Writer) error { return s.cfg.Feedback.Query(ctx, q, w) })
}

func (s *Server) feedbackExport(c *call) {
	if !s.feedbackBody(c) {
		return
	}
	q, err := s.cfg.Feedback.DecodeQuery(c.body.bytes, feedback.ForExport, theirs(c))
	if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
		if q == nil {
			s.fail(c, err)
		}
		return
	}
	ctx := c.ctx
	if strings.Contains(string(c.Request.Header.Peek("Accept")), "text/csv") {
		s.pour(c, "text/csv; charset=utf-8", func(w io.Writer) error { return s.cfg.Feedback.ExportCSV(ctx, q, w) })
		return
	}
	s.pour(c, "application/x-ndjson", func(w io.Writer) error { return s.cfg.Feedback.ExportLines(ctx, q, w) })
}

func (s *Server) feedbackPurge(c *call) {
	if !s.feedbackBody(c) {
		return
	}
	project, ids, err := feedback.DecodePurge(c.body.bytes)
	if !s.permitted(c, auth.Write, project, err) {
		return
	}
	if err := s.cfg.Feedback.Purge(c.ctx, project, ids); err != nil {
		s.fail(c, err)
		return
	}
	c.answer(fasthttp.StatusOK, "{}")
}

func (s *Server) feedbackErase(c *call) {
	if !s.feedbackBody(c) {
		return
	}
	e, err := feedback.DecodeErasure(c.body.bytes)
	if e == nil || !s.permitted(c, auth.Admin, e.Project, err) {
		if e == nil {
			s.fail(c, err)
		}
		return
	}
	n, err := s.cfg.Feedback.Erase(c.ctx, e)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.answer(fasthttp.StatusOK, `{"count":`+strconv.Itoa(n)+`,"dry_run":`+strconv.FormatBool(e.DryRun)+`}`)
}

func feedbackFigures(schema bool) func(*Server, *call) {
	return func(s *Server, c *call) {
		if !s.feedbackBody(c) {
			return
		}
		q, err := s.cfg.Feedback.DecodeStats(c.body.bytes, schema)
		if q == nil || !s.permitted(c, auth.Read, q.Project, err) {
			if q == nil {
				s.fail(c, err)
			}
			return
		}
		figures := s.cfg.Feedback.Stats
		if schema {
			figures = s.cfg.Feedback.PayloadSchema
		}
		answer, err := figures(c.ctx, q)
		if err != nil {
			s.fail(c, err)
			return
		}
		c.reply(answer)
	}
}

// feedbackGet answers GET /feedback/{id}?project_id=...
func (s *Server) feedbackGet(c *call) {
	project := string(c.QueryArgs().Peek("project_id"))
	if project == "" {
		s.fail(c, feedback.Invalid{{Loc: []string{"query", "project_id"}, Type: "missing", Msg: "Field required"}})
		return
	}
	if !s.permitted(c, auth.Read, project, nil) {
		return
	}
	rec, err := s.cfg.Feedback.Get(project, strings.TrimPrefix(c.path, feedbackPath))
	switch {
	case err != nil:
		s.fail(c, err)
	case rec == nil:
		s.fail(c, &feedback.Refusal{Status: 404, Reason: "Feedback not found"})
	case theirs(c):
		c.reply(rec.AppendJSON(nil, feedback.WeaveNames))
	default:
		c.reply(rec.AppendJSON(nil, feedback.WeirNames))
	}
}
