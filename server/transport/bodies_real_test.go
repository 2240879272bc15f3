package transport_test

import (
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/server/servertest"
)

// slowServer has room for four of the largest bodies, and a clock that the test moves.
func slowServer(t *testing.T) (h *testServer, pass func(time.Duration)) {
	var now atomic.Int64
	now.Store(time.Unix(1_772_900_001, 0).UnixNano())
	h = newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.MaxBody, s.Config.MaxBodies = 1<<20, 4<<20
	})
	h.SetClock(func() time.Time { return time.Unix(0, now.Load()) })
	return h, func(d time.Duration) { now.Add(int64(d)) }
}

// rawFrom connects from one of the addresses that this machine has for itself.
func (h *testServer) rawFrom(t *testing.T, address string) *servertest.Raw {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only 127.0.0.1 is an address of this machine")
	}
	dial := h.Dial
	defer func() { h.Dial = dial }()
	h.Dial = func() (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", h.Addr)
	}
	return h.Raw(t)
}

// slowly begins a body of the largest size from an address, sends most of it, and waits
// until the server has it.
func slowly(t *testing.T, h *testServer, address string) *servertest.Raw {
	t.Helper()
	before := h.Instance.Transport().Held().Bodies
	c := h.rawFrom(t, address)
	c.Send(servertest.Post(1<<20) + strings.Repeat(" ", 900<<10))
	servertest.WaitFor(t, "the body", func() bool { return h.Instance.Transport().Held().Bodies >= before+900<<10 })
	return c
}

// Clients that send a byte now and then hold all the memory there is for bodies. Another
// client gets the memory of the slowest, and is answered.
func TestDrippingBodies(t *testing.T) {
	h, pass := slowServer(t)
	var slow []*servertest.Raw
	for _, address := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"} {
		slow = append(slow, slowly(t, h, address))
	}
	pass(2 * time.Second)
	body := servertest.Body(t, map[string]any{"user": strings.Repeat("x", 500_000)})
	if status, answer, _ := h.Get("POST", servertest.ChatPath, body); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	ended := 0
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.R.Peek(1); err != nil {
			c.Close()
			continue
		}
		ended++
		status, answer, _ := c.Answer()
		servertest.Refused(t, status, answer, 408, "")
		c.Ended()
	}
	if ended != 1 {
		t.Errorf("%d bodies were ended, want 1", ended)
	}
}

// One address holds as much as it leaves to others, who are not kept out by it.
func TestBodiesOfOneAddress(t *testing.T) {
	h, _ := slowServer(t)
	slowly(t, h, "127.0.0.2")
	slowly(t, h, "127.0.0.2")
	c := h.rawFrom(t, "127.0.0.2")
	c.Send(servertest.Post(1<<20) + strings.Repeat(" ", 900<<10))
	status, answer, header := c.Answer()
	servertest.Refused(t, status, answer, 503, "")
	if header.Get("Retry-After") == "" {
		t.Errorf("%v", header)
	}
	body := servertest.Body(t, map[string]any{"user": strings.Repeat("x", 900_000)})
	if status, answer, _ := h.Get("POST", servertest.ChatPath, body); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// A body that begins fast and then drips is cut off after the window, and long before the
// time for the whole body is over.
func TestLeastRate(t *testing.T) {
	h, pass := slowServer(t)
	c := slowly(t, h, "127.0.0.2")
	for range 100 { // the first window has enough; when it ends depends on when the server reads
		pass(11 * time.Second)
		if _, err := c.Write([]byte("x")); err != nil {
			break
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.R.Peek(1); err == nil {
			break
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	status, answer, header := c.Answer()
	servertest.Refused(t, status, answer, 408, "")
	if header.Get("Connection") != "close" {
		t.Errorf("%v", header)
	}
	c.Ended()
}

// With keys, who has sent a body is told by its key and not by its address.
func TestBodiesOfOneKey(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.MaxBody, s.Config.MaxBodies = 1<<20, 4<<20
		s.Config.APIKeys = []string{"greedy", "other"}
	})
	begin := func(key string) *servertest.Raw {
		c := h.Raw(t)
		c.Send(servertest.Post(1<<20, "Authorization: Bearer "+key) + strings.Repeat(" ", 900<<10))
		return c
	}
	for held := int64(900 << 10); held < 2<<20; held += 900 << 10 {
		begin("greedy")
		servertest.WaitFor(t, "the body", func() bool { return h.Instance.Transport().Held().Bodies >= held })
	}
	before := h.Instance.Transport().Held().Bodies
	begin("other")
	servertest.WaitFor(t, "the body of another key", func() bool { return h.Instance.Transport().Held().Bodies >= before+900<<10 })
	status, answer, _ := begin("greedy").Answer()
	servertest.Refused(t, status, answer, 503, "")
}
