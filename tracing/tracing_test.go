package tracing_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/proto"

	"weir/tracing"
	"weir/tracing/tracetest"
)

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// answered is a request that was answered in three seconds.
func answered() *tracing.Outcome {
	return &tracing.Outcome{
		RequestID: "abc", ID: "chatcmpl-abc", Model: "m", Project: "team/p", Route: "/v1/chat/completions",
		Status: 200, Began: time.Unix(1000, 0), Ended: time.Unix(1003, 0), Finish: "stop", Input: 20, Cached: 16, Output: 7, Computed: true,
		Course: tracing.Course{Queue: 250 * time.Millisecond, First: time.Second, Prefill: 500 * time.Millisecond, Decode: 1500 * time.Millisecond},
	}
}

// asks makes a request an ordinary chat.
func asks(r *tracing.Request) *tracing.Request {
	r.Operation, r.Model, r.Stream, r.Drawn = "chat", "m", true, true
	r.MaxTokens, r.Choices, r.Temperature, r.TopP, r.TopK = 7, 2, .7, 1, 40
	return r
}

// docs/operating.md, Traces: the span of a request, its attributes and its place in a trace.
func TestSpan(t *testing.T) {
	t.Parallel()
	c := tracetest.New(t)
	tracer, spans := c.Tracer(t)
	id := asks(tracer.Begin("00-"+parentTrace+"-"+parentSpan+"-01", "a=b")).End(answered())
	all := spans()
	if len(all) != 1 || id != parentTrace {
		t.Fatalf("trace %q, spans %v", id, all)
	}
	s := all[0]
	if s.Name != "chat m" || s.Kind != tracepb.Span_SPAN_KIND_SERVER || hex.EncodeToString(s.TraceId) != parentTrace || hex.EncodeToString(s.ParentSpanId) != parentSpan ||
		s.TraceState != "a=b" || s.StartTimeUnixNano != 1000e9 || s.EndTimeUnixNano != 1003e9 || s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("%v", s)
	}
	want := map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "weir", "gen_ai.request.model": "m", "gen_ai.response.model": "m",
		"gen_ai.response.id": "chatcmpl-abc", "gen_ai.request.id": "abc", "http.route": "/v1/chat/completions", "http.response.status_code": "200", "weir.project": "team/p",
		"gen_ai.request.stream": "true", "gen_ai.request.max_tokens": "7", "gen_ai.request.temperature": "0.7", "gen_ai.request.top_p": "1", "gen_ai.request.top_k": "40",
		"gen_ai.request.n": "2", "gen_ai.request.choice.count": "2", "gen_ai.response.finish_reasons": "[stop]",
		"gen_ai.usage.input_tokens": "20", "gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "16", "gen_ai.usage.prompt_tokens": "20", "gen_ai.usage.completion_tokens": "7",
		"gen_ai.latency.e2e": "3", "gen_ai.response.time_to_first_chunk": "1", "gen_ai.latency.time_to_first_token": "1", "gen_ai.latency.time_in_queue": "0.25",
		"gen_ai.latency.time_in_model_prefill": "0.5", "gen_ai.latency.time_in_model_decode": "1.5", "gen_ai.latency.time_in_model_inference": "2",
	}
	if got := tracetest.Attributes(s.Attributes); !maps.Equal(got, want) {
		t.Errorf("attributes\n%v, want\n%v", got, want)
	}
	events := []string{}
	for _, e := range s.Events {
		events = append(events, e.Name+" "+time.Unix(0, int64(e.TimeUnixNano)).UTC().Format("05.000"))
	}
	if want := []string{"queued 40.250", "scheduled 40.500", "first_token 41.000", "last_token 42.500"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	about := tracetest.Attributes(c.Requests()[0].ResourceSpans[0].Resource.Attributes)
	if about["service.name"] != "weir" || about["service.version"] != "test" {
		t.Errorf("resource %v", about)
	}
	if got := tracer.Counts(); got != (tracing.Counts{Sent: 1}) {
		t.Errorf("%+v", got)
	}
}

// TestRefusedSpan: a request that was refused has a span without tokens and times of the engine.
func TestRefusedSpan(t *testing.T) {
	t.Parallel()
	tracer, spans := tracetest.New(t).Tracer(t)
	r := tracer.Begin("", "")
	r.Operation = "embeddings"
	id := r.End(&tracing.Outcome{Status: 503, Began: time.Unix(1000, 0), Ended: time.Unix(1000, 0), Error: "engine_full"})
	s := spans()[0]
	if len(id) != 32 || hex.EncodeToString(s.TraceId) != id || len(s.ParentSpanId) != 0 || s.Name != "embeddings" || s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(s.Events) != 0 {
		t.Errorf("%q %v", id, s)
	}
	want := map[string]string{"gen_ai.operation.name": "embeddings", "gen_ai.provider.name": "weir", "error.type": "engine_full", "http.response.status_code": "503", "gen_ai.latency.e2e": "0"}
	if got := tracetest.Attributes(s.Attributes); !maps.Equal(got, want) {
		t.Errorf("attributes\n%v, want\n%v", got, want)
	}
}

