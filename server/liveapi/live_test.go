package liveapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/auth"
	"weir/backend/sim"
	"weir/server/liveapi"
	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

type object = map[string]any

// stream is an open stream of events.
type stream struct {
	t     *testing.T
	close func()
	lines *bufio.Scanner
}

// watch opens a stream.
func watch(t *testing.T, h *servertest.Server, query string, headers ...string) *stream {
	t.Helper()
	resp := h.Do("GET", liveapi.Path+query, "", headers...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{t, func() { resp.Body.Close() }, lines}
}

// next is the next event; nil: the stream has ended.
func (s *stream) next() object {
	s.t.Helper()
	for s.lines.Scan() {
		text, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var o object
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		return o
	}
	return nil
}

// until reads states until one fits.
func (s *stream) until(what string, fits func(object) bool) object {
	s.t.Helper()
	for range 100 {
		o := s.next()
		if o == nil {
			break
		}
		if o["type"] == "state" && fits(o) {
			return o
		}
	}
	s.t.Fatalf("there is no state in which %s", what)
	return nil
}

func at(o object, path ...string) any {
	var v any = o
	for _, p := range path {
		v = v.(object)[p]
	}
	return v
}

// bubble runs a test with fake time, in which steps and states cost none.
func bubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // a goroutine of fasthttp looks only every ten seconds whether it should end
		f(t)
	})
}

// docs/interface/live.md, L-1: the first event says what follows, states come in the interval that was asked for,
// and the stream ends after as many as were asked for.
func TestL1Stream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := servertest.New(t, nil)
		begin := time.Now()
		s := watch(t, h, "?interval=2.5&count=3")
		first := s.next()
		if first["type"] != "hello" || first["interval"] != 2.5 || first["scope"] != "all" || first["version"] == "" || len(first["step_fields"].([]any)) != 15 {
			t.Errorf("%v", first)
		}
		for range 3 {
			if o := s.next(); o["type"] != "state" {
				t.Errorf("%v", o)
			}
		}
		if d := time.Since(begin); d != 5*time.Second { // the first comes at once
			t.Errorf("three states took %v", d)
		}
		if o := s.next(); o["type"] != "end" || o["reason"] != "count" || s.next() != nil {
			t.Errorf("%v", o)
		}
		for query, param := range map[string]string{"?interval=0.1": "interval", "?interval=11": "interval", "?interval=x": "interval", "?interval=NaN": "interval", "?count=0": "count", "?count=1.5": "count", "?count=1000001": "count"} {
			status, answer, _ := h.Get("GET", liveapi.Path+query, "")
			servertest.Refused(t, status, answer, 400, param)
		}
		if status, _, header := h.Get("HEAD", liveapi.Path, ""); status != 200 || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("HEAD: %d %v", status, header)
		}
		if status, _, _ := h.Get("POST", liveapi.Path, ""); status != 405 {
			t.Errorf("POST: %d", status)
		}
	})
}

