package transport_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestConnectionsOfOneAddress: an address has at most as many connections as it leaves to
// others. A connection that is between two requests gives way to a new one; one with a request
// does not, and what is too much is 503.
func TestConnectionsOfOneAddress(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.MaxConnections = 4
	})
	// An answer arrives a moment before its connection is known to wait again. The next one is
	// opened after that: before, it might be refused, or take the place of a later one.
	from := func(address string, open, waiting int) *servertest.Raw {
		t.Helper()
		c := h.rawFrom(t, address)
		c.Send("GET /v1/models HTTP/1.1\r\nHost: weir\r\n\r\n")
		if status, answer, _ := c.Answer(); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		servertest.WaitFor(t, "connections that wait", func() bool {
			held := h.Instance.Transport().Held()
			return held.Connections == open && held.Waiting == waiting
		})
		return c
	}
	first := from("127.0.0.2", 1, 1)
	second := from("127.0.0.2", 2, 2)
	third := from("127.0.0.2", 2, 2)
	first.Ended()
	const length = 100_000
	for i, c := range []*servertest.Raw{second, third} { // begin a request each
		c.Send(servertest.Post(length) + strings.Repeat(" ", length/2))
		servertest.WaitFor(t, "the body", func() bool {
			held := h.Instance.Transport().Held()
			return held.Waiting == 1-i && held.Bodies >= int64(i+1)*length/2
		})
	}
	refused := h.rawFrom(t, "127.0.0.2")
	status, answer, header := refused.Answer()
	servertest.Refused(t, status, answer, 503, "")
	if header.Get("Retry-After") == "" || header.Get("Connection") != "close" {
		t.Errorf("%v", header)
	}
	refused.Ended()
	from("127.0.0.3", 3, 1)
	for _, c := range []*servertest.Raw{second, third} {
		c.Send(strings.Repeat(" ", length/2))
		if status, answer, _ := c.Answer(); status != 400 {
			t.Errorf("%d %s", status, answer)
		}
	}
}
