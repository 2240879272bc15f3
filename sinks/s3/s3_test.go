package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"weir/sinks"
	"weir/store/outbox"
)

// TestSign: the example "PUT Object" of AWS's page on the signature.
func TestSign(t *testing.T) {
	s := &Sink{region: "us-east-1", key: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	body := "Welcome to Amazon S3."
	req, err := http.NewRequest(http.MethodPut, "https://examplebucket.s3.amazonaws.com/"+escape("test$file.text"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Date", "Fri, 24 May 2013 00:00:00 GMT")
	req.Header.Set("X-Amz-Storage-Class", "REDUCED_REDUNDANCY")
	s.sign(req, []byte(body), time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
	if got := req.Header.Get("Authorization"); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
}

// bucket is an object store.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	refuse  bool
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	switch {
	case b.refuse:
		http.Error(w, "SlowDown", http.StatusServiceUnavailable)
	case err != nil || r.Method != http.MethodPut || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=k/") ||
		r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		http.Error(w, "AccessDenied", http.StatusForbidden)
	default:
		b.objects[r.URL.Path] = body
	}
}

func environment(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}[name]
}

// TestFiles: a range is a file for each kind and a manifest that names them with their sums. Stored again it has
// the same names, and a refusal is an error.
func TestFiles(t *testing.T) {
	b := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(b)
	defer server.Close()
	s, err := New("s3://logs/weir?endpoint="+server.URL, environment)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	list := []outbox.Message{
		{Kind: "feedback", Key: "a/b/1", Seq: 5, At: at.UnixMilli(), Body: []byte(`{"x":1}`)},
		{Kind: "feedback", Key: "a/b/2", Seq: 6, At: at.UnixMilli(), Gone: true},
		{Kind: "usage", Key: "a/b", Seq: 7, At: at.UnixMilli(), Body: []byte(`{}`)},
	}
	store := func() error {
		w := s.Begin(sinks.Range{Feed: "feedback", Epoch: "e", First: 5, Last: 9, Start: at.Truncate(time.Hour)})
		return errors.Join(w.Add(context.Background(), list), w.Commit(context.Background()))
	}
	if err := errors.Join(store(), store()); err != nil {
		t.Fatal(err)
	}
	if len(b.objects) != 3 {
		t.Errorf("%d objects", len(b.objects))
	}
	var m manifest
	if err := json.Unmarshal(b.objects["/logs/weir/manifest/feedback/e-00000000000000000005-00000000000000000009.json"], &m); err != nil || len(m.Files) != 2 || m.First != 5 || m.Last != 9 || m.Snapshot {
		t.Fatalf("%+v %v", m, err)
	}
	for _, f := range m.Files {
		text := b.objects["/logs/"+f.Name]
		if sum := sha256.Sum256(text); f.SHA256 != hex.EncodeToString(sum[:]) || f.Bytes != len(text) {
			t.Errorf("%+v is not what is stored", f)
		}
		if f.Kind != "feedback" {
			continue
		}
		if f.Name != "weir/feedback/date=2026-03-04/hour=05/e-00000000000000000005-00000000000000000009-0.parquet" {
			t.Error(f.Name)
		}
		rows, err := parquet.Read[row](bytes.NewReader(text), int64(len(text)))
		if err != nil || len(rows) != 2 || *rows[0].Value != `{"x":1}` || rows[0].Op != "put" || rows[1].Op != "delete" || rows[1].Value != nil || !rows[1].At.Equal(at) || rows[1].Key != "a/b/2" {
			t.Errorf("%+v %v", rows, err)
		}
	}
	b.refuse = true
	if err := store(); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Error(err)
	}
}

// TestAddresses: mistakes in an address are found at the start.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		address string
		getenv  func(string) string
	}{
		{"s3:///x", environment}, {"s3://k:s@b/x", environment}, {"s3://b/x?every=1ms", environment}, {"s3://b/x?rows=0", environment}, {"s3://b/x?color=red", environment},
		{"s3://b/x?endpoint=localhost", environment}, {"s3://b/x", func(string) string { return "" }},
	} {
		if _, err := New(c.address, c.getenv); err == nil {
			t.Errorf("%s is taken", c.address)
		}
	}
	s, err := New("s3://b/x?region=eu-central-1", environment)
	if err != nil || s.base != "https://b.s3.eu-central-1.amazonaws.com" || s.Name() != "s3://b/x" {
		t.Errorf("%+v %v", s, err)
	}
}
