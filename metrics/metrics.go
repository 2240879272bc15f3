package metrics

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"weir/engine"
)

// ContentType is the content type of what WriteText writes.
const ContentType = string(expfmt.FmtText)

// Reason says why a request was refused although nothing was wrong with it.
type Reason string

// The reasons. Each has its series from the start, so that the first refusal shows as an
// increase.
const (
	EngineFull  Reason = "engine_full"
	QueueFull   Reason = "queue_full"
	Memory      Reason = "memory"
	Loading     Reason = "loading"
	Stopping    Reason = "stopping"
	Dead        Reason = "failed"
	Connections Reason = "connections" // too many connections are open
	Uploads     Reason = "uploads"     // too many trajectories are being logged at a time
	StoreBusy   Reason = "store_busy"  // too many writes wait for a database
	DiskFull    Reason = "disk_full"   // there is too little space left
	DiskFailed  Reason = "disk_failed" // the disk did not take a write

	// The limits of a key (package ratelimit).
	KeyRequests    Reason = "key_requests"    // per minute
	KeyTokens      Reason = "key_tokens"      // per minute
	KeyDayTokens   Reason = "key_day_tokens"  // per day
	KeyConcurrency Reason = "key_concurrency" // requests at a time

	// What is waiting.
	QueuedTokens Reason = "queued_tokens" // the prompts that wait are too long
	QueueTime    Reason = "queue_time"    // it would wait for too long
)

var reasons = []Reason{QueuedTokens, QueueTime, KeyRequests, KeyTokens, KeyDayTokens, KeyConcurrency, EngineFull, QueueFull, Memory, Loading, Stopping, Dead, Connections, Uploads, StoreBusy, DiskFull, DiskFailed}

// otherReason stands for reasons without a series of their own. It has none until it is needed.
const otherReason Reason = "other"

// refusals are requests that were refused as EngineFull, and as QueuedTokens.
type refusals struct{ places, prompts atomic.Uint64 }

// Metrics are the series of a server. Its methods may be called from any goroutine.
type Metrics struct {
	created  float64 // when counting began, in seconds since 1970
	registry *prometheus.Registry
	runtime  runtimePage
	engine   atomic.Pointer[series] // nil: no model yet

	requests                    *prometheus.CounterVec
	duration                    *prometheus.HistogramVec
	durationFine                prometheus.Histogram
	requestBytes, responseBytes *prometheus.SummaryVec

	rejected                                   *prometheus.CounterVec
	full                                       refusals
	watched                                    atomic.Int64 // see Watch
	logged, loggedBytes, recorded, lost, unset prometheus.Counter
	called, callsLost                          prometheus.Counter
	handshakes                                 *prometheus.CounterVec // nil: there is no TLS
	projects                                   projects
}

// New returns the series of a server that has no model yet.
func New() *Metrics {
	m := &Metrics{created: float64(time.Now().UnixNano()) / 1e9, registry: prometheus.NewRegistry()}
	m.projects.counts = map[string]*projectCounts{}
	m.runtime.registry = prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	// Names, labels and buckets are those of prometheus-fastapi-instrumentator, which vLLM
	// uses for its HTTP interface.
	m.requests = counter("http_requests_total", "Total number of requests by method, status and handler.", "method", "status", "handler")
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_request_duration_seconds",
		Help: "Latency by handler and method, to the end of the answer.", Buckets: []float64{.1, .5, 1}}, []string{"handler", "method"})
	m.durationFine = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "http_request_duration_highr_seconds", Help: "Latency of all requests, in many buckets.",
		Buckets: []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}})
	m.requestBytes = prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "http_request_size_bytes", Help: "Content length of requests by handler; 0 where there is none."}, []string{"handler"})
	m.responseBytes = prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "http_response_size_bytes", Help: "Content length of answers by handler; 0 for a stream."}, []string{"handler"})

	m.rejected = counter("weir:rejected_requests_total", "Requests refused although nothing was wrong with them, by reason.", "reason")
	for _, r := range reasons {
		m.rejected.WithLabelValues(string(r))
	}
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m.logged = one("weir:trajectories_logged_total", "Trajectories that clients have logged.")
	m.loggedBytes = one("weir:trajectory_bytes_total", "Bytes of the requests that logged trajectories.")
	m.recorded = one("weir:completions_recorded_total", "Chat completions kept as trajectories.")
	m.lost = one("weir:completions_lost_total", "Chat completions that should have been recorded and were lost.")
	m.called = one("weir:completion_calls_total", "Chat completions written as calls.")
	m.callsLost = one("weir:completion_calls_lost_total", "Chat completions that should have been written as calls and were lost.")
	m.unset = one("weir:rewards_unset_total", "Feedback of the type reward that set no reward: malformed, for a choice or a project that the completion does not have, or for one that was not recorded within a day.")
	m.registry.MustRegister(m.logged, m.loggedBytes, m.recorded, m.lost, m.unset, m.called, m.callsLost)
	m.registry.MustRegister(m.requests, m.duration, m.durationFine, m.requestBytes, m.responseBytes, m.rejected)
	m.runtime.registry.MustRegister(collectors.NewGoCollector(), newProcess())
	return m
}

