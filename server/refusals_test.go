package server_test

import (
	"testing"

	"weir/server/servertest"
	"weir/server/transport"
)

// TestRefusalsLeaveTraces: a refusal leaves the same traces in all three interfaces: a line of its own in the log,
// its kind in the line of the finished request, and, if nothing was wrong with the
// request, a count.
func TestRefusalsLeaveTraces(t *testing.T) {
	feedback := servertest.NewFeedback(t).Serve(t, func(s *servertest.Setup) { s.Config.LogRequests = true })
	h, archive := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.LogRequests = true })
	archive.Close()
	for _, c := range []struct {
		server          *servertest.Server
		path, body      string
		headers         []string
		status          int
		kind            string
		series, counted string
	}{
		{h, servertest.ChatPath, "{}", []string{"Content-Type: text/plain"}, 400, "content-type", "", ""},
		{h, servertest.AgentPath + "/rewards", "{}", []string{"Content-Type: text/plain"}, 415, "media", "", ""},
		{h, servertest.AgentPath + "/log", servertest.Group(`{}`), nil, 503, "stopping", `weir:rejected_requests_total{reason="stopping"}`, "1"},
		{feedback, "/feedback/query", "{}", []string{"Content-Type: text/plain", servertest.Basic("api", "write")}, 415, "media", "", ""},
		{feedback, "/feedback/query", "{}", nil, 401, "no-key", "", ""},
	} {
		failures, lines := c.server.Log.Times(transport.LogFailed), len(c.server.Log.Lines(transport.LogFinished))
		status, answer, _ := c.server.Get("POST", c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
		servertest.WaitFor(t, "the line", func() bool { return len(c.server.Log.Lines(transport.LogFinished)) > lines })
		if n := c.server.Log.Times(transport.LogFailed) - failures; n != 1 {
			t.Errorf("%s %s: %d lines say why", c.path, c.kind, n)
		}
		if line := c.server.Log.Lines(transport.LogFinished)[lines]; line["error"] != c.kind {
			t.Errorf("%s: %v, want the error %s", c.path, line, c.kind)
		}
		if c.series != "" {
			c.server.Told(c.path, map[string]string{c.series: c.counted})
		}
	}
}
