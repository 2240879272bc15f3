package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/tracing"
)

// openTraces returns what sends the spans of requests; nil: nobody asks for them.
func (o *logOptions) openTraces(log *slog.Logger) (*tracing.Tracer, error) {
	t, err := tracing.New(tracing.Config{Endpoint: o.traces, Version: version, Getenv: o.getenv, Log: log})
	if err != nil {
		return nil, fmt.Errorf("--otlp-traces-endpoint: %w", err)
	}
	if t != nil {
		log.Info("sending traces", "to", t.String())
	}
	return t, nil
}

// tracesTimeout is how long a server that stops waits for the collector of its traces.
const tracesTimeout = 3 * time.Second

// closeTraces sends the spans that wait. What the collector does not take is lost: no client waits for it.
func closeTraces(t *tracing.Tracer, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		log.Warn("the last spans were not sent", "error", err)
	}
}
