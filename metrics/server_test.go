package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"weir/internal/memory"
	"weir/kvcache"
)

// TestHTTP: the status is counted in classes, probes are not counted, and clients cannot make
// new labels.
func TestHTTP(t *testing.T) {
	m := New()
	for _, r := range []Request{
		{"POST", "/v1/chat/completions", 200, 50 * time.Millisecond, 100, 1000}, {"POST", "/v1/chat/completions", 204, 2 * time.Second, -1, 0},
		{"POST", "/v1/chat/completions", 404, 0, 1, 1}, {"BREW", "none", 404, 0, 1, 1}, {"ICED", "none", 418, 0, 1, 1},
		{"GET", "/metrics", 200, 0, 0, 0}, {"GET", "/health", 200, 0, 0, 0}, {"GET", "/load", 200, 0, 0, 0}, {"GET", "/loads", 200, 0, 0, 0}, {"GET", "/v1/loads", 200, 0, 0, 0}, {"GET", "/get_load", 200, 0, 0, 0}, {"GET", "/health_generate", 200, 0, 0, 0}, {"POST", "/ping", 200, 0, 0, 0}, {"GET", "/version", 200, 0, 0, 0}, {"GET", "/server_info", 200, 0, 0, 0}, {"GET", "/ready", 200, 0, 0, 0}, {"GET", "/v1/live", 200, time.Hour, 0, 0},
	} {
		m.Answered(r)
	}
	p := scrape(t, m, false)
	got := map[string]float64{}
	for _, s := range p["http_requests_total"].Metric {
		got[strings.Join(pairs(s), " ")] = s.Counter.GetValue()
	}
	if want := map[string]float64{
		"handler=/v1/chat/completions method=POST status=2xx": 2, "handler=/v1/chat/completions method=POST status=4xx": 1, "handler=none method=other status=4xx": 2,
	}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	d := p.find(t, "http_request_duration_seconds", "handler=/v1/chat/completions", "method=POST").Histogram
	if d.GetSampleCount() != 3 || d.Bucket[0].GetCumulativeCount() != 2 || p.find(t, "http_request_duration_highr_seconds").Histogram.GetSampleCount() != 5 {
		t.Errorf("%v", d)
	}
	in, out := p.find(t, "http_request_size_bytes", "handler=/v1/chat/completions").Summary, p.find(t, "http_response_size_bytes", "handler=/v1/chat/completions").Summary
	if in.GetSampleSum() != 101 || out.GetSampleSum() != 1001 || out.GetSampleCount() != 3 {
		t.Errorf("%v %v", in, out)
	}
}

