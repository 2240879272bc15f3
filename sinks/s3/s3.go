package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"weir/internal/jsontext"
	"weir/sinks"
	"weir/store/outbox"
)

// Sink is a bucket.
type Sink struct {
	name, base, prefix string // base is the URL of the bucket
	region             string
	key, secret, token string
	every              time.Duration
	most               int
	client             *http.Client
	now                func() time.Time
}

// New reads the address of a sink, and the credentials and the region from the environment.
func New(address string, getenv func(string) string) (*Sink, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("want s3://BUCKET/PREFIX, with credentials in the environment")
	}
	s := &Sink{
		name: "s3://" + u.Host + u.Path, prefix: strings.Trim(u.Path, "/"), every: time.Hour, most: 50_000, now: time.Now,
		region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		key:    getenv("AWS_ACCESS_KEY_ID"), secret: getenv("AWS_SECRET_ACCESS_KEY"), token: getenv("AWS_SESSION_TOKEN"),
		client: &http.Client{Timeout: 2 * time.Minute},
	}
	endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
	for name, values := range u.Query() {
		v, err := values[len(values)-1], error(nil)
		switch name {
		case "endpoint":
			endpoint = v
		case "region":
			s.region = v
		case "every":
			if s.every, err = time.ParseDuration(v); err == nil && s.every < time.Second {
				err = errors.New("want 1s or more")
			}
		case "rows":
			if s.most, err = strconv.Atoi(v); err == nil && s.most < 1 {
				err = errors.New("want 1 or more")
			}
		default:
			err = errors.New("there is no such setting")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.key == "" || s.secret == "" {
		return nil, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
	}
	s.base = "https://" + u.Host + ".s3." + s.region + ".amazonaws.com"
	if endpoint != "" {
		e, err := url.Parse(endpoint)
		if err != nil || e.Host == "" {
			return nil, errors.New("endpoint: want a URL such as http://localhost:9000")
		}
		s.base = strings.TrimRight(endpoint, "/") + "/" + u.Host
	}
	return s, nil
}

// Name implements sinks.Sink.
func (s *Sink) Name() string { return s.name }

// Limits implements sinks.Sink.
func (s *Sink) Limits() outbox.Limits {
	return outbox.Limits{Messages: 1000, Bytes: 4 << 20, Body: 16 << 20}
}

// Every implements sinks.Ranged.
func (s *Sink) Every() time.Duration { return s.every }

// Most implements sinks.Ranged.
func (s *Sink) Most() int { return s.most }

// Send implements sinks.Sink. It is not called for a sinks.Ranged.
func (s *Sink) Send(context.Context, []outbox.Message) error {
	return errors.New("s3: files have ranges")
}

// Close implements sinks.Sink.
func (s *Sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Begin implements sinks.Ranged.
func (s *Sink) Begin(r sinks.Range) sinks.Writer {
	return &writer{s: s, r: r, files: map[string]*file{}}
}

// row is a message in a file.
type row struct {
	Key   string    `parquet:"key"`
	Op    string    `parquet:"op,dict"` // put or delete
	Seq   int64     `parquet:"seq"`
	At    time.Time `parquet:"at,timestamp(millisecond)"`
	Value *string   `parquet:"value,optional"` // JSON; null: deleted
}

// fileBytes is how many bytes of values a file has at most, but for one value.
const fileBytes = 32 << 20

// file is the rows of a kind that are not stored yet.
type file struct {
	rows  []row
	bytes int
	n     int // how many files of the kind the range has
}

// stored is a file in a manifest.
type stored struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Rows   int    `json:"rows"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type manifest struct {
	Feed     string   `json:"feed"`
	Epoch    string   `json:"epoch"`
	First    uint64   `json:"first"`
	Last     uint64   `json:"last"`
	Snapshot bool     `json:"snapshot"`
	Part     int      `json:"part,omitempty"`
	Files    []stored `json:"files"`
}

type writer struct {
	s     *Sink
	r     sinks.Range
	files map[string]*file
	done  []stored
}

// Add implements sinks.Writer.
func (w *writer) Add(ctx context.Context, list []outbox.Message) error {
	for i := range list {
		m := &list[i]
		f := w.files[m.Kind]
		if f == nil {
			f = &file{}
			w.files[m.Kind] = f
		}
		one := row{Key: m.Key, Op: "delete", Seq: int64(m.Seq), At: time.UnixMilli(m.At).UTC()}
		if !m.Gone {
			text := string(m.Body)
			one.Op, one.Value = "put", &text
		}
		f.rows = append(f.rows, one)
		if f.bytes += len(m.Body) + len(m.Key) + 64; f.bytes >= fileBytes {
			if err := w.store(ctx, m.Kind, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// rangeName is the name of the range, which sorts as ranges do.
func (w *writer) rangeName() string {
	if w.r.First == 0 {
		return fmt.Sprintf("%s-snapshot-%020d-%06d", w.r.Epoch, w.r.Last, w.r.Part)
	}
	return fmt.Sprintf("%s-%020d-%020d", w.r.Epoch, w.r.First, w.r.Last)
}

func (w *writer) store(ctx context.Context, kind string, f *file) error {
	var out bytes.Buffer
	p := parquet.NewGenericWriter[row](&out, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.SkipPageBounds("value"), parquet.CreatedBy("weir", "", ""))
	if _, err := p.Write(f.rows); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	if err := p.Close(); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	start := w.r.Start.UTC()
	name := path.Join(w.s.prefix, kind, start.Format("date=2006-01-02"), start.Format("hour=15"), fmt.Sprintf("%s-%d.parquet", w.rangeName(), f.n))
	sum := sha256.Sum256(out.Bytes())
	if err := w.s.put(ctx, name, "application/vnd.apache.parquet", out.Bytes()); err != nil {
		return err
	}
	w.done = append(w.done, stored{name, kind, len(f.rows), out.Len(), hex.EncodeToString(sum[:])})
	f.rows, f.bytes = nil, 0
	f.n++
	return nil
}

// Commit implements sinks.Writer.
func (w *writer) Commit(ctx context.Context) error {
	for kind, f := range w.files {
		if len(f.rows) > 0 {
			if err := w.store(ctx, kind, f); err != nil {
				return err
			}
		}
	}
	if len(w.done) == 0 {
		return nil // everything has changed again since
	}
	text, err := jsontext.Encode(manifest{w.r.Feed, w.r.Epoch, w.r.First, w.r.Last, w.r.First == 0, w.r.Part, w.done})
	if err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	return w.s.put(ctx, path.Join(w.s.prefix, "manifest", w.r.Feed, w.rangeName()+".json"), "application/json", text)
}

// put stores an object.
func (s *Sink) put(ctx context.Context, name, kind string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.base+"/"+escape(name), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	req.Header.Set("Content-Type", kind)
	s.sign(req, body, s.now())
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("s3: %s: %s", res.Status, strings.ToValidUTF8(string(text), ""))
	}
	return nil
}