// Model is what the series have to know about a model.
type Model struct {
	Name      string // the label model_name
	MaxLen    int    // tokens, at least 1
	CacheType string // of keys and values; "": unknown
}

// SetEngine makes e, which must be ready, the engine whose series are shown. They begin at
// 0.
func (m *Metrics) SetEngine(e *engine.Engine, about Model) {
	s := newSeries(e, about, &m.full, m.created)
	s.watched = &m.watched
	e.Observe(s.observe)
	m.engine.Store(s)
}

// Request is an HTTP request that has been answered.
type Request struct {
	Method, Handler             string // Handler is the path of its route, or "none"
	Status                      int
	Took                        time.Duration
	RequestBytes, ResponseBytes int // less than 0: unknown
}

// quiet are the handlers that other programs call every few seconds. They are not counted,
// as in vLLM. /v1/live is not either: its answers last for hours, and would spoil the times of all others.
var quiet = map[string]bool{"/metrics": true, "/health": true, "/load": true, "/loads": true, "/v1/loads": true, "/get_load": true, "/health_generate": true, "/ping": true, "/ready": true, "/version": true, "/server_info": true, "/v1/live": true}

// Answered counts a request.
func (m *Metrics) Answered(r Request) {
	if quiet[r.Handler] {
		return
	}
	switch r.Method {
	case "GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS":
	default: // a client may send any word, and every word would be a series
		r.Method = "other"
	}
	m.requests.WithLabelValues(r.Method, strconv.Itoa(r.Status/100)+"xx", r.Handler).Inc()
	m.duration.WithLabelValues(r.Handler, r.Method).Observe(r.Took.Seconds())
	m.durationFine.Observe(r.Took.Seconds())
	m.requestBytes.WithLabelValues(r.Handler).Observe(float64(max(0, r.RequestBytes)))
	m.responseBytes.WithLabelValues(r.Handler).Observe(float64(max(0, r.ResponseBytes)))
}

// Rejected counts a request that was refused. A reason that is not in the list counts as
// otherReason, so that there is a bound on the number of series.
func (m *Metrics) Rejected(r Reason) {
	if !slices.Contains(reasons, r) {
		r = otherReason
	}
	m.rejected.WithLabelValues(string(r)).Inc()
	switch r {
	case EngineFull:
		m.full.places.Add(1)
	case QueuedTokens:
		m.full.prompts.Add(1)
	}
}

// WriteText writes all series in the text format of Prometheus. Of the series by project it
// writes those for which shows returns true, and none if shows is nil. The project "" stands
// for requests without one, and "other" for all projects that have no series of their own.
func (m *Metrics) WriteText(w io.Writer, shows func(project string) bool) error {
	families, err := m.registry.Gather()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	b := make([]byte, 0, 64<<10)
	if s := m.engine.Load(); s != nil {
		b = s.append(b)
	}
	if shows != nil {
		b = m.projects.append(b, shows)
	}
	about, err := m.runtime.page(time.Now())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	for _, part := range [][]byte{b, about} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	enc := expfmt.NewEncoder(w, expfmt.FmtText)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		if c := m.creation(f); c != nil {
			if err := enc.Encode(c); err != nil {
				return fmt.Errorf("metrics: %w", err)
			}
		}
	}
	return nil
}

// creation returns the family NAME_created with the time since when f counts, as Python's
// client of Prometheus writes it, and with it vLLM; nil for a gauge, and for series that vLLM
// does not have, which no program for vLLM reads.
func (m *Metrics) creation(f *dto.MetricFamily) *dto.MetricFamily {
	if f.GetType() == dto.MetricType_GAUGE || !strings.HasPrefix(f.GetName(), "http_") {
		return nil
	}
	name, help, gauge := f.GetName(), f.GetHelp(), dto.MetricType_GAUGE
	if f.GetType() == dto.MetricType_COUNTER {
		name = strings.TrimSuffix(name, "_total")
	}
	name += "_created"
	c := &dto.MetricFamily{Name: &name, Help: &help, Type: &gauge, Metric: make([]*dto.Metric, len(f.Metric))}
	for i, s := range f.Metric {
		c.Metric[i] = &dto.Metric{Label: s.Label, Gauge: &dto.Gauge{Value: &m.created}}
	}
	return c
}
