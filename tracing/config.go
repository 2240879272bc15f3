package tracing

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config says where spans are sent.
type Config struct {
	// Endpoint is the URL of a collector; "": the environment names one, or there are no traces.
	Endpoint string
	Version  string // of this program
	// Getenv reads the environment; nil: there is none. The SDK itself reads the sampler and the
	// resource from that of the process.
	Getenv func(string) string
	Log    *slog.Logger // nil: slog.Default()
}

// The two protocols of OTLP that are spoken.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// Where collectors take traces.
const (
	httpPath = "/v1/traces"
	grpcPath = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
)

// target is where spans go, and how.
type target struct {
	protocol string
	url      string // http or https
	headers  []header
	timeout  time.Duration
	gzip     bool
	files    tlsFiles
}

type header struct{ name, value string }

// otlp is the value of a variable about traces, or about everything that is exported.
func (c *Config) otlp(name string) string {
	return cmp.Or(c.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), c.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// target decides whether there are traces: nil says no.
func (c *Config) target() (*target, error) {
	if strings.EqualFold(c.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch name := c.Getenv("OTEL_TRACES_EXPORTER"); name {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: traces are sent by otlp, or by none", name)
	}
	endpoint := cmp.Or(c.Endpoint, c.otlp("ENDPOINT"))
	if endpoint == "" {
		return nil, nil
	}
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	t := &target{protocol: cmp.Or(c.otlp("PROTOCOL"), guessProtocol(u))}
	switch {
	case t.protocol == protocolGRPC:
		u.Path = grpcPath
	case t.protocol != protocolHTTP:
		return nil, fmt.Errorf("the protocol of traces is %q, want %s or %s (OTEL_EXPORTER_OTLP_TRACES_PROTOCOL)", t.protocol, protocolHTTP, protocolGRPC)
	case c.Endpoint == "" && c.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		u.Path = strings.TrimRight(u.Path, "/") + httpPath // it is that of all that is exported
	case strings.Trim(u.Path, "/") == "":
		u.Path = httpPath
	}
	if u.Scheme == "grpc" {
		u.Scheme = "http"
	}
	t.url = u.String()
	if err := checkSampler(c.Getenv("OTEL_TRACES_SAMPLER"), c.Getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return nil, err
	}
	return t, t.settle(c)
}

// settle reads how spans are sent.
func (t *target) settle(c *Config) (err error) {
	if t.headers, err = parseHeaders(c.otlp("HEADERS")); err != nil {
		return err
	}
	ms := cmp.Or(c.otlp("TIMEOUT"), "10000")
	n, err := strconv.Atoi(ms)
	if err != nil || n <= 0 || n > 600_000 {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q, want milliseconds up to 600000", ms)
	}
	t.timeout = time.Duration(n) * time.Millisecond
	switch name := c.otlp("COMPRESSION"); name {
	case "", "none":
	case "gzip":
		t.gzip = true
	default:
		return fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q, want gzip or none", name)
	}
	t.files = tlsFiles{c.otlp("CERTIFICATE"), c.otlp("CLIENT_CERTIFICATE"), c.otlp("CLIENT_KEY")}
	return nil
}

// parseHeaders reads a list name=value,name=value, whose values are escaped as in URLs.
func parseHeaders(list string) (headers []header, err error) {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsAny(name+value, "\r\n") {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the part %q is not name=value", name) // its value may be secret
		}
		headers = append(headers, header{http.CanonicalHeaderKey(name), value})
	}
	return headers, nil
}

// parseEndpoint reads a URL, which may lack its scheme.
func parseEndpoint(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "grpc://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is no URL of a collector, such as http://localhost:4318/v1/traces or grpc://localhost:4317", text)
	}
	switch u.Scheme {
	case "http", "https", "grpc":
		return u, nil
	}
	return nil, fmt.Errorf("%q: a collector is reached by http, https or grpc", text)
}

// guessProtocol is the protocol of a URL about which the environment says nothing: gRPC at its
// port, which is vLLM's usual one, and HTTP elsewhere.
func guessProtocol(u *url.URL) string {
	if u.Scheme == "grpc" || u.Port() == "4317" && strings.Trim(u.Path, "/") == "" {
		return protocolGRPC
	}
	return protocolHTTP
}

// checkSampler refuses what the SDK would only complain of in the log.
func checkSampler(name, arg string) error {
	switch name {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		if ratio, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, want a part of all traces from 0 to 1", arg)
		}
		return nil
	}
	return fmt.Errorf("OTEL_TRACES_SAMPLER is %q, want always_on, always_off or traceidratio, or one of these with parentbased_ before it", name)
}

// about is the URL without a password.
func (t *target) about() string {
	u, err := url.Parse(t.url)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
