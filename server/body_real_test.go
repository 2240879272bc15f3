package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Bad and slow input over real sockets. After each case the server still works.

// raw is a connection that says exactly what the test says.
type raw struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (h *house) raw(t *testing.T) *raw {
	t.Helper()
	c, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &raw{c, t, bufio.NewReader(c)}
}

func (r *raw) send(s string) {
	r.t.Helper()
	if _, err := io.WriteString(r, s); err != nil {
		r.t.Fatal(err)
	}
}

// answer reads one response.
func (r *raw) answer() (status int, body string, header http.Header) {
	r.t.Helper()
	resp, err := http.ReadResponse(r.r, nil)
	if err != nil {
		r.t.Fatalf("no response: %v", err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("status %d, then %v after %q", resp.StatusCode, err, data)
	}
	if resp.Close {
		resp.Header.Set("Connection", "close") // ReadResponse takes it out
	}
	return resp.StatusCode, string(data), resp.Header
}

// ended checks that the server has closed the connection.
func (r *raw) ended() {
	r.t.Helper()
	if n, err := r.r.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		r.t.Errorf("the connection is still open: %d, %v", n, err)
	}
}

func post(length int, headers ...string) string { return postTo(chatPath, length, headers...) }

func postTo(path string, length int, headers ...string) string {
	s := "POST " + path + " HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"
	for _, line := range headers {
		s += line + "\r\n"
	}
	if length >= 0 {
		s += fmt.Sprintf("Content-Length: %d\r\n", length)
	}
	return s + "\r\n"
}

const quick = 150 * time.Millisecond

func realHouse(t *testing.T) *house {
	return newHouse(t, func(s *setup) {
		s.tcp = true
		s.cfg.MaxBody = 1 << 20
		s.cfg.ReadTimeout, s.cfg.BodyTimeout = quick, 2*quick
	})
}

// A client that sends 100 MB before it reads gets its 413, and the server does
// not keep what it read.
func TestHugeBody(t *testing.T) {
	h := realHouse(t)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for name, chunked := range map[string]bool{"announced": false, "chunked": true} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := h.raw(t)
			if chunked {
				c.send(post(-1, "Transfer-Encoding: chunked"))
			} else {
				c.send(post(100 << 20))
			}
			for range 100 {
				if chunked {
					c.send("100000\r\n")
				}
				if _, err := c.Write(block); err != nil {
					t.Fatalf("the server closed before it answered: %v", err)
				}
				if chunked {
					c.send("\r\n")
				}
			}
			status, answer, header := c.answer()
			f := refused(t, status, answer, 413, "")
			if f.Type != "RequestTooLargeError" || header.Get("Connection") != "close" {
				t.Errorf("%s %v", answer, header)
			}
			c.ended()
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
	h.complete(t, nil)
}

// What is refused by its headers is refused before its body comes.
func TestRefusedBeforeTheBody(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.tcp = true; s.cfg.APIKeys = []string{"k"} })
	for _, c := range []struct {
		head   string
		status int
	}{
		{post(100<<20, "Authorization: Bearer k"), 413},
		{post(10 << 20), 401},
		{post(-1, "Transfer-Encoding: chunked"), 401},
		{strings.Replace(post(10<<20, "Authorization: Bearer k"), "application/json", "text/plain", 1), 400},
		{strings.Replace(post(10<<20, "Authorization: Bearer k"), chatPath, "/nothing", 1), 404},
	} {
		r := h.raw(t)
		r.send(c.head)
		if !strings.Contains(c.head, "chunked") {
			r.send(strings.Repeat("x", 8<<10)) // fasthttp waits for so much
		}
		if status, answer, _ := r.answer(); status != c.status {
			t.Errorf("%q: %d %s, want %d", c.head, status, answer, c.status)
		}
		r.Close()
	}
}

func TestHalfARequest(t *testing.T) {
	h := realHouse(t)
	whole := base(t, nil)
	long := base(t, map[string]any{"user": strings.Repeat("x", 100_000)})
	cases := map[string]string{
		"nothing":       "",
		"request line":  "POST " + chatPath,
		"headers":       "POST " + chatPath + " HTTP/1.1\r\nHost: weir\r\nContent-",
		"small body":    post(len(whole)) + whole[:len(whole)-1],
		"no body":       post(len(whole)),
		"long body":     post(len(long)) + long[:50_000],
		"chunked body":  post(-1, "Transfer-Encoding: chunked") + "5\r\n{\"mod",
		"between chunk": post(-1, "Transfer-Encoding: chunked") + "5\r\n{\"mod\r\n",
	}
	for name, half := range cases {
		t.Run(name+", then silence", func(t *testing.T) {
			c := h.raw(t)
			c.send(half)
			begin := time.Now()
			h.complete(t, nil) // nobody else waits
			status, answer, _ := c.answer()
			refused(t, status, answer, 408, "")
			if d := time.Since(begin); d < quick/2 || d > 5*quick {
				t.Errorf("after %v", d)
			}
			c.ended()
		})
		t.Run(name+", then close", func(t *testing.T) {
			c := h.raw(t)
			c.send(half)
			c.Close()
			h.complete(t, nil)
		})
		t.Run(name+", then half-close", func(t *testing.T) {
			c := h.raw(t)
			c.send(half)
			c.Conn.(*net.TCPConn).CloseWrite()
			if _, err := io.Copy(io.Discard, c.r); err != nil { // whatever it says, it ends
				t.Error(err)
			}
			h.complete(t, nil)
		})
	}
}

