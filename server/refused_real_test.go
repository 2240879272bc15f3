package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/server/servertest"
	"weir/server/transport"
)

// Requests beyond what the server takes in are refused before anything is tokenized, on connections
// that stay open, and each of them is told when to come again.
func TestRefusedWithoutWork(t *testing.T) {
	const places, connections, requests = 4, 64, 10_000
	h := newServer(t, func(s *servertest.Setup) { s.TCP, s.EngineConfig.MaxLive = true, places })
	_, release := h.HoldSteps()
	t.Cleanup(release)
	var tokenized atomic.Int64
	id := h.NewID()
	h.SetNewID(func() string { // a request gets its id when its prompt has been tokenized
		tokenized.Add(1)
		return id()
	})
	var running sync.WaitGroup
	for n := range places {
		running.Go(func() {
			if status, text := h.Chat(map[string]any{"max_tokens": 3}); status != 200 {
				t.Errorf("one that was accepted: %d %s", status, text)
			}
		})
		servertest.WaitFor(t, "a request", func() bool { return h.Log.Times(transport.LogSubmitted) == n+1 })
	}
	body := servertest.Body(t, map[string]any{"stream": true})
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", servertest.ChatPath, len(body), body)
	var refused atomic.Int64
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			c, err := h.Dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			r := bufio.NewReader(c)
			for refused.Add(1) <= requests {
				if err := refusedOnce(c, r, request); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	if n := tokenized.Load(); n != places {
		t.Errorf("%d prompts were tokenized, and %d requests were accepted", n, places)
	}
	h.Told("all", map[string]string{`weir:rejected_requests_total{reason="engine_full"}`: strconv.Itoa(requests)})
	release()
	running.Wait()
}

// refusedOnce sends a request and checks the answer.
func refusedOnce(w io.Writer, r *bufio.Reader, request string) error {
	if _, err := io.WriteString(w, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Error struct{ Type, Message string }
	}
	wait, bad := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err := json.Unmarshal(body, &answer); err != nil || bad != nil || wait < 1 || resp.StatusCode != 503 || resp.Close ||
		resp.Header.Get("x-should-retry") != "true" || answer.Error.Type != "ServiceUnavailableError" || !strings.Contains(answer.Error.Message, "engine is full") {
		return fmt.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	return nil
}
