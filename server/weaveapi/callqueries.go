package weaveapi

import (
	"bytes"
	"context"
	"io"
	"strings"

	"weir/auth"
	"weir/calls"
	"weir/feedback"
	"weir/internal/jsontext"
	"weir/server/transport"
)

var callQueryRoutes = []route{
	{"POST", "/calls/stream_query", (*Handlers).streamCalls},
	{"POST", "/calls/query_stats", (*Handlers).countCalls},
}

// streamCalls answers POST /calls/stream_query with lines of JSON.
func (h *Handlers) streamCalls(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	if accept := string(c.Request.Header.Peek("Accept")); !takesLines(accept) {
		c.Fail(&feedback.Refusal{Status: 406, Reason: "Calls are answered as lines of JSON, application/jsonl, alone"})
		return
	}
	who := c.Who
	download(c, "application/jsonl", decodeCalls(false), projectOfCalls, func(ctx context.Context, q *calls.Query, w io.Writer) error {
		return h.cfg.Calls.Stream(ctx, q, w, h.outside(ctx, who, q.Project))
	})
}

// takesLines reports whether a client takes lines of JSON.
func takesLines(accept string) bool {
	if accept == "" {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "*/*", "application/*", "application/jsonl", "application/x-ndjson", "application/json":
			return true
		}
	}
	return false
}

// decodeCalls returns what reads a query of calls, or with count one that counts them.
func decodeCalls(count bool) func(context.Context, []byte) (*calls.Query, error) {
	return func(ctx context.Context, body []byte) (*calls.Query, error) {
		return calls.DecodeQuery(ctx, body, count)
	}
}

func projectOfCalls(q *calls.Query) string { return q.Project }

// outside is what queries of a caller about calls of a project may look up.
func (h *Handlers) outside(ctx context.Context, who *auth.Identity, project string) calls.Outside {
	out := calls.Outside{Feedback: h.feedbackOf(ctx, project)}
	if h.cfg.Objects != nil {
		out.Object = func(ref string) (jsontext.Value, error) {
			return h.cfg.Objects.Value(ctx, ref, func(p string) bool { return who.May(auth.Read, p) })
		}
	}
	return out
}

// feedbackOf returns a function that returns the feedback on a call of a project as a JSON
// array, in Weave's dialect.
func (h *Handlers) feedbackOf(ctx context.Context, project string) func(id string) (jsontext.Value, error) {
	return func(id string) (jsontext.Value, error) {
		if h.cfg.Feedback == nil {
			return jsontext.Value("[]"), nil
		}
		body := jsontext.AppendString([]byte(`{"project_id":`), project)
		body = append(body, `,"query":{"$expr":{"$in":[{"$getField":"weave_ref"},[`...)
		for i, scheme := range []string{"weave", "weir"} {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(jsontext.AppendString(append(body, `{"$literal":`...), scheme+":///"+project+"/call/"+id), '}')
		}
		q, err := h.cfg.Feedback.DecodeQuery(ctx, append(body, `]]}}}`...), feedback.ForQuery, true)
		if err != nil {
			return nil, err
		}
		var answer bytes.Buffer
		if err := h.cfg.Feedback.Query(ctx, q, &answer); err != nil {
			return nil, err
		}
		return jsontext.Value(answer.Bytes()).Member("result"), nil
	}
}

// countCalls answers POST /calls/query_stats.
func (h *Handlers) countCalls(c *transport.Call) {
	if !h.readBody(c) {
		return
	}
	if q, ok := decoded(c, auth.Read, decodeCalls(true), projectOfCalls); ok {
		h.answerQuery(c, func(ctx context.Context) ([]byte, error) {
			return h.cfg.Calls.Count(ctx, q, h.outside(ctx, c.Who, q.Project))
		})
	}
}
