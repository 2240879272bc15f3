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

	"weir/bench"
)

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
	t.Parallel()
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

// A lifeline is an address that servers connect to and stay connected to while they
// live (notifyVar), so that a test can wait for their end.
type lifeline struct {
	t *testing.T
	net.Listener
}

func newLifeline(t *testing.T) lifeline {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return lifeline{t, l}
}

// connected waits for the next server that starts.
func (l lifeline) connected() net.Conn {
	l.t.Helper()
	alive, err := l.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { alive.Close() })
	return alive
}

// ended waits for the end of the server that this connection comes from.
func (l lifeline) ended(alive net.Conn) {
	l.t.Helper()
	if err := alive.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		l.t.Fatal(err)
	}
	if _, err := alive.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		l.t.Errorf("the server is still running: %v", err)
	}
}

// TestBenchServe: a load on a running server, and on one that is started for it and
// has ended when the command returns.
func TestBenchServe(t *testing.T) {
	url, _ := startServe(t)
	life := newLifeline(t)
	t.Setenv(notifyVar, life.Addr().String())
	for name, c := range map[string]struct {
		args            []string
		endpoint, model string
	}{
		"a running server": {[]string{"--base-url", url, "--warmups", "1"}, "openai-chat", "weir-tiny"},
		"its own server":   {[]string{"--binary", "self", "--", "--kv-cache-memory", "64MiB", "--served-model-name", "own"}, "openai-chat", "own"},
		"completions":      {[]string{"--base-url", url, "--endpoint", "completions"}, "openai", "weir-tiny"},
	} {
		file := filepath.Join(t.TempDir(), "result.json")
		code, out, errOut := runBench(append([]string{"serve", "--num-prompts", "3", "--random-input-len", "8", "--random-output-len", "4",
			"--result-filename", file, "--save-detailed", "--goodput", "ttft:60000", "e2el:60000"}, c.args...)...)
		if code != 0 || errOut != "" || !regexp.MustCompile(`Successful requests: +3 `).MatchString(out) || !strings.Contains(out, "\nBenchmarkServe/endpoint="+c.endpoint+"/rate=inf 3 ") {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errOut)
			continue
		}
		if name == "its own server" {
			life.ended(life.connected())
		}
		v := readJSON(t, file)
		if got := fmt.Sprintln(v["model_id"], v["total_output_tokens"], v["output_lens"], v["request_goodput"] == v["request_throughput"]); got != c.model+" 12 [4 4 4] true\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestBenchChat: conversations with a server that is started for them compute little but what is new.
func TestBenchChat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	code, out, errOut := runBench("chat", "--binary", "self", "--conversations", "2", "--turns", "3", "--system-len", "20", "--first-len", "30", "--message-len", "10", "--output-len", "4", "--answer-len", "12",
		"--json", file, "--header", "Authorization=Bearer k", "--", "--kv-cache-memory", "64MiB", "--served-model-name", "own", "--api-key", "k")
	if code != 0 || errOut != "" || !strings.Contains(out, "own: 2 conversations at once") || !strings.Contains(out, "\n| 3 | ") || strings.Count(out, "BenchmarkChat/conversations=2/turn=") != 3 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	// What the turn before had is in the cache, but for a part of a block and the generation prompt.
	for i, turn := range readJSON(t, file)["turns"].([]any) {
		x := turn.(map[string]any)
		number := func(key string) float64 { return x[key].(float64) }
		if computed := number("prompt_tokens") - number("cached_tokens"); i > 0 && computed > number("new_tokens")+32 {
			t.Errorf("turn %d: %v", i+1, x)
		}
	}
	for want, args := range map[string][]string{
		"20 turns":             {"--conversations", "0"},
		"is not name=value":    {"--header", "x"},
		"takes no arguments":   {"x"},
		"for a server that --": {"--", "--port", "1"},
		"connect":              {"--base-url", "http://127.0.0.1:1"},
	} {
		if code, out, errOut := runBench(append([]string{"chat"}, args...)...); code == 0 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d: %s%s", args, code, out, errOut)
		}
	}
}

