package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/server"
	"weir/server/openai"
	"weir/server/servertest"
	"weir/server/transport"
)

// The port is open before the model is there.
func TestLoading(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	h := newServer(t, func(s *servertest.Setup) { s.NoModel = true; s.Config.RetryAfter = 1500 * time.Millisecond })
	h.SetClock(func() time.Time { return time.Unix(clock.Load(), 0) })
	h.Instance.SetProgress("12 of 40 weight files read", 0)
	for _, c := range []struct{ method, path string }{
		{"GET", "/health"}, {"GET", "/ping"}, {"GET", "/ready"}, {"GET", "/v1/models"}, {"POST", servertest.ChatPath},
	} {
		status, answer, header := h.Get(c.method, c.path, servertest.Body(t, nil))
		f := servertest.Refused(t, status, answer, 503, "")
		if f.Type != "ServiceUnavailableError" || !strings.Contains(f.Message, "12 of 40 weight files read") || header.Get("Retry-After") != "2" {
			t.Errorf("%s: %s, Retry-After %q", c.path, answer, header.Get("Retry-After"))
		}
	}
	h.Instance.SetProgress("20 of 40 weight files read", 30*time.Second)
	for _, c := range []struct {
		now  int64
		want string
	}{{0, "30"}, {12, "18"}, {40, "1"}} {
		clock.Store(c.now)
		if _, _, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, nil)); header.Get("Retry-After") != c.want {
			t.Errorf("after %d s of 30: Retry-After %q, want %s", c.now, header.Get("Retry-After"), c.want)
		}
	}
	if status, _, _ := h.Get("GET", "/version", ""); status != 200 {
		t.Errorf("/version: %d", status)
	}
	if err := h.Instance.SetModel(h.Model); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/health", "/ready", "/v1/models"} {
		if status, answer, _ := h.Get("GET", path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	h.Complete(t, nil)
	h.Instance.Fail(errors.New("the engine is gone"))
	for _, path := range []string{"/health", "/ready", "/v1/models"} {
		if status, answer, _ := h.Get("GET", path, ""); status != 503 || strings.Contains(answer, "gone") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

func TestModelIsChecked(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for name, change := range map[string]func(*openai.Model){
		"no name":                     func(m *openai.Model) { m.Names = nil },
		"an empty name":               func(m *openai.Model) { m.Names = []string{"a", ""} },
		"no engine":                   func(m *openai.Model) { m.Engine = nil },
		"no tokenizer":                func(m *openai.Model) { m.Tokenizer = nil },
		"no context":                  func(m *openai.Model) { m.MaxLen = 0 },
		"too long":                    func(m *openai.Model) { m.MaxLen = 1025 },
		"wrong servertest.Vocabulary": func(m *openai.Model) { m.VocabSize = servertest.Vocabulary + 1 },
		"strange EOS":                 func(m *openai.Model) { m.Generation.EOS = servertest.Vocabulary },
		"strange stop":                func(m *openai.Model) { m.Generation.Stop = []int32{-1} },
	} {
		m := *h.Model
		change(&m)
		if err := h.Instance.SetModel(&m); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	h.Complete(t, nil) // with the model there was
}

// A server is alive while its engine makes progress.
func TestStalledEngine(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	clock := h.Clock()
	done := make(chan struct{})
	go func() { defer close(done); h.Chat(nil) }()
	servertest.WaitFor(t, "a step", func() bool { return !h.Engine.Stats().StepBegan.IsZero() })
	h.SetClock(func() time.Time { return h.Engine.Stats().StepBegan.Add(server.DefaultConfig().StallAfter) })
	if status, answer, _ := h.Get("GET", "/health", ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	h.SetClock(func() time.Time { return h.Engine.Stats().StepBegan.Add(server.DefaultConfig().StallAfter + 1) })
	status, answer, _ := h.Get("GET", "/health", "")
	servertest.Refused(t, status, answer, 503, "")
	h.SetClock(clock)
	close(gate)
	<-done
	h.Idle()
	if status, answer, _ := h.Get("GET", "/health", ""); status != 200 {
		t.Errorf("idle, and long ago since the last step: %d %s", status, answer)
	}
}

// A full server answers 503, with Retry-After; at the engine and before it.
func TestFull(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		s.EngineConfig.MaxLive = 2
	})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // before the server's, which waits for what waits here
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	full := func(what, mind string) {
		t.Helper()
		for _, stream := range []bool{false, true} {
			status, answer, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": stream}))
			f := servertest.Refused(t, status, answer, 503, "")
			if f.Type != "ServiceUnavailableError" || !strings.Contains(f.Message, mind) || header.Get("Retry-After") == "" || header.Get("x-should-retry") != "true" {
				t.Errorf("%s: %s, Retry-After %q", what, answer, header.Get("Retry-After"))
			}
		}
	}
	var wg sync.WaitGroup
	for n := range 2 { // one by one: both at once may be too many for the queue
		wg.Go(func() { h.Chat(nil) })
		servertest.WaitFor(t, "a request", func() bool { return h.Log.Times(transport.LogSubmitted) == n+1 })
	}
	full("the engine", "engine is full")
	h.Told("two", map[string]string{`weir:rejected_requests_total{reason="engine_full"}`: "2"})
	open()
	wg.Wait()
}

// A full queue of preparation answers 503, and so do bodies that have no memory.
func TestFullPreparation(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.PrepareQueue = 1
		s.Config.PrepareWorkers = 1
		s.Config.MaxBodies = int64(s.Config.MaxBody)
	})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	full := func(what, mind string) {
		t.Helper()
		for _, stream := range []bool{false, true} {
			status, answer, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": stream}))
			f := servertest.Refused(t, status, answer, 503, "")
			if f.Type != "ServiceUnavailableError" || !strings.Contains(f.Message, mind) || header.Get("Retry-After") == "" || header.Get("x-should-retry") != "true" {
				t.Errorf("%s: %s, Retry-After %q", what, answer, header.Get("Retry-After"))
			}
		}
	}
	var wg sync.WaitGroup
	// The preparation queue: one worker that does not come back, one place.
	id := h.NewID()
	h.SetNewID(func() string { <-gate; return id() })
	stuck := make(chan struct{}, 1)
	newID := h.NewID()
	h.SetNewID(func() string { stuck <- struct{}{}; return newID() })
	wg.Go(func() { h.Chat(nil) })
	<-stuck // the worker has it
	wg.Go(func() { h.Chat(nil) })
	servertest.WaitFor(t, "a full queue", func() bool { return h.Instance.Transport().Queue().Waiting() == 1 })
	full("the queue", "too many requests are waiting")

	// The bodies' memory.
	rest := int64(server.DefaultConfig().MaxBody) - h.Instance.Transport().Held().Bodies // requests in the queue hold some
	h.Instance.Transport().Reserve(rest)
	full("the bodies", "too many request bodies")
	h.Instance.Transport().Release(rest)
	for _, reason := range []string{"queue_full", "memory"} {
		h.Told("two of each", map[string]string{`weir:rejected_requests_total{reason="` + reason + `"}`: "2"})
	}
	open()
	wg.Wait()
}

