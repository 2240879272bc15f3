//go:build unix

package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/engine"
	"weir/server/transport"
)

// Decision 18: whatever a request waits for, when its client leaves everything
// it holds is free within 250 ms.

// leaver is a house whose steps take a while, and a client about to leave it.
type leaver struct {
	*house
	t    *testing.T
	took time.Duration
}

// soon is how quickly a server has to notice that a client has left.
const soon = 250 * time.Millisecond

func newLeaver(t *testing.T, peeks bool, change func(*setup)) *leaver {
	h := newHouse(t, func(s *setup) {
		s.tcp, s.peeks = true, peeks
		if change != nil {
			change(s)
		}
	})
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	return &leaver{house: h, t: t}
}

// send sends a request that would go on for long.
func (l *leaver) send(fields map[string]any) *raw {
	l.t.Helper()
	all := map[string]any{"max_tokens": 900, "ignore_eos": true}
	for k, v := range fields {
		all[k] = v
	}
	body := base(l.t, all)
	r := l.raw(l.t)
	r.send(post(len(body)) + body)
	return r
}

// free makes the client leave and measures how long it takes until done.
func (l *leaver) free(r *raw, how string, done func() bool) {
	l.t.Helper()
	begin := time.Now()
	switch how {
	case "close":
		r.Close()
	case "half-close":
		r.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case "reset":
		r.Conn.(*net.TCPConn).SetLinger(0)
		r.Close()
	}
	waitFor(l.t, "release", done)
	l.took = time.Since(begin)
	// A half-closed connection is answered to nobody, and closed.
	if how == "half-close" {
		if _, err := io.Copy(io.Discard, r.r); err != nil {
			l.t.Error(err)
		}
	}
}

