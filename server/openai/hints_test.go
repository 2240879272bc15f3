package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/server/servertest"
)

// docs/interface/chat-completions.md, section 1.3: endpoint-load-metrics-format.
func TestLoadMetrics(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	ask := func(fields map[string]any, format string) string {
		t.Helper()
		var headers []string
		if format != "" {
			headers = append(headers, "endpoint-load-metrics-format: "+format)
		}
		status, answer, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, fields), headers...)
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		return header.Get("endpoint-load-metrics")
	}
	for _, format := range []string{"TEXT", "text"} {
		got := ask(nil, format)
		if !strings.HasPrefix(got, "TEXT named_metrics.kv_cache_usage_perc=0.") || !strings.HasSuffix(got, ", named_metrics.num_requests_waiting=0.0") {
			t.Errorf("%s: %q", format, got)
		}
	}
	for _, format := range []string{"JSON", "Json"} {
		text, ok := strings.CutPrefix(ask(nil, format), "JSON ")
		var report struct {
			Named map[string]float64 `json:"named_metrics"`
		}
		if err := json.Unmarshal([]byte(text), &report); !ok || err != nil {
			t.Fatalf("%s: %q: %v", format, text, err)
		}
		used, hasUsed := report.Named["kv_cache_usage_perc"]
		waiting, hasWaiting := report.Named["num_requests_waiting"]
		if len(report.Named) != 2 || !hasUsed || !hasWaiting || used < 0 || used > 1 || waiting != 0 {
			t.Errorf("%s: %v", format, report)
		}
	}
	for _, format := range []string{"", "BIN", "xml"} {
		if got := ask(nil, format); got != "" {
			t.Errorf("%q: %q", format, got)
		}
	}
	if got := ask(map[string]any{"stream": true}, "TEXT"); got != "" {
		t.Errorf("in a stream: %q", got)
	}
}

// docs/interface/chat-completions.md, section 1.3: X-data-parallel-rank. There is one engine, of rank 0.
func TestDataParallelRank(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, rank := range []string{"0", " 0", "x", "1.5"} {
		h.Complete(t, nil, "X-data-parallel-rank: "+rank)
	}
	for _, rank := range []string{"1", "-1", "99"} {
		status, answer := h.Chat(nil, "X-data-parallel-rank: "+rank)
		if f := servertest.Refused(t, status, answer, 400, ""); f.Type != "BadRequestError" || !strings.Contains(f.Message, "out of range") {
			t.Error(answer)
		}
	}
}

func TestRequestIDHeaderOff(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.NoRequestID = true })
	for _, path := range []string{servertest.ChatPath, "/nothing"} {
		_, answer, header := h.Get("POST", path, servertest.Body(t, nil), "X-Request-Id: abc")
		if _, there := header["X-Request-Id"]; there {
			t.Errorf("%s: %v", path, header)
		}
		if path == servertest.ChatPath && !strings.Contains(answer, `"id":"chatcmpl-abc"`) {
			t.Error(answer)
		}
	}
}

// docs/interface/chat-completions.md, section 1.3: where no traces are sent, their headers do nothing.
func TestTraceHeaders(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, parent := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense"} {
		h.Complete(t, nil, "traceparent: "+parent, "tracestate: a=b")
	}
}
