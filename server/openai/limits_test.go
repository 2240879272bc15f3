package openai_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/auth"
	"weir/backend/sim"
	"weir/pooling"
	"weir/server/servertest"
)

// keyring has keys whose names are also what is sent, each with its limits.
func keyring(t *testing.T, limits map[string]string) *auth.Keyring {
	t.Helper()
	var b strings.Builder
	b.WriteString("keys:\n")
	for key, l := range limits {
		fmt.Fprintf(&b, "  - {id: %s, hash: \"sha256:%x\"%s}\n", key, sha256.Sum256([]byte(key)), l)
	}
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// limitedServer is a server with keys that have limits, whose clock the test sets.
type limitedServer struct {
	*testServer
	mu        sync.Mutex
	now       time.Time
	tokenized atomic.Int64 // requests whose prompts have been tokenized: they get their ids then
}

func newLimited(t *testing.T, limits map[string]string, change func(*servertest.Setup)) *limitedServer {
	h := &limitedServer{now: time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)}
	h.testServer = newServer(t, func(s *servertest.Setup) {
		s.Config.Keys = keyring(t, limits)
		if change != nil {
			change(s)
		}
	})
	h.SetClock(func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.now
	})
	id := h.NewID()
	h.SetNewID(func() string {
		h.tokenized.Add(1)
		return id()
	})
	return h
}

func (h *limitedServer) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// ask sends a body with a key.
func (h *limitedServer) ask(path, key, body string) (int, string, http.Header) {
	return h.Get("POST", path, body, "Authorization: Bearer "+key, "Content-Type: application/json", "anthropic-version: 2023-06-01")
}

const small = `{"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "a"}]}`

// computing are requests that compute something, in every interface.
var computing = map[string]string{
	"/v1/chat/completions": small,
	"/v1/completions":      `{"prompt": "a", "max_tokens": 4}`,
	"/v1/messages":         small,
	"/v1/responses":        `{"model": "tiny", "input": "a", "max_output_tokens": 4}`,
	"/api/chat":            `{"model": "tiny", "stream": false, "options": {"num_predict": 4}, "messages": [{"role": "user", "content": "a"}]}`,
	"/api/generate":        `{"model": "tiny", "stream": false, "options": {"num_predict": 4}, "prompt": "a"}`,
}

