package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
)

// TestMain runs the test binary as the measured server if it is called like one: with the
// arguments that launch adds, a mode, an address to connect to and stay connected to while
// it lives, and the body of the question that it expects.
func TestMain(m *testing.M) {
	if len(os.Args) == 9 && os.Args[1] == "serve" && os.Args[2] == "--host" && os.Args[4] == "--port" {
		os.Exit(serveAs(os.Args[6], net.JoinHostPort(os.Args[3], os.Args[5]), os.Args[7], os.Args[8]))
	}
	// The race detector lets a process sleep for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// serveAs is a server that starts slowly: it answers each path a few times with 503 before
// it answers 200.
func serveAs(mode, address, notify, question string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if mode == "dies" {
		fmt.Fprintln(os.Stderr, strings.Repeat("long ", 1000)+"out of memory")
		return 3
	}
	var alive net.Conn
	if notify != "" {
		var err error
		if alive, err = net.Dial("tcp", notify); err != nil {
			return 4
		}
	}
	var mu sync.Mutex
	var answered atomic.Bool
	early := map[string]int{"/health": 3, "/v1/chat/completions": 2}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return 5
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		early[r.URL.Path]--
		switch {
		case early[r.URL.Path] >= 0 || mode == "loads forever":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case r.URL.Path == "/health":
			return
		case mode == "refuses":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"message":"no such model"}}`)
			return
		case string(body) != question:
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(body)
			return
		}
		fmt.Fprint(w, `{"choices":[]}`)
		if alive != nil {
			fmt.Fprint(alive, "answered")
		}
		answered.Store(true)
	})}
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed && answered.Load() && mode == "dies after the answer" {
			os.Exit(6)
		}
	}
	go func() { _ = server.Serve(l) }() // until the process ends
	<-signals
	switch mode {
	case "ends badly":
		fmt.Fprintln(os.Stderr, "cannot close")
		return 1
	case "does not stop":
		select {}
	}
	return 0
}

// startConfig is a configuration that starts this binary in a mode.
func startConfig(t *testing.T, mode string) StartConfig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultStartConfig()
	c.Binary, c.Runs, c.Idle, c.Limit = self, 1, 0, 10*time.Second
	c.Args = []string{mode, "", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`}
	return c
}

// TestStart: everything that is measured, with a server that answers 503 at first.
func TestStart(t *testing.T) {
	t.Parallel()
	c := startConfig(t, "good")
	c.Runs, c.Idle = 2, time.Millisecond
	r, err := RunStart(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Health) != 2 || len(r.Answer) != 2 || r.Health[0] <= 0 || r.Answer[0] <= r.Health[0] || r.Answer[1] <= r.Health[1] {
		t.Errorf("%+v", r)
	}
	if p := r.Process; p == nil {
		if _, err := processTime(os.Getpid()); err == nil {
			t.Error("nothing is known of the process")
		}
	} else if p.StartMemory < 1<<20 || p.AnswerMemory < 1<<20 || p.IdleSeconds < 0.001 || p.IdleCPU < 0 {
		t.Errorf("%+v", p)
	}
	c.Model, c.Idle = "m", 0
	c.Args[2] = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`
	if r, err := RunStart(t.Context(), c); err != nil || r.Process != nil && r.Process.IdleSeconds != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestStartFailures: a failure is one error that says what went wrong, with the end of what
// the server wrote. What was measured before is in the report.
func TestStartFailures(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]struct {
		limit, stop time.Duration
		want        string
		runs        int
	}{
		"dies":                  {time.Minute, 0, "start 1: the server ended by itself: exit status 3: ", 0},
		"refuses":               {time.Minute, 0, "start 1: POST /v1/chat/completions: 404 Not Found: no such model", 0},
		"loads forever":         {time.Second, time.Minute, "start 1: no answer within 1s", 0},
		"ends badly":            {time.Minute, 0, "start 1: stopping: exit status 1: cannot close", 1},
		"does not stop":         {time.Minute, 200 * time.Millisecond, "start 1: the server did not stop within 200ms of SIGTERM", 1},
		"dies after the answer": {time.Minute, 0, "start 1: the server ended by itself: exit status 6", 1},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cfg := startConfig(t, mode)
			cfg.Limit, cfg.Stop = c.limit, c.stop
			if mode == "dies after the answer" {
				cfg.Idle = time.Minute
			}
			r, err := RunStart(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > tailSize+200 {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if len(r.Health) != c.runs || len(r.Answer) != c.runs {
				t.Errorf("%+v", r)
			}
			if mode == "dies" && !strings.HasSuffix(err.Error(), "long out of memory") {
				t.Error(err)
			}
		})
	}
	for want, change := range map[string]func(*StartConfig){
		"no binary":    func(c *StartConfig) { c.Binary = "" },
		"0 runs":       func(c *StartConfig) { c.Runs = 0 },
		"idling":       func(c *StartConfig) { c.Idle = -1 },
		"limit of 0s":  func(c *StartConfig) { c.Limit = 0 },
		"of -1ns for":  func(c *StartConfig) { c.Stop = -1 },
		"no such file": func(c *StartConfig) { c.Binary = "/nonexistent/server" },
	} {
		cfg := startConfig(t, "good")
		change(&cfg)
		if _, err := RunStart(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// lifeline listens for the connection that a server opens and keeps while it lives.
func lifeline(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestStartInterrupted: when ctx ends, RunStart returns after the server has ended, even if
// the server ignores SIGTERM.
func TestStartInterrupted(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"good", "does not stop"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cfg := startConfig(t, mode)
			if cfg.Idle = time.Hour; mode != "good" {
				cfg.Stop = 200 * time.Millisecond
			}
			l := lifeline(t)
			cfg.Args[1] = l.Addr().String()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := RunStart(ctx, cfg)
				ended <- err
			}()
			alive, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer alive.Close()
			if _, err := io.ReadFull(alive, make([]byte, len("answered"))); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			// The other end belongs to the process, so the connection ends with it.
			if err := alive.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if n, err := alive.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the server is still running: %d %v", n, err)
			}
		})
	}
}

// TestLaunch: starting and stopping a server for a load, with the same errors.
func TestLaunch(t *testing.T) {
	t.Parallel()
	cfg := startConfig(t, "good")
	c, err := Launch(t.Context(), cfg.Binary, cfg.Args, cfg.Limit)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(c.URL + "/health")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("stopped twice: %v", err)
	}
	cfg.Args[0] = "dies"
	if _, err := Launch(t.Context(), cfg.Binary, cfg.Args, cfg.Limit); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

func TestStartReport(t *testing.T) {
	r := &StartReport{Health: []float64{30, 10, 20}, Answer: []float64{32, 12, 22}}
	var text, line, object bytes.Buffer
	write := func() {
		for _, err := range []error{r.WriteText(&text), r.WriteBenchmark(&line), r.WriteJSON(&object)} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	write()
	var back StartReport
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || !slices.Equal(back.Answer, r.Answer) || back.Process != nil {
		t.Errorf("%+v %v", back, err)
	}
	r.Process = &Process{StartMemory: 50 << 20, AnswerMemory: 60<<20 + 1<<19, IdleCPU: 0.25, IdleSeconds: 10}
	write()
	testkit.Golden(t, "testdata/start.txt", append(append(text.Bytes(), line.Bytes()...), object.Bytes()...))
}
