package tracing

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Request is what the span of a request tells of it. Its fields are set as they become known.
type Request struct {
	Operation string // gen_ai.operation.name; "": the request asks no model, and there is no span
	Model     string // that was asked for
	Stream    bool
	Drawn     bool // tokens are drawn, so that the fields below mean something

	MaxTokens         int // 0: the client has not said
	Choices           int
	Temperature, TopP float32
	TopK              int // 0 or less: it is off

	tracer *Tracer
	parent trace.SpanContext
}

// Outcome is what has become of a request.
type Outcome struct {
	RequestID, ID, Model string // of the request, of its answer, and what has computed it
	Project, Route       string
	Status               int // of HTTP
	Began, Ended         time.Time
	Error                string // kind of the error; "": none
	Finish               string // why the answer ended; "": unknown

	Input, Cached, Output uint64 // tokens

	Computed bool // there were tokens, so that Course is known
	Course
}

// Course are the times of a request: waiting for its first step, from its arrival to its first
// token, from its first step to its first token, and from that to its last.
type Course struct {
	Queue, First, Prefill, Decode time.Duration
}

// End makes the span of a request that has ended, if it has one, and returns the id of its trace;
// "": it is part of none. r may be nil.
func (r *Request) End(o *Outcome) string {
	switch {
	case r == nil:
		return ""
	case r.Operation == "":
		return traceID(r.parent)
	}
	name := r.Operation
	first := append(make([]attribute.KeyValue, 0, 3), attribute.String("gen_ai.operation.name", r.Operation), attribute.String("gen_ai.provider.name", "weir"))
	if r.Model != "" {
		name += " " + r.Model
		first = append(first, attribute.String("gen_ai.request.model", r.Model))
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), r.parent)
	_, span := r.tracer.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(o.Began), trace.WithAttributes(first...))
	if span.IsRecording() {
		span.SetAttributes(r.attributes(o)...)
		r.addEvents(span, o)
		if o.Error != "" && o.Status >= 500 || o.Finish == "error" {
			span.SetStatus(codes.Error, o.Error)
		}
	}
	span.End(trace.WithTimestamp(o.Ended))
	return traceID(span.SpanContext())
}

func traceID(c trace.SpanContext) string {
	if !c.HasTraceID() {
		return ""
	}
	return c.TraceID().String()
}

// attributes are those of the semantic conventions, followed by those of vLLM.
func (r *Request) attributes(o *Outcome) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 32)
	text := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	number := func(key string, value int64) { all = append(all, attribute.Int64(key, value)) }
	seconds := func(key string, d time.Duration) { all = append(all, attribute.Float64(key, d.Seconds())) }

	text("gen_ai.response.id", o.ID)
	text("gen_ai.response.model", o.Model)
	text("gen_ai.request.id", o.RequestID)
	text("http.route", o.Route)
	text("weir.project", o.Project)
	text("error.type", o.Error)
	number("http.response.status_code", int64(o.Status))
	if r.Drawn {
		all = append(all, attribute.Bool("gen_ai.request.stream", r.Stream))
		all = append(all, attribute.Float64("gen_ai.request.temperature", decimal(r.Temperature)), attribute.Float64("gen_ai.request.top_p", decimal(r.TopP)))
		number("gen_ai.request.n", int64(r.Choices))
		number("gen_ai.request.choice.count", int64(r.Choices))
		if r.TopK > 0 {
			number("gen_ai.request.top_k", int64(r.TopK))
		}
		if r.MaxTokens > 0 {
			number("gen_ai.request.max_tokens", int64(r.MaxTokens))
		}
	}
	if o.Finish != "" {
		all = append(all, attribute.StringSlice("gen_ai.response.finish_reasons", []string{o.Finish}))
	}
	if o.ID != "" { // the engine has accepted it
		number("gen_ai.usage.input_tokens", int64(o.Input))
		number("gen_ai.usage.output_tokens", int64(o.Output))
		number("gen_ai.usage.cache_read.input_tokens", int64(o.Cached))
		number("gen_ai.usage.prompt_tokens", int64(o.Input))
		number("gen_ai.usage.completion_tokens", int64(o.Output))
	}
	seconds("gen_ai.latency.e2e", o.Ended.Sub(o.Began))
	if o.Computed {
		seconds("gen_ai.response.time_to_first_chunk", o.First)
		seconds("gen_ai.latency.time_to_first_token", o.First)
		seconds("gen_ai.latency.time_in_queue", o.Queue)
		seconds("gen_ai.latency.time_in_model_prefill", o.Prefill)
		seconds("gen_ai.latency.time_in_model_decode", o.Decode)
		seconds("gen_ai.latency.time_in_model_inference", o.Prefill+o.Decode)
	}
	return all
}

// addEvents adds when the request came to the engine, into its first step, and to its first and
// last token.
func (r *Request) addEvents(span trace.Span, o *Outcome) {
	if !o.Computed {
		return
	}
	first := o.Began.Add(o.First)
	for _, e := range []struct {
		name string
		at   time.Time
	}{
		{"queued", first.Add(-o.Prefill - o.Queue)}, {"scheduled", first.Add(-o.Prefill)},
		{"first_token", first}, {"last_token", first.Add(o.Decode)},
	} {
		span.AddEvent(e.name, trace.WithTimestamp(e.at))
	}
}

// decimal is the number that a client wrote: 0.7, and not the float32 next to it.
func decimal(v float32) float64 {
	d, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	return d
}