// Every function that computes or prepares counts, whatever the interface; others do not. The
// refusal has the form of the interface, and says when to come again.
func TestRequestsPerMinuteOfKeys(t *testing.T) {
	all := map[string]string{
		"/tokenize": `{"prompt": "a"}`, "/detokenize": `{"tokens": [1]}`, "/v1/chat/completions/render": small, "/v1/completions/render": `{"prompt": "a"}`,
		"/v1/messages/count_tokens": small,
	}
	for path, body := range computing {
		all[path] = body
	}
	for path, body := range all {
		h := newLimited(t, map[string]string{"one": ", limits: {requests_per_minute: 1}", "free": ""}, nil)
		for range 3 {
			if status, text, _ := h.Get("GET", "/v1/models", "", "Authorization: Bearer one"); status != 200 {
				t.Errorf("the models: %d %s", status, text)
			}
		}
		if status, text, header := h.ask(path, "one", body); status != 200 || header.Get("Retry-After") != "" {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		submitted := h.Log.Times("request submitted")
		h.pass(20 * time.Second)
		status, text, header := h.ask(path, "one", body)
		if status != 429 || header.Get("Retry-After") != "40" || header.Get("x-should-retry") != "true" ||
			!strings.Contains(text, `Rate limit reached for the key \"one\": 1 requests per minute. Please try again in 40`) {
			t.Errorf("%s: %d %s %v", path, status, text, header)
		}
		want := `{"error":{"message":"Rate`
		switch {
		case strings.HasPrefix(path, "/v1/messages"):
			want = `{"type":"error","error":{"type":"rate_limit_error","message":"Rate`
		case strings.HasPrefix(path, "/api/"):
			want = `{"error":"Rate`
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s", path, text)
		}
		if h.Log.Times("request submitted") != submitted {
			t.Errorf("%s: it was computed", path)
		}
		h.Told(path, map[string]string{`weir:rejected_requests_total{reason="key_requests"}`: "1"})
		if status, _, header := h.ask(path, "free", body); status != 200 || header.Get("x-ratelimit-limit-requests")+header.Get("anthropic-ratelimit-requests-limit") != "" {
			t.Errorf("%s: a key without limits: %d %v", path, status, header)
		}
		h.pass(40 * time.Second)
		if status, text, _ := h.ask(path, "one", body); status != 200 {
			t.Errorf("%s, when it said: %d %s", path, status, text)
		}
		h.Stop()
	}
}

// The headers say what is left, as OpenAI and Anthropic write it.
func TestRateLimitHeaders(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", limits: {requests_per_minute: 10, tokens_per_minute: 60000}"}, nil)
	stream := strings.Replace(small, "{", `{"stream": true, `, 1)
	for i, c := range []struct {
		path, body string
		want       map[string]string
	}{
		{servertest.ChatPath, small, map[string]string{
			"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "6s", "x-ratelimit-limit-tokens": "60000",
		}},
		{servertest.ChatPath, stream, map[string]string{"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "8", "x-ratelimit-reset-requests": "12s"}},
		{"/v1/messages", small, map[string]string{
			"anthropic-ratelimit-requests-limit": "10", "anthropic-ratelimit-requests-remaining": "7", "anthropic-ratelimit-requests-reset": "2026-03-07T12:00:18Z",
			"anthropic-ratelimit-tokens-limit": "60000", "x-ratelimit-limit-requests": "", "x-ratelimit-remaining-tokens": "",
		}},
		{servertest.ChatPath, `{"messages": []}`, map[string]string{"x-ratelimit-remaining-requests": "6", "anthropic-ratelimit-requests-limit": ""}},
	} {
		_, text, header := h.ask(c.path, "k", c.body)
		for name, want := range c.want {
			if got := header.Get(name); got != want {
				t.Errorf("request %d: %s is %q, want %q\n%s", i, name, got, want, text)
			}
		}
		left, reset := header.Get("x-ratelimit-remaining-tokens"), header.Get("x-ratelimit-reset-tokens")
		if c.path == "/v1/messages" {
			left, reset = header.Get("anthropic-ratelimit-tokens-remaining"), header.Get("anthropic-ratelimit-tokens-reset")
		}
		if n, err := strconv.Atoi(left); err != nil || n <= 59000 || n >= 60000 && i < 3 || reset == "" {
			t.Errorf("request %d: %q tokens are left until %q", i, left, reset)
		}
	}
}

// Tokens are reserved while a request runs, and what it has not used comes back.
func TestTokensPerMinuteOfKeys(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", limits: {tokens_per_minute: 1000}", "other": ""}, func(s *servertest.Setup) {
		s.Script = [][]int32{{100, 101}}
	})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	h.SetHook(func(call sim.Call, _ int) error {
		if call == sim.End {
			begin()
			<-gate
		}
		return nil
	})
	var first sync.WaitGroup
	first.Go(func() {
		if status, text, _ := h.ask(servertest.ChatPath, "k", strings.Replace(small, `"max_tokens": 4`, `"max_tokens": 600, "seed": 1000`, 1)); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	})
	<-began
	status, text, header := h.ask(servertest.ChatPath, "k", strings.Replace(small, `"max_tokens": 4`, `"max_tokens": 500`, 1))
	if status != 429 || !strings.Contains(text, "1000 tokens per minute") || header.Get("Retry-After") == "" {
		t.Errorf("600 of 1000 tokens are reserved, and 500 more: %d %s", status, text)
	}
	// A long body is refused before it is tokenized: by its length alone.
	prepared := h.tokenized.Load()
	status, text, _ = h.ask(servertest.ChatPath, "k", strings.Replace(small, `"a"`, `"`+strings.Repeat("a ", 2000)+`"`, 1))
	if status != 429 || h.tokenized.Load() != prepared {
		t.Errorf("a long prompt: %d %s, and %d were prepared", status, text, h.tokenized.Load()-prepared)
	}
	open()
	first.Wait()
	// It was stopped after three tokens, and what it has not used is there again.
	if status, text, _ := h.ask(servertest.ChatPath, "k", strings.Replace(small, `"max_tokens": 4`, `"max_tokens": 900`, 1)); status != 200 {
		t.Errorf("when the first has ended: %d %s", status, text)
	}
}