func TestCORS(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	// Before authentication, with what the page asks for.
	status, answer, header := h.Get("OPTIONS", servertest.ChatPath, "", "Origin: https://page.example", "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization, x-stainless-lang, x-request-id")
	if status != 204 || answer != "" {
		t.Errorf("%d %q", status, answer)
	}
	for k, want := range map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST",
		"Access-Control-Allow-Headers": "authorization, x-stainless-lang, x-request-id", "Access-Control-Max-Age": "86400",
	} {
		if got := header.Get(k); got != want {
			t.Errorf("preflight: %s: %q, want %q", k, got, want)
		}
	}
	// On every answer, errors and streams included.
	key := "Authorization: Bearer k"
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
	}{
		{"GET", "/health", "", nil, 200}, {"GET", "/nothing", "", nil, 404}, {"GET", servertest.ChatPath, "", []string{key}, 405},
		{"POST", servertest.ChatPath, servertest.Body(t, nil), nil, 401}, {"POST", servertest.ChatPath, "{", []string{key}, 400}, {"POST", servertest.ChatPath, servertest.Body(t, nil), []string{key}, 200},
		{"POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true}), []string{key}, 200},
	} {
		status, _, header := h.Get(c.method, c.path, c.body, append(c.headers, "Origin: https://page.example")...)
		if status != c.status || header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(header.Get("Access-Control-Expose-Headers"), "x-request-id") {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, header)
		}
	}
}

func TestProjectHeaders(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	status, answer := h.Chat(nil, "Compat-Project: nonsense")
	servertest.Refused(t, status, answer, 400, "")
	status, answer = h.Chat(nil, "OpenAI-Project: a/b/c")
	servertest.Refused(t, status, answer, 400, "")
	h.Complete(t, nil, "Compat-Project: team/project")
	h.Complete(t, nil, "OpenAI-Project: proj_123")
}

