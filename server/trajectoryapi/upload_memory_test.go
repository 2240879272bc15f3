package trajectoryapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"weir/internal/testkit"
	"weir/server/servertest"
)

// zipped compresses a text, with zstd and a window of so many bytes, or with gzip.
func zipped(t testing.TB, text string, window int) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if window > 0 {
		z, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLogHoldsWhatItReserved: what a log request holds, from its body to the blocks that wait
// for the disk, is no more than what it has reserved (docs/interface/operations.md, section 6).
func TestLogHoldsWhatItReserved(t *testing.T) {
	const limit = 1 << 30
	mixed := tokens(1 << 20)
	random := strings.Repeat(mixed+",", 20) + "{}"
	for name, c := range map[string]struct {
		body, encoding string
	}{
		"one text":             {servertest.Group(tokens(16 << 20)), ""},
		"many texts":           {servertest.Group(random), ""},
		"of one byte":          {servertest.Group(`{"logs":["` + strings.Repeat("x", 64<<20) + `"]}`), ""},
		"of one byte, many":    {servertest.Group(strings.Repeat(`{"logs":["`+strings.Repeat("x", 1<<20)+`"]},`, 100) + "{}"), ""},
		"rewards":              {servertest.Group(strings.Repeat(`{"reward":1},`, 900_000) + "{}"), ""},
		"metadata":             {servertest.Group(strings.Repeat(fmt.Sprintf(`{"metadata":{"a":%q,"b":%q}},`, strings.Repeat("x", 100), strings.Repeat("y", 1000)), 5000) + "{}"), ""},
		"zstd":                 {zipped(t, servertest.Group(random), 4<<20), "zstd"},
		"zstd, a large window": {zipped(t, servertest.Group(random), 32<<20), "zstd"},
		"gzip":                 {zipped(t, servertest.Group(random), 0), "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			// The store holds its memtable, and some more while it turns many rows into a table.
			// Neither grows with the body.
			slack := int64(24 << 20)
			if name == "metadata" || name == "rewards" {
				slack = 36 << 20
			}
			s, _ := servertest.NewTrajectories(t, func(o *servertest.Setup) { o.Config.Memory = limit })
			most := testkit.Highest(func() {
				if status, answer, _ := s.Get("POST", servertest.AgentPath+"/log", c.body, "Content-Encoding: "+c.encoding); status != 200 {
					t.Errorf("%d %.200s", status, answer)
				}
			})
			reserved := s.Instance.Transport().Memory().Stats().Most
			t.Logf("%d bytes: %d MiB were used and %d MiB reserved", len(c.body), most>>20, reserved>>20)
			if most > reserved+slack {
				t.Error("more was used than reserved")
			}
		})
	}
}