// The day has a limit of its own, which a client is not asked to wait for.
func TestTokensPerDayOfKeys(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", limits: {tokens_per_day: 30}"}, nil)
	ask := func() (int, string, http.Header) {
		return h.ask(servertest.ChatPath, "k", strings.Replace(small, `"max_tokens": 4`, `"max_tokens": 10, "ignore_eos": true`, 1))
	}
	for n := 0; ; n++ {
		status, text, header := ask()
		if status == 200 {
			continue
		}
		if n == 0 || status != 429 || !strings.Contains(text, "30 tokens per day") || header.Get("Retry-After") != "43200" || header.Get("x-should-retry") != "false" || header.Get("x-ratelimit-reset-tokens") != "12h0m0s" {
			t.Errorf("request %d: %d %s %v", n, status, text, header)
		}
		break
	}
	h.pass(12 * time.Hour)
	if status, text, _ := ask(); status != 200 {
		t.Errorf("on the next day: %d %s", status, text)
	}
}

// A key has so many requests at a time, streams among them, until the last byte of their answers.
func TestConcurrencyOfKeys(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", limits: {concurrency: 2}", "other": ""}, nil)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	h.SetHook(func(call sim.Call, _ int) error {
		if call == sim.End {
			<-gate
		}
		return nil
	})
	var clients sync.WaitGroup
	for _, body := range []string{small, strings.Replace(small, "{", `{"stream": true, `, 1)} {
		clients.Go(func() {
			if status, text, _ := h.ask(servertest.ChatPath, "k", body); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	servertest.WaitFor(t, "both", func() bool { return h.Log.Times("request submitted") == 2 })
	for _, path := range []string{servertest.ChatPath, "/v1/messages"} {
		if status, text, header := h.ask(path, "k", small); status != 429 || !strings.Contains(text, "2 requests at a time") || header.Get("Retry-After") != "1" {
			t.Errorf("%s, the third: %d %s", path, status, text)
		}
	}
	clients.Go(func() {
		if status, text, _ := h.ask(servertest.ChatPath, "other", small); status != 200 {
			t.Errorf("another key: %d %s", status, text)
		}
	})
	servertest.WaitFor(t, "the other key", func() bool { return h.Log.Times("request submitted") == 3 })
	open()
	clients.Wait()
	for range 5 { // one after the other: each has ended when its answer has been read
		if status, text, _ := h.ask(servertest.ChatPath, "k", strings.Replace(small, "{", `{"stream": true, `, 1)); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
}

// Outputs are cut at the limit of the key, whatever the interface, and whether they ask for more or do
// not say; a least length beyond it is refused.
func TestMaxTokensOfKeys(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", limits: {max_tokens: 3}", "other": ""}, nil)
	usage := func(text string) string {
		for _, name := range []string{`"completion_tokens":`, `"output_tokens":`, `"eval_count":`} {
			if _, rest, ok := strings.Cut(text, name); ok {
				return rest[:strings.IndexAny(rest, ",}")]
			}
		}
		return text
	}
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt": ["a", "b"], "max_tokens": 4, "ignore_eos": true}`,
		"/v1/chat/completions": `{"ignore_eos": true, "messages": [{"role": "user", "content": "a"}]}`,
		"/v1/messages":         `{"model": "tiny", "max_tokens": 9, "ignore_eos": true, "messages": [{"role": "user", "content": "a"}]}`,
		"/v1/responses":        `{"model": "tiny", "input": "a", "ignore_eos": true}`,
		"/api/generate":        `{"model": "tiny", "stream": false, "options": {"num_predict": 9}, "prompt": "a"}`,
	} {
		most := 3
		if path == "/v1/completions" {
			most = 6
		}
		status, text, _ := h.ask(path, "k", body)
		if n, err := strconv.Atoi(usage(text)); status != 200 || err != nil || n > most || n < most && strings.Contains(body, "ignore_eos") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	status, text, _ := h.ask(servertest.ChatPath, "k", strings.Replace(small, "{", `{"min_tokens": 4, `, 1))
	servertest.Refused(t, status, text, 400, "")
	if status, text, _ := h.ask(servertest.ChatPath, "other", strings.Replace(small, "{", `{"min_tokens": 4, `, 1)); status != 200 || usage(text) != "4" {
		t.Errorf("another key: %d %s", status, text)
	}
}

// A key is for its models in every interface.
func TestModelsOfKeys(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ", models: [large]", "other": ""}, nil)
	for path, body := range computing {
		if status, text, _ := h.ask(path, "k", body); status != 403 || !strings.Contains(text, "not for the model tiny") {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status, text, _ := h.ask(path, "other", body); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// A request may say how long it waits, and the server too; the shorter time holds. One that has waited
// for so long is refused before it is tokenized, and is told when to come again.
func TestQueueTime(t *testing.T) {
	for _, c := range []struct {
		server time.Duration
		header string
		status int
		mind   string
	}{
		{0, "", 200, ""},
		{time.Hour, "", 200, ""},
		{0, "3600", 200, ""},
		{time.Nanosecond, "", 503, "cannot begin within the time"},
		{time.Nanosecond, "3600", 503, "cannot begin within the time"},
		{0, "0.000000001", 503, "cannot begin within the time"},
		{time.Hour, "1e-9", 503, "cannot begin within the time"},
		{0, "0", 400, "X-Max-Queue-Time"},
		{0, "-1", 400, "X-Max-Queue-Time"},
		{0, "soon", 400, "X-Max-Queue-Time"},
		{0, "NaN", 400, "X-Max-Queue-Time"},
		{0, "1e9", 400, "X-Max-Queue-Time"},
	} {
		h := newLimited(t, map[string]string{"k": ", limits: {requests_per_minute: 1000}"}, func(s *servertest.Setup) { s.Config.MaxQueueTime = c.server })
		h.SetClock(time.Now)
		headers := []string{"Authorization: Bearer k", "Content-Type: application/json"}
		if c.header != "" {
			headers = append(headers, "X-Max-Queue-Time: "+c.header)
		}
		status, text, header := h.Get("POST", servertest.ChatPath, small, headers...)
		if status != c.status || !strings.Contains(text, c.mind) {
			t.Errorf("%v, %q: %d %s", c.server, c.header, status, text)
		}
		if status == 200 {
			h.Stop()
			continue
		}
		if n := h.tokenized.Load(); n != 0 {
			t.Errorf("%v, %q: %d were tokenized", c.server, c.header, n)
		}
		if status == 503 {
			if header.Get("Retry-After") == "" || header.Get("x-should-retry") != "true" {
				t.Errorf("%v, %q: %v", c.server, c.header, header)
			}
			h.Told("once", map[string]string{`weir:rejected_requests_total{reason="queue_time"}`: "1"})
		}
		h.Stop()
	}
}

// Prompts that wait have so many tokens together, by the length of their bodies before they are
// tokenized.
func TestQueuedTokens(t *testing.T) {
	h := newLimited(t, map[string]string{"k": ""}, func(s *servertest.Setup) { s.EngineConfig.MaxPrompts, s.Spec.MaxSeqs = 300, 1 })
	_, release := h.HoldSteps()
	t.Cleanup(release)
	var clients sync.WaitGroup
	send := func(n int) {
		clients.Go(func() {
			if status, text, _ := h.ask(servertest.ChatPath, "k", small); status != 200 {
				t.Errorf("one that was accepted: %d %s", status, text)
			}
		})
		servertest.WaitFor(t, "a request", func() bool { return h.Log.Times("request submitted") == n })
	}
	send(1)
	servertest.WaitFor(t, "its step", func() bool { return h.Engine.Stats().Running == 1 })
	send(2)
	before := h.tokenized.Load()
	long := strings.Replace(small, `"a"`, `"`+strings.Repeat("a ", 700)+`"`, 1)
	status, text, header := h.ask(servertest.ChatPath, "k", long)
	if f := servertest.Refused(t, status, text, 503, ""); !strings.Contains(f.Message, "prompts that wait") || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, text)
	}
	if h.tokenized.Load() != before {
		t.Error("it was tokenized")
	}
	h.Told("once", map[string]string{`weir:rejected_requests_total{reason="queued_tokens"}`: "1"})
	send(3)
	release()
	clients.Wait()
}

