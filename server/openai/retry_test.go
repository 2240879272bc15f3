package openai_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
)

// crowded is a server that has had some requests, of which each step took a tenth of a second and each
// preparation a second, and whose engine then stands still until open is called.
type crowded struct {
	*testServer
	t       *testing.T
	clients sync.WaitGroup
	open    func()
}

func newCrowded(t *testing.T, change func(*servertest.Setup)) *crowded {
	c := &crowded{t: t, testServer: newServer(t, func(s *servertest.Setup) {
		s.Config.Heartbeat = time.Hour // so that the clock is that of the bubble
		s.Config.PrepareWorkers = 1
		change(s)
	})}
	id := c.NewID()
	c.SetNewID(func() string { time.Sleep(time.Second); return id() }) // in the preparation
	c.SetHook(func(call sim.Call, _ int) error {
		if call == sim.End {
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	})
	for range 3 {
		c.Complete(t, nil)
	}
	gate := make(chan struct{})
	c.open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(c.open)
	c.SetHook(func(call sim.Call, _ int) error {
		if call == sim.End {
			<-gate
		}
		return nil
	})
	return c
}

// send sends requests one after the other, which all have to wait.
func (c *crowded) send(n int, fields map[string]any) {
	for range n {
		c.clients.Go(func() { c.Chat(fields) })
		time.Sleep(time.Millisecond)
	}
}

// retryAfter sends a request that is refused, and returns what Retry-After says.
func (c *crowded) retryAfter(fields map[string]any) int {
	c.t.Helper()
	status, text, header := c.Get("POST", servertest.ChatPath, servertest.Body(c.t, fields))
	servertest.Refused(c.t, status, text, 503, "")
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil {
		c.t.Error(err)
	}
	return seconds
}

// end lets all requests end.
func (c *crowded) end() {
	c.open()
	c.clients.Wait()
}

// Retry-After grows with what waits in the engine, up to a minute.
func TestRetryAfterOfTheEngine(t *testing.T) {
	wait := func(places, tokens int) (seconds int) {
		synctest.Test(t, func(t *testing.T) {
			outlive(t)
			c := newCrowded(t, func(s *servertest.Setup) { s.EngineConfig.MaxLive, s.Spec.MaxSeqs = places, 1 })
			fields := map[string]any{"max_tokens": tokens, "ignore_eos": true}
			c.send(places, fields)
			time.Sleep(time.Hour) // until all are prepared
			if n := c.Log.Times(transport.LogSubmitted); n != 3+places {
				t.Errorf("%d requests were submitted", n)
			}
			seconds = c.retryAfter(fields)
			c.end()
		})
		return seconds
	}
	few, more, long, most := wait(2, 1), wait(8, 1), wait(8, 300), wait(100, 300)
	if few < 1 || few >= more || more >= long || long >= most || most != 60 {
		t.Errorf("Retry-After is %d, %d, %d and %d", few, more, long, most)
	}
}

// Retry-After grows with the requests that wait to be prepared.
func TestRetryAfterOfTheQueue(t *testing.T) {
	wait := func(places int) (seconds int) {
		synctest.Test(t, func(t *testing.T) {
			outlive(t)
			c := newCrowded(t, func(s *servertest.Setup) { s.Config.PrepareQueue = places })
			c.send(places+1, nil)
			seconds = c.retryAfter(nil)
			time.Sleep(time.Hour)
			c.end()
		})
		return seconds
	}
	if few, more := wait(3), wait(12); few != 4 || more != 13 {
		t.Errorf("Retry-After is %d behind 4 preparations of a second, %d behind 13", few, more)
	}
}

// While the server stops, Retry-After is the time that requests in flight still have.
func TestRetryAfterWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outlive(t)
		c := newCrowded(t, func(*servertest.Setup) {})
		c.send(1, nil)
		time.Sleep(time.Minute)
		c.clients.Go(c.Stop) // within ten seconds
		defer c.end()
		synctest.Wait()
		first := c.retryAfter(nil)
		time.Sleep(6500 * time.Millisecond)
		if second := c.retryAfter(nil); first != 10 || second != 4 {
			t.Errorf("Retry-After is %d, and %d after 6.5 s", first, second)
		}
	})
}
