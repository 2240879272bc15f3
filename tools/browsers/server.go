package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// server is a weir serve in a process of its own, and a relay before it that writes down
// what the browser sends and how weir answers. The browser sees the relay's port; weir
// compares ports of Host and Origin with each other only.
type server struct {
	cmd     *exec.Cmd
	ended   chan error
	dir     string
	direct  string // weir's own address, http://host:port
	port    string // the relay's
	http    *http.Server
	rebound string // a host whose name led elsewhere at first: its page is ours until bound is true

	mu    sync.Mutex
	bound bool
	seen  []string // "METHOD path status" for each request that was answered
	heads []string // the headers of each that tell where it came from
	log   bytes.Buffer
	read  int // bytes of log that said has returned
}

var listening = regexp.MustCompile(`msg=listening url=http://[^ ]*:(\d+)`)

// startServer starts a server on an address and waits until it is ready.
func startServer(ctx context.Context, weir, host string, flags ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "weir-browsers-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, ended: make(chan error, 1)}
	args := append([]string{"serve", "--host", host, "--port", "0", "--data-dir", dir, "--kv-cache-memory", "64MiB"}, flags...)
	s.cmd = exec.CommandContext(ctx, weir, args...)
	lines, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go s.watch(bufio.NewScanner(lines), ready)
	select {
	case <-ready:
	case err := <-s.ended:
		return nil, fmt.Errorf("the server ended before it was ready: %w\n%s", err, s.log.String())
	}
	return s, s.relay()
}

func (s *server) watch(lines *bufio.Scanner, ready chan struct{}) {
	for lines.Scan() {
		line := lines.Text()
		if m := listening.FindStringSubmatch(line); m != nil {
			s.direct = "http://127.0.0.1:" + m[1]
		}
		if strings.Contains(line, "msg=ready") {
			close(ready)
		}
		_, _ = fmt.Fprintln(s, line)
	}
	s.ended <- s.cmd.Wait()
}

// Write adds to the log: what weir says there, and why the relay could not pass something on.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// said returns what was added to the log since it was called last.
func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.log.String()[s.read:]
	s.read = s.log.Len()
	return text
}

// relay begins to pass requests on.
func (s *server) relay() error {
	to, err := url.Parse(s.direct)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // streams are passed on at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			s.note(r.Request, r.StatusCode)
			return nil
		},
		ErrorLog: log.New(s, "relay: ", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.note(r, 0)
			_, _ = fmt.Fprintf(s, "relay: %s %s: %v\n", r.Method, r.URL.Path, err)
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, s.port, _ = net.SplitHostPort(ln.Addr().String())
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		elsewhere := s.rebound != "" && strings.HasPrefix(r.Host, s.rebound) && !s.bound
		s.mu.Unlock()
		if elsewhere {
			blank(w)
			return
		}
		// The body is read first. ReverseProxy would still be looking for its end when a quick
		// answer comes, and http.Server closes the body of a request whose answer begins. That
		// read then fails, and the transport closes the connection in the middle of the answer.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.http.Serve(ln) }()
	return nil
}

// note writes a request down, but not those for the picture of a site, which the browser
// sends whenever it likes.
func (s *server) note(r *http.Request, status int) {
	if r.URL.Path == "/favicon.ico" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, status))
	var head []string
	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Content-Type"} {
		if v := r.Header.Get(name); v != "" {
			head = append(head, name+": "+v)
		}
	}
	s.heads = append(s.heads, fmt.Sprintf("%s %s Host: %s; %s", r.Method, r.URL.Path, r.Host, strings.Join(head, "; ")))
}

// take waits until n requests have been answered, but not for longer than a while, and
// returns all that have been since it was called last.
func (s *server) take(n int, while time.Duration) (seen, heads []string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(while); ; <-tick.C {
		s.mu.Lock()
		if len(s.seen) >= n || time.Now().After(end) {
			seen, heads = s.seen, s.heads
			s.seen, s.heads = nil, nil
			s.mu.Unlock()
			return seen, heads
		}
		s.mu.Unlock()
	}
}

// ask200 sends a request as a program does, with a key but without the headers of browsers
// and past the relay, and stores its answer, which must be 200.
func (s *server) ask200(answer *string, method, path, body string) error {
	r, err := http.NewRequest(method, s.direct+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	if strings.HasPrefix(path, "/feedback/") {
		r.SetBasicAuth("api", "secret")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if *answer = string(text); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return err
}

// stop ends the server and removes its files. It fails if the server has not ended well.
func (s *server) stop() error {
	_ = s.http.Close()
	http.DefaultClient.CloseIdleConnections()
	_ = s.cmd.Process.Signal(os.Interrupt)
	err := <-s.ended
	if err != nil {
		err = fmt.Errorf("weir ended with %w\n%s", err, s.log.String())
	}
	_ = os.RemoveAll(s.dir)
	return err
}
