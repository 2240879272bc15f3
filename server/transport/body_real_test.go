package transport_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
)

// Bad and slow input over real sockets. After each case the server still works.

const quick = 150 * time.Millisecond

func newTCPServer(t *testing.T) *testServer {
	return newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.MaxBody = 1 << 20
		s.Config.ReadTimeout, s.Config.BodyTimeout = quick, 2*quick
	})
}

// A client that sends 100 MB before it reads gets its 413, and the server does
// not keep what it read.
func TestHugeBody(t *testing.T) {
	h := newTCPServer(t)
	block := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct{ head, before, after string }{
		"announced": {servertest.Post(100 << 20), "", ""},
		"chunked":   {servertest.Post(-1, "Transfer-Encoding: chunked"), "100000\r\n", "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			piece := []byte(c.before + block + c.after)
			if n := allocatedBy(func() { refuseHuge(t, h, c.head, piece) }); n > 16<<20 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
	h.Complete(t, nil)
}

// refuseHuge sends a head and then a hundred pieces, and reads the refusal only then.
func refuseHuge(t *testing.T, h *testServer, head string, piece []byte) {
	c := h.Raw(t)
	c.Send(head)
	for range 100 {
		if _, err := c.Write(piece); err != nil {
			t.Fatalf("the server closed before it answered: %v", err)
		}
	}
	status, answer, header := c.Answer()
	f := servertest.Refused(t, status, answer, 413, "")
	if f.Type != "RequestTooLargeError" || header.Get("Connection") != "close" {
		t.Errorf("%s %v", answer, header)
	}
	c.Ended()
}

// allocatedBy returns the bytes that the program allocates while f runs.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What is refused by its headers is refused before its body comes.
func TestRefusedBeforeTheBody(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true; s.Config.APIKeys = []string{"k"} })
	for _, c := range []struct {
		head   string
		status int
	}{
		{servertest.Post(100<<20, "Authorization: Bearer k"), 413},
		{servertest.Post(10 << 20), 401},
		{servertest.Post(-1, "Transfer-Encoding: chunked"), 401},
		{strings.Replace(servertest.Post(10<<20, "Authorization: Bearer k"), "application/json", "text/plain", 1), 400},
		{strings.Replace(servertest.Post(10<<20, "Authorization: Bearer k"), servertest.ChatPath, "/nothing", 1), 404},
	} {
		r := h.Raw(t)
		r.Send(c.head)
		if !strings.Contains(c.head, "chunked") {
			r.Send(strings.Repeat("x", 8<<10)) // fasthttp waits for so much
		}
		if status, answer, _ := r.Answer(); status != c.status {
			t.Errorf("%q: %d %s, want %d", c.head, status, answer, c.status)
		}
		r.Close()
	}
}

func TestHalfARequest(t *testing.T) {
	h := newTCPServer(t)
	whole := servertest.Body(t, nil)
	long := servertest.Body(t, map[string]any{"user": strings.Repeat("x", 100_000)})
	cases := map[string]string{
		"nothing":       "",
		"request line":  "POST " + servertest.ChatPath,
		"headers":       "POST " + servertest.ChatPath + " HTTP/1.1\r\nHost: weir\r\nContent-",
		"small body":    servertest.Post(len(whole)) + whole[:len(whole)-1],
		"no body":       servertest.Post(len(whole)),
		"long body":     servertest.Post(len(long)) + long[:50_000],
		"chunked body":  servertest.Post(-1, "Transfer-Encoding: chunked") + "5\r\n{\"mod",
		"between chunk": servertest.Post(-1, "Transfer-Encoding: chunked") + "5\r\n{\"mod\r\n",
	}
	for name, half := range cases {
		t.Run(name+", then silence", func(t *testing.T) {
			c := h.Raw(t)
			c.Send(half)
			begin := time.Now()
			h.Complete(t, nil) // other requests do not wait
			status, answer, _ := c.Answer()
			servertest.Refused(t, status, answer, 408, "")
			if d := time.Since(begin); d < quick/2 || d > 5*quick {
				t.Errorf("after %v", d)
			}
			c.Ended()
		})
		t.Run(name+", then close", func(t *testing.T) {
			c := h.Raw(t)
			c.Send(half)
			c.Close()
			h.Complete(t, nil)
		})
		t.Run(name+", then half-close", func(t *testing.T) {
			c := h.Raw(t)
			c.Send(half)
			c.Conn.(*net.TCPConn).CloseWrite()
			if _, err := io.Copy(io.Discard, c.R); err != nil { // whatever it says, it ends
				t.Error(err)
			}
			h.Complete(t, nil)
		})
	}
}

