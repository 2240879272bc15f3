// Package tracing makes a span of OpenTelemetry of each request that asks a model, with the
// attributes of the semantic conventions for generative AI
// (https://github.com/open-telemetry/semantic-conventions-genai) and those of vLLM
// (vllm/tracing/utils.py), and sends it to a collector. Prompts and answers are in none of them.
//
//	t, err := tracing.New(tracing.Config{Endpoint: "http://collector:4318/v1/traces"})
//	r := t.Begin(traceparent, tracestate)
//	r.Operation = "chat"
//	id := r.End(&tracing.Outcome{…})
//	t.Close(ctx)
//
// # A span is made when its request has ended
//
// All that a span tells of is known only then, times included, which the engine and the account
// of the request have anyway. So a request costs a copy of two headers while it runs, nothing per
// token, and the engine's loop knows nothing of traces. The parts of a request (waiting, prefill,
// decode) are events of its span, not spans below it: they are a queue's place and 200 bytes on
// the wire cheaper each, and the attributes have their lengths.
//
// # What a collector can do to the server
//
// Spans wait for the collector in a queue with a limit; what does not fit is counted and
// forgotten (queue.go). Only the goroutine of the queue ever waits for the collector, and Close waits
// no longer than its context.
//
// # Libraries
//
// Spans, samplers, resources, the queue and the encoding are those of OpenTelemetry's SDK for Go. What
// sends them is ours (client.go), over net/http for both protocols: the SDK's own senders, either of
// them, bring all of gRPC and its gateway along, which made the program 12.7 MB larger (62.4 MB
// without) and its start a millisecond longer. So it is this package that reads the variables
// OTEL_EXPORTER_OTLP_…, while the SDK reads OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME and OTEL_BSP_….
package tracing
