package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"weir/api"
	"weir/backend/sim"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/internal/invariants"
	"weir/internal/testkit"
	"weir/sampler"
	"weir/server/transport"
)

// Golden transcripts: ids, clock and draws are fixed, so every byte is.
func TestTranscripts(t *testing.T) {
	for name, fields := range map[string]map[string]any{
		"plain":      {},
		"usage":      {"stream_options": map[string]any{"continuous_usage_stats": true}, "n": 2, "temperature": 1, "seed": 3, "max_tokens": 3},
		"logprobs":   {"logprobs": true, "top_logprobs": 2, "return_token_ids": true, "max_tokens": 3},
		"stop":       {"max_tokens": 20, "logit_bias": map[string]any{"700": 100}, "stop_token_ids": []int{700}},
		"stopstring": {"max_tokens": 40, "temperature": 1, "seed": 11, "stop": []string{"qqqq", "day(f"}},
		"repetition": {"max_tokens": 20, "logit_bias": map[string]any{"700": 100}, "repetition_detection": map[string]any{"max_pattern_size": 1, "min_count": 3}},
		"ids":        {"return_tokens_as_token_ids": true, "logprobs": true, "max_tokens": 2, "request_id": "given \"id\""},
		"characters": {"max_tokens": 8, "ignore_eos": true, "allowed_token_ids": bytesOf("🦀"), "temperature": 1, "seed": 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, nil)
			all := map[string]any{"stream": true}
			for k, v := range fields {
				all[k] = v
			}
			status, answer := h.chat(all)
			if status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			testkit.Golden(t, "testdata/stream/"+name+".txt", []byte(answer))
			delete(all, "stream")
			delete(all, "stream_options")
			_, answer = h.chat(all)
			testkit.Golden(t, "testdata/complete/"+name+".json", []byte(answer+"\n"))
		})
	}
}

// bytesOf are the tokens of a text that is in no token as a whole.
func bytesOf(s string) []int32 { return encode(s, false) }

func TestStreamHeaders(t *testing.T) {
	h := newHouse(t, nil)
	_, _, header := h.get("POST", chatPath, base(t, map[string]any{"stream": true}))
	for k, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"Access-Control-Allow-Origin": "*",
	} {
		if got := header.Get(k); got != want {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
	if len(header.Get("X-Request-Id")) != 32 {
		t.Errorf("X-Request-Id: %q", header.Get("X-Request-Id"))
	}
}

// The piece that a token's event is in goes out before the next step is
// computed (decision 2), and the role with the first of them (spec clients 1.6).
func TestEventsGoOutAtOnce(t *testing.T) {
	h := newHouse(t, nil)
	gate := make(chan struct{})
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	answered := make(chan *http.Response)
	go func() {
		answered <- h.do("POST", chatPath, base(t, map[string]any{"stream": true, "max_tokens": 3, "ignore_eos": true}))
	}()
	waitFor(t, "the request", func() bool { return h.log.times(transport.LogSubmitted) == 1 })
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
	events(t, string(got)+string(rest))
}

// One silent request in a bubble of fake time.
func TestHeartbeats(t *testing.T) {
	for name, fail := range map[string]bool{"then an answer": false, "then a failure": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outlive(t)
				h := newHouse(t, func(s *setup) { s.cfg.Heartbeat = 10 * time.Second })
				h.setHook(func(c sim.Call, _ int) error {
					if c == sim.End {
						time.Sleep(35 * time.Second)
						if fail {
							return errors.New("broken")
						}
					}
					return nil
				})
				begin := time.Now()
				resp := h.do("POST", chatPath, base(t, map[string]any{"stream": true, "max_tokens": 2, "ignore_eos": true}))
				if d := time.Since(begin); d != 10*time.Second || resp.StatusCode != 200 {
					t.Errorf("status %d after %v, want 200 after ten seconds", resp.StatusCode, d)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				rest, ok := strings.CutPrefix(string(body), "\n\n\n\n\n\n") // at 10, 20 and 30 seconds
				if !ok || strings.HasPrefix(rest, "\n") {
					t.Fatalf("%q", body)
				}
				if fail {
					if !strings.HasPrefix(rest, `data: {"error": {`) || !strings.HasSuffix(rest, "}}\n\ndata: [DONE]\n\n") {
						t.Errorf("%q", rest)
					}
					return
				}
				if strings.Count(rest, "}\n\n"+"\n\n\n\n\n\n"+"data: ") != 1 { // at 45, 55 and 65
					t.Errorf("%q", rest)
				}
				if got := len(events(t, rest)); got != 3 {
					t.Errorf("%d events", got)
				}
			})
		})
	}
}