// docs/interface/live.md, L-2 and L-3: requests with what is known of them, and what the engine does.
func TestL2State(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := servertest.New(t, func(s *servertest.Setup) {
			s.Spec.MaxSeqs = 1
			s.Config.NoRequestID = true
		})
		h.SetClock(time.Now)
		h.SetHook(func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
		h.Chat(map[string]any{"temperature": -1}) // refused, and not counted as such
		s := watch(t, h, "?interval=1")
		s.next()
		var asked sync.WaitGroup
		for i := range 2 {
			asked.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				h.Chat(map[string]any{"max_tokens": 40, "ignore_eos": true, "temperature": 1, "seed": i}, "X-Request-Id: r"+fmt.Sprint(i), "Compat-Project: acme/p")
			})
		}
		s.until("one of two runs", func(o object) bool { return len(o["requests"].([]any)) == 2 })
		o := s.next() // a second later
		checkRequests(t, o)
		checkSteps(t, o)
		if at(o, "engine", "running") != 1. || at(o, "engine", "waiting") != 1. || at(o, "engine", "kv_blocks_used").(float64) == 0 || at(o, "engine", "step_age") == nil || at(o, "request_counts", "running") != 1. || at(o, "request_counts", "waiting") != 1. {
			t.Errorf("%v %v", o["engine"], o["request_counts"])
		}
		if r := at(o, "rates", "generation_tokens").(float64); r < 9 || r > 11 { // a token in 100 ms
			t.Errorf("%v", o["rates"])
		}
		if p := at(o, "itl", "p50").(float64); p < 0.093 || p > 0.107 || at(o, "itl", "count").(float64) < 9 || at(o, "ttft", "count") != 1. {
			t.Errorf("%v %v", o["itl"], o["ttft"])
		}
		o = s.until("nothing runs", func(o object) bool { return len(o["requests"].([]any)) == 0 })
		asked.Wait()
		if at(o, "engine", "finished") != 2. || at(o, "engine", "generation_tokens") != 80. || fmt.Sprint(o["projects"]) != "[map[generation_tokens:80 project:acme/p prompt_tokens:"+fmt.Sprint(at(o, "engine", "prompt_tokens"))+" requests:2]]" {
			t.Errorf("%v %v", o["engine"], o["projects"])
		}
		if at(o, "engine", "prefix_queries").(float64) < at(o, "engine", "prompt_tokens").(float64) || len(o["rejected"].(object)) != 0 {
			t.Errorf("%v %v", o["engine"], o["rejected"])
		}
		o = s.until("the window has passed", func(o object) bool { return o["itl"] == nil })
		if o["ttft"] != nil {
			t.Errorf("%v", o["ttft"])
		}
		s.close()
	})
}

// checkRequests looks at two requests, one of which is computed.
func checkRequests(t *testing.T, o object) {
	t.Helper()
	one, two := o["requests"].([]any)[0].(object), o["requests"].([]any)[1].(object)
	if one["state"] != "running" || two["state"] != "waiting" || one["id"] != "chatcmpl-r0" || one["request_id"] != "r0" || one["path"] != servertest.ChatPath || one["project"] != "acme/p" || one["model"] != "tiny" || one["key"] != nil || one["background"] != false {
		t.Errorf("%v\n%v", one, two)
	}
	if one["age"].(float64) <= two["age"].(float64) || one["prompt_tokens"].(float64) == 0 || one["output_tokens"].(float64) < 9 || two["output_tokens"] != 0. || two["ttft"] != nil || one["ttft"].(float64) < 0.09 {
		t.Errorf("%v\n%v", one, two)
	}
}

// checkSteps looks at the steps of a second.
func checkSteps(t *testing.T, o object) {
	t.Helper()
	last := 0.
	for _, step := range o["steps"].([]any) {
		f := step.([]any)
		if f[0].(float64) <= last || f[2] != "decode" || f[3] != 0. || f[4] != 1. || f[13].(float64) < 99_000 || len(f) != 15 {
			t.Errorf("%v", f)
		}
		last = f[0].(float64)
	}
	if n := len(o["steps"].([]any)); n < 9 || n > 11 {
		t.Errorf("%d steps in a second", n)
	}
}

// Refusals for lack of something are counted by their reason, and a server without a model says so.
func TestL3Rejected(t *testing.T) {
	t.Parallel()
	h := servertest.New(t, func(s *servertest.Setup) { s.NoModel = true })
	h.Chat(nil)
	s := watch(t, h, "?count=1")
	s.next()
	if o := s.next(); o["engine"] != nil || o["rates"] != nil || at(o, "rejected", "loading") != 1. {
		t.Errorf("%v", o)
	}
}

// Only 200 requests are in a state, the oldest; the others are counted.
func TestL2Many(t *testing.T) {
	t.Parallel()
	h := servertest.New(t, nil)
	held, release := h.HoldSteps()
	var asked sync.WaitGroup
	for range 203 {
		asked.Go(func() { h.Chat(map[string]any{"max_tokens": 1}) })
	}
	<-held
	s := watch(t, h, "?interval=0.2")
	o := s.until("all are there", func(o object) bool {
		n := 0.
		for _, v := range o["request_counts"].(object) {
			n += v.(float64)
		}
		return n == 203
	})
	if len(o["requests"].([]any)) != 200 || o["requests_left_out"] != 3. {
		t.Errorf("%d requests, %v left out", len(o["requests"].([]any)), o["requests_left_out"])
	}
	s.close()
	release()
	asked.Wait()
}

