package server_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/pooling"
	"weir/server/servertest"
	"weir/server/transport"
	"weir/tracing/tracetest"
)

// tracedCall is a request, and what its span has.
type tracedCall struct {
	path, body, name string // name "": there is no span
	status           int
	finish, stream   string // finish "": not looked at
}

// check compares a span.
func (c *tracedCall) check(t *testing.T, s *tracepb.Span) {
	t.Helper()
	got := tracetest.Attributes(s.Attributes)
	if s.Name != c.name || got["http.response.status_code"] != fmt.Sprint(c.status) || got["gen_ai.request.stream"] != c.stream || got["http.route"] != c.path {
		t.Errorf("%s: %s %v", c.path, s.Name, got)
	}
	if c.status != 200 {
		if got["error.type"] == "" || len(s.Events) != 0 {
			t.Errorf("%s: %v", c.path, s)
		}
		return
	}
	if c.finish != "" && (got["gen_ai.response.finish_reasons"] != c.finish || got["gen_ai.usage.output_tokens"] != "3") {
		t.Errorf("%s: %v", c.path, got)
	}
	for _, there := range []string{"gen_ai.response.id", "gen_ai.usage.input_tokens", "gen_ai.latency.time_to_first_token", "gen_ai.latency.time_in_model_decode"} {
		if got[there] == "" || got[there] == "0" && there == "gen_ai.usage.input_tokens" {
			t.Errorf("%s: %s in %v", c.path, there, got)
		}
	}
	if got["gen_ai.request.max_tokens"] != "3" || len(s.Events) != 4 {
		t.Errorf("%s: %v, events %v", c.path, got, s.Events)
	}
	before := s.StartTimeUnixNano
	for _, e := range s.Events {
		if e.TimeUnixNano < before || e.TimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s: %s is not between %d and %d: %v", c.path, e.Name, before, s.EndTimeUnixNano, e)
		}
		before = e.TimeUnixNano
	}
}

// docs/operating.md, Traces: every interface through which a model is asked makes a span, below the
// one that the client names, and the line of the log has the id of its trace. Nothing that was said
// is in the spans.
func TestTraces(t *testing.T) {
	t.Parallel()
	tracer, spans := tracetest.New(t).Tracer(t)
	h := newServer(t, func(s *servertest.Setup) { s.Config.LogRequests, s.Config.Traces = true, tracer })
	h.SetClock(time.Now)
	const ask = `"model":"tiny","messages":[{"role":"user","content":"secret"}]`
	calls := []tracedCall{
		{servertest.ChatPath, `{` + ask + `,"max_tokens":3,"temperature":0.3,"ignore_eos":true}`, "chat tiny", 200, "[length]", "false"},
		{servertest.ChatPath, `{` + ask + `,"max_tokens":3,"ignore_eos":true,"stream":true}`, "chat tiny", 200, "[length]", "true"},
		{servertest.ChatPath, `{` + ask + `,"temperature":"hot"}`, "chat", 400, "", ""},
		{"/v1/completions", `{"model":"tiny","prompt":"secret","max_tokens":3,"ignore_eos":true}`, "text_completion tiny", 200, "[length]", "false"},
		{"/v1/responses", `{"model":"tiny","input":"secret","max_output_tokens":3}`, "chat tiny", 200, "", "false"},
		{"/v1/messages", `{` + ask + `,"max_tokens":3}`, "chat tiny", 200, "", "false"},
		{"/api/chat", `{` + ask + `,"stream":false,"options":{"num_predict":3}}`, "chat tiny", 200, "", "false"},
		{"/v1/embeddings", `{"model":"tiny","input":"secret"}`, "embeddings", 400, "", ""}, // the model does not embed
		{"/tokenize", `{"model":"tiny","prompt":"secret"}`, "", 200, "", ""},
	}
	named := map[string]*tracepb.Span{}
	for i, c := range calls {
		trace := fmt.Sprintf("%032x", i+1)
		status, answer, _ := h.Get("POST", c.path, c.body, "traceparent: 00-"+trace+"-b7ad6b7169203331-01", "tracestate: a=b", fmt.Sprintf("X-Request-Id: r%d", i))
		if status != c.status {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
	servertest.WaitFor(t, "the lines", func() bool { return h.Log.Times(transport.LogFinished) == len(calls) })
	for i, line := range h.Log.Lines(transport.LogFinished) {
		if want := fmt.Sprintf("%032x", i+1); line["trace_id"] != want {
			t.Errorf("%s: trace %q, want %q", calls[i].path, line["trace_id"], want)
		}
	}
	all := spans()
	for _, s := range all {
		named[hex.EncodeToString(s.TraceId)] = s
		if strings.Contains(s.String(), "secret") || hex.EncodeToString(s.ParentSpanId) != "b7ad6b7169203331" || s.TraceState != "a=b" {
			t.Errorf("%v", s)
		}
	}
	if len(all) != len(calls)-1 { // /tokenize asks no model
		t.Errorf("%d spans", len(all))
	}
	for i, c := range calls {
		s := named[fmt.Sprintf("%032x", i+1)]
		if (c.name == "") != (s == nil) {
			t.Errorf("%s: %v", c.path, s)
		} else if s != nil {
			c.check(t, s)
		}
	}
	if got := tracetest.Attributes(named[fmt.Sprintf("%032x", 1)].Attributes)["gen_ai.request.temperature"]; got != "0.3" {
		t.Errorf("temperature %s", got)
	}
}

// TestTracesOfVectors: a request for vectors has a span, too.
func TestTracesOfVectors(t *testing.T) {
	t.Parallel()
	tracer, spans := tracetest.New(t).Tracer(t)
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Traces, s.Spec.Hidden = tracer, 8
		s.Model.Pooling = &pooling.Plan{Kind: pooling.Mean, Hidden: 8, Normalize: true}
	})
	if status, answer, _ := h.Get("POST", "/v1/embeddings", `{"model":"tiny","input":"secret"}`); status != 200 {
		t.Fatal(answer)
	}
	all := spans()
	if len(all) != 1 || all[0].Name != "embeddings tiny" || tracetest.Attributes(all[0].Attributes)["gen_ai.usage.input_tokens"] == "0" {
		t.Errorf("%v", all)
	}
}
