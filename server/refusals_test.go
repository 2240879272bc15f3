package server

import (
	"slices"
	"testing"

	"weir/server/transport"
)

// A refusal leaves the same traces in all three interfaces: a line of its own in the log,
// its kind in the line of the finished request, and, if nothing was wrong with the
// request, a count.
func TestRefusalsLeaveTraces(t *testing.T) {
	o := newOffice(t, func(s *setup) { s.cfg.LogRequests = true })
	h, l := previewHouse(t, func(s *setup) { s.cfg.LogRequests = true })
	l.close()
	for _, c := range []struct {
		house           *house
		path, body      string
		headers         []string
		status          int
		kind            string
		series, counted string
	}{
		{h, chatPath, "{}", []string{"Content-Type: text/plain"}, 400, "content-type", "", ""},
		{h, agentPath + "/rewards", "{}", []string{"Content-Type: text/plain"}, 415, "media", "", ""},
		{h, agentPath + "/log", one(`{}`), nil, 503, "stopping", `weir:rejected_requests_total{reason="stopping"}`, "1"},
		{o.house, "/feedback/query", "{}", []string{"Content-Type: text/plain", basic("api", "write")}, 415, "media", "", ""},
		{o.house, "/feedback/query", "{}", nil, 401, "no-key", "", ""},
	} {
		failures, lines := c.house.log.times(transport.LogFailed), len(c.house.finished())
		status, answer, _ := c.house.get("POST", c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
		waitFor(t, "the line", func() bool { return len(c.house.finished()) > lines })
		if n := c.house.log.times(transport.LogFailed) - failures; n != 1 {
			t.Errorf("%s %s: %d lines say why", c.path, c.kind, n)
		}
		if line := c.house.finished()[lines]; line["error"] != c.kind {
			t.Errorf("%s: %v, want the error %s", c.path, line, c.kind)
		}
		if c.series != "" {
			c.house.told(c.path, map[string]string{c.series: c.counted})
		}
	}
}

// finished are the lines that the log has of finished requests.
func (h *house) finished() []map[string]string {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return slices.Clone(h.log.lines[transport.LogFinished])
}