// A body that trickles in is cut off when its time is up, though every piece is
// in time.
func TestTricklingBody(t *testing.T) {
	h := realHouse(t)
	c := h.raw(t)
	c.send(post(100_000) + strings.Repeat("x", 8<<10))
	begin := time.Now()
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			break
		}
		time.Sleep(quick / 5)
		if time.Since(begin) > 20*quick {
			t.Fatal("still reading")
		}
		if c.r.Buffered() > 0 {
			break
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, _ = c.r.Peek(1)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	status, answer, _ := c.answer()
	refused(t, status, answer, 408, "")
	if d := time.Since(begin); d < 2*quick-quick/2 {
		t.Errorf("cut off after %v", d)
	}
}

func TestNotHTTP(t *testing.T) {
	h := realHouse(t)
	for name, c := range map[string]struct {
		bytes  string
		status int
	}{
		"words":          {"hello there\r\n\r\n", 400},
		"tls":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 100) + "\r\n\r\n", 400},
		"zeros":          {strings.Repeat("\x00", 20_000), 431},
		"long header":    {"GET / HTTP/1.1\r\nHost: weir\r\nX-Long: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431},
		"broken chunk":   {post(-1, "Transfer-Encoding: chunked") + "xyz\r\n\r\n", 400},
		"negative chunk": {post(-1, "Transfer-Encoding: chunked") + "-5\r\nhello\r\n", 400},
		"huge chunk":     {post(-1, "Transfer-Encoding: chunked") + "7fffffffffffffff\r\nhello\r\n", 400},
		"bad length":     {"POST " + chatPath + " HTTP/1.1\r\nHost: weir\r\nContent-Length: abc\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := h.raw(t)
			r.send(c.bytes)
			status, answer, header := r.answer()
			if status != c.status && !(name == "huge chunk" && status == 408) {
				t.Errorf("%d %s, want %d", status, answer, c.status)
			} else if f := faultOf(t, answer); f.Code != status || header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s %v", answer, header)
			}
			r.ended()
			h.complete(t, nil)
		})
	}
}

func TestExpectContinue(t *testing.T) {
	h := realHouse(t)
	r := h.raw(t)
	body := base(t, nil)
	r.send(post(len(body), "Expect: 100-continue"))
	line, err := r.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := r.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.send(body)
	if status, answer, _ := r.answer(); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// Requests that come in one packet are answered one by one, streams too.
func TestPipelining(t *testing.T) {
	h := realHouse(t)
	r := h.raw(t)
	body, stream := base(t, nil), base(t, map[string]any{"stream": true})
	r.send(post(len(body)) + body + post(len(stream)) + stream + post(1) + "{" + post(len(body)) + body)
	for i, want := range []int{200, 200, 400, 200} {
		status, answer, _ := r.answer()
		if status != want {
			t.Errorf("%d: %d %s", i, status, answer)
		}
		if i == 1 {
			events(t, answer)
		}
	}
}

// Targets in the forms that a path can come in.
func TestTargets(t *testing.T) {
	h := realHouse(t)
	for target, want := range map[string]int{
		"/health?verbose=1":         200,
		"http://weir/health":        200,
		"http://other/v1/models?x#": 200,
		"/%68ealth":                 404,
		"//health":                  404,
		"/./health":                 404,
		"/v1/../health":             404,
		"health":                    400,
	} {
		r := h.raw(t)
		r.send("GET " + target + " HTTP/1.1\r\nHost: weir\r\n\r\n")
		if status, answer, _ := r.answer(); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, answer, want)
		}
		r.Close()
	}
}

// Whoever is in the middle of sending does not hold the server up for long.
func TestShutdownCutsSenders(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.tcp = true })
	for _, half := range []string{"", "POST ", post(10), post(100_000) + strings.Repeat("x", 50_000)} {
		h.raw(t).send(half)
	}
	waitFor(t, "the senders", func() bool { return h.srv.http.Held().Bodies > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := h.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "does not end") {
		t.Error(err)
	}
	if d := time.Since(begin); d > 2*time.Second+time.Second {
		t.Errorf("after %v", d)
	}
}
