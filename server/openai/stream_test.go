package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend/sim"
	"weir/internal/invariants"
	"weir/internal/testkit"
	"weir/server/servertest"
	"weir/server/transport"
)

// Golden transcripts: ids, clock and draws are fixed, and therefore every byte is.
func TestTranscripts(t *testing.T) {
	for name, fields := range map[string]map[string]any{
		"plain":      {},
		"usage":      {"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}, "n": 2, "temperature": 1, "seed": 3, "max_tokens": 3},
		"logprobs":   {"logprobs": true, "top_logprobs": 2, "return_token_ids": true, "max_tokens": 3},
		"stop":       {"max_tokens": 20, "logit_bias": map[string]any{"700": 100}, "stop_token_ids": []int{700}},
		"stopstring": {"max_tokens": 40, "temperature": 1, "seed": 11, "stop": []string{"qqqq", "day(f"}},
		"repetition": {"max_tokens": 20, "logit_bias": map[string]any{"700": 100}, "repetition_detection": map[string]any{"max_pattern_size": 1, "min_count": 3}},
		"ids":        {"return_tokens_as_token_ids": true, "logprobs": true, "max_tokens": 2, "request_id": "given \"id\""},
		"characters": {"max_tokens": 8, "ignore_eos": true, "allowed_token_ids": bytesOf("🦀"), "temperature": 1, "seed": 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newServer(t, nil)
			all := map[string]any{"stream": true}
			for k, v := range fields {
				all[k] = v
			}
			status, answer := h.Chat(all)
			if status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			testkit.Golden(t, "testdata/stream/"+name+".txt", []byte(answer))
			delete(all, "stream")
			delete(all, "stream_options")
			_, answer = h.Chat(all)
			testkit.Golden(t, "testdata/complete/"+name+".json", []byte(answer+"\n"))
		})
	}
}

// bytesOf returns the tokens of a character that has no token of its own.
func bytesOf(s string) []int32 { return servertest.Encode(s, false) }

func TestStreamHeaders(t *testing.T) {
	h := newServer(t, nil)
	_, _, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true}), "Origin: http://localhost:3000")
	for k, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"Access-Control-Allow-Origin": "http://localhost:3000",
	} {
		if got := header.Get(k); got != want {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
	if len(header.Get("X-Request-Id")) != 32 {
		t.Errorf("X-Request-Id: %q", header.Get("X-Request-Id"))
	}
}

// The event of a token is sent before the next step is computed, and the role together with
// the first of them.
func TestEventsGoOutAtOnce(t *testing.T) {
	h := newServer(t, nil)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	answered := make(chan *http.Response)
	go func() {
		answered <- h.Do("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true, "max_tokens": 3, "ignore_eos": true}))
	}()
	servertest.WaitFor(t, "the request", func() bool { return h.Log.Times(transport.LogSubmitted) == 1 })
	select {
	case <-answered:
		t.Fatal("an answer before the first token")
	default:
	}
	gate <- struct{}{}
	resp := <-answered
	defer resp.Body.Close()
	var got []byte
	read := func() string {
		buf := make([]byte, 1<<16)
		n, err := resp.Body.Read(buf)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		return string(buf[:n])
	}
	first := read()
	if n := strings.Count(first, "data: "); n != 2 || !strings.Contains(first, `"role":"assistant"`) {
		t.Errorf("first piece: %q, want the role and one token", first)
	}
	gate <- struct{}{}
	if second := read(); strings.Count(second, "data: ") != 1 {
		t.Errorf("second piece: %q", second)
	}
	close(gate)
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	servertest.Events(t, string(got)+string(rest))
}

// TestHeartbeats: a request whose steps take 35 seconds each, in a bubble of fake time. A
// heartbeat is two line feeds every ten seconds without a token.
func TestHeartbeats(t *testing.T) {
	const heartbeats = "\n\n\n\n\n\n" // three of them
	t.Run("then an answer", func(t *testing.T) {
		rest := slowStream(t, nil, heartbeats)                     // at 10, 20 and 30 seconds
		if strings.Count(rest, "}\n\n"+heartbeats+"data: ") != 1 { // at 45, 55 and 65
			t.Errorf("%q", rest)
		}
		if got := len(servertest.Events(t, rest)); got != 3 {
			t.Errorf("%d events", got)
		}
	})
	t.Run("then a failure", func(t *testing.T) {
		rest := slowStream(t, errors.New("broken"), heartbeats)
		if !strings.HasPrefix(rest, `data: {"error": {`) || !strings.HasSuffix(rest, "}}\n\ndata: [DONE]\n\n") {
			t.Errorf("%q", rest)
		}
	})
}

// slowStream streams two tokens from a server whose steps take 35 seconds and then fail
// with fault, if that is not nil. It checks that the status comes with the first heartbeat
// and that the body begins with exactly prefix, and returns the rest of the body.
func slowStream(t *testing.T, fault error, prefix string) (rest string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		outlive(t)
		h := newServer(t, func(s *servertest.Setup) { s.Config.Heartbeat = 10 * time.Second })
		h.SetHook(func(c sim.Call, _ int) error {
			if c != sim.End {
				return nil
			}
			time.Sleep(35 * time.Second)
			return fault
		})
		begin := time.Now()
		resp := h.Do("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true, "max_tokens": 2, "ignore_eos": true}))
		if d := time.Since(begin); d != 10*time.Second || resp.StatusCode != 200 {
			t.Errorf("status %d after %v, want 200 after ten seconds", resp.StatusCode, d)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var ok bool
		if rest, ok = strings.CutPrefix(string(body), prefix); !ok || strings.HasPrefix(rest, "\n") {
			t.Fatalf("%q", body)
		}
	})
	return rest
}

// outlive lets the time of the bubble go on after the server has ended, because fasthttp has
// a goroutine that checks only every ten seconds whether it should end.
func outlive(t *testing.T) { t.Cleanup(func() { time.Sleep(time.Minute) }) }

// Without a stream nothing is sent early, however long it takes.
func TestNoHeartbeatInACompleteAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outlive(t)
		h := newServer(t, func(s *servertest.Setup) { s.Config.Heartbeat = time.Second })
		h.SetHook(func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(time.Minute)
			}
			return nil
		})
		status, answer := h.Chat(map[string]any{"max_tokens": 1})
		if status != 200 || !strings.HasPrefix(answer, "{") {
			t.Errorf("%d %q", status, answer)
		}
	})
}

