package transport

import (
	"cmp"
	"time"

	"github.com/valyala/fasthttp"

	"weir/tracing"
	"weir/usage"
)

// beginSpan copies what the headers say about a trace, if there are traces.
func (c *Call) beginSpan(header *fasthttp.RequestHeader) {
	if t := c.server.cfg.Traces; t != nil {
		c.account.span = t.Begin(string(header.Peek("traceparent")), string(header.Peek("tracestate")))
	}
}

// Span is what the span of the call tells of it; nil: there are no traces. A call that asks no
// model leaves it as it is.
func (c *Call) Span() *tracing.Request { return c.account.span }

// endSpan makes the span of a call that has ended, and returns the id of its trace; "": it is in none.
func (c *Call) endSpan(used usage.Counts, status int, took time.Duration) string {
	a := &c.account
	if a.span == nil {
		return ""
	}
	o := tracing.Outcome{
		RequestID: cmp.Or(c.answerID, c.RequestID), ID: a.id, Model: a.model, Project: c.Project, Route: a.handler,
		Status: status, Began: c.Begun, Ended: c.Begun.Add(took), Error: a.failure,
		Input: used.Prompt, Cached: used.Cached, Output: used.Completion,
	}
	if a.tokens != nil {
		o.Finish = a.tokens.Finish()
		if o.Queue, o.First, o.Computed = a.tokens.Waits(); o.Computed {
			o.Prefill, o.Decode = a.tokens.Course()
		}
	}
	return a.span.End(&o)
}
