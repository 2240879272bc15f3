package hostside

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/internal/jsontext"
	"weir/internal/testkit"
	"weir/models"
	"weir/tokenizer"
)

// answer is a stream of n events as a server writes it, each in a chunk.
func answer(n int) []byte {
	b := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for i := range n {
		event := fmt.Sprintf("data: {\"n\":%d}\n\n", i)
		b = fmt.Appendf(b, "%x\r\n%s\r\n", len(event), event)
	}
	return append(b, "0\r\n\r\n"...)
}

// TestStreamed: events are counted and the end is found, however the bytes are cut.
func TestStreamed(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(20)
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Read(make([]byte, 100))
			for rest := answer(n); len(rest) > 0; {
				k := 1 + rnd.IntN(min(len(rest), 30))
				_, _ = theirs.Write(rest[:k])
				rest = rest[k:]
			}
		}()
		var seen []byte
		got, err := streamed([]byte("x"), func(p []byte) { seen = append(seen, p...) })(ours, nil)
		if err != nil || got != n || !bytes.Equal(seen, answer(n)) {
			t.Fatalf("seed %d: %d events of %d, %v", seed, got, n, err)
		}
		ours.Close()
		theirs.Close()
	}
}

// TestRecord: a stream is cut into its chunks, and nothing is lost.
func TestRecord(t *testing.T) {
	pieces := record(answer(5))
	var all []byte
	for _, p := range pieces {
		b, err := base64.StdEncoding.DecodeString(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if len(pieces) != 6 || !bytes.Equal(all, answer(5)) {
		t.Errorf("%d pieces, %q", len(pieces), all)
	}
}

// TestReferences: the references give back what was recorded, and end with what started them.
func TestReferences(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeReferences(in, out) }()
	text, err := jsontext.Encode(recorded{record(answer(7)), `{"a":1}`})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(read).ReadBytes('\n')
	var a addresses
	if err == nil {
		err = jsontext.Decode(line, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, address := range map[string]string{"/pieces": a.Raw, wholePath: a.Raw} {
		if n, err := exchanges(t.Context(), address, time.Time{}, streamed(post(path, "{}"), nil)); n != 7 || err != nil {
			t.Errorf("%s: %d events, %v", path, n, err)
		}
	}
	if n, took, err := load(t.Context(), a.HTTP, 3, time.Millisecond, whole(post("/", "{}"))); n < 3 || took <= 0 || err != nil {
		t.Errorf("%d answers in %v, %v", n, took, err)
	}
	closeAll, err := hold(t.Context(), a.HTTP, 5, post(holdPath, "{}"))
	if err != nil {
		t.Error(err)
	}
	closeAll()
	write.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWhole: refusals and answers without a length are errors.
func TestWhole(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab": "",
		"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n":   "503 no",
		"HTTP/1.1 200 OK\r\n\r\n":                        "without Content-Length",
	} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Read(make([]byte, 100))
			_, _ = theirs.Write([]byte(answer))
		}()
		_, err := whole([]byte("x"))(ours, bufio.NewReader(ours))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
		ours.Close()
	}
}

// TestRefusals: a server is filled until it refuses, and as many requests are timed as are asked for.
func TestRefusals(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var mu sync.Mutex
	places, refused := 2, 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for buf := make([]byte, 100); ; {
					if _, err := c.Read(buf); err != nil {
						return
					}
					mu.Lock()
					full := places == 0
					if full {
						refused++
					} else {
						places--
					}
					mu.Unlock()
					if full {
						_, _ = c.Write([]byte("HTTP/1.1 503 no\r\nContent-Length: 2\r\n\r\nno"))
					}
				}
			}()
		}
	}()
	leave, err := fill(t.Context(), l.Addr().String(), []byte("x"))
	if err != nil || places != 0 || refused != 1 {
		t.Fatalf("%d places, %d refused, %v", places, refused, err)
	}
	defer leave()
	each, took, err := waits(t.Context(), l.Addr().String(), 3, 10, answered([]byte("x"), httpFull))
	if err != nil || len(each) != 10 || !slices.IsSorted(each) || took <= 0 || refused != 11 {
		t.Errorf("%v in %v, %d refused, %v", each, took, refused, err)
	}
	if _, _, err := waits(t.Context(), l.Addr().String(), 1, 1, whole([]byte("x"))); err == nil {
		t.Error("a refusal counts as an answer")
	}
}

// TestSteps: every step of all sequences is timed.
func TestSteps(t *testing.T) {
	src, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	open := func(spec backend.Spec) (backend.Backend, error) { return sim.NewPaced(spec, sim.Instant()) }
	s, err := measureSteps(t.Context(), 3, tok, open)
	if err != nil || s.Count < 200 || s.Median <= 0 || s.P99 < s.Median || s.Inside <= 0 || s.Inside > s.P99 {
		t.Errorf("%+v %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := measureSteps(ctx, 3, tok, open); err == nil {
		t.Errorf("%+v after an interrupt", s)
	}
}

// TestReport: the table, and the lines for benchstat.
func TestReport(t *testing.T) {
	r := Report{Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: "a machine", Rows: []Row{
		{"small chats, not streamed", "chats/s", 40000, 50000, "a handler", "64 connections"}, {"nothing beside", "µs", 2.5, 0, "", ""}}}
	var b bytes.Buffer
	for _, err := range []error{r.WriteText(&b), r.WriteBenchmark(&b), r.WriteJSON(&b)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	testkit.Golden(t, "testdata/report.txt", b.Bytes())
	for _, bad := range []func(*Config){func(c *Config) { c.Streams = 0 }, func(c *Config) { c.Time = 0 }, func(c *Config) { c.Idle = -1 }, func(c *Config) { c.Steps = []int{0} }, func(c *Config) { c.Refused = 0 }, func(c *Config) { c.Only = []string{"nothing"} }} {
		c := DefaultConfig()
		bad(&c)
		if _, err := Run(t.Context(), c); err == nil {
			t.Errorf("%+v is measured", c)
		}
	}
}
