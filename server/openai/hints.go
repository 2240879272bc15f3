package openai

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/failure"
	"weir/server/transport"
)

// hints are the headers by which load balancers talk to an engine
// (docs/interface/chat-completions.md, section 1.3).
type hints struct {
	rank string // X-data-parallel-rank
	load string // endpoint-load-metrics-format
}

// read copies them out of the headers.
func (h *hints) read(header *fasthttp.RequestHeader) {
	h.rank = string(header.Peek("X-data-parallel-rank"))
	h.load = string(header.Peek("endpoint-load-metrics-format"))
}

// check refuses a request that is meant for another engine than the only one, which has
// rank 0. A rank that is not an integer is ignored.
func (h *hints) check() *api.Error {
	if n, err := strconv.Atoi(strings.TrimSpace(h.rank)); err == nil && n != 0 {
		return failure.BadRequest("", "data_parallel_rank %d is out of range [0, 1).", n)
	}
	return nil
}

// loadMetrics adds the engine's load to an answer whose client asked for it.
// The format is that of ORCA (Open Request Cost Aggregation, which Envoy reads), as vLLM
// writes it.
func (h *hints) loadMetrics(c *transport.Call, m *Model) {
	if c.Response.StatusCode() != fasthttp.StatusOK {
		return
	}
	var form string
	switch strings.ToUpper(h.load) {
	case "TEXT":
		form = "TEXT named_metrics.kv_cache_usage_perc=%s, named_metrics.num_requests_waiting=%s"
	case "JSON":
		form = `JSON {"named_metrics": {"kv_cache_usage_perc": %s, "num_requests_waiting": %s}}`
	default:
		return
	}
	st := m.Engine.Stats()
	used := 0.0
	if st.BlocksTotal > 0 {
		used = float64(st.BlocksUsed) / float64(st.BlocksTotal)
	}
	c.Response.Header.Set("endpoint-load-metrics", fmt.Sprintf(form, decimal(used), decimal(float64(st.Waiting))))
}

// decimal formats x with a decimal point in every case, because a client might read 1 as
// an integer.
func decimal(x float64) string {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
