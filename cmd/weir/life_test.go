package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/sampler"
	"weir/server/servertest"
)

// term sends SIGTERM, and ends checks that the process then ends in order.
func (p *process) term(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func (p *process) ends(t *testing.T) {
	t.Helper()
	if err := <-p.ended; err != nil {
		t.Errorf("%v\n%s", err, p.log)
	}
}

// status waits until a function of the server answers with this status.
func (p *process) status(t *testing.T, path string, want int) {
	t.Helper()
	for {
		if code, _, _ := do(t, http.DefaultClient, "GET", p.url+path, ""); code == want {
			return
		}
	}
}

// operator starts a server with a listener for its operator on a Unix socket, and returns a client of that.
func operator(t *testing.T, args ...string) (*process, *http.Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	p := startProcess(t, nil, append([]string{"--data-dir", "", "--admin-listen", "unix:" + path}, args...)...)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return p, &http.Client{Transport: transport}, path
}

// TestDrainDelay: after SIGTERM requests are still taken, while /ready is 503. A second signal ends that.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "--data-dir", "", "--drain-delay", "10m")
	p.term(t)
	p.status(t, "/ready", 503)
	if code, text := post(t, p.url, `{"max_tokens":3,`+question[1:]); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if code, text, _ := do(t, http.DefaultClient, "GET", p.url+"/health", ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	p.term(t)
	p.ends(t)

	p = startProcess(t, nil, "--data-dir", "", "--drain-delay", "1ms")
	p.term(t)
	p.ends(t)
}

// TestDrain: POST /drain of the operator's listener refuses new requests, DELETE takes them again, and
// with exit=true the server ends as by SIGTERM, after which there is no way back.
func TestDrain(t *testing.T) {
	t.Parallel()
	p, admin, _ := operator(t)
	ask := func(method, query string) string {
		t.Helper()
		code, text, _ := do(t, admin, method, "http://weir/drain"+query, "")
		return fmt.Sprint(code, " ", text)
	}
	chat := func() int {
		t.Helper()
		code, _ := post(t, p.url, `{"max_tokens":3,`+question[1:])
		return code
	}
	if got := ask("GET", ""); got != `200 {"draining":"no","requests":0}` {
		t.Error(got)
	}
	if got := ask("POST", "?exit=maybe"); !strings.HasPrefix(got, "400 ") || chat() != 200 {
		t.Error(got)
	}
	for range 2 {
		for range 2 { // the second one changes nothing
			if got := ask("POST", ""); !strings.HasPrefix(got, "200 ") {
				t.Error(got)
			}
		}
		for chat() != 503 {
		}
		p.status(t, "/ready", 503)
		// A connection that was refused counts until its client has closed it.
		servertest.WaitFor(t, "the end of all requests", func() bool { return ask("GET", "") == `200 {"draining":"refusing","requests":0}` })
		if got := ask("DELETE", ""); got != `200 {"draining":"no","requests":0}` || chat() != 200 {
			t.Error(got)
		}
		p.status(t, "/ready", 200)
	}
	if got := ask("POST", "?exit=true"); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	p.ends(t)

	p, admin, _ = operator(t, "--drain-delay", "10m")
	if got := ask("POST", ""); got != `200 {"draining":"leaving","requests":0}` || chat() != 200 {
		t.Error(got)
	}
	p.term(t)
	p.log.find(t, "(stopping: requests in flight)", p.ended)
	for !strings.HasPrefix(ask("DELETE", ""), "409 ") {
	}
	p.term(t)
	p.ends(t)
}

// TestOperator: what the operator's listener has, who may open it, and that the other port has none of it.
func TestOperator(t *testing.T) {
	t.Parallel()
	p, admin, path := operator(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, text := post(t, p.url, `{"max_tokens":30,`+question[1:]); code != 200 {
		t.Fatal(code, text)
	}
	for path, want := range map[string]string{
		"/health": "", "/ready": "", "/metrics": "vllm:num_requests_running", "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=2": "net/http", "/debug/pprof/heap": "",
		"/debug/steps": `"kind":"decode","state":"ended","sequences":1,"prefill_tokens":0,"decode_tokens":1`,
	} {
		if code, text, _ := do(t, admin, "GET", "http://weir"+path, ""); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.500s", path, code, text)
		}
		if code, _, _ := do(t, http.DefaultClient, "GET", p.url+path, ""); code != 404 && strings.HasPrefix(path, "/debug") {
			t.Errorf("%s of the other port: %d", path, code)
		}
	}
	if code, out, msg := runWeir("health", "--admin-listen", "unix:"+path); code != 0 || out != "healthy\n" {
		t.Errorf("health: %d %s %s", code, out, msg)
	}
	for args, want := range map[string]string{"0.0.0.0:1": "loopback", "example.com:1": "loopback", "8000": "neither unix:PATH nor HOST:PORT", "127.0.0.1:x": "no port", "unix:": "no path"} {
		if code, _, msg := runWeir("serve", "--data-dir", "", "--admin-listen", args); code != 2 || !strings.Contains(msg, want) {
			t.Errorf("%s: %d %s", args, code, msg)
		}
	}
}

// TestOperatorPages: web pages may not call the operator's listener on a loopback port.
func TestOperatorPages(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "--data-dir", "", "--admin-listen", "127.0.0.1:0")
	url := "http://" + p.log.find(t, `address=tcp:(\S+)`, p.ended)
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"X-None", "", 200}, {"Sec-Fetch-Site", "none", 200}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403}, {"Origin", "http://localhost:3000", 403}, {"Origin", "null", 403},
	} {
		if code, text, _ := do(t, http.DefaultClient, "GET", url+"/debug/pprof/", "", c.header, c.value); code != c.want {
			t.Errorf("%s: %s: %d %.100s", c.header, c.value, code, text)
		}
	}
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1:1": 200, "[::1]:1": 200, "rebound.example": 403, "rebound.example:80": 403} {
		req, err := http.NewRequest("GET", url+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host: %s: %d", host, resp.StatusCode)
		}
	}
}

