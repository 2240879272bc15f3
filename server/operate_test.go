package server_test

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/server"
	"weir/server/servertest"
)

// docs/interface/chat-completions.md, section 17.4: /load is 0, 1 during a request, and 0 again,
// whether it streams or not, fails or not; and always 0 without the switch.
func TestLoad(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		h := newServer(t, func(s *servertest.Setup) { s.Config.Functions.LoadTracking = on })
		load := func(want string) {
			t.Helper()
			if !on {
				want = "0"
			}
			if status, answer, _ := h.Get("GET", "/load", ""); status != 200 || answer != `{"server_load":`+want+`}` {
				t.Errorf("tracking %v: %d %s, want %s", on, status, answer, want)
			}
		}
		load("0")
		for _, body := range []struct{ path, text string }{
			{servertest.ChatPath, servertest.Body(t, nil)}, {servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true})}, {servertest.TextPath, servertest.TextBody(t, map[string]any{"prompt": []string{"a", "b"}, "stream": true})}, {servertest.TextPath, servertest.TextBody(t, nil)},
		} {
			gate, reached := make(chan struct{}), make(chan struct{}, 1)
			h.SetHook(func(sim.Call, int) error {
				select {
				case reached <- struct{}{}:
				default:
				}
				<-gate
				return nil
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _, _ = h.Get("POST", body.path, body.text)
			}()
			<-reached
			load("1")
			close(gate)
			<-done
			h.SetHook(nil)
			servertest.WaitFor(t, "no load", func() bool { return h.Instance.OpenAI().Load() == 0 })
			load("0")
		}
		h.Get("POST", servertest.ChatPath, "{")
		h.Get("POST", "/tokenize", `{"prompt":"x"}`)
		load("0")
		// A stream that is broken off counts no longer, either.
		h.SetHook(nil)
		resp := h.Do("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"stream": true, "max_tokens": 900, "ignore_eos": true}))
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		servertest.WaitFor(t, "no load", func() bool { return h.Instance.OpenAI().Load() == 0 })
	}
}