// TestProjects: the first projects have series of their own, the others share one, and only
// those are written that the caller may see.
func TestProjects(t *testing.T) {
	m := New()
	for i := range 2*maxProjects + 1 {
		m.Used(fmt.Sprintf("team/%d", i), 10, 3)
	}
	m.Used("team/1", 5, 2)
	m.Used("", 7, 1)
	p := scrape(t, m, true)
	for _, c := range []struct {
		name, project string
		want          float64
	}{
		{"weir:project_requests_total", "team/1", 2}, {"weir:project_prompt_tokens_total", "team/1", 15}, {"weir:project_generation_tokens_total", "team/1", 5},
		{"weir:project_requests_total", "other", maxProjects + 1}, {"weir:project_prompt_tokens_total", "none", 7},
	} {
		if got := p.value(t, c.name, "project="+c.project); got != c.want {
			t.Errorf("%s of %s is %v, want %v", c.name, c.project, got, c.want)
		}
	}
	if n := len(p["weir:project_requests_total"].Metric); n != maxProjects+2 {
		t.Errorf("%d series", n)
	}
	for _, c := range []struct {
		shows func(string) bool
		want  []string
	}{
		{func(p string) bool { return p == "team/3" }, []string{"project=team/3"}}, {func(p string) bool { return p == "" }, []string{"project=none"}},
		{func(p string) bool { return p == "other" }, []string{"project=other"}}, {func(string) bool { return false }, nil},
	} {
		var got []string
		if f := scrapeAs(t, m, c.shows)["weir:project_requests_total"]; f != nil {
			for _, s := range f.Metric {
				got = append(got, pairs(s)...)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	for name := range scrape(t, m, false) {
		if strings.Contains(name, "project") {
			t.Errorf("%s is shown to everybody", name)
		}
	}
}

// TestRejected: every reason has a series from the start.
func TestRejected(t *testing.T) {
	m := New()
	m.Rejected(QueueFull)
	p := scrape(t, m, false)
	for _, r := range reasons {
		want := 0.
		if r == QueueFull {
			want = 1
		}
		if got := p.value(t, "weir:rejected_requests_total", "reason="+string(r)); got != want {
			t.Errorf("%s: %v, want %v", r, got, want)
		}
	}
	m.Rejected("a reason that nobody knows")
	m.Rejected("another one")
	p = scrape(t, m, false)
	if n := p.value(t, "weir:rejected_requests_total", "reason=other"); n != 2 || len(p["weir:rejected_requests_total"].Metric) != len(reasons)+1 {
		t.Errorf("%v refusals for other reasons, %d series", n, len(p["weir:rejected_requests_total"].Metric))
	}
}

// TestConnections: the series of connections.
func TestConnections(t *testing.T) {
	m := New()
	m.SetConnections(func() Sockets { return Sockets{Open: 7, Idle: 4, Accepted: 9, Received: 100, Sent: 3000} })
	p := scrape(t, m, false)
	for _, c := range []struct {
		name   string
		want   float64
		labels []string
	}{
		{"weir:http_connections", 3, []string{"state=active"}}, {"weir:http_connections", 4, []string{"state=idle"}},
		{"weir:http_connections_total", 9, nil}, {"weir:http_received_bytes_total", 100, nil}, {"weir:http_sent_bytes_total", 3000, nil},
	} {
		if got := p.value(t, c.name, c.labels...); got != c.want {
			t.Errorf("%s %v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// TestStores: the series of databases, and of trajectories.
func TestStores(t *testing.T) {
	m := New()
	m.SetStores(map[string]func() Store{
		"feedback": func() Store {
			return Store{Updates: 5, Commits: 2, Written: 100, Committing: 0.5, Syncing: 0.25, Failures: 1, Damaged: 3, Waiting: 4, Size: 1000}
		},
		"trajectories": func() Store { return Store{} },
	})
	m.Logged(3, 70)
	m.Recorded(2, 1)
	p := scrape(t, m, false)
	for name, want := range map[string]float64{"updates_total": 5, "commits_total": 2, "written_bytes_total": 100, "commit_seconds_total": 0.5, "failed_commits_total": 1,
		"damaged_values_total": 3, "waiting_updates": 4, "size_bytes": 1000} {
		if got := p.value(t, "weir:store_"+name, "store=feedback"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
		if got := p.value(t, "weir:store_"+name, "store=trajectories"); got != 0 {
			t.Errorf("%s of the other is %v", name, got)
		}
	}
	for name, want := range map[string]float64{"trajectories_logged_total": 3, "trajectory_bytes_total": 70, "completions_recorded_total": 2, "completions_lost_total": 1} {
		if got := p.value(t, "weir:"+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// textOf is a page of metrics.
func textOf(t testing.TB, m *Metrics, shows func(string) bool) *bytes.Buffer {
	t.Helper()
	var text bytes.Buffer
	err := m.WriteText(&text, shows)
	if shows != nil {
		err = errors.Join(err, m.WriteShares(&text, shows))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &text
}

// TestMetricsDocument: docs/interface/metrics.md has every series, with its type, labels
// and help, and no others. The go_* are the library's.
func TestMetricsDocument(t *testing.T) {
	source, err := os.ReadFile("../docs/interface/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(source)) {
		if strings.HasPrefix(line, "| `") {
			have = append(have, strings.TrimSpace(line))
		}
	}
	slices.Sort(have)
	synctest.Test(t, func(t *testing.T) {
		h := startKeeping(t, hybrid, nil, &kept{copies: map[kvcache.Key][]byte{}})
		defer h.stop()
		h.m.SetCopies(func() Copies { return Copies{} })
		h.m.SetEvents(func() Events { return Events{} })
		h.m.SetTransfers(func() Transfers { return Transfers{} })
		h.m.Used("", 1, 1)
		h.run(t, ask(1, 10, 1))
		h.m.SetStores(map[string]func() Store{"feedback": func() Store { return Store{Commits: 1} }})
		h.m.SetMemory(memory.New(1, 0))
		h.m.SetCredentials(func() bool { return false })
		h.m.SetSinks(func() []Sink { return []Sink{{Sink: "nats://localhost/WEIR", Feed: "feedback"}} })
		h.m.SetTraces(func() Spans { return Spans{} })
		h.m.SetTLS(time.Now, func() bool { return false })
		h.m.HandshakeFailed(HandshakePlain)
		h.m.SetConnections(func() Sockets { return Sockets{} })
		h.m.Answered(Request{Method: "POST", Handler: "/x", Status: 200})
		var want []string
		p := scrape(t, h.m, true)
		for name, f := range p {
			if strings.HasPrefix(name, "go_") || strings.HasSuffix(name, "_created") {
				continue
			}
			checkCreated(t, p, name, f)
			labels := map[string]bool{}
			for _, m := range f.Metric {
				for _, l := range m.Label {
					labels[l.GetName()] = true
				}
			}
			want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp()))
		}
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("want\n%s", strings.Join(want, "\n"))
		}
	})
}

// checkCreated: a series that vLLM has, and that is no gauge, has NAME_created beside it.
func checkCreated(t *testing.T, p page, name string, f *dto.MetricFamily) {
	t.Helper()
	kind := f.GetType()
	if kind == dto.MetricType_GAUGE || !strings.HasPrefix(name, "vllm:") && !strings.HasPrefix(name, "http_") {
		return
	}
	if kind == dto.MetricType_COUNTER {
		name = strings.TrimSuffix(name, "_total")
	}
	if created := p[name+"_created"]; created == nil || len(created.Metric) != len(f.Metric) || created.Metric[0].Gauge.GetValue() < 1 {
		t.Errorf("%s_created is %v", name, created)
	}
}

// TestAdmission: requests that a full engine refuses count under vLLM's name, those that are
// refused for another reason do not.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		h.m.Rejected(EngineFull)
		h.m.Rejected(QueueFull)
		h.m.Rejected(QueuedTokens)
		h.m.Rejected(QueuedTokens)
		h.m.Rejected(QueueTime)
		if n := scrape(t, h.m, false).value(t, "vllm:admission_rejections_total", "reason=max_num_queued_tokens"); n != 2 {
			t.Errorf("%v requests were refused for their tokens, want 2", n)
		}
		if n := scrape(t, h.m, false).value(t, "vllm:admission_rejections_total", "reason=max_num_queued_reqs"); n != 1 {
			t.Errorf("%v refusals", n)
		}
	})
}
