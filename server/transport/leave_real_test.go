//go:build unix

package transport_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/engine"
	"weir/server/servertest"
	"weir/server/transport"
)

// Whatever a request waits for: when its client leaves, all its resources are released
// within 250 ms.

// leaver is a server whose steps take five milliseconds, for tests of clients that leave.
type leaver struct {
	*testServer
	t    *testing.T
	took time.Duration // what free has measured
}

// soon is how quickly a server has to notice that a client has left.
const soon = 250 * time.Millisecond

func newLeaver(t *testing.T, peeks bool, change func(*servertest.Setup)) *leaver {
	h := newServer(t, func(s *servertest.Setup) {
		s.TCP, s.Config.PollClients = true, peeks
		if change != nil {
			change(s)
		}
	})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	return &leaver{testServer: h, t: t}
}

// send sends a request for 900 tokens, with more fields.
func (l *leaver) send(fields map[string]any) *servertest.Raw {
	l.T.Helper()
	all := map[string]any{"max_tokens": 900, "ignore_eos": true}
	for k, v := range fields {
		all[k] = v
	}
	body := servertest.Body(l.t, all)
	r := l.Raw(l.t)
	r.Send(servertest.Post(len(body)) + body)
	return r
}

// free makes the client leave and measures the time until done returns true.
func (l *leaver) free(r *servertest.Raw, how string, done func() bool) {
	l.T.Helper()
	begin := time.Now()
	switch how {
	case "close":
		r.Close()
	case "half-close":
		r.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case "reset":
		beneath(r.Conn).SetLinger(0)
		beneath(r.Conn).Close()
	case "end": // of the socket, without that of TLS
		beneath(r.Conn).CloseWrite()
	}
	servertest.WaitFor(l.t, "release", done)
	l.took = time.Since(begin)
	// A half-closed connection gets no answer and is closed.
	if how == "half-close" {
		if _, err := io.Copy(io.Discard, r.R); err != nil {
			l.T.Error(err)
		}
	}
}

// beneath is the socket of a client's connection.
func beneath(c net.Conn) *net.TCPConn {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	return c.(*net.TCPConn)
}

func TestLeave(t *testing.T) {
	stages := []struct {
		name  string
		leave func(l *leaver, how string)
		setup func(*servertest.Setup)
	}{
		{"reading the body", leaveReading, nil},
		{"queued to prepare", leaveQueued, func(s *servertest.Setup) { s.Config.PrepareWorkers = 1 }},
		{"preparing", leavePreparing, nil},
		{"queued at the engine", leaveWaiting, func(s *servertest.Setup) { s.Spec.MaxSeqs = 1 }},
		{"decoding", leaveDecoding(map[string]any{}), nil},
		{"decoding, streaming", leaveDecoding(map[string]any{"stream": true}), nil},
		{"a batch of completions", leaveTexts(false), nil},
		{"a batch of completions, streaming", leaveTexts(true), nil},
		{"a batch of completions, in part waiting", leaveTexts(true), func(s *servertest.Setup) { s.Spec.MaxSeqs = 3 }},
		{"decoding, n 3", leaveDecoding(map[string]any{"stream": true, "n": 3, "temperature": 1}), nil},
	}
	for _, c := range []struct {
		how   string
		peeks bool
	}{{"close", false}, {"half-close", false}, {"reset", false}, {"close", true}} {
		for _, s := range stages {
			t.Run(fmt.Sprintf("%s/%s/peek %v", s.name, c.how, c.peeks), func(t *testing.T) {
				// The machine may be busy with something else: one of three tries is enough.
				for try := 1; ; try++ {
					l := newLeaver(t, c.peeks, s.setup)
					s.leave(l, c.how)
					l.Stop()
					if l.took <= soon {
						return
					}
					if try == 3 {
						t.Fatalf("free after %v", l.took)
					}
				}
			})
		}
	}
}

func leaveReading(l *leaver, how string) {
	t := l.t
	r := l.Raw(t)
	r.Send(servertest.Post(100_000) + strings.Repeat("x", 50_000))
	servertest.WaitFor(t, "the body", func() bool { return l.Instance.Transport().Held().Bodies > 40_000 })
	l.free(r, how, func() bool { return l.Instance.Transport().Held().Bodies == 0 })
}

func leaveQueued(l *leaver, how string) {
	t := l.t
	gate, entered := make(chan struct{}), make(chan struct{}, 2)
	id := l.NewID()
	l.SetNewID(func() string { entered <- struct{}{}; <-gate; return id() })
	first := l.send(map[string]any{"stream": true})
	<-entered // the worker has it: a body that is read may still be overtaken
	r := l.send(nil)
	servertest.WaitFor(t, "the queue", func() bool { return l.Instance.Transport().Queue().Waiting() == 1 })
	l.free(r, how, func() bool {
		return l.Instance.Transport().Queue().Waiting() == 0 && l.Log.Times(transport.LogFailed) == 1
	})
	close(gate)
	first.Close()
	servertest.WaitFor(t, "the end", func() bool { return l.Instance.Transport().Held().Bodies == 0 && l.NoBlocks() })
	if n := l.Log.Times(transport.LogSubmitted); n > 1 {
		t.Errorf("%d requests submitted", n)
	}
}

