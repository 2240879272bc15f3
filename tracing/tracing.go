package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes the spans of a server and sends them. Its methods may be called from any
// goroutine, and a nil Tracer makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter sdk.SpanExporter
	tally    *tally
	where    string
}

// New returns the Tracer that flags and environment ask for; nil: they ask for none. It does not
// wait for the collector, which may come later.
func New(c Config) (*Tracer, error) {
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	log := cmp.Or(c.Log, slog.Default())
	to, err := c.target()
	if to == nil || err != nil {
		return nil, err
	}
	ctx := context.Background()
	sends, err := newClient(to)
	if err != nil {
		return nil, err
	}
	exporter := otlptrace.NewUnstarted(sends)
	if err := exporter.Start(ctx); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "weir"), attribute.String("service.version", c.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // what comes later counts
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// What is left for this handler is what a collector says of spans that it has taken in part.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("traces", "error", err) }))
	t := &Tracer{exporter: exporter, tally: &tally{}, where: to.protocol + " " + to.about()}
	most := queueSize(c.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"))
	batches := sdk.NewBatchSpanProcessor(&sender{SpanExporter: exporter, tally: t.tally, log: log}, sdk.WithMaxQueueSize(most))
	t.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(&queue{SpanProcessor: batches, tally: t.tally, most: int64(most)}))
	t.tracer = t.provider.Tracer("weir", trace.WithInstrumentationVersion(c.Version))
	return t, nil
}

// queueSize is how many spans may wait.
func queueSize(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 1<<20 {
		return n
	}
	return sdk.DefaultMaxQueueSize
}

// String is where spans are sent, without passwords.
func (t *Tracer) String() string { return t.where }

// Counts returns what has become of spans so far.
func (t *Tracer) Counts() Counts {
	return Counts{t.tally.sent.Load(), t.tally.failed.Load(), t.tally.dropped.Load()}
}

// Close sends the spans that wait, as long as ctx lasts.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.provider.Shutdown(ctx)
	if err == nil {
		return nil
	}
	// An export that hangs is cut short by its exporter, whose own end waits for nothing.
	left := max(0, t.tally.waiting.Load())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.exporter.Shutdown(ended) // its error would say that the time is over
	return fmt.Errorf("traces: %d spans were not sent: %w", left, err)
}

// Begin returns what is known of a request from its headers traceparent and tracestate of W3C
// Trace Context, of which either may be "". What is malformed counts as absent.
func (t *Tracer) Begin(parent, state string) *Request {
	if t == nil {
		return nil
	}
	r := &Request{tracer: t}
	if parent != "" {
		r.parent = trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers{parent, state}))
	}
	return r
}

// headers are the two headers of a parent.
type headers struct{ parent, state string }

func (h headers) Get(key string) string {
	switch key {
	case "traceparent":
		return h.parent
	case "tracestate":
		return h.state
	}
	return ""
}

func (headers) Set(string, string) {}

func (headers) Keys() []string { return []string{"traceparent", "tracestate"} }