// vectors are requests for vectors and scores, which are limited as the others are.
var vectors = map[string]string{
	"/v1/embeddings": `{"input": "a"}`,
	"/pooling":       `{"input": "a"}`,
	"/score":         `{"text_1": "a", "text_2": "b"}`,
	"/rerank":        `{"query": "a", "documents": ["b"]}`,
	"/classify":      `{"input": "a"}`,
}

// Every limit of a key holds in every interface: what one request has used or holds, the next one
// does not have, whichever of them it comes through.
func TestEveryLimitEverywhere(t *testing.T) {
	all := maps.Clone(computing)
	maps.Copy(all, vectors)
	for path, body := range all {
		t.Run(path, func(t *testing.T) {
			h := newLimitedFor(t, path, map[string]string{
				"requests": ", limits: {requests_per_minute: 1}", "minute": ", limits: {tokens_per_minute: 1}", "day": ", limits: {tokens_per_day: 1}",
				"one": ", limits: {concurrency: 1}", "foreign": ", models: [large]", "free": "",
			})
			for key, text := range map[string]string{"requests": "1 requests per minute", "minute": "1 tokens per minute", "day": "1 tokens per day"} {
				h.answers(t, path, key, body, 200, "")
				h.answers(t, path, key, body, 429, text)
			}
			h.answers(t, path, "foreign", body, 403, "not for the model")
			held, release := h.HoldSteps()
			t.Cleanup(release)
			var first sync.WaitGroup
			first.Go(func() { h.answers(t, path, "one", body, 200, "") })
			<-held
			h.answers(t, path, "one", body, 429, "1 requests at a time")
			release()
			first.Wait()
			for _, key := range []string{"one", "free", "free"} {
				h.answers(t, path, key, body, 200, "")
			}
		})
	}
}

// answers sends a body with a key and checks the status and that the answer has a text in it.
func (h *limitedServer) answers(t *testing.T, path, key, body string, status int, text string) {
	t.Helper()
	if got, answer, _ := h.ask(path, key, body); got != status || !strings.Contains(answer, text) {
		t.Errorf("%s with the key %s: %d %s, want %d and %q", path, key, got, answer, status, text)
	}
}

// newLimitedFor is a limited server with a model for a path.
func newLimitedFor(t *testing.T, path string, limits map[string]string) *limitedServer {
	return newLimited(t, limits, func(s *servertest.Setup) {
		if vectors[path] == "" {
			return
		}
		s.Spec.Hidden = vectorSize
		if s.Model.Pooling = (&pooling.Plan{Kind: pooling.Mean, Hidden: vectorSize, Normalize: true}); path != "/v1/embeddings" && path != "/pooling" {
			s.Model.Tokenizer, s.Model.Pooling = pairTokenizer(), head(1, pooling.Sigmoid)
		}
	})
}
