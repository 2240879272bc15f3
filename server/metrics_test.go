package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/engine"
	"weir/server/servertest"
)

// C148: what is said after ten requests of P prompt and ten output tokens
// (docs/interface/chat-completions.md, section 16), as soon as the last answer has been read.
func TestC148Metrics(t *testing.T) {
	t.Parallel()
	for depth := 1; depth <= 2; depth++ {
		for _, stream := range []bool{false, true} {
			h := newServer(t, func(s *servertest.Setup) { s.Spec.Depth = depth })
			prompt := h.Complete(t, map[string]any{"max_tokens": 10, "ignore_eos": true}).Usage.Prompt
			for i := range 9 {
				if status, answer := h.Chat(map[string]any{"max_tokens": 10, "ignore_eos": true, "stream": stream, "cache_salt": fmt.Sprint(i)}); status != 200 {
					t.Fatal(answer)
				}
			}
			want := map[string]string{
				"vllm:prompt_tokens_total":                                   fmt.Sprint(10 * prompt),
				`vllm:prompt_tokens_by_source_total{source="local_compute"}`: fmt.Sprint(10 * prompt),
				"vllm:prefix_cache_queries_total":                            fmt.Sprint(10 * prompt),
				"vllm:generation_tokens_total":                               "100",
				`vllm:request_success_total{finished_reason="length"}`:       "10",
				`vllm:request_success_total{finished_reason="stop"}`:         "0",
				`vllm:request_success_total{finished_reason="abort"}`:        "0",
				"vllm:inter_token_latency_seconds_count":                     "90",
				"vllm:num_requests_running":                                  "0",
				"vllm:num_requests_waiting":                                  "0",
				"vllm:num_preemptions_total":                                 "0",
				"vllm:iteration_tokens_total_sum":                            fmt.Sprint(10*prompt + 100),
				"vllm:iteration_tokens_total_count":                          "100",
				"vllm:request_params_max_tokens_sum":                         "100",
			}
			for _, name := range []string{"time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
				"request_inference_time_seconds", "request_params_n", "request_params_max_tokens", "request_prompt_tokens", "request_generation_tokens"} {
				want["vllm:"+name+"_count"] = "10"
			}
			h.Told(fmt.Sprintf("depth %d, stream %v", depth, stream), want)
			h.Told("HTTP", map[string]string{
				`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`:    "10",
				`weir:project_requests_total{project="none"}`:                                       "10",
				`http_request_duration_seconds_count{handler="/v1/chat/completions",method="POST"}`: "10",
				`http_response_size_bytes_count{handler="/v1/chat/completions"}`:                    "10",
			})
			found := false
			for name, v := range h.Scraped() {
				found = found || strings.HasPrefix(name, "vllm:cache_config_info{") && v == "1" &&
					strings.Contains(name, `block_size="16"`) && strings.Contains(name, `enable_prefix_caching="True"`) && strings.Contains(name, `num_gpu_blocks="256"`)
			}
			if !found {
				t.Error("there is no cache_config_info with the sizes of the cache")
			}
		}
	}
}

// Latencies begin when the request has come, before it waits to be prepared;
// the queue is the engine's.
func TestMetricsArrival(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	h.SetClock(func() time.Time { return time.Now().Add(-time.Hour) })
	h.Complete(t, nil)
	all := h.Scraped()
	for name, late := range map[string]bool{"time_to_first_token_seconds": true, "e2e_request_latency_seconds": true, "request_queue_time_seconds": false, "request_inference_time_seconds": false} {
		v, err := strconv.ParseFloat(all["vllm:"+name+`_sum{engine="0",model_name="tiny"}`], 64)
		if err != nil || late != (v >= 3600) {
			t.Errorf("%s is %v s", name, v)
		}
	}
}