// docs/interface/chat-completions.md, section 1.1: nobody finds the developer's functions unless they are switched on.
func TestDevMode(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range [][2]string{{"POST", "/reset_prefix_cache"}, {"GET", "/tokenizer_info"}} {
		if status, answer, _ := h.Get(c[0], c[1], ""); status != 404 || answer != `{"detail":"Not Found"}` {
			t.Errorf("%s: %d %s", c[1], status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/server_info", ""); status != 200 || strings.Contains(answer, "vllm_config") || strings.Contains(answer, "system_env") {
		t.Errorf("/server_info without the switch: %d %s", status, answer)
	}
	h = newServer(t, func(s *servertest.Setup) {
		s.Config.Version = "1.2.3"
		s.Config.Functions = server.Functions{Dev: true, Settings: map[string]string{"b": "2", "a": "1"}}
	})
	var info struct {
		Config json.RawMessage `json:"vllm_config"`
		Env    map[string]any  `json:"vllm_env"`
		System map[string]any  `json:"system_env"`
	}
	for query, want := range map[string]string{"": `"a=1\nb=2"`, "?config_format=text": `"a=1\nb=2"`, "?config_format=json": `{"a":"1","b":"2"}`} {
		status, answer, _ := h.Get("GET", "/server_info"+query, "")
		if err := json.Unmarshal([]byte(answer), &info); err != nil || status != 200 || string(info.Config) != want || info.Env == nil || info.System["version"] != "1.2.3" {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	status, answer, _ := h.Get("GET", "/server_info?config_format=yaml", "")
	servertest.Refused(t, status, answer, 400, "config_format")
}

// docs/interface/chat-completions.md, section 14: 200, and whether the cache was emptied;
// running requests keep the cache, unless they are to start over.
func TestK12ResetPrefixCache(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.Functions.Dev = true; s.Spec.Depth = 2 })
	reset := func(query, want string) {
		t.Helper()
		if status, answer, _ := h.Get("POST", "/reset_prefix_cache"+query, ""); status != 200 || answer != want {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	long := map[string]any{"messages": servertest.UserSays(strings.Repeat("word ", 40))}
	cached := func() int {
		t.Helper()
		d := h.Complete(t, long).Usage.Details
		if d == nil {
			t.Fatal("no details")
		}
		return d.Cached
	}
	cached()
	if cached() == 0 {
		t.Error("nothing is cached")
	}
	reset("", `{"success":true}`)
	if n := cached(); n != 0 {
		t.Errorf("%d cached after the reset", n)
	}
	all := map[string]any{"max_tokens": 900, "ignore_eos": true}
	want := *h.Complete(t, all).Choices[0].Message.Content
	steps, gate := make(chan struct{}), make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			select {
			case steps <- struct{}{}:
			case <-gate:
			}
		}
		return nil
	})
	got := make(chan string)
	go func() { got <- *h.Complete(t, all).Choices[0].Message.Content }()
	for range 5 {
		<-steps
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		reset("?reset_running_requests=false&reset_external=true", `{"success":false}`)
		reset("?reset_running_requests=true", `{"success":true}`)
	}()
	tick := time.NewTicker(5 * time.Millisecond) // a step now and then, or the request is over before the reset comes
	defer tick.Stop()
	for step, open := (chan struct{})(nil), true; open; {
		select {
		case <-tick.C:
			step = steps
		case <-step:
			step = nil
		case <-answered:
			open = false
		}
	}
	close(gate)
	if text := <-got; text != want {
		t.Errorf("another answer: %q, want %q", text, want)
	}
	if st := h.Engine.Stats(); st.Preemptions != 1 || h.Log.Times("prefix cache not reset: requests are running") != 1 || h.Log.Times("prefix cache reset") != 2 {
		t.Errorf("%d preemptions, %d servertest.Refused, %d reset", st.Preemptions, h.Log.Times("prefix cache not reset: requests are running"), h.Log.Times("prefix cache reset"))
	}
	for _, query := range []string{"reset_running_requests=2", "reset_external=perhaps"} {
		status, answer, _ := h.Get("POST", "/reset_prefix_cache?"+query, "")
		name, _, _ := strings.Cut(query, "=")
		servertest.Refused(t, status, answer, 400, name)
	}
	if status, _, _ := h.Get("GET", "/reset_prefix_cache", ""); status != 405 {
		t.Errorf("GET: %d", status)
	}
}

// TestComputing: workers of queries rest while a step is computed, and not when nothing is.
func TestComputing(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	computing := h.Instance.OpenAI().Computing
	held, release := h.HoldSteps()
	if computing() {
		t.Error("computing before there was a request")
	}
	var clients sync.WaitGroup
	clients.Go(func() { h.Chat(nil) })
	<-held
	if !computing() {
		t.Error("not computing in a step")
	}
	release()
	clients.Wait()
	servertest.WaitFor(t, "still computing", func() bool { return !computing() })
}

// TestFlushCache: routers empty the prefix cache without --dev-mode, with the right to, while nothing runs (docs/interface/routers.md, G-6).
func TestFlushCache(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	long := map[string]any{"messages": servertest.UserSays(strings.Repeat("word ", 40))}
	h.Complete(t, long)
	if h.Complete(t, long).Usage.Details.Cached == 0 {
		t.Error("nothing is cached")
	}
	if status, answer, _ := h.Get("POST", "/flush_cache", ""); status != 200 || answer != "Cache flushed.\n" {
		t.Errorf("%d %s", status, answer)
	}
	if n := h.Complete(t, long).Usage.Details.Cached; n != 0 {
		t.Errorf("%d cached after it", n)
	}
	steps, gate := make(chan struct{}), make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			select {
			case <-steps:
			case <-gate:
			}
		}
		return nil
	})
	var client sync.WaitGroup
	client.Go(func() { h.Chat(map[string]any{"max_tokens": 900, "ignore_eos": true}) })
	steps <- struct{}{}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		status, answer, _ := h.Get("POST", "/flush_cache", "")
		servertest.Refused(t, status, answer, 400, "")
	}()
	tick := time.NewTicker(5 * time.Millisecond) // a step now and then, or the request is over before the question comes
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
			select {
			case steps <- struct{}{}:
			case <-answered:
				open = false
			}
		case <-answered:
			open = false
		}
	}
	close(gate)
	client.Wait()
}
