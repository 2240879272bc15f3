package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is weir, too, if the environment says so: what starts servers
// starts this program.
const (
	mainVar   = "TEST_AS_WEIR"
	notifyVar = "TEST_AS_WEIR_NOTIFY" // address that a server connects to, as a sign of life
)

// beforeMain is what this program does first when it is weir.
var beforeMain func()

func TestMain(m *testing.M) {
	if os.Getenv(mainVar) == "" {
		os.Exit(m.Run())
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

func runBench(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(append([]string{"bench"}, args...), noEnv, nil, &o, &e)
	return code, o.String(), e.String()
}

func readJSON(t *testing.T, path string) (v map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestBenchStart: this program starts and stops itself, with the bundled model.
func TestBenchStart(t *testing.T) {
	t.Setenv(mainVar, "1")
	file := filepath.Join(t.TempDir(), "start.json")
	code, out, errOut := runBench("start", "--runs", "2", "--idle", "0", "--json", file, "--", "--kv-cache-memory", "64MiB")
	if code != 0 || errOut != "" || !strings.Contains(out, "from start, 2 runs") || strings.Count(out, "BenchmarkStart/to=answer 1 ") != 2 {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	if v := readJSON(t, file); len(v["health_ms"].([]any)) != 2 {
		t.Error(v)
	}
	code, out, errOut = runBench("start", "--runs", "1", "--", "/nonexistent")
	if code != 1 || out != "" || !strings.Contains(errOut, "ended by itself: exit status 1: weir: ") || !strings.Contains(errOut, "is not a model") {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
}

// lifeline is where a server that this test starts connects to, and what waits
// for the connection to end, as it does with the server.
func lifeline(t *testing.T) (address string, accept func() net.Conn, gone func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accept = func() net.Conn {
		alive, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { alive.Close() })
		return alive
	}
	gone = func(alive net.Conn) {
		if err := alive.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := alive.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server lives: %v", err)
		}
	}
	return l.Addr().String(), accept, gone
}

// TestBenchServe: a load on a server that runs, and on one that is started for
// it and is gone when the load is.
func TestBenchServe(t *testing.T) {
	url, _ := startServe(t)
	file := filepath.Join(t.TempDir(), "result.json")
	load := []string{"serve", "--num-prompts", "3", "--random-input-len", "8", "--random-output-len", "4", "--save-result", file, "--save-detailed", "--goodput", "ttft:60000", "e2el:60000"}
	address, accept, gone := lifeline(t)
	t.Setenv(mainVar, "1")
	t.Setenv(notifyVar, address)
	for name, args := range map[string][]string{
		"a running one": append(load, "--base-url", url, "--warmups", "1"),
		"its own":       append(load, "--binary", "self", "--", "--kv-cache-memory", "64MiB", "--served-model-name", "own"),
		"completions":   append(load, "--base-url", url, "--endpoint", "completions"),
	} {
		code, out, errOut := runBench(args...)
		endpoint := map[string]string{"completions": "openai"}[name]
		if endpoint == "" {
			endpoint = "openai-chat"
		}
		if code != 0 || errOut != "" || !regexp.MustCompile(`Successful requests: +3 `).MatchString(out) || !strings.Contains(out, "\nBenchmarkServe/endpoint="+endpoint+"/rate=inf 3 ") {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errOut)
			continue
		}
		if name == "its own" {
			gone(accept())
		}
		v := readJSON(t, file)
		want := map[string]string{"a running one": "weir-tiny", "its own": "own", "completions": "weir-tiny"}[name]
		if got := fmt.Sprintln(v["model_id"], v["total_output_tokens"], v["output_lens"], v["request_goodput"] == v["request_throughput"]); got != want+" 12 [4 4 4] true\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestBenchPrompts(t *testing.T) {
	url, _ := startServe(t)
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(file, []byte(`{"prompt":"What is the capital of France?","output_len":30}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(t.TempDir(), "result.json")
	code, out, errOut := runBench("serve", "--base-url", url, "--dataset-name", "prompts", "--dataset-path", file, "--num-prompts", "2", "--temperature", "0",
		"--percentile-metrics", "e2el", "--metric-percentiles", "50,90", "--request-rate", "500", "--save-result", result, "--save-detailed")
	v := readJSON(t, result)
	if code != 0 || !strings.Contains(out, "P90 E2EL (ms):") || strings.Contains(out, "TTFT") || !strings.Contains(fmt.Sprint(v["generated_texts"]), "Paris") {
		t.Errorf("exit %d: %s%s%v", code, out, errOut, v)
	}
}

// TestBenchInterrupted: on SIGINT weir says so, and the server that it started
// is gone before it is.
func TestBenchInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"start": {"start", "--runs", "1", "--idle", "1h", "--", "--kv-cache-memory", "64MiB"},
		"serve": {"serve", "--binary", "self", "--num-prompts", "100", "--request-rate", "0.001", "--", "--kv-cache-memory", "64MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			address, accept, gone := lifeline(t)
			cmd := exec.Command(self, append([]string{"bench"}, args...)...)
			cmd.Env = append(os.Environ(), mainVar+"=1", notifyVar+"="+address)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			server := accept()
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || errOut.String() != "weir: interrupted\n" {
				t.Errorf("%v: %s", err, errOut.String())
			}
			gone(server)
		})
	}
}

// TestBenchFlags: what is asked wrongly is one sentence and status 2, before
// anything is measured.
func TestBenchFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "start, serve, store or engine"},
		{"stop", 2, `not "stop"`},
		{"start --help", 0, "--idle"},
		{"serve --help", 0, "--random-input-len"},
		{"start --runs 0", 2, "0 runs"},
		{"store --clients 0", 2, "0 clients"},
		{"store 500", 2, "takes no arguments"},
		{"store --binary /nonexistent/server", 1, "/nonexistent/server"},
		{"start --frobnicate", 2, "frobnicate"},
		{"serve 500", 2, "takes no arguments"},
		{"serve -- --port 1", 2, "--binary"},
		{"serve --goodput ttft:1 tpot", 2, `goodput "tpot"`},
		{"serve --request-rate 0", 2, "rate of 0"},
		{"serve --extra-body {", 2, "JSON object"},
		{"serve --endpoint embeddings", 2, "embeddings"},
		{"serve --dataset-path x", 2, "--dataset-name"},
		{"serve --dataset-name prompts", 2, "--dataset-path"},
		{"serve --dataset-name prompts --dataset-path /nonexistent", 2, "/nonexistent"},
		{"serve --base-url http://127.0.0.1:1", 1, "refused"},
		{"serve --binary /nonexistent/server", 1, "/nonexistent/server"},
	} {
		code, out, errOut := runBench(strings.Fields(c.args)...)
		if text := out + errOut; code != c.code || !strings.Contains(text, c.want) || c.code > 0 && strings.Count(text, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", c.args, code, text)
		}
	}
}

// TestBenchStore: this program writes feedback, asks for it and logs trajectories.
func TestBenchStore(t *testing.T) {
	t.Setenv(mainVar, "1")
	file := filepath.Join(t.TempDir(), "store.json")
	code, out, errOut := runBench("store", "--clients", "1,3", "--time", "50ms", "--rounds", "1", "--rows", "2500", "--queries", "2", "--ingest", "300000", "--json", file)
	if code != 0 || errOut != "" || strings.Count(out, "BenchmarkStore/write/") != 2 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	v := readJSON(t, file)
	for _, w := range v["writes"].([]any) {
		if w := w.(map[string]any); w["failed"].(float64) != 0 || w["count"].(float64) == 0 {
			t.Error(w)
		}
	}
	want := map[string]float64{
		"id": 1, "trace_ref": 5, "queue_id, 100 of its rows": 1000, "feedback_type, 100 of its rows": 125,
		"platform_user_id, 100 of its rows": 2500, "count of all": 2500, "page of 100 in the middle": 2500,
	}
	for _, q := range v["queries"].([]any)[0].(map[string]any)["queries"].([]any) {
		q := q.(map[string]any)
		if n, known := want[q["name"].(string)]; q["error"] != nil || known && q["total_count"].(float64) != n {
			t.Error(q)
		}
	}
	if in := v["ingests"].([]any)[0].(map[string]any); in["error"] != nil || in["bytes"].(float64) < 300_000 {
		t.Error(in)
	}
}
