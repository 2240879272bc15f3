package server_test

import (
	"testing"

	"weir/server/servertest"
	"weir/server/transport"
)

// A refusal leaves the same traces in all three interfaces: a line of its own in the log,
// its kind in the line of the finished request, and, if nothing was wrong with the
// request, a count.
func TestRefusalsLeaveTraces(t *testing.T) {
	o := newOffice(t, func(s *servertest.Setup) { s.Config.LogRequests = true })
	h, l := previewHouse(t, func(s *servertest.Setup) { s.Config.LogRequests = true })
	l.close()
	for _, c := range []struct {
		testServer      *testServer
		path, body      string
		headers         []string
		status          int
		kind            string
		series, counted string
	}{
		{h, servertest.ChatPath, "{}", []string{"Content-Type: text/plain"}, 400, "content-type", "", ""},
		{h, agentPath + "/rewards", "{}", []string{"Content-Type: text/plain"}, 415, "media", "", ""},
		{h, agentPath + "/log", one(`{}`), nil, 503, "stopping", `weir:rejected_requests_total{reason="stopping"}`, "1"},
		{o.testServer, "/feedback/query", "{}", []string{"Content-Type: text/plain", basic("api", "write")}, 415, "media", "", ""},
		{o.testServer, "/feedback/query", "{}", nil, 401, "no-key", "", ""},
	} {
		failures, lines := c.testServer.Log.Times(transport.LogFailed), len(c.testServer.Log.Lines(transport.LogFinished))
		status, answer, _ := c.testServer.Get("POST", c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
		servertest.WaitFor(t, "the line", func() bool { return len(c.testServer.Log.Lines(transport.LogFinished)) > lines })
		if n := c.testServer.Log.Times(transport.LogFailed) - failures; n != 1 {
			t.Errorf("%s %s: %d lines say why", c.path, c.kind, n)
		}
		if line := c.testServer.Log.Lines(transport.LogFinished)[lines]; line["error"] != c.kind {
			t.Errorf("%s: %v, want the error %s", c.path, line, c.kind)
		}
		if c.series != "" {
			c.testServer.Told(c.path, map[string]string{c.series: c.counted})
		}
	}
}
