package server_test

import (
	"net/http"
	"sync"
	"testing"

	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
)

// A key that fills the engine does not keep another one out: one of its own requests, which
// has not begun, is answered with 503 instead, as if it had been refused.
func TestIntakeBetweenKeys(t *testing.T) {
	t.Parallel()
	const places = 8
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.APIKeys = []string{"a", "b"}
		s.EngineConfig.MaxLive = places
		s.Spec.MaxSeqs = 1
	})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	a, b := "Authorization: Bearer a", "Authorization: Bearer b"
	type answer struct {
		status int
		text   string
		header http.Header
	}
	var clients sync.WaitGroup
	answers := make(chan answer, places)
	for n := range places {
		clients.Go(func() {
			status, text, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": n%2 == 0, "max_tokens": 50, "ignore_eos": true}), a)
			answers <- answer{status, text, header}
		})
		servertest.WaitFor(t, "a request", func() bool { return h.Log.Times(transport.LogSubmitted) == n+1 })
	}
	status, text, _ := h.Get("POST", servertest.ChatPath, servertest.Body(t, nil), a)
	servertest.Refused(t, status, text, 503, "")

	other := make(chan struct{})
	clients.Go(func() {
		defer close(other)
		if status, text, _ := h.Get("POST", servertest.ChatPath, servertest.Body(t, nil), b); status != 200 {
			t.Errorf("the other key: %d %s", status, text)
		}
	})
	servertest.WaitFor(t, "the other key's request", func() bool { return h.Log.Times(transport.LogSubmitted) == places+1 })
	for range 90 { // steps, in which only one answer of the first key can be complete
		select {
		case gate <- struct{}{}:
		case <-other:
		}
	}
	servertest.WaitFor(t, "the other key's answer", func() bool {
		select {
		case <-other:
			return true
		default:
			return false
		}
	})
	open()
	clients.Wait()
	close(answers)
	refused := 0
	for got := range answers {
		if got.status != 200 {
			refused++
			servertest.Refused(t, got.status, got.text, 503, "")
			if got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d of the requests that were accepted have lost their places", refused)
	}
	h.Told("the one that was refused and the one that was given up", map[string]string{`weir:rejected_requests_total{reason="engine_full"}`: "2"}, a)
	h.Told("no failure", map[string]string{`vllm:request_success_total{finished_reason="error"}`: "0"}, a)
	all, _, err := h.Instance.Transport().Usage().Totals()
	if err != nil || len(all) != 1 || all[0].Requests != places {
		t.Errorf("usage: %+v, %v, want %d requests", all, err, places)
	}
}
