package bench

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// Endpoint is the function of the server that a load calls.
type Endpoint string

// The endpoints, with the names that vLLM's benchmark gives them in results.
const (
	Chat        Endpoint = "openai-chat" // /v1/chat/completions
	Completions Endpoint = "openai"      // /v1/completions
)

func (e Endpoint) path() string {
	if e == Chat {
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

// Target is a server that is measured.
type Target struct {
	BaseURL  string // with or without /v1
	Model    string // "": the server's first
	APIKey   string // "": none
	Header   http.Header
	Insecure bool // do not check the certificate of an https URL
	Endpoint Endpoint
	Path     string // "": that of the endpoint

	ReadyTimeout time.Duration // how long to wait for a server that does not answer yet

	// Dial connects to the server; nil: through the operating system.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (t *Target) path() string {
	if t.Path != "" {
		return t.Path
	}
	return t.Endpoint.path()
}

func (t *Target) validate() error {
	u, err := url.Parse(t.BaseURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("bench: base URL %q is no http or https URL", t.BaseURL)
	case t.Endpoint != Chat && t.Endpoint != Completions:
		return fmt.Errorf("bench: unknown endpoint %q", t.Endpoint)
	case t.Path != "" && !strings.HasPrefix(t.Path, "/"):
		return fmt.Errorf("bench: the path %q does not begin with a slash", t.Path)
	}
	return nil
}

// Load says how many requests are sent, and when.
type Load struct {
	NumPrompts int
	Rate       float64 // requests per second; +Inf: all at once
	Burstiness float64 // shape of the gamma distribution of the intervals; 1: a Poisson process, +Inf: even
	Ramp       Ramp    // in place of Rate
	SelfTimed  bool    // prompts say themselves when they are due; in place of Rate

	MaxConcurrency int    // largest number of requests in flight; 0: no limit, an open loop
	Seed           uint64 // of the schedule, of prompts, and of who leaves
	// Variant changes the words of prompts that are made up, and nothing else: neither their lengths nor
	// the schedule. Two servers get different variants, so that neither answers from the cache of the other
	// where they share one.
	Variant uint64
	Warmups int // requests that are sent before the run, all at once, and not measured
	Leave   Leave
}

// Leave says which clients leave before their answer has ended.
type Leave struct {
	Percent float64 // of the requests, drawn from the seed
	// Within is the longest time after which they leave, drawn evenly from 0 on. 0: they leave after a number
	// of events that is drawn evenly from 0 to the largest length of the answer, where 0 is as soon as the
	// request has been written.
	Within time.Duration
}

// Open reports whether requests are due at times that do not depend on answers, so that latencies can be
// measured from those times.
func (l *Load) Open() bool { return !math.IsInf(l.Rate, 1) || l.Ramp.Strategy != "" || l.SelfTimed }

func (l *Load) validate() error {
	switch {
	case l.NumPrompts < 1 || l.NumPrompts > maxPrompts:
		return fmt.Errorf("bench: %d prompts, not 1 to %d", l.NumPrompts, maxPrompts)
	case !(l.Rate > 0):
		return fmt.Errorf("bench: a request rate of %v", l.Rate)
	case float64(l.NumPrompts)/l.Rate > maxSchedule.Seconds():
		return fmt.Errorf("bench: %d requests at %v a second take longer than a year", l.NumPrompts, l.Rate)
	case !(l.Burstiness > 0):
		return fmt.Errorf("bench: a burstiness of %v", l.Burstiness)
	case l.MaxConcurrency < 0:
		return fmt.Errorf("bench: a concurrency of %d", l.MaxConcurrency)
	case l.Warmups < 0 || l.Warmups > maxPrompts:
		return fmt.Errorf("bench: %d warm-up requests", l.Warmups)
	case !(l.Leave.Percent >= 0 && l.Leave.Percent <= 100) || l.Leave.Within < 0:
		return fmt.Errorf("bench: %v %% of the clients leave within %v", l.Leave.Percent, l.Leave.Within)
	case l.Ramp.Strategy != "" && (!math.IsInf(l.Rate, 1) || l.SelfTimed):
		return fmt.Errorf("bench: a ramp takes the place of a request rate and of a trace's times")
	case l.SelfTimed && !math.IsInf(l.Rate, 1):
		return fmt.Errorf("bench: a trace's times take the place of a request rate")
	}
	return l.Ramp.validate(l.NumPrompts)
}

// ServeConfig says which load RunServe puts on which server.
type ServeConfig struct {
	Target
	Load
	Data Data // where prompts come from

	IgnoreEOS   bool
	NoUsage     bool                // do not ask for usage at the end of a stream
	Temperature *float64            // nil: the server's default
	ExtraBody   jsontext.RawMessage // object whose fields are added to each request

	Metrics     []string  // which of ttft, tpot, itl, e2el, client_queue_time and e2el_including_client_queue to report
	Percentiles []float64 // of these, in [0, 100]
	Goodput     Goodput
	KeepText    bool // keep the texts of the answers

	Label    string      // of the results; "": none
	Metadata [][2]string // names and values that are saved with the results

	// Progress is told now and then how far the run is; nil: nobody is told.
	Progress func(Progress)
}

// DefaultServeConfig has the defaults of vLLM's benchmark.
func DefaultServeConfig() ServeConfig {
	return ServeConfig{
		Target:  Target{BaseURL: "http://127.0.0.1:8000", Endpoint: Chat},
		Load:    Load{NumPrompts: 1000, Rate: math.Inf(1), Burstiness: 1},
		Data:    DefaultRandom(),
		Metrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99},
	}
}

const (
	maxPrompts  = 1 << 24
	maxSchedule = 365 * 24 * time.Hour
)

// Validate returns an error if RunServe would refuse the configuration.
func (c *ServeConfig) Validate() error {
	if err := c.Target.validate(); err != nil {
		return err
	}
	if err := c.Load.validate(); err != nil {
		return err
	}
	if _, err := c.extra(); err != nil {
		return err
	}
	if err := c.validateReport(); err != nil {
		return err
	}
	if c.Data == nil {
		return fmt.Errorf("bench: no data")
	}
	return c.Data.validate()
}

func (c *ServeConfig) validateReport() error {
	for _, m := range c.Metrics {
		if _, known := metricNames[m]; !known {
			return fmt.Errorf("bench: unknown metric %q; there are %s", m, strings.Join(metricOrder, ", "))
		}
	}
	for _, p := range c.Percentiles {
		if !(p >= 0 && p <= 100) {
			return fmt.Errorf("bench: a percentile of %v", p)
		}
	}
	return nil
}

// Goodput says which requests are good ones: those whose times are at most these. 0 in a
// field is no condition.
type Goodput struct {
	TTFT, TPOT, E2EL float64 // milliseconds
}

// ParseGoodput reads conditions of the form ttft:500, tpot:50 and e2el:10000.
func ParseGoodput(conditions []string) (g Goodput, err error) {
	for _, c := range conditions {
		name, value, _ := strings.Cut(c, ":")
		field, ok := map[string]*float64{"ttft": &g.TTFT, "tpot": &g.TPOT, "e2el": &g.E2EL}[name]
		if !ok {
			return g, fmt.Errorf("bench: goodput %q is not about ttft, tpot or e2el", c)
		}
		if *field, err = strconv.ParseFloat(value, 64); err != nil || !(*field > 0) {
			return g, fmt.Errorf("bench: goodput %q is not a name, a colon and milliseconds", c)
		}
	}
	return g, nil
}

// String lists the conditions as ParseGoodput reads them.
func (g Goodput) String() string {
	var list []string
	for _, c := range []struct {
		name  string
		value float64
	}{{"ttft", g.TTFT}, {"tpot", g.TPOT}, {"e2el", g.E2EL}} {
		if c.value > 0 {
			list = append(list, c.name+":"+decimal(c.value))
		}
	}
	return strings.Join(list, " ")
}
