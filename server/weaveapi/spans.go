package weaveapi

import (
	"context"
	"errors"

	"weir/auth"
	"weir/calls"
	"weir/feedback"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
	"weir/spans"
)

// protobufType is the type of content of OTLP in protobuf's encoding.
const protobufType = "application/x-protobuf"

// spanRoutes take traces of OpenTelemetry. Exporters of other programs call the first one, and
// Weave's client, with the spans of agents, the second.
var spanRoutes = []route{
	{"POST", "/otel/v1/traces", (*Handlers).exportSpans},
	{"POST", "/agents/otel/v1/traces", (*Handlers).exportSpans},
}

// spanBodyBytes is what one byte of a body takes at most while its spans are read: the largest
// span may be all of it, and is there read, as a call's values, and as a whole.
const spanBodyBytes = 4

// exportSpans answers with ExportTraceServiceResponse in the encoding of the request.
func (h *Handlers) exportSpans(c *transport.Call) {
	enc := spans.JSON
	if c.MediaType() == protobufType {
		enc = spans.Protobuf
	}
	if !c.ReadOf(h.cfg.MaxBody, h.cfg.MaxRatio, h.cfg.Draining(), protobufType, "application/json") || !reserve(c, spanBodyBytes*int64(len(c.Body()))) {
		return
	}
	project := string(c.Request.Header.Peek("project_id"))
	var e *spans.Export
	err := decodeBody(c, func(ctx context.Context) (err error) {
		ctx = memory.With(ctx, func(n int64) error { return c.Memory().Grow(ctx, n) })
		e, err = spans.Decode(ctx, c.Body(), enc, project)
		return err
	})
	if errors.Is(err, memory.ErrNever) {
		err = failure.ErrTooLarge
	}
	if err != nil {
		c.Fail(err)
		return
	}
	for _, p := range e.Projects() {
		if !c.Who.May(auth.Write, p) {
			c.Fail(feedback.Forbidden)
			return
		}
	}
	if err := h.cfg.Calls.Complete(c.Context(), calls.Author{User: c.Who.User}, e.Calls); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(e.Answer(enc))
	if enc == spans.Protobuf {
		c.Response.Header.SetContentType(protobufType)
	}
}
