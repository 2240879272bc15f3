package server_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/server/servertest"
)

// stormClients is how many clients come and leave in TestAbortStorm; make storm has 5,000.
func stormClients(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("WEIR_STORM"))
	if err != nil {
		return 300
	}
	t.Logf("%d clients", n)
	return n
}

// Clients that leave in every stage of a request, by hundreds, leave nothing behind: no block, no place,
// no memory, no connection, no goroutine (servertest checks these when the server has stopped), and the
// server answers as before.
func TestAbortStorm(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.EngineConfig.MaxLive, s.EngineConfig.MaxPrompts = 64, 20_000
		s.Config.PrepareQueue, s.Config.PrepareWorkers = 16, 2
		s.Config.MaxQueueTime = 0
	})
	before := h.Complete(t, nil)
	var clients sync.WaitGroup
	at := make(chan struct{}, 100) // clients at a time
	for seed := range stormClients(t) {
		at <- struct{}{}
		clients.Go(func() {
			defer func() { <-at }()
			if err := leave(h.Dial, rand.New(rand.NewPCG(uint64(seed), 5))); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	h.Idle()
	servertest.WaitFor(t, "the end of all connections but one", func() bool { return h.Instance.Transport().Held().Connections <= 1 })
	if n := h.Instance.Transport().Queue().Waiting(); n != 0 {
		t.Errorf("%d requests wait to be prepared", n)
	}
	if held := h.Instance.Transport().Held(); held.Bodies != 0 || held.Memory != 0 {
		t.Errorf("the server holds %+v", held)
	}
	h.Told("the storm", map[string]string{
		"vllm:num_requests_running": "0", "vllm:num_requests_waiting": "0", "vllm:kv_cache_usage_perc": "0",
	})
	if after := h.Complete(t, nil); !reflect.DeepEqual(after.Choices[0].Message, before.Choices[0].Message) {
		t.Errorf("the same request is answered differently: %+v, and before %+v", after.Choices[0], before.Choices[0])
	}
}

// leave sends a request, or a part of one, and leaves somewhere on the way. Nothing of it may depend on
// what the server answers, which may be full.
func leave(dial func() (net.Conn, error), rnd *rand.Rand) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	text := strings.Repeat("word ", 1+rnd.IntN(200))
	bodies := []string{
		fmt.Sprintf(`{"stream": true, "max_tokens": 100, "ignore_eos": true, "messages": [{"role": "user", "content": %q}]}`, text),
		fmt.Sprintf(`{"max_tokens": 50, "n": 3, "messages": [{"role": "user", "content": %q}]}`, text),
		`{"stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}}`,
		`{"max_tokens": 5, "messages": [{"role": "user", "content": "a"}]}`,
	}
	body := bodies[rnd.IntN(len(bodies))]
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", servertest.ChatPath, len(body), body)
	switch rnd.IntN(4) {
	case 0: // in the middle of the request
		_, _ = io.WriteString(c, request[:rnd.IntN(len(request))])
	case 1: // as soon as it is sent
		_, _ = io.WriteString(c, request)
	case 2: // in the middle of the answer, or at its end
		_, _ = io.WriteString(c, strings.Replace(request, "\r\n", "\r\nConnection: close\r\n", 1))
		_, _ = io.CopyN(io.Discard, c, 1+rnd.Int64N(4000))
	case 3: // when a few of them have been answered, or are to be
		for range 1 + rnd.IntN(3) {
			_, _ = io.WriteString(c, request)
			_, _ = io.CopyN(io.Discard, c, 1)
		}
	}
	return nil
}
