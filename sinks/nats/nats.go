package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/store/outbox"
)

// Names of headers.
const (
	headerKind    = "Weir-Kind"
	headerKey     = "Weir-Key"
	headerOp      = "Weir-Op"
	headerSeq     = "Weir-Seq"
	headerTime    = "Weir-Time"
	headerOmitted = "Weir-Omitted-Bytes"
)

// Sink is a stream and a bucket.
type Sink struct {
	name, servers, stream, prefix, bucket string
	replicas                              int
	maxAge, window                        time.Duration
	options                               []client.Option

	mu   sync.Mutex
	conn *client.Conn
	js   jetstream.JetStream
}

// New reads the address of a sink. It does not connect.
func New(address string) (*Sink, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it is no URL") // the error of the library has the password
	}
	s := &Sink{stream: strings.Trim(u.Path, "/"), prefix: "weir", bucket: "weir-feedback", replicas: 1, window: 10 * time.Minute}
	if s.stream == "" {
		s.stream = "WEIR"
	}
	if u.Host == "" || strings.ContainsAny(s.stream, "/.*> ") {
		return nil, errors.New("want nats://HOST:PORT/STREAM")
	}
	if err := s.settings(u.Query()); err != nil {
		return nil, err
	}
	s.name = u.Scheme + "://" + u.Host + "/" + s.stream
	s.servers = u.Scheme + "://" + u.Host
	s.options = append(s.options, client.Name("weir"), client.Timeout(5*time.Second), client.NoReconnect(), client.PingInterval(10*time.Second), client.MaxPingsOutstanding(2))
	if u.User != nil {
		if password, ok := u.User.Password(); ok {
			s.options = append(s.options, client.UserInfo(u.User.Username(), password))
		} else {
			s.options = append(s.options, client.Token(u.User.Username()))
		}
	}
	return s, nil
}

func (s *Sink) settings(q url.Values) error {
	for name, values := range q {
		v, err := values[len(values)-1], error(nil)
		switch name {
		case "subject":
			if s.prefix = v; v == "" || strings.ContainsAny(v, "*> ") {
				err = errors.New("want a subject without * and >")
			}
		case "bucket":
			s.bucket = v
		case "replicas":
			s.replicas, err = strconv.Atoi(v)
		case "max_age":
			s.maxAge, err = time.ParseDuration(v)
		case "window":
			s.window, err = time.ParseDuration(v)
		case "creds":
			s.options = append(s.options, client.UserCredentials(v))
		case "ca":
			s.options = append(s.options, client.RootCAs(v))
		default:
			err = errors.New("there is no such setting")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Name implements sinks.Sink.
func (s *Sink) Name() string { return s.name }

// Limits implements sinks.Sink. A server takes messages of 1 MiB unless it is told otherwise.
func (s *Sink) Limits() outbox.Limits {
	return outbox.Limits{Messages: 256, Bytes: 4 << 20, Body: 1<<20 - headerRoom}
}

// headerRoom is more than the headers of a message take.
const headerRoom = 16 << 10

// connect returns a connection whose stream and bucket are there.
func (s *Sink) connect(ctx context.Context) (*client.Conn, jetstream.JetStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.IsConnected() {
		return s.conn, s.js, nil
	}
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	conn, err := client.Connect(s.servers, s.options...)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		err = s.prepare(ctx, js)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	s.conn, s.js = conn, js
	return conn, js, nil
}

// prepare makes the stream and the bucket if they do not exist.
func (s *Sink) prepare(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.Stream(ctx, s.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cfg := jetstream.StreamConfig{Name: s.stream, Subjects: []string{s.prefix + ".>"}, Storage: jetstream.FileStorage, Replicas: s.replicas, MaxAge: s.maxAge, Duplicates: s.window}
		if s.maxAge > 0 {
			cfg.Duplicates = min(cfg.Duplicates, s.maxAge)
		}
		_, err = js.CreateStream(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.stream, err)
	}
	if s.bucket == "" {
		return nil
	}
	_, err = js.KeyValue(ctx, s.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: s.bucket, Storage: jetstream.FileStorage, Replicas: s.replicas})
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", s.bucket, err)
	}
	return nil
}

// Send implements sinks.Sink.
func (s *Sink) Send(ctx context.Context, list []outbox.Message) (err error) {
	conn, js, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	defer func() {
		if err != nil { // what is still under way must not come after what follows
			conn.Close()
			err = fmt.Errorf("nats: %w", err)
		}
	}()
	most := int(conn.MaxPayload()) - headerRoom
	var futures []jetstream.PubAckFuture
	publish := func(m *client.Msg) error {
		f, err := js.PublishMsgAsync(m, jetstream.WithStallWait(10*time.Second))
		if err == nil {
			futures = append(futures, f)
		}
		return err
	}
	for i := range list {
		m := &list[i]
		if err := publish(s.message(m, most)); err != nil {
			return err
		}
		if m.Kind == "feedback" && s.bucket != "" {
			if err := publish(s.entry(m, most)); err != nil {
				return err
			}
		}
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *Sink) message(m *outbox.Message, most int) *client.Msg {
	subject := s.prefix + "." + m.Kind
	for _, part := range m.Route {
		subject += "." + token(part)
	}
	out := client.NewMsg(subject)
	out.Header.Set(client.MsgIdHdr, m.ID)
	out.Header.Set(headerKind, m.Kind)
	out.Header.Set(headerKey, url.PathEscape(m.Key))
	out.Header.Set(headerSeq, strconv.FormatUint(m.Seq, 10))
	out.Header.Set(headerTime, strconv.FormatInt(m.At, 10))
	if m.Gone {
		out.Header.Set(headerOp, "delete")
		return out
	}
	out.Header.Set(headerOp, "put")
	s.fill(out, m, most)
	return out
}

// fill sets the body, unless the server does not take it.
func (s *Sink) fill(out *client.Msg, m *outbox.Message, most int) {
	out.Data = m.Body
	size := m.Omitted
	if len(m.Body) > most {
		size = int64(len(m.Body))
		out.Data = outbox.Omitted(m.Key, size)
	}
	if size > 0 {
		out.Header.Set(headerOmitted, strconv.FormatInt(size, 10))
	}
}

// entry is the same change in the bucket.
func (s *Sink) entry(m *outbox.Message, most int) *client.Msg {
	out := client.NewMsg("$KV." + s.bucket + "." + bucketKey(m.Key))
	out.Header.Set(client.MsgIdHdr, m.ID)
	if m.Gone {
		out.Header.Set("KV-Operation", "PURGE")
		out.Header.Set(client.MsgRollup, client.MsgRollupSubject)
		return out
	}
	s.fill(out, m, most)
	return out
}

// token is a text as a part of a subject: other characters than letters, digits, - and _ are
// written as = and two hexadecimal digits, and an empty text as -.
func token(s string) string { return escape(s, false) }

// bucketKey is a key of the bucket, with the slashes of the text.
func bucketKey(s string) string { return escape(s, true) }

func escape(s string, slash bool) string {
	const digits = "0123456789ABCDEF"
	if s == "" {
		return "-"
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', slash && c == '/':
			b.WriteByte(c)
		default:
			b.WriteByte('=')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// Close implements sinks.Sink.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	return nil
}
