package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
	"weir/usage"
)

type usageList struct {
	Object string
	Since  int64
	Data   []struct {
		Project    *string
		Requests   int
		Prompt     int `json:"prompt_tokens"`
		Cached     int `json:"cached_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

// counted is GET /usage as "project requests prompt/cached/completion".
func (h *testServer) counted(t *testing.T, query string, headers ...string) []string {
	t.Helper()
	status, answer, _ := h.Get("GET", "/usage"+query, "", headers...)
	var l usageList
	if err := json.Unmarshal([]byte(answer), &l); status != 200 || err != nil || l.Object != "list" || l.Since <= 0 || l.Data == nil {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	out := []string{}
	for _, d := range l.Data {
		name := "null"
		if d.Project != nil {
			name = *d.Project
		}
		out = append(out, fmt.Sprintf("%s %d %d/%d/%d", name, d.Requests, d.Prompt, d.Cached, d.Completion))
	}
	return out
}

func wantUsage(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("usage %q\nwant  %q", got, want)
	}
}

// TestUsage: every accepted request counts for its project once it is answered,
// in the answers' own numbers.
func TestUsage(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	wantUsage(t, h.counted(t, ""))
	five := map[string]any{"ignore_eos": true}
	none := h.Complete(t, five).Usage
	var prompt, cached, completion int
	long := map[string]any{"ignore_eos": true, "messages": servertest.UserSays(strings.Repeat("a b c d ", 20)), "n": 2, "temperature": 1}
	for range 2 { // the second finds the first one's prefix
		u := h.Complete(t, long, "Compat-Project: team/b").Usage
		prompt, cached, completion = prompt+u.Prompt, cached+u.Details.Cached, completion+u.Completion
	}
	if cached == 0 || completion != 20 {
		t.Fatalf("%d cached, %d completion tokens", cached, completion)
	}
	chunks := h.Streamed(t, map[string]any{"ignore_eos": true, "stream_options": map[string]any{"include_usage": true}}, "OpenAI-Project: team/a")
	u := chunks[len(chunks)-1].Usage
	all := []string{
		fmt.Sprintf("null 1 %d/0/5", none.Prompt),
		fmt.Sprintf("team/a 1 %d/0/%d", u.Prompt, u.Completion),
		fmt.Sprintf("team/b 2 %d/%d/%d", prompt, cached, completion),
	}
	wantUsage(t, h.counted(t, ""), all...)
	// What is refused is no request, and asking is none.
	h.Chat(map[string]any{"temperature": 3}, "Compat-Project: team/c")
	h.Chat(nil, "Compat-Project: nonsense")
	h.Get("GET", "/v1/models", "", "Compat-Project: team/c")
	wantUsage(t, h.counted(t, ""), all...)
	wantUsage(t, h.counted(t, "?project=team/b"), all[2])
	wantUsage(t, h.counted(t, "?project=team%2Fa"), all[1])
	wantUsage(t, h.counted(t, "?project="), all[0])
	wantUsage(t, h.counted(t, "?project=team/c"))
	status, answer, _ := h.Get("GET", "/usage?project=nonsense", "")
	servertest.Refused(t, status, answer, 400, "")
	status, _, header := h.Get("POST", "/usage", "")
	if status != 405 || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", status)
	}
}

// Requests that end before their end count with what they had used.
func TestUsageOfUnfinishedRequests(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	project := "Compat-Project: team/left"
	leave := func(stream bool, tokens int) {
		t.Helper()
		before := h.Log.Times(transport.LogSubmitted)
		nc, err := h.Dial()
		if err != nil {
			t.Fatal(err)
		}
		body := servertest.Body(t, map[string]any{"stream": stream, "max_tokens": 900, "ignore_eos": true})
		fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: weir\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", servertest.ChatPath, project, len(body), body)
		servertest.WaitFor(t, "the request", func() bool { return h.Log.Times(transport.LogSubmitted) > before })
		ended := h.Log.Times(transport.LogFinished)
		for range tokens {
			gate <- struct{}{}
		}
		if stream && tokens > 0 {
			// Everything that was drawn has been taken, and the next step waits at the gate.
			servertest.WaitFor(t, "the tokens", func() bool { return h.Engine.Stats().GenerationTokens >= uint64(tokens) })
		}
		nc.Close()
		// The next step may have to end before anybody looks.
		for h.Log.Times(transport.LogFinished) == ended {
			select {
			case gate <- struct{}{}:
			default:
			}
		}
		for !h.NoBlocks() {
			select {
			case gate <- struct{}{}:
			default:
			}
		}
	}
	leave(false, 0)
	leave(true, 4)
	close(gate)
	h.SetHook(nil)
	got := h.counted(t, "?project=team/left")
	var requests, prompt, cached, completion int
	if len(got) != 1 {
		t.Fatalf("%q", got)
	}
	if _, err := fmt.Sscanf(got[0], "team/left %d %d/%d/%d", &requests, &prompt, &cached, &completion); err != nil || requests != 2 || completion < 4 || prompt < 15 {
		t.Errorf("%q, %v", got, err)
	}
	// A failure of the engine ends requests, too.
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			return fmt.Errorf("no step today")
		}
		return nil
	})
	if status, answer := h.Chat(nil, "Compat-Project: team/failed"); status != 500 {
		t.Errorf("%d %s", status, answer)
	}
	h.SetHook(nil)
	wantUsage(t, h.counted(t, "?project=team/failed"), "team/failed 1 0/0/0")
}

// TestUsageTwin: many requests at once, of many projects, against the sums of
// what their answers said.
func TestUsageTwin(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	var mu sync.Mutex
	expected := map[string][4]int{}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			project := fmt.Sprintf("team/%d", i%5)
			fields := map[string]any{"max_tokens": 1 + i, "ignore_eos": true, "temperature": 1, "n": 1 + i%3, "stream_options": map[string]any{"include_usage": true}}
			var u servertest.Usage
			if i%2 == 0 {
				delete(fields, "stream_options")
				u = h.Complete(t, fields, "Compat-Project: "+project).Usage
			} else {
				chunks := h.Streamed(t, fields, "Compat-Project: "+project)
				u = *chunks[len(chunks)-1].Usage
			}
			mu.Lock()
			defer mu.Unlock()
			c := expected[project]
			expected[project] = [4]int{c[0] + 1, c[1] + u.Prompt, c[2] + u.Details.Cached, c[3] + u.Completion}
		})
	}
	wg.Wait()
	var want []string
	for _, p := range slices.Sorted(maps.Keys(expected)) {
		c := expected[p]
		want = append(want, fmt.Sprintf("%s %d %d/%d/%d", p, c[0], c[1], c[2], c[3]))
	}
	wantUsage(t, h.counted(t, ""), want...)
}

func TestUsageSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := usage.DefaultConfig()
	cfg.Dir = dir
	run := func() []string {
		book, err := usage.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := newServer(t, func(s *servertest.Setup) { s.Config.Usage = book })
		h.Complete(t, map[string]any{"ignore_eos": true}, "Compat-Project: team/one")
		got := h.counted(t, "")
		h.Stop()
		if err := book.Close(); err != nil {
			t.Error(err)
		}
		return got
	}
	one, two := run(), run()
	wantUsage(t, one, "team/one 1 15/0/5")
	wantUsage(t, two, "team/one 2 30/0/10")
}

// With keys /usage needs one; without, it is for this machine alone.
func TestUsageIsPrivate(t *testing.T) {
	t.Parallel()
	keyed := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	if status, answer, _ := keyed.Get("GET", "/usage", ""); status != 401 || answer != `{"error":"Unauthorized"}` {
		t.Errorf("%d %s", status, answer)
	}
	wantUsage(t, keyed.counted(t, "", "Authorization: Bearer k"))

	h := newServer(t, nil)
	wantUsage(t, h.counted(t, ""))
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := h.Instance.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	servertest.WaitFor(t, "the listener", h.Instance.Transport().Exposed)
	url := fmt.Sprintf("http://127.0.0.1:%d", ln.Addr().(*net.TCPAddr).Port)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{"/usage": 401, "/v1/models": 200, "/health": 200} {
		resp, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	h.Stop()
	served.Wait()
}

// TestRequestLog: one line for each request that ended, whatever became of it;
// with project and tokens, and without a word of what was said.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.LogRequests, s.Config.APIKeys = true, []string{"k"} })
	key := "Authorization: Bearer k"
	secret := map[string]any{"messages": servertest.UserSays("my secret question"), "ignore_eos": true}
	h.Complete(t, secret, key, "Compat-Project: team/one", "X-Request-Id: r1")
	secret["stream"] = true
	h.Chat(secret, key, "X-Request-Id: r2")
	h.Chat(map[string]any{"temperature": "hot"}, key, "X-Request-Id: r3")
	h.Chat(nil, "X-Request-Id: r4")
	h.Get("GET", "/v1/models", "", key, "X-Request-Id: r5")
	for _, probe := range []string{"/health", "/version", "/ping"} {
		h.Get("GET", probe, "")
	}
	servertest.WaitFor(t, "the lines", func() bool { return h.Log.Times(transport.LogFinished) == 5 })
	want := []map[string]string{
		{"id": "chatcmpl-r1", "request_id": "r1", "method": "POST", "route": servertest.ChatPath, "model": "tiny", "finish": "length", "key": "api-key", "project": "team/one", "status": "200", "stream": "false", "completion": "5", "cached": "0", "path": servertest.ChatPath},
		{"id": "chatcmpl-r2", "project": "", "status": "200", "stream": "true", "completion": "5", "path": servertest.ChatPath},
		{"id": "r3", "request_id": "r3", "model": "", "finish": "", "ttft": "", "status": "400", "completion": "0", "error": "schema"},
		{"id": "r4", "status": "401", "error": "no-key"},
		{"id": "r5", "status": "200", "path": "/v1/models"},
	}
	got := h.Log.Lines(transport.LogFinished)
	if len(got) != len(want) {
		t.Fatalf("%d lines", len(got))
	}
	var all bytes.Buffer
	for i, line := range got {
		for k, v := range want[i] {
			if line[k] != v {
				t.Errorf("line %d: %s=%q, want %q (%v)", i, k, line[k], v, line)
			}
		}
		if line["took"] == "" || i < 2 && (line["ttft"] == "" || line["queue"] == "") {
			t.Errorf("line %d: %v", i, line)
		}
		fmt.Fprint(&all, line)
	}
	if strings.Contains(all.String(), "secret") || strings.Contains(all.String(), "Bearer") {
		t.Errorf("the log says what was said: %s", all.String())
	}
	if quiet := newServer(t, nil); quiet.Complete(t, nil) == nil || len(quiet.Log.Lines(transport.LogFinished)) != 0 {
		t.Error("a line without being asked")
	}
}

// Probes are logged where that is asked for, and paths are left out that the operator names. A
// request without an id has the one that its answer has.
func TestLogOfProbes(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.LogRequests, s.Config.LogProbes, s.Config.Unlogged = true, true, []string{"/ping", "/v1/models"}
	})
	for _, path := range []string{"/ping", "/v1/models", "/health"} {
		h.Get("GET", path, "")
	}
	status, _, header := h.Get("GET", "/tokenizer", "")
	servertest.WaitFor(t, "the lines", func() bool { return h.Log.Times(transport.LogFinished) == 4 })
	lines := h.Log.Lines(transport.LogFinished)
	if len(lines) != 2 || lines[0]["path"] != "/health" || lines[0]["route"] != "/health" || lines[1]["status"] != fmt.Sprint(status) {
		t.Fatalf("%v", lines)
	}
	if id := header.Get("X-Request-Id"); id == "" || lines[1]["request_id"] != id || lines[1]["id"] != id {
		t.Errorf("the client saw %q, the log says %v", id, lines[1])
	}
}
