package server

import (
	"context"
	"log/slog"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/engine"
	"weir/metrics"
	"weir/usage"
)

// account is what a request leaves behind when it has ended: a line in the log,
// counts of HTTP and, if the engine accepted it, its project's.
type account struct {
	method  string
	handler string // name of the route; "": a preflight, which nobody counts
	bytes   int    // of the body, as announced

	path    string // "": a probe, of which nobody keeps a record
	id      string // of the answer
	stream  *engine.Stream
	prompt  int    // tokens
	failure string // kind of the error that the client got, or would have got
	settled bool
}

// accepted books a request that the engine has taken.
func (a *account) accepted(st *engine.Stream, r *reply) {
	a.stream, a.id, a.prompt = st, r.meta.ID, r.promptTokens()
}

// settle closes the account of c. It is called before the last bytes of the
// answer go out, so that whoever has read them finds the request counted; and
// again, in vain, when everything is over. The log never gets a word of what
// was said.
func (s *Server) settle(c *call) {
	a := &c.account
	if a.settled || a.handler == "" {
		return
	}
	a.settled = true
	status, size := fasthttp.StatusOK, 0 // of a stream, whose RequestCtx is not ours to read
	if !c.streams {
		status, size = c.Response.StatusCode(), len(c.Response.Body())
	}
	took := s.now().Sub(c.begun)
	s.counts.Answered(metrics.Request{Method: a.method, Handler: a.handler, Status: status, Took: took, RequestBytes: a.bytes, ResponseBytes: size})
	if a.path == "" {
		return
	}
	var used usage.Counts
	if a.stream != nil {
		used = usage.Counts{Requests: 1, Completion: uint64(a.stream.Drawn())}
		if used.Completion > 0 { // or the prompt was not computed, or not wholly
			used.Prompt, used.Cached = uint64(a.prompt), uint64(a.stream.Cached())
		}
		s.usage.Add(c.project, used)
		s.counts.Used(c.project, used.Prompt, used.Completion)
	}
	level := slog.LevelDebug
	if s.cfg.LogRequests {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	id := a.id
	if id == "" {
		id = c.id
	}
	attrs := []slog.Attr{
		slog.String("id", id), slog.String("path", a.path), slog.String("project", c.project), slog.Int("status", status), slog.Bool("stream", c.streams),
		slog.Uint64("prompt", used.Prompt), slog.Uint64("cached", used.Cached), slog.Uint64("completion", used.Completion), slog.Duration("took", took),
	}
	if a.failure != "" {
		attrs = append(attrs, slog.String("error", a.failure))
	}
	s.log.LogAttrs(context.Background(), level, logFinished, attrs...)
}

// projectUsage answers GET /usage: what each project has used, or with
// ?project=team/project one of them, and with ?project= the requests without.
func (s *Server) projectUsage(c *call) {
	args := c.QueryArgs()
	only, filter := string(args.Peek("project")), args.Has("project")
	if only != "" && only != usage.Other && !wellFormed(only) {
		s.fail(c, api.ErrProject(only))
		return
	}
	// An error is about the file, and the ledger has logged it: what is known is
	// known, file or no file.
	projects, since, _ := s.usage.Totals()
	list := make([]api.ProjectUsage, 0, len(projects))
	for _, p := range projects {
		if (!filter || p.Name == only) && c.who.Covers(p.Name) {
			list = append(list, api.ProjectUsage{Project: p.Name, Requests: p.Requests, Prompt: p.Prompt, Cached: p.Cached, Completion: p.Completion})
		}
	}
	c.answer(fasthttp.StatusOK, string(api.AppendProjectUsage(nil, since, list)))
}