func TestLeave(t *testing.T) {
	stages := []struct {
		name  string
		leave func(l *leaver, how string)
		setup func(*setup)
	}{
		{"reading the body", leaveReading, nil},
		{"queued to prepare", leaveQueued, func(s *setup) { s.cfg.PrepareWorkers = 1 }},
		{"preparing", leavePreparing, nil},
		{"queued at the engine", leaveWaiting, func(s *setup) { s.spec.MaxSeqs = 1 }},
		{"decoding", leaveDecoding(map[string]any{}), nil},
		{"decoding, streaming", leaveDecoding(map[string]any{"stream": true}), nil},
		{"a batch of completions", leaveTexts(false), nil},
		{"a batch of completions, streaming", leaveTexts(true), nil},
		{"a batch of completions, in part waiting", leaveTexts(true), func(s *setup) { s.spec.MaxSeqs = 3 }},
		{"decoding, n 3", leaveDecoding(map[string]any{"stream": true, "n": 3, "temperature": 1}), nil},
	}
	for _, c := range []struct {
		how   string
		peeks bool
	}{{"close", false}, {"half-close", false}, {"reset", false}, {"close", true}} {
		for _, s := range stages {
			t.Run(fmt.Sprintf("%s/%s/peek %v", s.name, c.how, c.peeks), func(t *testing.T) {
				// Somebody else may use the machine: once in three is enough.
				for try := 1; ; try++ {
					l := newLeaver(t, c.peeks, s.setup)
					s.leave(l, c.how)
					l.stop()
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
	r := l.raw(t)
	r.send(post(100_000) + strings.Repeat("x", 50_000))
	waitFor(t, "the body", func() bool { return l.srv.http.Held().Bodies > 40_000 })
	l.free(r, how, func() bool { return l.srv.http.Held().Bodies == 0 })
}

func leaveQueued(l *leaver, how string) {
	t := l.t
	gate, entered := make(chan struct{}), make(chan struct{}, 2)
	id := *l.newID.Load()
	l.setNewID(func() string { entered <- struct{}{}; <-gate; return id() })
	first := l.send(map[string]any{"stream": true})
	<-entered // the worker has it: a body that is read may still be overtaken
	r := l.send(nil)
	waitFor(t, "the queue", func() bool { return l.srv.http.Queue().Waiting() == 1 })
	l.free(r, how, func() bool { return l.srv.http.Queue().Waiting() == 0 && l.log.times(transport.LogFailed) == 1 })
	close(gate)
	first.Close()
	waitFor(t, "the end", func() bool { return l.srv.http.Held().Bodies == 0 && l.noBlocks() })
	if n := l.log.times(transport.LogSubmitted); n > 1 {
		t.Errorf("%d requests submitted", n)
	}
}

// The worker cannot be stopped, but what it prepared does not reach the engine.
func leavePreparing(l *leaver, how string) {
	t := l.t
	gate, entered := make(chan struct{}), make(chan struct{})
	id := *l.newID.Load()
	l.setNewID(func() string { close(entered); <-gate; return id() })
	r := l.send(nil)
	<-entered
	l.free(r, how, func() bool { return l.srv.http.Held().Bodies == 0 && l.log.times(transport.LogFailed) == 1 })
	close(gate)
	l.idle()
	if n := l.log.times(transport.LogSubmitted); n != 0 {
		t.Errorf("%d requests submitted", n)
	}
}

func leaveWaiting(l *leaver, how string) {
	t := l.t
	runs := l.send(map[string]any{"stream": true})
	waitFor(t, "the first", func() bool { return l.eng.Stats().Running == 1 })
	r := l.send(map[string]any{"stream": true})
	waitFor(t, "the second", func() bool { return l.eng.Stats().Waiting == 1 })
	l.free(r, how, func() bool { return l.eng.Stats().Waiting == 0 })
	if l.eng.Stats().Running != 1 {
		t.Error("the other one was ended, too")
	}
	runs.Close()
	waitFor(t, "the end", l.noBlocks)
}

func leaveDecoding(fields map[string]any) func(*leaver, string) {
	return func(l *leaver, how string) {
		t := l.t
		r := l.send(fields)
		waitFor(t, "some tokens", func() bool { return l.eng.Stats().GenerationTokens > 5 })
		l.free(r, how, l.noBlocks)
		if n := l.eng.Stats().GenerationTokens; n > 800 {
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
					l := newLeaver(t, peeks, func(s *setup) { s.unix = true })
					leave(l, how)
					l.stop()
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
		body := textBody(t, map[string]any{"prompt": []string{"a", "b", "c"}, "n": 2, "temperature": 1, "max_tokens": 900, "ignore_eos": true, "stream": stream})
		r := l.raw(t)
		r.send(postTo(textPath, len(body)) + body)
		waitFor(t, "some tokens", func() bool { return l.eng.Stats().GenerationTokens > 12 })
		l.free(r, how, l.noBlocks)
		waitFor(t, "the count", func() bool { return l.eng.Stats().Finished[engine.Aborted] == 6 })
	}
}

// Without a descriptor nobody watches: there a failed write tells.
func TestLeaveInMemory(t *testing.T) {
	h := newHouse(t, nil)
	gate := make(chan struct{})
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	body := base(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": true})
	r := h.raw(t)
	r.send(post(len(body)) + body)
	gate <- struct{}{}
	if _, err := r.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Close()
	steps := 0
	for !h.noBlocks() {
		select {
		case gate <- struct{}{}:
			if steps++; steps > 850 {
				t.Fatal("it runs to its end")
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	close(gate)
}

// C147: clients by the hundred that leave in the middle.
func TestC147AbortStorm(t *testing.T) {
	const clients = 200
	h := newHouse(t, func(s *setup) { s.tcp = true })
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			body := base(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": i%4 != 0, "user": fmt.Sprint(i)})
			c, err := h.dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, post(len(body))+body)
			c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			n, _ := io.Copy(io.Discard, c)
			if i%4 == 0 && n != 0 {
				t.Errorf("client %d: an answer already", i)
			}
		})
	}
	wg.Wait()
	begin := time.Now()
	h.complete(t, nil)
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("a short request took %v", d)
	}
	waitFor(t, "all blocks", h.noBlocks)
	if n := h.log.times(transport.LogSubmitted); n < clients {
		t.Errorf("%d of %d requests reached the engine", n, clients)
	}
}

// A client that does not read is cut off; others do not notice.
func TestSlowReader(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.tcp = true; s.cfg.WriteTimeout = 300 * time.Millisecond; s.cfg.MaxLogprobs = -1 })
	body := base(t, map[string]any{"max_tokens": 900, "ignore_eos": true, "stream": true, "logprobs": true, "top_logprobs": vocabulary})
	c, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(c, post(len(body))+body)
	waitFor(t, "its first tokens", func() bool { return h.eng.Stats().GenerationTokens > 2 })
	begin := time.Now()
	h.complete(t, nil)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("somebody else waited %v", d)
	}
	waitFor(t, "the cut", h.noBlocks)
	if n := h.eng.Stats().GenerationTokens; n > 800 {
		t.Errorf("%d tokens were made for nobody", n)
	}
}
