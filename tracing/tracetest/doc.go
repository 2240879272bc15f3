// Package tracetest is a collector of traces for tests: it takes OTLP over HTTP and keeps the spans.
package tracetest