// The worker cannot be stopped, but what it prepared does not reach the engine.
func leavePreparing(l *leaver, how string) {
	t := l.t
	gate, entered := make(chan struct{}), make(chan struct{})
	id := l.NewID()
	l.SetNewID(func() string { close(entered); <-gate; return id() })
	r := l.send(nil)
	<-entered
	l.free(r, how, func() bool { return l.Instance.Transport().Held().Bodies == 0 && l.Log.Times(transport.LogFailed) == 1 })
	close(gate)
	l.Idle()
	if n := l.Log.Times(transport.LogSubmitted); n != 0 {
		t.Errorf("%d requests submitted", n)
	}
}

func leaveWaiting(l *leaver, how string) {
	t := l.t
	runs := l.send(map[string]any{"stream": true})
	servertest.WaitFor(t, "the first", func() bool { return l.Engine.Stats().Running == 1 })
	r := l.send(map[string]any{"stream": true})
	servertest.WaitFor(t, "the second", func() bool { return l.Engine.Stats().Waiting == 1 })
	l.free(r, how, func() bool { return l.Engine.Stats().Waiting == 0 })
	if l.Engine.Stats().Running != 1 {
		t.Error("the other one was ended, too")
	}
	runs.Close()
	servertest.WaitFor(t, "the end", l.NoBlocks)
}

func leaveDecoding(fields map[string]any) func(*leaver, string) {
	return func(l *leaver, how string) {
		t := l.t
		r := l.send(fields)
		servertest.WaitFor(t, "some tokens", func() bool { return l.Engine.Stats().GenerationTokens > 5 })
		l.free(r, how, l.NoBlocks)
		if n := l.Engine.Stats().GenerationTokens; n > 800 {
			t.Errorf("%d tokens: it ran to its end", n)
		}
	}
}

// Clients that leave a Unix socket are noticed, too.
func TestLeaveUnix(t *testing.T) {
	for _, peeks := range []bool{false, true} {
		for _, how := range []string{"close", "half-close"} {
			for name, leave := range map[string]func(*leaver, string){"reading": leaveReading, "decoding": leaveDecoding(map[string]any{"stream": true})} {
				for try := 1; ; try++ {
					l := newLeaver(t, peeks, func(s *servertest.Setup) { s.Unix = true })
					leave(l, how)
					l.Stop()
					if l.took <= soon {
						break
					}
					if try == 3 {
						t.Fatalf("%s, %s, peek %v: free after %v", name, how, peeks, l.took)
					}
				}
			}
		}
	}
}

// leaveTexts: all requests of a batch end, those too that have not begun.
func leaveTexts(stream bool) func(*leaver, string) {
	return func(l *leaver, how string) {
		t := l.t
		body := servertest.TextBody(t, map[string]any{"prompt": []string{"a", "b", "c"}, "n": 2, "temperature": 1, "max_tokens": 900, "ignore_eos": true, "stream": stream})
		r := l.Raw(t)
		r.Send(servertest.PostTo(servertest.TextPath, len(body)) + body)
		servertest.WaitFor(t, "some tokens", func() bool { return l.Engine.Stats().GenerationTokens > 12 })
		l.free(r, how, l.NoBlocks)
		servertest.WaitFor(t, "the count", func() bool { return l.Engine.Stats().Finished[engine.Aborted] == 6 })
	}
}

// A connection without a file descriptor is not watched: there a failed write shows that the
// client has left.
func TestLeaveInMemory(t *testing.T) {
	h := newServer(t, nil)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	body := servertest.Body(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": true})
	r := h.Raw(t)
	r.Send(servertest.Post(len(body)) + body)
	gate <- struct{}{}
	if _, err := r.R.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Close()
	steps := 0
	for !h.NoBlocks() {
		select {
		case gate <- struct{}{}:
			if steps++; steps > 850 {
				t.Fatal("the request runs to its end")
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	close(gate)
}

// C147: hundreds of clients leave in the middle of their answers.
func TestC147AbortStorm(t *testing.T) {
	const clients = 200
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true })
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			body := servertest.Body(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": i%4 != 0, "user": fmt.Sprint(i)})
			c, err := h.Dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, servertest.Post(len(body))+body)
			c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			n, _ := io.Copy(io.Discard, c)
			if i%4 == 0 && n != 0 {
				t.Errorf("client %d: an answer already", i)
			}
		})
	}
	wg.Wait()
	begin := time.Now()
	h.Complete(t, nil)
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("a short request took %v", d)
	}
	servertest.WaitFor(t, "all blocks", h.NoBlocks)
	if n := h.Log.Times(transport.LogSubmitted); n < clients {
		t.Errorf("%d of %d requests reached the engine", n, clients)
	}
}

// A client that does not read is cut off, and does not delay others.
func TestSlowReader(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.WriteTimeout = 300 * time.Millisecond
		s.Config.MaxLogprobs = -1
	})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End { // or the answer may be complete before the client is cut off
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	body := servertest.Body(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": true, "logprobs": true, "top_logprobs": servertest.Vocabulary})
	c, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(c, servertest.Post(len(body))+body)
	servertest.WaitFor(t, "its first tokens", func() bool { return h.Engine.Stats().GenerationTokens > 2 })
	begin := time.Now()
	h.Complete(t, nil)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("another client waited %v", d)
	}
	servertest.WaitFor(t, "the cut", h.NoBlocks)
	if n := h.Engine.Stats().GenerationTokens; n > 800 {
		t.Errorf("%d tokens were generated for a client that does not read", n)
	}
}