// TestQuit: SIGQUIT dumps the newest steps, and the server goes on.
func TestQuit(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "--data-dir", "")
	for i := range 2 {
		if code, text := post(t, p.url, `{"max_tokens":10,`+question[1:]); code != 200 {
			t.Fatal(code, text)
		}
		// How many steps there are is up to the answer.
		if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		p.log.find(t, fmt.Sprintf(`(?s)(?:SIGQUIT steps=.*){%d}("step":1,"time":)`, i+1), p.ended)
	}
	p.term(t)
	p.ends(t)
}

// TestPanicDumps: if the engine panics, the newest steps are dumped before the process ends with it.
func TestPanicDumps(t *testing.T) {
	t.Parallel()
	text := newServerLog()
	log, err := newLog(text, "info")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Config{MaxLive: 1}, func() (backend.Backend, error) {
		ends := 0
		return sim.NewOracle(backend.Spec{VocabSize: 300, BlockTokens: 16, NumBlocks: 20, MaxTokens: 64, MaxSeqs: 1, MaxSeqTokens: 100, Depth: 1}, sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c == sim.End {
				if ends++; ends == 5 {
					panic("broken")
				}
			}
			return nil
		}})
	})
	s := &service{options: &serveOptions{}, engine: &preparedEngine{engine: e}, log: log}
	s.options.life.dump = text
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		s.runEngine(t.Context())
	}()
	<-e.Ready()
	if _, err := e.Submit(engine.Request{Tokens: []int32{1, 2, 3}, Sampling: sampler.DefaultParams(), Limits: engine.Limits{MaxTokens: 50, EOS: -1}}); err != nil {
		t.Fatal(err)
	}
	if p := <-panicked; p != "broken" {
		t.Errorf("panicked with %v", p)
	}
	if said := text.String(); strings.Count(said, `"state":"ended"`) != 4 || strings.Count(said, `"state":"in flight"`) != 1 {
		t.Error(said)
	}
}

// TestTermUnderLoad: SIGTERM breaks no stream.
func TestTermUnderLoad(t *testing.T) {
	t.Parallel()
	const streams, tokens = 48, 400
	p := startProcess(t, nil, "--data-dir", "", "--max-num-seqs", "32", "--shutdown-timeout", "10m")
	var running, begun sync.WaitGroup
	begun.Add(streams)
	for i := range streams {
		running.Go(func() {
			body := fmt.Sprintf(`{"stream":true,"max_tokens":%d,"seed":%d,`, tokens, i) + question[1:]
			resp, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				begun.Done()
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			r := bufio.NewReader(resp.Body)
			_, err = r.ReadString('\n')
			begun.Done()
			rest, err2 := io.ReadAll(r)
			if err := errors.Join(err, err2); err != nil || resp.StatusCode != 200 || strings.Count(string(rest), "data: ") < tokens || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
				t.Errorf("stream %d: %v, status %d, %d bytes", i, err, resp.StatusCode, len(rest))
			}
		})
	}
	begun.Wait()
	p.term(t)
	running.Wait()
	p.ends(t)
}

// TestSystemd: the server takes the sockets that systemd has opened, by their names, and tells it when it
// is ready, reloads, stops, and that its engine makes progress.
func TestSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	var files []*os.File
	var ports []string
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, ln.Addr().String())
		ln.Close()
		defer f.Close()
		files = append(files, f)
	}
	p := startProcess(t, func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, c.Args...)
		c.Path = "/bin/sh"
		c.ExtraFiles = files
		c.Env = append(c.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES=http:admin", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=200000")
	}, "--data-dir", "")
	if p.url != "http://"+ports[0] {
		t.Errorf("%s, want %s", p.url, ports[0])
	}
	if code, _, _ := do(t, http.DefaultClient, "GET", "http://"+ports[1]+"/debug/steps", ""); code != 200 {
		t.Errorf("the operator's socket: %d", code)
	}
	told := func(want string) {
		t.Helper()
		if err := notify.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for {
			b := make([]byte, 1000)
			n, err := notify.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return
			}
		}
	}
	told("READY=1")
	told("WATCHDOG=1")
	told("WATCHDOG=1")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1")
	p.term(t)
	told("STOPPING=1")
	p.ends(t)
}
