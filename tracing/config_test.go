package tracing

import (
	"slices"
	"strings"
	"testing"
)

// docs/operating.md, Traces: which collector, and how it is reached.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		endpoint, env string // env is NAME=value, separated by spaces; OTEL_ is left out
		want          string // protocol and URL; "": there are no traces; what begins with ! is a part of the error
	}{
		{"", "", ""},
		{"http://c:4318/v1/traces", "", "http/protobuf http://c:4318/v1/traces"},
		{"http://c:4318", "", "http/protobuf http://c:4318/v1/traces"},
		{"http://c:4318/", "", "http/protobuf http://c:4318/v1/traces"},
		{"http://c", "", "http/protobuf http://c/v1/traces"},
		{"https://c/otlp", "", "http/protobuf https://c/otlp"},
		{"http://c:4317/x", "", "http/protobuf http://c:4317/x"},
		{"http://c:4317", "", "grpc http://c:4317" + grpcPath},
		{"https://c:4317", "", "grpc https://c:4317" + grpcPath},
		{"grpc://c:4318", "", "grpc http://c:4318" + grpcPath},
		{"c:4317", "", "grpc http://c:4317" + grpcPath},
		{"http://c:4317", "EXPORTER_OTLP_PROTOCOL=http/protobuf", "http/protobuf http://c:4317/v1/traces"},
		{"http://c:4318/v1/traces", "EXPORTER_OTLP_PROTOCOL=http/protobuf EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "grpc http://c:4318" + grpcPath},
		{"", "EXPORTER_OTLP_ENDPOINT=http://c:4318/x/", "http/protobuf http://c:4318/x/v1/traces"},
		{"", "EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/x", "http/protobuf http://c:4318/x"},
		{"http://d", "EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/x", "http/protobuf http://d/v1/traces"},
		{"", "EXPORTER_OTLP_ENDPOINT=http://c:4317 EXPORTER_OTLP_PROTOCOL=grpc", "grpc http://c:4317" + grpcPath},
		{"http://c:4318", "SDK_DISABLED=true", ""},
		{"http://c:4318", "TRACES_EXPORTER=none", ""},
		{"http://c:4318", "TRACES_EXPORTER=otlp", "http/protobuf http://c:4318/v1/traces"},
		{"http://c:4318", "TRACES_EXPORTER=zipkin", "!zipkin"},
		{"http://c:4318", "EXPORTER_OTLP_PROTOCOL=http/json", "!http/json"},
		{"ftp://c:4318", "", "!http, https or grpc"},
		{"http://:4318", "", "!no URL"},
		{"http://%zz", "", "!no URL"},
		{"http://c:4318", "TRACES_SAMPLER=sometimes", "!sometimes"},
		{"http://c:4318", "TRACES_SAMPLER=traceidratio TRACES_SAMPLER_ARG=1.5", "!1.5"},
		{"http://c:4318", "TRACES_SAMPLER=traceidratio TRACES_SAMPLER_ARG=0.1", "http/protobuf http://c:4318/v1/traces"},
		{"http://c:4318", "TRACES_SAMPLER=always_off", "http/protobuf http://c:4318/v1/traces"},
		{"http://c:4318", "EXPORTER_OTLP_HEADERS=nothing", "!nothing"},
		{"http://c:4318", "EXPORTER_OTLP_TIMEOUT=10s", "!10s"},
		{"http://c:4318", "EXPORTER_OTLP_COMPRESSION=zstd", "!zstd"},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(tt.env) {
			name, value, _ := strings.Cut(pair, "=")
			env["OTEL_"+name] = value
		}
		c := Config{Endpoint: tt.endpoint, Getenv: func(name string) string { return env[name] }}
		got := ""
		to, err := c.target()
		if to != nil {
			got = to.protocol + " " + to.url
		}
		if part, fails := strings.CutPrefix(tt.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s %s: %q, %v", tt.endpoint, tt.env, got, err)
			}
		} else if got != tt.want || err != nil {
			t.Errorf("%s %s: %q, %v, want %q", tt.endpoint, tt.env, got, err, tt.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	got, err := parseHeaders("authorization=Basic%20abc=, x-team = a b,")
	if want := []header{{"Authorization", "Basic abc="}, {"X-Team", "a b"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := parseHeaders("a=secret%0Ab"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