// A body that comes in small pieces is cut off when the time of the whole body is over, even
// if each piece is in time.
func TestTricklingBody(t *testing.T) {
	h := newTCPServer(t)
	c := h.Raw(t)
	c.Send(servertest.Post(100_000) + strings.Repeat("x", 8<<10))
	begin := time.Now()
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			break
		}
		time.Sleep(quick / 5)
		if time.Since(begin) > 20*quick {
			t.Fatal("still reading")
		}
		if c.R.Buffered() > 0 {
			break
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, _ = c.R.Peek(1)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	status, answer, _ := c.Answer()
	servertest.Refused(t, status, answer, 408, "")
	if d := time.Since(begin); d < 2*quick-quick/2 {
		t.Errorf("cut off after %v", d)
	}
}

func TestNotHTTP(t *testing.T) {
	h := newTCPServer(t)
	for name, c := range map[string]struct {
		bytes  string
		status int
	}{
		"words":          {"hello there\r\n\r\n", 400},
		"tls":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 100) + "\r\n\r\n", 400},
		"zeros":          {strings.Repeat("\x00", 20_000), 400},
		"long header":    {"GET / HTTP/1.1\r\nHost: weir\r\nX-Long: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431},
		"broken chunk":   {servertest.Post(-1, "Transfer-Encoding: chunked") + "xyz\r\n\r\n", 400},
		"negative chunk": {servertest.Post(-1, "Transfer-Encoding: chunked") + "-5\r\nhello\r\n", 400},
		"huge chunk":     {servertest.Post(-1, "Transfer-Encoding: chunked") + "7fffffffffffffff\r\nhello\r\n", 400},
		"bad length":     {"POST " + servertest.ChatPath + " HTTP/1.1\r\nHost: weir\r\nContent-Length: abc\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := h.Raw(t)
			r.Send(c.bytes)
			status, answer, header := r.Answer()
			if status != c.status && !(name == "huge chunk" && status == 408) {
				t.Errorf("%d %s, want %d", status, answer, c.status)
			} else if f := servertest.FaultOf(t, answer); f.Code != status || header.Get("Vary") != "Origin" {
				t.Errorf("%s %v", answer, header)
			}
			r.Ended()
			h.Complete(t, nil)
		})
	}
}

func TestExpectContinue(t *testing.T) {
	h := newTCPServer(t)
	r := h.Raw(t)
	body := servertest.Body(t, nil)
	r.Send(servertest.Post(len(body), "Expect: 100-continue"))
	line, err := r.R.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := r.R.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Send(body)
	if status, answer, _ := r.Answer(); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// Requests that come in one packet are answered one by one, streams too.
func TestPipelining(t *testing.T) {
	h := newTCPServer(t)
	r := h.Raw(t)
	body, stream := servertest.Body(t, nil), servertest.Body(t, map[string]any{"stream": true})
	r.Send(servertest.Post(len(body)) + body + servertest.Post(len(stream)) + stream + servertest.Post(1) + "{" + servertest.Post(len(body)) + body)
	for i, want := range []int{200, 200, 400, 200} {
		status, answer, _ := r.Answer()
		if status != want {
			t.Errorf("%d: %d %s", i, status, answer)
		}
		if i == 1 {
			servertest.Events(t, answer)
		}
	}
}

// Targets in the forms that a path can come in.
func TestTargets(t *testing.T) {
	h := newTCPServer(t)
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
		r := h.Raw(t)
		r.Send("GET " + target + " HTTP/1.1\r\nHost: weir\r\n\r\n")
		if status, answer, _ := r.Answer(); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, answer, want)
		}
		r.Close()
	}
}

// A client that is still sending does not delay the end of the server for long.
func TestShutdownCutsSenders(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true })
	for _, half := range []string{"", "POST ", servertest.Post(10), servertest.Post(100_000) + strings.Repeat("x", 50_000)} {
		h.Raw(t).Send(half)
	}
	servertest.WaitFor(t, "the senders", func() bool { return h.Instance.Transport().Held().Bodies > 0 })
	begin := time.Now()
	if err := h.Instance.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("after %v", d)
	}
}

// While a stream goes on after the server was told to stop, the port stays open: probes are
// answered, requests are refused, and the stream is not cut.
func TestDrain(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true })
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	stream := h.Raw(t)
	body := servertest.Body(t, map[string]any{"stream": true})
	stream.Send(servertest.Post(len(body)) + body)
	servertest.WaitFor(t, "the stream", func() bool { return h.Log.Times(transport.LogSubmitted) == 1 })
	h.Raw(t).Send(servertest.Post(100_000) + strings.Repeat("x", 50_000)) // does not delay the end
	ended := make(chan error, 1)
	go func() { ended <- h.Instance.Shutdown(context.Background()) }()
	servertest.WaitFor(t, "the drain", h.Instance.Transport().Draining)
	for path, want := range map[string]int{"/health": 200, "/ping": 200, "/ready": 503, servertest.ChatPath: 503} {
		method, body := "GET", ""
		if path == servertest.ChatPath {
			method, body = "POST", servertest.Body(t, nil)
		}
		status, answer, header := h.Get(method, path, body)
		if status != want || (header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%s: %d %s %v", path, status, answer, header)
		}
	}
	close(gate)
	if status, answer, _ := stream.Answer(); status != 200 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("%d %s", status, answer)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := h.Dial(); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}
