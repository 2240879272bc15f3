package trajectoryapi_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"weir/server/servertest"
	"weir/store"
)

// TestExports: every format over HTTP, plain and compressed, small and streamed.
func TestExports(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	h.LogGroups(t, servertest.AgentPath, servertest.ExampleLog(t))
	for range 3 { // more than is held back
		h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"logs":["`+strings.Repeat("x", 256<<10)+`"]}`, `{}`))
	}
	for format, contentType := range map[string]string{
		"": "application/jsonl", "jsonl": "application/jsonl", "jsonl-groups": "application/jsonl", "parquet": "application/vnd.apache.parquet", "art": "application/x-tar",
		"verl": "application/jsonl", "trl": "application/jsonl", "verifiers": "application/jsonl", "sft": "application/jsonl",
	} {
		t.Run(format, func(t *testing.T) {
			path := servertest.AgentPath + "/export"
			if format != "" {
				path += "?format=" + format
			}
			status, plain, header := h.Get("GET", path, "")
			if status != 200 || header.Get("Content-Type") != contentType || !strings.HasPrefix(header.Get("Content-Disposition"), `attachment; filename="m.`) || header.Get("Content-Encoding") != "" || strings.Join(header.Values("Vary"), ", ") != "Origin, Accept-Encoding" {
				t.Fatalf("%d %v %.200s", status, header, plain)
			}
			checkExport(t, format, plain)
			for encoding, answered := range map[string]string{"gzip": "gzip", "zstd": "zstd", "br": "", "gzip;q=0": "", "gzip, zstd;q=0.0": "gzip"} {
				_, packed, header := h.Get("GET", path, "", "Accept-Encoding: "+encoding)
				if got := header.Get("Content-Encoding"); got != answered {
					t.Fatalf("%s: Content-Encoding %q", encoding, got)
				}
				// The containers of tar and Parquet hold the time.
				if got := unpack(t, answered, packed); format != "art" && format != "parquet" && got != plain {
					t.Errorf("%s: %d bytes, want %d", encoding, len(got), len(plain))
				}
			}
		})
	}
	if _, text, _ := h.Get("GET", servertest.AgentPath+"/export?logprobs=0", ""); strings.Contains(text, `"logprobs"`) {
		t.Error("log-probabilities are there")
	}
	if status, _, header := h.Get("GET", "/v1/preview/models/unknown/export", "", "Accept-Encoding: gzip"); status != 404 || header.Get("Content-Encoding") != "" || header.Get("Content-Disposition") != "" {
		t.Errorf("%d %v", status, header)
	}
}

// checkExport checks that an export has the seven trajectories of TestExports, in four
// groups.
func checkExport(t *testing.T, format, text string) {
	t.Helper()
	switch format {
	case "parquet":
		if f, err := parquet.OpenFile(strings.NewReader(text), int64(len(text))); err != nil || f.NumRows() != 7 {
			t.Errorf("%v", err)
		}
	case "art":
		if header, err := tar.NewReader(strings.NewReader(text)).Next(); err != nil || header.Name != "models/m/trajectories/train/0012.parquet" {
			t.Errorf("%+v %v", header, err)
		}
	case "jsonl-groups":
		if n := strings.Count(text, "\n"); n != 4 {
			t.Errorf("%d lines", n)
		}
	default:
		if n := strings.Count(text, "\n"); n != 7 {
			t.Errorf("%d lines", n)
		}
	}
}

// unpack undoes a Content-Encoding.
func unpack(t *testing.T, encoding, text string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(text)
	var err error
	switch encoding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", encoding, err)
	}
	return string(plain)
}

// TestExportOfDamage: an export that meets damage after its beginning breaks off its
// connection, and one that meets it at once is answered with a status, as a list is
// (docs/interface/trajectories.md, section 12.3).
func TestExportOfDamage(t *testing.T) {
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true })
	noise := make([]byte, 2*256<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"logs":["`+hex.EncodeToString(noise)+`"]}`))
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"reward":1}`))
	h.LogGroups(t, "/v1/preview/models/n", servertest.Group(`{"reward":1}`))
	// The texts of everything but the first batch.
	var keys [][]byte
	large := map[string]bool{}
	if err := l.DB.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'D'}}, func(k, v []byte) bool {
			large[string(k[1:17])] = large[string(k[1:17])] || len(v) > 1000
			keys = append(keys, bytes.Clone(k))
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.DB.Update(t.Context(), func(tx *store.Tx) error {
		for _, k := range keys {
			if k[17] == 0 && !large[string(k[1:17])] {
				tx.Set(k, []byte("nonsense"))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models/n/export", ""); status != 503 || !strings.HasPrefix(answer, `{"detail":"What is stored of the batch `) {
		t.Errorf("%d %s", status, answer)
	}
	for _, encoding := range []string{"identity", "gzip"} {
		resp := h.Do("GET", servertest.AgentPath+"/export", "", "Accept-Encoding: "+encoding)
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || err == nil || len(data) < 256<<10 {
			t.Errorf("%s: %d, %d bytes, %v: a part looks like the whole", encoding, resp.StatusCode, len(data), err)
		}
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models/n/trajectories", ""); status != 503 || !strings.HasPrefix(answer, `{"detail":"What is stored of the trajectory `) {
		t.Errorf("%d %s", status, answer)
	}
	if entries, _ := h.List(t, servertest.AgentPath+"/logs"); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	h.Log.Reset() // errors were asked for
}