// docs/operating.md, Traces: who began the trace decides whether it is sampled, and a request
// without an operation has no span; the log has the ids of their traces all the same.
func TestParents(t *testing.T) {
	t.Parallel()
	tracer, spans := tracetest.New(t).Tracer(t)
	for parent, traced := range map[string]bool{
		"00-" + parentTrace + "-" + parentSpan + "-00": true,
		"00-" + parentTrace + "-" + parentSpan:         false,
		"nonsense":                                     false,
		"":                                             false,
	} {
		if id := tracer.Begin(parent, "").End(answered()); (id == parentTrace) != traced || !traced && id != "" {
			t.Errorf("%q without an operation: trace %q", parent, id)
		}
		if traced {
			if id := asks(tracer.Begin(parent, "")).End(answered()); id != parentTrace {
				t.Errorf("%q: trace %q", parent, id)
			}
		}
	}
	if got := spans(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	var none *tracing.Tracer
	if r := none.Begin("00-"+parentTrace+"-"+parentSpan+"-01", ""); r != nil || r.End(answered()) != "" || none.Close(t.Context()) != nil {
		t.Error("a server without traces has one")
	}
}

// TestSampler: the environment decides how many traces there are.
func TestSampler(t *testing.T) {
	for ratio, least := range map[string]int{"0": 0, "0.5": 50, "1": 200} {
		t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
		tracer, spans := tracetest.New(t).Tracer(t)
		for range 200 {
			asks(tracer.Begin("", "")).End(answered())
		}
		if n := len(spans()); n < least || n > 4*least {
			t.Errorf("%s: %d of 200 spans", ratio, n)
		}
	}
}

// hanging is the URL of a collector that takes requests and does not answer before the test ends.
func hanging(t *testing.T) string {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	return s.URL
}

// docs/operating.md, Traces: a collector that hangs costs spans and nothing else.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	const most, requests = 50, 5000
	tracer, err := tracing.New(tracing.Config{Endpoint: hanging(t) + "/v1/traces", Getenv: func(name string) string {
		return map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "50"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range requests {
		asks(tracer.Begin("", "")).End(answered()) // which would never return if it waited
	}
	if got := tracer.Counts(); got.Sent != 0 || got.Dropped != requests-most {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); err == nil || !strings.Contains(err.Error(), "50 spans were not sent") {
		t.Error(err)
	}
}

// TestRetry: a collector that asks for it gets its spans again, with the headers and the
// compression that the environment asks for.
func TestRetry(t *testing.T) {
	t.Parallel()
	tries := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("X-Team") != "a" {
			t.Errorf("%v: %v", r.Header, err)
			return
		}
		body, err := io.ReadAll(z)
		if q := (&collector.ExportTraceServiceRequest{}); err != nil || proto.Unmarshal(body, q) != nil || len(q.ResourceSpans) != 1 {
			t.Error("the spans cannot be read", err)
		}
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	tracer, err := tracing.New(tracing.Config{Endpoint: s.URL, Getenv: func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-team=a"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	asks(tracer.Begin("", "")).End(answered())
	if err := tracer.Close(t.Context()); err != nil || tries != 2 || tracer.Counts() != (tracing.Counts{Sent: 1}) {
		t.Errorf("%d tries, %+v: %v", tries, tracer.Counts(), err)
	}
}

// TestDownCollector: spans that nobody takes are counted.
func TestDownCollector(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(s.Close)
	tracer, err := tracing.New(tracing.Config{Endpoint: s.URL + "/v1/traces"})
	if err != nil {
		t.Fatal(err)
	}
	asks(tracer.Begin("", "")).End(answered())
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := tracer.Counts(); got != (tracing.Counts{Failed: 1}) {
		t.Errorf("%+v", got)
	}
}

// service is a collector of gRPC.
type service struct {
	collector.UnimplementedTraceServiceServer
	*tracetest.Collector
}

func (s service) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.Add(q)
	return &collector.ExportTraceServiceResponse{}, nil
}

// docs/operating.md, Traces: the other protocol.
func TestGRPC(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			overGRPC(t, compression)
		})
	}
}

func overGRPC(t *testing.T, compression string) {
	c := &tracetest.Collector{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, service{Collector: c})
	go func() { _ = s.Serve(ln) }() // until Stop
	t.Cleanup(s.Stop)
	tracer, err := tracing.New(tracing.Config{Endpoint: "grpc://" + ln.Addr().String(), Getenv: func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": compression}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	asks(tracer.Begin("", "")).End(answered())
	if err := tracer.Close(t.Context()); err != nil || len(c.Spans()) != 1 || tracer.Counts() != (tracing.Counts{Sent: 1}) {
		t.Errorf("%v, %+v: %v", c.Spans(), tracer.Counts(), err)
	}
}