// A connection is used again after an answer of whatever kind, unless its
// request was not read.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	dials := 0
	dial := h.Dial
	h.Client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { dials++; return dial() }
	h.Complete(t, nil)
	h.Streamed(t, nil)
	h.Get("GET", "/nothing", "")
	h.Get("POST", "/nothing", strings.Repeat("x", 100)) // small: read along with the headers
	h.Chat(map[string]any{"temperature": 9})
	h.Get("POST", servertest.ChatPath, "{", "Content-Type: text/plain")
	if dials != 1 {
		t.Errorf("%d connections", dials)
	}
	h.Get("POST", "/nothing", strings.Repeat("x", 100_000)) // the rest of it must not be taken for a request
	h.Complete(t, nil)
	if dials != 2 {
		t.Errorf("%d connections", dials)
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	srv, err := server.New(server.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(ln); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}

func TestShutdownWaits(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	resp := make(chan string)
	go func() {
		_, answer := h.Chat(map[string]any{"stream": true, "max_tokens": 3, "ignore_eos": true})
		resp <- answer
	}()
	servertest.WaitFor(t, "a request", func() bool { return h.Log.Times(transport.LogSubmitted) == 1 })
	conn, err := h.Dial() // an idle connection does not hold it up, and hears that the server goes
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<12)
	if n, err := conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200 OK") {
		t.Fatalf("%q %v", buf[:n], err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.Stop() }()
	servertest.WaitFor(t, "the drain", h.Instance.Transport().Draining)
	close(gate)
	if got := len(servertest.Events(t, <-resp)); got != 4 {
		t.Errorf("%d events of the request in flight", got)
	}
	<-stopped
	if _, err := h.Dial(); err == nil {
		t.Error("the listener is still open")
	}
}

// Draining: new requests on connections that are still open are refused.
func TestDrainRefuses(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	h.Complete(t, nil)
	h.Instance.Transport().Drain()
	for _, path := range []string{"/ready", "/v1/models"} {
		status, answer, header := h.Get("GET", path, "")
		servertest.Refused(t, status, answer, 503, "")
		if header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	if status, _, _ := h.Get("GET", "/health", ""); status != 200 {
		t.Errorf("/health: %d: the process is not to be killed while it drains", status)
	}
}

// Out of patience: what is in flight ends with an error that its client sees.
func TestShutdownEnds(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	gate := make(chan struct{})
	var first sync.Once
	h.SetHook(func(c sim.Call, n int) error {
		if c == sim.End && n > 0 {
			first.Do(func() { <-gate })
		}
		return nil
	})
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	stream := make(chan answer, 1)
	go func() {
		status, body := h.Chat(map[string]any{"stream": true, "max_tokens": 300, "ignore_eos": true})
		stream <- answer{status, body}
	}()
	servertest.WaitFor(t, "a token", func() bool { return h.Engine.Stats().GenerationTokens > 0 })
	go func() { status, body := h.Chat(nil); answers <- answer{status, body} }()
	servertest.WaitFor(t, "two requests", func() bool { return h.Log.Times(transport.LogSubmitted) == 2 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Instance.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if a := <-stream; a.status != 200 || !strings.HasSuffix(a.body, "\"code\": 503}}\n\ndata: [DONE]\n\n") {
		t.Errorf("stream: %d %q", a.status, a.body)
	}
	if a := <-answers; a.status != 503 {
		t.Errorf("%d %q", a.status, a.body)
	}
	close(gate)
}

func TestCORSLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cors   transport.CORS
		origin string
		want   map[string]string
	}{
		{"listed", transport.CORS{Origins: []string{"https://a", "https://b"}, Methods: []string{"POST"}, Headers: []string{"X-A", "X-B"}, MaxAge: 1}, "https://b",
			map[string]string{"Access-Control-Allow-Origin": "https://b", "Vary": "Origin", "Access-Control-Allow-Methods": "POST",
				"Access-Control-Allow-Headers": "X-A, X-B", "Access-Control-Max-Age": "1", "Access-Control-Allow-Credentials": ""}},
		{"not listed", transport.CORS{Origins: []string{"https://a"}, Methods: []string{"*"}, Headers: []string{"*"}}, "https://b",
			map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin", "Access-Control-Allow-Methods": ""}},
		{"with credentials", transport.CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, Credentials: true}, "https://b",
			map[string]string{"Access-Control-Allow-Origin": "https://b", "Vary": "Origin", "Access-Control-Allow-Credentials": "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newServer(t, func(s *servertest.Setup) { s.Config.CORS = c.cors })
			_, _, header := h.Get("OPTIONS", servertest.ChatPath, "", "Origin: "+c.origin, "Access-Control-Request-Method: POST")
			for k, want := range c.want {
				if got := header.Get(k); got != want {
					t.Errorf("%s: %q, want %q", k, got, want)
				}
			}
		})
	}
}