// TestBenchPrompts: prompts from a file, and the flags that say what is reported.
func TestBenchPrompts(t *testing.T) {
	t.Parallel()
	url, _ := startServe(t)
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(file, []byte(`{"prompt":"What is the capital of France?","output_len":30}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(t.TempDir(), "result.json")
	code, out, errOut := runBench("serve", "--base-url", url, "--dataset-name", "prompts", "--dataset-path", file, "--num-prompts", "2", "--temperature", "0",
		"--percentile-metrics", "e2el", "--metric-percentiles", "50,90", "--request-rate", "500", "--save-result", "--result-filename", result, "--save-detailed")
	v := readJSON(t, result)
	if code != 0 || !strings.Contains(out, "P90 E2EL (ms):") || strings.Contains(out, "Time to First Token") || !strings.Contains(fmt.Sprint(v["generated_texts"]), "Paris") {
		t.Errorf("exit %d: %s%s%v", code, out, errOut, v)
	}
}

// TestBenchReports: a series of runs with data of other kinds, and its files.
func TestBenchReports(t *testing.T) {
	t.Parallel()
	url, _ := startServe(t)
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":20,"output_length":3,"hash_ids":[1]}`+"\n"+`{"timestamp":20,"input_length":9,"output_length":2}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"a trace":       {"--dataset-name", "mooncake", "--dataset-path", trace},
		"conversations": {"--dataset-name", "multi-turn", "--multi-turn-num-turns", "2", "--multi-turn-think-time", "1ms", "--num-prompts", "2", "--output-len", "3"},
		"schemas":       {"--dataset-name", "structured", "--structured-kind", "json-unique", "--num-prompts", "2", "--output-len", "3", "--include-usage=false"},
		"completions":   {"--backend", "vllm", "--num-prompts", "2", "--input-len", "5", "--output-len", "2", "--temperature", "0", "--top-k", "3", "--logprobs", "1", "--metadata", "a=b", "c=d"},
	} {
		results := filepath.Join(dir, strings.ReplaceAll(name, " ", ""))
		code, out, errOut := runBench(append([]string{"serve", "--base-url", url, "--num-runs", "2", "--save-result", "--result-dir", results,
			"--save-csv", results + ".csv", "--save-html", results + ".html"}, args...)...)
		if code != 0 || errOut != "" || !strings.Contains(out, "Variation over 2 Runs") || strings.Count(out, "Successful requests:                     2 ") != 2 {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errOut)
			continue
		}
		files, _ := filepath.Glob(filepath.Join(results, "*.json"))
		if len(files) != 1 || !strings.Contains(files[0], "-infqps-weir-tiny-") || len(readJSON(t, files[0])["runs"].([]any)) != 2 {
			t.Errorf("%s: %q", name, files)
		}
		table, err := os.ReadFile(results + ".csv")
		if err != nil || strings.Count(string(table), ",completed,") != 4 {
			t.Errorf("%s: %v %s", name, err, table)
		}
		if page, err := os.ReadFile(results + ".html"); err != nil || !strings.Contains(string(page), "uPlot") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBenchSweep: a server against itself, by rates, by concurrencies and by a search.
func TestBenchSweep(t *testing.T) {
	t.Parallel()
	url, _ := startServe(t)
	file := filepath.Join(t.TempDir(), "sweep")
	code, out, errOut := runBench("sweep", "--base-url", url, "--name", "one", "--versus", "two="+url, "--rates", "200", "--concurrencies", "2", "--num-prompts", "4", "--rounds", "2",
		"--find-rate", "--goodput", "e2el:600000", "--search-start", "1e6", "--search-tolerance", "1e12", "--input-len", "5", "--output-len", "2",
		"--json", file+".json", "--save-csv", file+".csv", "--save-html", file+".html")
	if code != 0 || errOut != "" || !strings.Contains(out, "one divided by two:") || !strings.Contains(out, "| 2 at a time | two |") || strings.Count(out, "BenchmarkSweep/server=two/") != 4 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	v := readJSON(t, file+".json")
	if len(v["cells"].([]any)) != 8 || len(v["search"].([]any)) != 2 {
		t.Error(v)
	}
	for _, name := range []string{".csv", ".html"} {
		if text, err := os.ReadFile(file + name); err != nil || len(text) == 0 {
			t.Error(err)
		}
	}
}

// TestBenchSim: everything is measured beside its reference, in small.
func TestBenchSim(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sim.json")
	code, out, errOut := runBench("sim", "--time", "20ms", "--rounds", "1", "--streams", "2", "--tokens", "4", "--sequences", "2", "--idle-streams", "0", "--refusals", "100", "--json", file)
	if code != 0 || errOut != "" || !strings.Contains(out, "| small chats, not streamed |") || !strings.Contains(out, "| refusal by a full server, p99 |") || strings.Count(out, "BenchmarkSim/") < 4 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	for _, row := range readJSON(t, file)["rows"].([]any) {
		if row := row.(map[string]any); row["name"] != "streamed events, one per write" && !(row["value"].(float64) > 0) || !(row["reference"].(float64) > 0) {
			t.Error(row)
		}
	}
}

// TestBenchProgress: a terminal is shown what is done, with rates.
func TestBenchProgress(t *testing.T) {
	var out bytes.Buffer
	p := newBenchProgress(&out, false)
	p.show(bench.Progress{})
	if p.width != 0 || out.Len() != 0 {
		t.Errorf("%q where there is no terminal", &out)
	}
	at := time.Unix(0, 0)
	p.width, p.now = 120, func() time.Time { at = at.Add(time.Second); return at }
	p.begin("run 1 of 2")
	p.show(bench.Progress{Total: 10, InFlight: 2})
	p.show(bench.Progress{Total: 10, Completed: 4, Failed: 1, InFlight: 2, Waiting: 3, Outputs: 80, Elapsed: time.Second})
	p.end()
	const want = "\r\x1b[Krun 1 of 2 [============            ] 5/10  2 in flight, 3 wait, 1 failed  4.0 req/s  80 tok/s  1s\n"
	if got := out.String(); !strings.HasSuffix(got, want) {
		t.Errorf("%q", got)
	}
	p.width = 20
	if got := p.line(bench.Progress{Total: 10}); len(got) != 19 {
		t.Errorf("%q", got)
	}
}

// TestBenchInterrupted: on SIGINT, weir bench says that it was interrupted, and ends
// after the server that it started.
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
			t.Parallel()
			life := newLifeline(t)
			cmd := exec.Command(self, append([]string{"bench"}, args...)...)
			cmd.Env = append(os.Environ(), notifyVar+"="+life.Addr().String())
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			server := life.connected()
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || errOut.String() != "weir: interrupted\n" {
				t.Errorf("%v: %s", err, errOut.String())
			}
			life.ended(server)
		})
	}
}

// TestBenchFlags: a mistake in the flags is reported in one sentence, with status 2 and
// before anything is measured.
func TestBenchFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "start, serve, sweep, chat, sim, store or engine"},
		{"sim --streams 0", 2, "0 streams"},
		{"sim x", 2, "takes no arguments"},
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
		{"serve --ramp-up-start-rps 1", 2, "--ramp-up-strategy"},
		{"serve --ramp-up-strategy linear", 2, "a ramp from 0"},
		{"serve --header x", 2, "name=value"},
		{"serve --metadata a=b c=d e", 2, "takes no arguments"},
		{"serve --num-runs 0", 2, "0 runs"},
		{"serve --endpoint /v1/embeddings --num-prompts 0", 2, "0 prompts"},
		{"serve --dataset-name sonnet --sonnet-input-len 1", 2, "sonnets of 1"},
		{"sweep", 2, "needs rates"},
		{"sweep --rates 1 --request-rate 3", 2, "--rates"},
		{"sweep --rates 1 --versus x", 2, "no http"},
		{"sweep --find-rate", 2, "goodput"},
		{"sweep --help", 0, "--versus"},
		{"sweep --rates 1 --base-url http://127.0.0.1:1", 1, "refused"},
		{"serve --binary /nonexistent/server", 1, "/nonexistent/server"},
	} {
		code, out, errOut := runBench(strings.Fields(c.args)...)
		if text := out + errOut; code != c.code || !strings.Contains(text, c.want) || c.code > 0 && strings.Count(text, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", c.args, code, text)
		}
	}
}

// TestBenchStore: servers of this program take feedback, find it and take trajectories.
func TestBenchStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.json")
	code, out, errOut := runBench("store", "--clients", "1,3", "--time", "150ms", "--rounds", "1", "--rows", "2500", "--queries", "2", "--ingest", "300000", "--json", file)
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
