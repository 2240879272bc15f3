package transport

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pieces is a connection that delivers bytes in pieces.
type pieces struct {
	net.Conn
	rest  []byte
	piece int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.piece, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// opened returns a connection that waits for its first request.
func opened(nc net.Conn) *conn {
	cs := newConnections(nil, time.Minute, 1, time.Now)
	c := &conn{Conn: nc, conns: cs}
	cs.open[c] = struct{}{}
	cs.places.add(c)
	return c
}

// requests returns where requests end in what a client sends, and why the last is refused.
func requests(sent []byte, piece, buffer int) (ends []int, passed []byte, bad error) {
	c := opened(&pieces{rest: sent, piece: piece})
	b := make([]byte, buffer)
	for {
		n, err := c.Read(b)
		passed = append(passed, b[:n]...)
		if err != nil {
			break
		}
		if f := &c.framing; n > 0 && f.phase == beforeRequest && f.size == 0 {
			ends = append(ends, len(passed))
		}
	}
	return ends, passed, c.framing.bad
}

// Requests end where they end for net/http, if that takes them at all, in whatever pieces
// they come; and nothing of the next is passed with one.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\n0\r\nX-A: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5 \r\n12345\r\n00\r\n\r\n",
		"\r\nGET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"POST / HTTP/1.1\r\nContent-Length: +5\r\n X: y\r\nA\x00: b\r\rc\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		ends, passed, bad := requests(sent, len(sent)+1, len(sent)+1)
		if !bytes.HasPrefix(sent, passed) || bad == nil && len(passed) != len(sent) {
			t.Fatalf("%q passed of %q", passed, sent)
		}
		for _, piece := range []int{1, 3, 1000} {
			_, again, bad2 := requests(sent, piece, 2*piece)
			if !bytes.Equal(again, passed) || bad != bad2 {
				t.Fatalf("in pieces of %d: %q, %v, and %q, %v in one", piece, again, bad2, passed, bad)
			}
		}
		if len(ends) > 0 {
			compareWithNetHTTP(t, sent[:ends[0]])
		}
	})
}

// compareWithNetHTTP fails if a request does not end where it ends for net/http, if that
// takes it at all.
func compareWithNetHTTP(t *testing.T, first []byte) {
	t.Helper()
	first = bytes.TrimLeft(first, "\r\n")
	if len(first) == 0 {
		return // empty lines before a request
	}
	r := bufio.NewReader(bytes.NewReader(first))
	req, err := http.ReadRequest(r)
	if err != nil || req.Proto != "HTTP/1.1" { // other versions are refused, or have no chunks
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil && err != io.EOF {
		if len(req.TransferEncoding) == 0 { // net/http bounds extensions in another way, and looks at trailers
			t.Errorf("%q: for net/http the body ends later: %v", first, err)
		}
		return
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("%q: for net/http this is behind the request: %q", first, rest)
	}
}

func BenchmarkFraming(b *testing.B) {
	body := strings.Repeat("x", 1000)
	sent := []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: weir.example:8000\r\nAccept: application/json\r\nContent-Type: application/json\r\n" +
		"User-Agent: OpenAI/Python 2.8.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 2.8.1\r\nX-Stainless-OS: Linux\r\n" +
		"Authorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Length: 1000\r\n\r\n" + body)
	p := &pieces{piece: len(sent)}
	c := opened(p)
	buf := make([]byte, 16<<10)
	b.ReportAllocs()
	for b.Loop() {
		p.rest = sent
		if n, err := c.Read(buf); n != len(sent) || err != nil {
			b.Fatal(n, err)
		}
	}
}
