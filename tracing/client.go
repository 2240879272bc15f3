package tracing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/retry"
)

// client sends spans to a collector. It is what is beneath the SDK's exporter (otlptrace.Client).
type client struct {
	target
	http   *http.Client
	ctx    context.Context // until Stop
	cancel context.CancelFunc
}

// newClient returns a client, which has connected to nobody.
func newClient(t *target) (*client, error) {
	security, err := t.files.config()
	if err != nil {
		return nil, err
	}
	speaks := new(http.Protocols)
	speaks.SetHTTP1(t.protocol == protocolHTTP)
	speaks.SetHTTP2(true)
	speaks.SetUnencryptedHTTP2(t.protocol == protocolGRPC)
	c := &client{target: *t, http: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: security, Protocols: speaks, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// tlsFiles are the files of TLS that the environment names; "": none.
type tlsFiles struct{ authorities, certificate, key string }

func (f *tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.authorities != "" {
		pem, err := os.ReadFile(f.authorities)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", f.authorities)
		}
	}
	if f.certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (c *client) Start(context.Context) error { return nil }

// Stop cuts short what is being sent.
func (c *client) Stop(context.Context) error {
	c.cancel()
	c.http.CloseIdleConnections()
	return nil
}

// Between two tries to send spans there are these times, if the collector names none: it may be
// starting, and meanwhile the spans of others wait in the queue.
const (
	firstRetry = 100 * time.Millisecond
	mostRetry  = 8 * time.Second
)

// UploadTraces sends spans. While the collector asks for it, they are sent again, as long as ctx
// and the time limit last.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The request of OTLP has the one field of TracesData, with the same number. Its own type is in a
	// package that imports all of gRPC.
	message, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	body := c.body(message)
	for wait := firstRetry; ; wait = min(2*wait, mostRetry) {
		again, err := c.send(ctx, body)
		if again < 0 || err == nil {
			return err
		}
		select {
		case <-time.After(max(again, wait)):
		case <-ctx.Done():
			return err
		}
	}
}

// body is what is sent for a message.
func (c *client) body(message []byte) []byte {
	compressed := byte(0)
	if c.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(message) // a Buffer takes everything
		_ = w.Close()
		message, compressed = b.Bytes(), 1
	}
	if c.protocol == protocolHTTP {
		return message
	}
	// The one message of a call of gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
	framed := append(make([]byte, 0, 5+len(message)), compressed)
	return append(binary.BigEndian.AppendUint32(framed, uint32(len(message))), message...)
}

// mostAnswer is how much is read of what a collector answers.
const mostAnswer = 64 << 10

// noRetry says that sending again is of no use.
const noRetry = time.Duration(-1)

// send sends a body once. again is the least time after which it may be sent again, or noRetry.
func (c *client) send(ctx context.Context, body []byte) (again time.Duration, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return noRetry, err
	}
	q.Header.Set("User-Agent", "weir")
	if c.protocol == protocolGRPC {
		q.Header.Set("Content-Type", "application/grpc")
		q.Header.Set("TE", "trailers")
		if c.gzip {
			q.Header.Set("Grpc-Encoding", "gzip")
		}
	} else {
		q.Header.Set("Content-Type", "application/x-protobuf")
		if c.gzip {
			q.Header.Set("Content-Encoding", "gzip")
		}
	}
	for _, h := range c.headers {
		q.Header.Set(h.name, h.value)
	}
	r, err := c.http.Do(q)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL, which may hold a password
		}
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	_, _ = io.CopyN(io.Discard, r.Body, mostAnswer) // so that the connection can be used again, and the trailers are there
	if r.StatusCode >= 300 {
		err := fmt.Errorf("the collector answered with %s", r.Status)
		if !slices.Contains([]int{429, 502, 503, 504}, r.StatusCode) {
			return noRetry, err
		}
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return min(time.Duration(max(0, seconds))*time.Second, retry.Most), err
	}
	if c.protocol == protocolGRPC {
		return grpcStatus(r)
	}
	return noRetry, nil
}

// grpcStatus is what a call of gRPC has come to. Those that OTLP names may be sent again.
func grpcStatus(r *http.Response) (again time.Duration, err error) {
	status := cmp.Or(r.Trailer.Get("Grpc-Status"), r.Header.Get("Grpc-Status"))
	if status == "0" {
		return noRetry, nil
	}
	message := cmp.Or(r.Trailer.Get("Grpc-Message"), r.Header.Get("Grpc-Message"))
	err = fmt.Errorf("the collector answered with the status %q of gRPC: %.200q", status, message)
	if slices.Contains(strings.Fields("1 4 10 11 14 15"), status) { // cancelled, deadline, aborted, range, unavailable, data loss
		return 0, err
	}
	return noRetry, err
}
