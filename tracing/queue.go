package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Counts are spans by what became of them.
type Counts struct {
	Sent    uint64 // the collector has taken them
	Failed  uint64 // it has not
	Dropped uint64 // they found the queue full
}

// tally counts spans, and those that wait.
type tally struct {
	sent, failed, dropped atomic.Uint64
	waiting               atomic.Int64
}

// queue is the SDK's queue with a limit that shows: the SDK does not tell how many spans it
// forgets.
type queue struct {
	sdk.SpanProcessor
	tally *tally
	most  int64
}

// OnEnd takes a span that has ended, or forgets it.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.tally.waiting.Add(1) > q.most {
		q.tally.waiting.Add(-1)
		q.tally.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// sender sends the spans that waited. Only the goroutine of the queue calls it.
type sender struct {
	sdk.SpanExporter
	tally *tally
	log   *slog.Logger
	quiet time.Time // until when a failure is not logged again
}

// quietTime is how long the log says nothing more of a collector that does not take spans.
const quietTime = time.Minute

// ExportSpans sends spans. Its error is for the log alone: nobody else could do anything about it.
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	n := len(spans)
	s.tally.waiting.Add(int64(-n))
	if err == nil {
		s.tally.sent.Add(uint64(n))
		return nil
	}
	s.tally.failed.Add(uint64(n))
	if now := time.Now(); now.After(s.quiet) {
		s.quiet = now.Add(quietTime)
		s.log.Warn("the collector of traces did not take spans; this is said once a minute at most", "spans", n, "error", err)
	}
	return nil
}