// C8, docs/interface/chat-completions.md, section 1.1: everybody may scrape, at any path that begins so, but only read.
// Who may not read /usage learns of no project.
func TestC8MetricsAccess(t *testing.T) {
	t.Parallel()
	const key = "Authorization: Bearer k"
	h := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	if status, answer, _ := h.Get("POST", servertest.ChatPath, servertest.Body(t, nil), key, "Compat-Project: red/apples"); status != 200 {
		t.Fatal(answer)
	}
	for _, path := range []string{"/metrics", "/metrics/", "/metricsx", "/metrics/a/b"} {
		status, text, _ := h.Get("GET", path, "")
		if status != 200 || !strings.Contains(text, "vllm:num_requests_running{") || strings.Contains(text, "red/apples") {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status, _, header := h.Get("POST", path, ""); status != 405 || header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d %v", path, status, header)
		}
	}
	h.Told("with the key", map[string]string{`weir:project_requests_total{project="red/apples"}`: "1"}, key)
	h.Instance.Transport().Expose()
	h.Told("with the key", map[string]string{`weir:project_requests_total{project="red/apples"}`: "1"}, key)

	open := newServer(t, nil)
	open.Complete(t, nil, "Compat-Project: red/apples")
	open.Told("this machine", map[string]string{`weir:project_requests_total{project="red/apples"}`: "1"})
	open.Instance.Transport().Expose()
	if _, text, _ := open.Get("GET", "/metrics", ""); strings.Contains(text, "weir:project") {
		t.Error("other machines see projects")
	}
}

// A scrape is answered whatever the server's state: gateways take silence for
// overload.
func TestMetricsInEveryState(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.NoModel = true })
	h.Chat(nil)
	h.Told("loading", map[string]string{`weir:rejected_requests_total{reason="loading"}`: "1", `http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"}`: "1"})
	if err := h.Instance.SetModel(h.Model); err != nil {
		t.Fatal(err)
	}

	// While a step does not end, requests that run and wait are seen.
	held, release := h.HoldSteps()
	var clients sync.WaitGroup
	clients.Go(func() { h.Chat(nil) })
	<-held
	h.Told("in a step", map[string]string{"vllm:num_requests_running": "1", "vllm:num_requests_waiting": "0"})
	release()
	clients.Wait()

	h.Get("GET", "/health", "")
	h.Instance.Fail(errors.New("gone"))
	h.Chat(nil)
	h.Get("GET", "/health", "")
	h.Told("failed", map[string]string{`weir:rejected_requests_total{reason="failed"}`: "1", `vllm:request_success_total{finished_reason="length"}`: "1"})
}