// outlive lets the bubble's time go on after the house is gone: fasthttp has a
// goroutine that looks only every ten seconds whether it should end.
func outlive(t *testing.T) { t.Cleanup(func() { time.Sleep(time.Minute) }) }

// Without a stream nothing is sent early, however long it takes.
func TestNoHeartbeatInACompleteAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outlive(t)
		h := newHouse(t, func(s *setup) { s.cfg.Heartbeat = time.Second })
		h.setHook(func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(time.Minute)
			}
			return nil
		})
		status, answer := h.chat(map[string]any{"max_tokens": 1})
		if status != 200 || !strings.HasPrefix(answer, "{") {
			t.Errorf("%d %q", status, answer)
		}
	})
}

// direct is a stream's body without a connection.
func direct(t testing.TB, h *house, req engine.Request, r reply) *sse {
	t.Helper()
	st, err := h.eng.Submit(req)
	if err != nil {
		t.Fatal(err)
	}
	r.meta, r.tok, r.n, r.role = api.Meta{ID: "x", Model: "m"}, bundled(), max(1, req.N), "assistant"
	return newSSE(h.srv, h.srv.http.Detached(), st, &r)
}

func request(tokens int) engine.Request {
	p := sampler.DefaultParams()
	p.Temperature = 0
	return engine.Request{Tokens: []int32{5, 6, 7}, Sampling: p, Limits: engine.Limits{MaxTokens: tokens, EOS: -1}}
}

// Read gives out the same bytes as WriteTo.
func TestReadEqualsWriteTo(t *testing.T) {
	h := newHouse(t, nil)
	var want bytes.Buffer
	b := direct(t, h, request(20), reply{})
	if n, err := b.WriteTo(&want); err != nil || n != int64(want.Len()) {
		t.Fatal(n, err)
	}
	b.Close()
	b = direct(t, h, request(20), reply{})
	if err := iotest.TestReader(b, want.Bytes()); err != nil {
		t.Error(err)
	}
	b.Close()
}

// A fault of ours in the middle of a stream ends that stream, with an event.
func TestPanicInAStream(t *testing.T) {
	h := newHouse(t, nil)
	b := direct(t, h, request(5), reply{})
	b.used = nil // the first token's event indexes it
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if want := `data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\ndata: [DONE]\n\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
	if text := h.log.text.String(); !strings.Contains(text, "index out of range") {
		t.Errorf("the log has no trace of it: %q", text)
	}
}

func TestPanicInAHandler(t *testing.T) {
	h := newHouse(t, nil)
	good := *h.newID.Load()
	h.setNewID(func() string { panic("no ids today") }) // in the preparation
	status, answer := h.chat(nil)
	refused(t, status, answer, 500, "")
	h.setNewID(good)
	clock := *h.clock.Load()
	calls := 0
	h.setClock(func() time.Time { // in the handler, behind the preparation
		if calls++; calls == 3 {
			panic("no time")
		}
		return clock()
	})
	status, answer = h.chat(map[string]any{"stream": true})
	refused(t, status, answer, 500, "")
	h.setClock(clock)
	h.complete(t, nil)
	if text := h.log.text.String(); !strings.Contains(text, "no ids today") || !strings.Contains(text, "no time") || !strings.Contains(text, "stream_test.go") {
		t.Errorf("log: %q", text)
	}
}

// Everything between the engine and the connection allocates nothing for a token.
func TestStreamAllocatesNothingPerToken(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants allocate")
	}
	for name, r := range map[string]reply{
		"plain":    {},
		"thinking": {output: reasoning.Thought, form: api.Form{TokenIDs: true}}, // so that every token has its event
		"hidden":   {output: reasoning.Thought, hideThoughts: true},
		"logprobs": {logprobs: true, top: 5, form: api.Form{TokenIDs: true, ContinuousUsage: true}},
		"texts":    {logprobs: true, top: 5, form: api.Form{TokenIDs: true, ContinuousUsage: true}, texts: &texts{n: 1, prompts: [][]int32{{1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			gate := make(chan struct{})
			h.setHook(func(c sim.Call, _ int) error {
				if c == sim.End {
					<-gate
				}
				return nil
			})
			req := request(900)
			if r.logprobs {
				req.Sampling.Logprobs, req.Sampling.TopLogprobs = engine.RawLogprobs, 5
			}
			b := direct(t, h, req, r)
			b.beat = time.NewTimer(time.Hour)
			token := func() {
				gate <- struct{}{}
				if r.hideThoughts { // and so is next
					if !b.st.Take(&b.events) {
						<-b.st.Ready()
						b.st.Take(&b.events)
					}
					b.at = 0
					b.encode()
					return
				}
				piece, err := b.next()
				if err != nil || !bytes.Contains(piece, []byte(`"delta":{`)) && !bytes.Contains(piece, []byte(`"text":"`)) {
					t.Fatalf("%q, %v", piece, err)
				}
			}
			for range 300 { // buffers grow to their size
				token()
			}
			noAllocations(t, token)
			close(gate)
			b.Close()
		})
	}
}

