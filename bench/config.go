package bench

import (
	"context"
	"fmt"
	"math"
	"net"
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

// ServeConfig says which load RunServe puts on which server.
type ServeConfig struct {
	BaseURL  string // with or without /v1
	Model    string // "": the server's first
	APIKey   string // "": none
	Endpoint Endpoint

	NumPrompts     int
	Rate           float64 // requests per second; +Inf: all at once
	Burstiness     float64 // shape of the gamma distribution of the intervals; 1: a Poisson process, +Inf: even
	MaxConcurrency int     // largest number of requests in flight; 0: no limit, an open loop
	Seed           uint64  // of the schedule and of random prompts
	Warmups        int     // requests that are sent before the run, all at once, and not measured

	Prompts []Prompt // used in turn; none: random prompts
	Random  Random   // what random prompts are like

	IgnoreEOS   bool
	Temperature *float64            // nil: the server's default
	ExtraBody   jsontext.RawMessage // object whose fields are added to each request

	Metrics     []string  // which of ttft, tpot, itl and e2el to report
	Percentiles []float64 // of these, in [0, 100]
	Goodput     Goodput
	KeepText    bool // keep the texts of the answers

	ReadyTimeout time.Duration // how long to wait for a server that does not answer yet

	// Dial connects to the server; nil: through the operating system.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DefaultServeConfig has the defaults of vLLM's benchmark.
func DefaultServeConfig() ServeConfig {
	return ServeConfig{
		BaseURL: "http://127.0.0.1:8000", Endpoint: Chat, NumPrompts: 1000, Rate: math.Inf(1), Burstiness: 1,
		Random: Random{InputLen: 1024, OutputLen: 128}, Metrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99},
	}
}

const (
	maxPrompts  = 1 << 24
	maxSchedule = 365 * 24 * time.Hour
)

// Validate returns an error if RunServe would refuse the configuration.
func (c *ServeConfig) Validate() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("bench: base URL %q is no http or https URL", c.BaseURL)
	case c.Endpoint != Chat && c.Endpoint != Completions:
		return fmt.Errorf("bench: unknown endpoint %q", c.Endpoint)
	case c.NumPrompts < 1 || c.NumPrompts > maxPrompts:
		return fmt.Errorf("bench: %d prompts, not 1 to %d", c.NumPrompts, maxPrompts)
	case !(c.Rate > 0):
		return fmt.Errorf("bench: a request rate of %v", c.Rate)
	case float64(c.NumPrompts)/c.Rate > maxSchedule.Seconds():
		return fmt.Errorf("bench: %d requests at %v a second take longer than a year", c.NumPrompts, c.Rate)
	case !(c.Burstiness > 0):
		return fmt.Errorf("bench: a burstiness of %v", c.Burstiness)
	case c.MaxConcurrency < 0:
		return fmt.Errorf("bench: a concurrency of %d", c.MaxConcurrency)
	case c.Warmups < 0 || c.Warmups > maxPrompts:
		return fmt.Errorf("bench: %d warm-up requests", c.Warmups)
	}
	if _, err := c.extra(); err != nil {
		return err
	}
	if err := c.validateReport(); err != nil {
		return err
	}
	if len(c.Prompts) > 0 {
		return nil
	}
	return c.Random.validate()
}

func (c *ServeConfig) validateReport() error {
	for _, m := range c.Metrics {
		if _, known := metricNames[m]; !known {
			return fmt.Errorf("bench: unknown metric %q; there are ttft, tpot, itl and e2el", m)
		}
	}
	for _, p := range c.Percentiles {
		if !(p >= 0 && p <= 100) {
			return fmt.Errorf("bench: a percentile of %v", p)
		}
	}
	return nil
}

func (r *Random) validate() error {
	for _, n := range []int{r.InputLen, r.OutputLen, r.PrefixLen} {
		if n < 0 || n > maxPrompts {
			return fmt.Errorf("bench: a random length of %d", n)
		}
	}
	if !(r.RangeRatio >= 0 && r.RangeRatio < 1) {
		return fmt.Errorf("bench: a range ratio of %v, not in [0, 1)", r.RangeRatio)
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