// What the client did wrong is no rejection; handlers are routes, not paths; no
// probe counts, and no preflight.
func TestMetricsHTTP(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	h.Chat(map[string]any{"max_tokens": -1})
	h.Chat(map[string]any{"model": "nobody"})
	for _, path := range []string{"/v1/models/tiny", "/v1/models/alias", "/v1/models/%2e", "/a", "/b", "/v1/c", "/tokenizer_info", "/health", "/ping", "/ready", "/version", "/load"} {
		h.Get("GET", path, "")
	}
	h.Get("GET", servertest.ChatPath, "")
	h.Get("OPTIONS", servertest.ChatPath, "", "Origin: http://page", "Access-Control-Request-Method: POST")
	resp := h.Do("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true, "max_tokens": 900, "ignore_eos": true}), "Compat-Project: a/b")
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // leaves
	h.Idle()
	servertest.WaitFor(t, "the account", func() bool { return h.Scraped()[`weir:project_requests_total{project="a/b"}`] == "1" })
	h.Told("all", map[string]string{
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"}`: "2",
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`: "1",
		`http_requests_total{handler="/v1/chat/completions",method="GET",status="4xx"}`:  "1",
		`http_requests_total{handler="/v1/models/{id}",method="GET",status="2xx"}`:       "2",
		`http_requests_total{handler="/v1/models/{id}",method="GET",status="4xx"}`:       "1",
		`http_requests_total{handler="none",method="GET",status="4xx"}`:                  "4",
		"weir:aborted_requests_total":                         "1",
		`vllm:request_success_total{finished_reason="abort"}`: "0",
		"http_request_duration_highr_seconds_count":           "11",
	})
	for _, reason := range []string{"engine_full", "queue_full", "memory", "loading", "stopping", "failed"} {
		h.Told("no rejection", map[string]string{`weir:rejected_requests_total{reason="` + reason + `"}`: "0"})
	}
}

// A project's tokens are those of GET /usage.
func TestMetricsProjects(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	c := h.Complete(t, map[string]any{"n": 3, "temperature": 1, "max_tokens": 7, "ignore_eos": true}, "Compat-Project: a/b")
	h.Chat(map[string]any{"max_tokens": -1}, "Compat-Project: a/b")
	h.Told("n 3", map[string]string{
		`weir:project_requests_total{project="a/b"}`:          "1",
		`weir:project_prompt_tokens_total{project="a/b"}`:     fmt.Sprint(c.Usage.Prompt),
		`weir:project_generation_tokens_total{project="a/b"}`: "21",
		"vllm:request_params_n_sum":                           "3",
		"vllm:request_params_n_count":                         "1",
		"vllm:e2e_request_latency_seconds_count":              "3",
	})
}

// Scrapes beside requests that come, stream and leave.
func TestMetricsUnderLoad(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Spec.Depth = 2 })
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for j := range 10 {
				h.Chat(map[string]any{"stream": j%2 == 0, "n": 2, "temperature": 1, "seed": i})
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	var text bytes.Buffer
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		text.Reset()
		if err := h.Instance.Counts().WriteText(&text, func(string) bool { return true }); err != nil {
			t.Error(err)
		}
	}
	if st := h.Engine.Stats(); st.Finished[engine.Length]+st.Finished[engine.Stop] != 80 || !strings.Contains(text.String(), "vllm:request_params_n_count{engine=\"0\",model_name=\"tiny\"} 40\n") {
		t.Errorf("%+v\n%s", st, text.String())
	}
}

// What went over connections is counted, streams and headers too, and connections are open as
// long as their clients are.
func TestMetricsConnections(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	number := func(series string) float64 {
		t.Helper()
		v, err := strconv.ParseFloat(h.Scraped()[series], 64)
		if err != nil {
			t.Fatalf("%s: %v", series, err)
		}
		return v
	}
	sent, received, accepted := number("weir:http_sent_bytes_total"), number("weir:http_received_bytes_total"), number("weir:http_connections_total")
	body := servertest.Body(t, map[string]any{"stream": true, "max_tokens": 50, "ignore_eos": true})
	resp := h.Do("POST", servertest.ChatPath, body)
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || len(answer) < 1000 {
		t.Fatalf("%d bytes, %v", len(answer), err)
	}
	if n := number("weir:http_sent_bytes_total") - sent; n < float64(len(answer)) {
		t.Errorf("%v bytes were sent, and %d arrived", n, len(answer))
	}
	if n := number("weir:http_received_bytes_total") - received; n < float64(len(body)) {
		t.Errorf("%v bytes were received, and %d sent", n, len(body))
	}
	if n := number("weir:http_connections_total"); accepted < 1 || n < accepted {
		t.Errorf("%v connections, and %v before", n, accepted)
	}
	if n := number(`weir:http_connections{state="active"}`); n != 1 { // that of the scrape
		t.Errorf("%v connections have a request", n)
	}
}

// docs/interface/metrics.md has every series that a server shows, and its tables have none that
// a server with everything does not show.
func TestMetricsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../docs/interface/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			documented[name] = true
		}
	}
	h, _ := servertest.NewRecording(t, nil)
	h.Complete(t, nil)
	shown := map[string]bool{}
	for series := range h.Scraped() {
		name, _, _ := strings.Cut(series, "{")
		family := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); documented[base] {
				family = base
			}
		}
		shown[family] = true
		created := strings.TrimSuffix(name, "_created")
		if !documented[family] && !strings.HasPrefix(name, "go_") && !(created != name && (documented[created] || documented[created+"_total"])) {
			t.Errorf("%s is not documented", name)
		}
	}
	for name := range documented {
		// The first three are there for some networks only, the fourth with a credentials file, the fifth with traces, and the others with sinks, HTTPS, --kv-offload-dir or --kv-events-config.
		if !shown[name] && name != "weir:state_slots" && name != "weir:state_checkpoint_hits_total" && name != "weir:kv_blocks_used" && name != "weir:credentials_stale" && name != "weir:trace_spans_total" && !strings.HasPrefix(name, "weir:sink_") && !strings.HasPrefix(name, "weir:tls_") && !strings.HasPrefix(name, "weir:kv_offload_") && !strings.HasPrefix(name, "weir:kv_event_") && !strings.HasPrefix(name, "weir:kv_transfer_") {
			t.Errorf("%s is documented and not shown", name)
		}
	}
}