// noAllocations counts over a hundred tokens at a time, since a single one may
// need nothing by luck. What the engine grows by doubling is let through.
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

// The same with everything: HTTP, a socket, and a client that reads.
func TestSocketAllocatesNothingPerToken(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants allocate")
	}
	h := newHouse(t, func(s *setup) { s.tcp = true })
	gate := make(chan struct{})
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	body := base(t, map[string]any{"stream": true, "max_tokens": 900, "ignore_eos": true})
	c, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, post(len(body), "Connection: close")+body)
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

// A burst goes out in pieces of a bounded size, each of whole events.
func TestBurst(t *testing.T) {
	h := newHouse(t, nil)
	b := direct(t, h, request(900), reply{})
	waitFor(t, "the tokens", func() bool { return h.eng.Stats().Finished[engine.Length] == 1 })
	var pieces int
	for {
		piece, err := b.next()
		if err == io.EOF {
			break
		}
		pieces++
		if !bytes.HasPrefix(piece, []byte("data: ")) || !bytes.HasSuffix(piece, []byte("\n\n")) || len(piece) > burst+1024 {
			t.Errorf("piece of %d bytes: %.50q … %q", len(piece), piece, piece[len(piece)-20:])
		}
	}
	if pieces < 3 || pieces > 10 {
		t.Errorf("%d pieces", pieces)
	}
	b.Close()
}

// What comes before the tokens is cut in pieces, too: prompt ids in the role of
// every choice, an echo in every choice.
func TestOpeningBurst(t *testing.T) {
	h := newHouse(t, nil)
	req := request(2)
	req.N = 20
	for len(req.Tokens) < 900 {
		req.Tokens = append(req.Tokens, 1234)
	}
	b := direct(t, h, req, reply{form: api.Form{TokenIDs: true}, prompt: req.Tokens, echo: strings.Repeat("echo", 4<<10)})
	var all []byte
	for {
		piece, err := b.next()
		if err == io.EOF {
			break
		}
		if len(piece) > burst+20<<10 {
			t.Errorf("a piece of %d bytes", len(piece))
		}
		all = append(all, piece...)
	}
	chunks := events(t, string(all))
	for i := range 20 {
		if c := chunks[i]; c.Choices[0].Index != i || c.Choices[0].Delta["role"] == nil || len(c.PromptTokenIDs) != 900 {
			t.Errorf("event %d is no role", i)
		}
		if c := chunks[20+i]; c.Choices[0].Index != i || len(text(c)) != 16<<10 {
			t.Errorf("event %d is no echo", 20+i)
		}
	}
	if len(chunks) != 20*4 {
		t.Errorf("%d events", len(chunks))
	}
	b.Close()
}

func BenchmarkStreamToken(b *testing.B) {
	h := newHouse(b, nil)
	r := reply{meta: api.Meta{ID: "chatcmpl-0123456789abcdef", Model: "m"}, tok: bundled(), role: "assistant", n: 1}
	s := newSSE(h.srv, nil, nil, &r)
	s.opened = 1
	ev := engine.Event{Token: 700, StopID: -1, Text: []byte(" hello")}
	b.ReportAllocs()
	for b.Loop() {
		s.buf = s.buf[:0]
		s.event(&ev)
	}
	b.SetBytes(int64(len(s.buf)))
}
