// Package spans reads traces of OpenTelemetry and makes calls of their spans, so that programs
// which are instrumented for OpenTelemetry are traced in weir without Weave's client. It knows
// OTLP's request for traces in both encodings, protobuf and JSON, and the attributes that
// instrumentations of models and agents use. It knows no HTTP. The rules are in
// docs/interface/weave.md, section 5.
//
//	e, err := spans.Decode(ctx, body, spans.Protobuf, "acme/demo")
//	err = store.Complete(ctx, author, e.Calls)
//	answer := e.Answer(spans.Protobuf)
//
// # Why the messages are read here
//
// The generated types of OpenTelemetry (go.opentelemetry.io/proto/otlp v1.11.1) take 44 times the
// bytes of empty attributes, 52 times those of empty events, and 16 times those of attributes with
// one letter as their key and value. A server has to reserve memory before it decodes, and would
// have to count on that. The messages have few
// fields, so they are read with protowire and jsontext, one span at a time (message.go, span.go),
// and what is held is about the size of the calls.
//
// # Attributes
//
// Attributes are a list of keys with dots. They are sorted, so that those below one key follow
// each other, and objects and arrays are written from such ranges without building them in memory
// (attributes.go). Which attributes become what of a call is a table (convert.go).
package spans