func TestPanicInAHandler(t *testing.T) {
	h := newServer(t, nil)
	good := h.NewID()
	h.SetNewID(func() string { panic("no ids today") }) // in the preparation
	status, answer := h.Chat(nil)
	servertest.Refused(t, status, answer, 500, "")
	h.SetNewID(good)
	clock := h.Clock()
	calls := 0
	h.SetClock(func() time.Time { // in the handler, after the preparation
		if calls++; calls == 3 {
			panic("no time")
		}
		return clock()
	})
	status, answer = h.Chat(map[string]any{"stream": true})
	servertest.Refused(t, status, answer, 500, "")
	h.SetClock(clock)
	h.Complete(t, nil)
	if text := h.Log.Text(); !strings.Contains(text, "no ids today") || !strings.Contains(text, "no time") || !strings.Contains(text, "stream_test.go") {
		t.Errorf("log: %q", text)
	}
}

// noAllocations counts the allocations of a hundred tokens at a time, because a single one
// may need none by chance. Up to three are allowed for slices of the engine that grow by
// doubling.
func noAllocations(t *testing.T, token func()) {
	t.Helper()
	n := testing.AllocsPerRun(4, func() {
		for range 100 {
			token()
		}
	})
	if n > 3 {
		t.Errorf("%v allocations for a hundred tokens", n)
	}
	t.Logf("%v allocations for a hundred tokens", n)
}

// A token allocates nothing on its whole path through HTTP and a socket to a client.
func TestSocketAllocatesNothingPerToken(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants allocate")
	}
	h := newServer(t, func(s *servertest.Setup) { s.TCP = true })
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	body := servertest.Body(t, map[string]any{"stream": true, "max_tokens": 900, "ignore_eos": true})
	c, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, servertest.Post(len(body), "Connection: close")+body)
	buf := make([]byte, 1<<12)
	token := func() {
		gate <- struct{}{}
		if n, err := c.Read(buf); err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	for range 300 {
		token()
	}
	noAllocations(t, token)
	close(gate)
	io.Copy(io.Discard, c)
}
