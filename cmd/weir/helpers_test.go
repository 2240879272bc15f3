package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/models"
)

// The test binary is weir as well: it runs main's work instead of tests if the
// environment says so. Tests and the commands that they run start it as a server.
const (
	mainVar   = "TEST_AS_WEIR"
	notifyVar = "TEST_AS_WEIR_NOTIFY" // address that a server connects to and stays connected to while it lives
)

// beforeMain is what the test binary does before it runs as weir. A file for one
// system may set it.
var beforeMain func()

func TestMain(m *testing.M) {
	feedbackFileSize, trajectoryFileSize = 8<<20, 16<<20
	if os.Getenv(mainVar) == "" {
		os.Exit(runTests(m))
	}
	if beforeMain != nil {
		beforeMain()
	}
	if addr := os.Getenv(notifyVar); addr != "" && len(os.Args) > 1 && os.Args[1] == "serve" {
		alive, err := net.Dial("tcp", addr)
		if err != nil {
			os.Exit(9)
		}
		defer alive.Close()
	}
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

func runTests(m *testing.M) int {
	if err := os.Setenv(mainVar, "1"); err != nil {
		panic(err)
	}
	// Most of these tests wait for disks, timers and other processes, so more of them
	// run at a time than there are processors.
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

func noEnv(string) string { return "" }

// runWeir runs a command in this process.
func runWeir(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(args, noEnv, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func runBench(args ...string) (code int, out, errOut string) {
	return runWeir(append([]string{"bench"}, args...)...)
}

func runStore(args ...string) (code int, out, errOut string) {
	return runWeir(append([]string{"store"}, args...)...)
}

// parseFlags parses the command line of a command that bind adds the flags of.
func parseFlags(t *testing.T, bind func(*flagSet), getenv func(string) string, args ...string) (f *flagSet, rest []string, err error) {
	t.Helper()
	f = newFlagSet("test")
	bind(f)
	f.addCommon()
	rest, err = f.parse(args, getenv)
	return f, rest, err
}

// parseServe parses the command line of weir serve.
func parseServe(t *testing.T, args ...string) (o *serveOptions, dir string) {
	t.Helper()
	o = &serveOptions{}
	f, rest, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.settle(f, noEnv); err != nil {
		t.Fatal(err)
	}
	return o, append(rest, "")[0]
}

// serverLog is what a server logs.
type serverLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // capacity 1
}

func newServerLog() *serverLog { return &serverLog{wrote: make(chan struct{}, 1)} }

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find waits for text that matches and returns its last group.
func (l *serverLog) find(t *testing.T, re string, ended <-chan error) string {
	t.Helper()
	pattern := regexp.MustCompile(re)
	for {
		if m := pattern.FindStringSubmatch(l.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-l.wrote:
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, l)
		}
	}
}

// startServe runs weir serve with these arguments in this process, on a free port. It
// returns the URL, and a function that stops the server and returns its log.
func startServe(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	o, dir := parseServe(t, append([]string{"--port", "0", "--kv-cache-memory", "64MiB"}, args...)...)
	text := newServerLog()
	log, err := newLog(text, o.logs.level)
	if err != nil {
		t.Fatal(err)
	}
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- serve(dir, o, log, signals) }()
	url = text.find(t, `url=(\S+)`, ended)
	text.find(t, `msg=ready`, ended)
	stop = sync.OnceValue(func() string {
		signals <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		return text.String()
	})
	t.Cleanup(func() { stop() })
	return url, stop
}

// process is a server in a process of its own.
type process struct {
	cmd   *exec.Cmd
	url   string
	log   *serverLog
	ended chan error
}

// startProcess starts weir serve with the simulated device and these arguments in a
// process of its own. prepare, if not nil, changes how it is started.
func startProcess(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := startUnready(t, prepare, args...)
	p.url = p.log.find(t, `url=(\S+)`, p.ended)
	p.log.find(t, `msg=ready`, p.ended)
	return p
}

// startUnready is startProcess without waiting for the server, which may end at once.
func startUnready(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{log: newServerLog(), ended: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append([]string{"serve", "--device", "sim", "--port", "0", "--kv-cache-memory", "64MiB"}, args...)...)
	p.cmd.Env = os.Environ()
	p.cmd.Stderr = p.log
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Skip("the system does not start it: ", err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

const question = `{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0}`

// post asks for a chat completion.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	code, text, _ := do(t, http.DefaultClient, "POST", url+"/v1/chat/completions", body)
	return code, text
}

// do sends a request, with these headers in pairs of name and value.
func do(t *testing.T, c *http.Client, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// whenOpen repeats a request while the server answers 503, because its store is still
// being opened, and returns the answer.
func whenOpen(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	for {
		if code, text, _ := do(t, http.DefaultClient, method, url, body); code != 503 {
			return code, text
		}
	}
}

const emptyTrajectory = `{"split":"s","trajectory_groups":[{"trajectories":[{}]}]}`

// numberedItem is a feedback item that can be found by its number.
func numberedItem(n int) string {
	return feedbackBody("1", "custom", fmt.Sprintf(`{"n":%d,"text":"needle%dneedle"}`, n, n), "")
}

// send posts a body that must be accepted.
func send(t *testing.T, url, body string) (answer string) {
	t.Helper()
	code, text := whenOpen(t, "POST", url, body)
	if code != 200 {
		t.Fatalf("%s: %d %s", url, code, text)
	}
	return text
}

// copyModel writes the bundled model to a folder of its own.
func copyModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "weir-tiny")
	if err := os.CopyFS(dir, models.Bundled()); err != nil {
		t.Fatal(err)
	}
	return dir
}