// keys are an ordinary key for projects of a team, another of everything, and two that administer.
func keys(t *testing.T) (ring *auth.Keyring, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n"
	for _, k := range [][2]string{{"a", `, projects: ["acme/*"]`}, {"b", ""}, {"lead", `, projects: ["acme/*"], rights: [read, write, admin]`}, {"chief", ", rights: [admin]"}} {
		text += fmt.Sprintf("  - {id: %s, hash: %q%s}\n", k[0], servertest.KeyHash(k[0]), k[1])
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	return ring, file
}

func bearer(key string) string { return "Authorization: Bearer " + key }

// seen are the requests and projects of a state.
func seen(t *testing.T, h *servertest.Server, headers ...string) string {
	t.Helper()
	s := watch(t, h, "?count=1", headers...)
	scope, o := s.next()["scope"], s.next()
	var list []string
	for _, r := range o["requests"].([]any) {
		list = append(list, r.(object)["request_id"].(string))
	}
	list = append(list, "|")
	for _, p := range o["projects"].([]any) {
		list = append(list, p.(object)["project"].(string))
	}
	return fmt.Sprint(scope, " ", strings.Join(list, " "), " ", len(o["steps"].([]any)) > 0)
}

// docs/interface/live.md, L-4: what each key may see.
func TestL4Sight(t *testing.T) {
	t.Parallel()
	ring, _ := keys(t)
	h := servertest.New(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	for _, project := range []string{"acme/x", "lab/y"} {
		h.Complete(t, map[string]any{"max_tokens": 1}, bearer("b"), "Compat-Project: "+project)
	}
	held, release := h.HoldSteps()
	var asked sync.WaitGroup
	for i, c := range [][2]string{{"a", "acme/x"}, {"b", "acme/x"}, {"b", "lab/y"}, {"b", ""}} {
		asked.Go(func() {
			h.Chat(map[string]any{"max_tokens": 1}, bearer(c[0]), "Compat-Project: "+c[1], fmt.Sprintf("X-Request-Id: r%d", i))
		})
		servertest.WaitFor(t, "the request", func() bool { return len(h.Instance.Transport().Ongoing(nil, all)) == i+1 })
	}
	<-held
	for key, want := range map[string]string{
		"a": "own r0 | acme/x false", "b": "own r1 r2 r3 | acme/x lab/y false", "lead": "own r0 r1 | acme/x false", "chief": "all r0 r1 r2 r3 | acme/x lab/y true",
	} {
		if got := seen(t, h, bearer(key)); got != want {
			t.Errorf("%s sees %q, want %q", key, got, want)
		}
	}
	if status, _, _ := h.Get("GET", liveapi.Path, ""); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	release()
	asked.Wait()
}

// docs/interface/live.md, L-4: without keys a viewer sees everything on this machine, and its own requests where others
// can reach the server.
func TestL4WithoutKeys(t *testing.T) {
	t.Parallel()
	h := servertest.New(t, nil)
	h.Complete(t, map[string]any{"max_tokens": 1}, "Compat-Project: acme/x")
	held, release := h.HoldSteps()
	var asked sync.WaitGroup
	asked.Go(func() { h.Chat(map[string]any{"max_tokens": 1}, "X-Request-Id: r0") })
	<-held
	if got := seen(t, h); got != "all r0 | acme/x true" {
		t.Errorf("%q", got)
	}
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
	if got := seen(t, h); got != "own r0 | false" { // of the same address
		t.Errorf("%q", got)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s?count=1", ln.Addr().(*net.TCPAddr).Port, liveapi.Path))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `"requests":[]`) || !strings.Contains(string(text), `"projects":[]`) {
		t.Errorf("another address sees %s %v", text, err)
	}
	release()
	asked.Wait()
	h.Stop()
	served.Wait()
}
