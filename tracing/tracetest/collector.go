package tracetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/tracing"
)

// Collector takes spans.
type Collector struct {
	URL string // of the endpoint for traces

	mu       sync.Mutex
	requests []*collector.ExportTraceServiceRequest
}

// New starts a collector that lives as long as the test.
func New(t *testing.T) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		q := &collector.ExportTraceServiceRequest{}
		if err != nil || proto.Unmarshal(body, q) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.Add(q)
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

// Add takes a request.
func (c *Collector) Add(q *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	c.requests = append(c.requests, q)
	c.mu.Unlock()
}

// Tracer returns a Tracer that sends its spans to the collector, and a function that sends those
// that wait and returns all.
func (c *Collector) Tracer(t *testing.T) (tracer *tracing.Tracer, spans func() []*tracepb.Span) {
	tracer, err := tracing.New(tracing.Config{Endpoint: c.URL, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	close := sync.OnceFunc(func() {
		if err := tracer.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(close)
	return tracer, func() []*tracepb.Span {
		close()
		return c.Spans()
	}
}

// Requests are those that came.
func (c *Collector) Requests() []*collector.ExportTraceServiceRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Spans are all that came.
func (c *Collector) Spans() (all []*tracepb.Span) {
	for _, q := range c.Requests() {
		for _, r := range q.ResourceSpans {
			for _, s := range r.ScopeSpans {
				all = append(all, s.Spans...)
			}
		}
	}
	return all
}

// Attributes are those of a list, as texts.
func Attributes(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		m[a.Key] = text(a.Value)
	}
	return m
}

func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		s := "["
		for i, e := range v.ArrayValue.Values {
			if i > 0 {
				s += " "
			}
			s += text(e)
		}
		return s + "]"
	}
	return fmt.Sprintf("%T", v.Value)
}
