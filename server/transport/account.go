package transport

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"weir/metrics"
	"weir/tracing"
	"weir/usage"
)

// The messages of the log about requests. Their level is Debug, but LogFinished has the
// level Info with Config.LogRequests, and LogFailed has the level of the failure.
const (
	LogSubmitted = "request submitted"
	LogFinished  = "request finished"
	LogFailed    = "request failed"
)

// account gathers what is recorded about a request when it has ended: a line in the log,
// the counters of HTTP and, if the engine accepted it, the usage of its project.
type account struct {
	method  string
	handler string // name of the route; "": a preflight request, which is not counted
	bytes   int    // of the body, as announced

	path    string // "": a probe, which is counted but not logged
	id      string // of the answer
	tokens  Tokens // nil: the engine has not accepted the request
	model   string // that computes
	prompt  int    // tokens
	failure string // kind of the error that the client got, or would have got
	settled bool

	span *tracing.Request // nil: there are no traces
}

// Tokens counts what the engine has computed for a request.
type Tokens interface {
	Drawn() int   // tokens of output
	Vectors() int // prompts that ended with vectors in place of tokens
	Cached() int  // tokens of the prompt that were in the cache

	Scheduled() bool // a step has begun with it

	// Waits are the times to the first step and to the first token; ok is false before that.
	Waits() (queue, first time.Duration, ok bool)
	// Course are the times from the first step to the first token, and from that to the last one.
	Course() (prefill, decode time.Duration)
	Finish() string // why it ended; "": it has not
}

// Accepted is called when the engine has accepted the request. id is the id of the answer,
// model the name of the model, prompt the number of prompt tokens; tokens is asked when the call
// ends.
func (c *Call) Accepted(id, model string, prompt int, tokens Tokens) {
	c.account.id, c.account.model, c.account.prompt, c.account.tokens = id, model, prompt, tokens
	c.server.ongoing.accepted(c.tracked, id, model, prompt, tokens)
}

// Settle counts and logs a call. It is called before the last bytes of the answer are
// sent, so that a client that has read the answer finds the request counted. Later calls
// have no effect. Neither prompts nor answers are logged.
func (c *Call) Settle() {
	a, s := &c.account, c.server
	if a.settled || a.handler == "" {
		return
	}
	a.settled = true
	status, size := fasthttp.StatusOK, c.size // of a stream: after its handler has returned, the RequestCtx must not be read
	if !c.streams {
		status, size = c.Response.StatusCode(), len(c.Response.Body())
	}
	took := s.Now().Sub(c.Begun)
	used := a.used()
	c.settleLimits(int64(used.Prompt), int64(used.Completion), status)
	s.counts.Answered(metrics.Request{Method: a.method, Handler: a.handler, Status: status, Took: took, RequestBytes: a.bytes, ResponseBytes: size})
	trace := c.endSpan(used, status, took)
	if a.path == "" {
		if s.cfg.LogProbes {
			c.log(used, status, took, trace)
		}
		return
	}
	if a.tokens != nil {
		s.usage.Add(c.Project, used)
		s.counts.Used(c.Project, used.Prompt, used.Completion)
	}
	c.log(used, status, took, trace)
}

// log writes the line of a request that has ended. trace is the id of its trace; "": it has none.
func (c *Call) log(used usage.Counts, status int, took time.Duration, trace string) {
	a, s := &c.account, c.server
	level := slog.LevelDebug
	if s.cfg.LogRequests && !slices.Contains(s.cfg.Unlogged, c.Target) {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 21)
	attrs = append(attrs,
		slog.String("id", cmp.Or(a.id, c.RequestID, c.answerID)), slog.String("request_id", cmp.Or(c.answerID, c.RequestID)),
		slog.String("method", a.method), slog.String("route", a.handler), slog.String("path", c.Target),
		slog.String("project", c.Project), slog.Int("status", status), slog.Bool("stream", c.streams),
		slog.Uint64("prompt", used.Prompt), slog.Uint64("cached", used.Cached), slog.Uint64("completion", used.Completion), slog.Duration("took", took))
	if c.Who != nil && c.Who.Key != "" {
		attrs = append(attrs, slog.String("key", c.Who.Key)) // its name
	}
	if a.tokens != nil {
		attrs = append(attrs, slog.String("model", a.model))
		if queue, first, ok := a.tokens.Waits(); ok {
			attrs = append(attrs, slog.Duration("queue", queue), slog.Duration("ttft", first))
		}
		if finish := a.tokens.Finish(); finish != "" {
			attrs = append(attrs, slog.String("finish", finish))
		}
	}
	if trace != "" {
		attrs = append(attrs, slog.String("trace_id", trace))
	}
	if a.failure != "" {
		attrs = append(attrs, slog.String("error", a.failure))
	}
	s.log.LogAttrs(context.Background(), level, LogFinished, attrs...)
}

// used returns what the engine has computed for the request.
func (a *account) used() usage.Counts {
	if a.tokens == nil {
		return usage.Counts{}
	}
	used := usage.Counts{Requests: 1, Completion: uint64(a.tokens.Drawn())}
	if used.Completion > 0 || a.tokens.Vectors() > 0 { // before the first token or vector the prompt has not been computed completely
		used.Prompt, used.Cached = uint64(a.prompt), uint64(a.tokens.Cached())
	}
	return used
}
