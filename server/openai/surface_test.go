package openai_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"weir/api"
	"weir/backend"
	"weir/backend/sim"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/openai"
	"weir/server/servertest"
	"weir/server/transport"
)

// lines is a Surface whose requests are a chat's own and whose answers are lines that say
// what was called.
type lines struct{ bad error }

func (l lines) Translate(_ context.Context, m *openai.Model, from openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	if l.bad != nil {
		return nil, nil, l.bad
	}
	return []byte(strings.TrimPrefix(string(body), "chat ")), &lineAnswer{model: m.Names[0], who: from.Who != nil}, nil
}

func (lines) Fail(c *transport.Call, err error) failure.Failure {
	f := c.Failed(err)
	c.SetStatusCode(f.Status)
	c.SetContentType("text/plain")
	c.SetBodyString("failed: " + f.Message)
	return f
}

type lineAnswer struct {
	model string
	who   bool
}

func (*lineAnswer) ID(request string) string { return "line_" + request }

func (a *lineAnswer) Headers(set func(name, value string)) {
	set("X-Lines", fmt.Sprint(a.model, " ", a.who))
}

func (*lineAnswer) Whole(dst []byte, w *openai.Whole) []byte {
	return fmt.Appendf(dst, "whole %s %s cut %v %s usage %d/%d/%d ids %d/%d logprobs %d", w.Meta.ID, text(w.Thought), w.Finish == api.FinishLength, text(w.Content),
		w.Usage.Prompt, w.Usage.Completion, w.Usage.Reasoning, len(w.PromptIDs), len(w.IDs), len(w.Logprobs))
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}

func (*lineAnswer) Open(dst []byte, w *openai.Whole) []byte {
	return fmt.Appendf(dst, "open %s prompt %d/%d\n", w.Meta.ID, w.Usage.Prompt, len(w.PromptIDs))
}

func (*lineAnswer) Delta(dst []byte, d *openai.Delta) []byte {
	return fmt.Appendf(dst, "delta %q %q %d %d\n", d.Thought, d.Content, len(d.IDs), len(d.Logprobs))
}

func (a *lineAnswer) Close(dst []byte, w *openai.Whole) []byte {
	return append(a.Whole(append(dst, "close "...), w), '\n')
}

func (*lineAnswer) Broken(dst []byte, f failure.Failure) []byte {
	return fmt.Appendf(dst, "broken %d\n", f.Status)
}

func (*lineAnswer) Form() (contentType, heartbeat string) { return "text/lines", "\n" }

// surfaceServer is a service with a Surface, whose model generates what script has.
type surfaceServer struct {
	t       *testing.T
	client  *http.Client
	surface openai.Surface
	service *openai.Service
	script  atomic.Pointer[[]int32]
}

func (s *surfaceServer) Interface(string) failure.Interface { return failure.OpenAI }

func (s *surfaceServer) Find(string) (transport.Route, bool) {
	return transport.Route{Name: "surface", Methods: "POST", Serve: func(c *transport.Call) { s.service.Serve(c, s.surface) }}, true
}

func newSurfaceServer(t *testing.T, template, output string) *surfaceServer {
	s := &surfaceServer{t: t, surface: lines{}}
	ids := append(servertest.Encode(output, false), servertest.EndOfTurn)
	s.script.Store(&ids)
	renderer, err := chat.New(chat.Config{Templates: []chat.Template{{Source: template}}, Reasoning: reasoning.DeepSeekR1})
	if err != nil {
		t.Fatal(err)
	}
	spec := backend.Spec{VocabSize: servertest.Vocabulary, BlockTokens: 16, NumBlocks: 65, MaxTokens: 256, MaxSeqs: 8, MaxSeqTokens: 256, Depth: 1}
	eng := engine.New(engine.Config{MaxLive: 8, Tokenizer: servertest.Tokenizer()}, func() (backend.Backend, error) {
		o, err := sim.NewOracle(spec, sim.OracleConfig{})
		return &scriptedBackend{Backend: o, script: &s.script}, err
	})
	cfg := transport.DefaultConfig()
	cfg.AllowedHosts = []string{"weir"}
	cfg.Log = slog.New(slog.DiscardHandler)
	h, err := transport.New(cfg, s, failure.Settings{}, metrics.New())
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	if s.service, err = openai.New(openai.Config{
		StallAfter: time.Hour, CompileQueue: 1, CompileWorkers: 1, MaxLogprobs: 20, Limits: api.DefaultLimits(),
		NewID: func() string { names++; return fmt.Sprint(names) },
	}, h, nil, metrics.New()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ln := fasthttputil.NewInmemoryListener()
	var running sync.WaitGroup
	running.Go(func() {
		if err := eng.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := h.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	<-eng.Ready()
	if err := s.service.SetModel(&openai.Model{
		Names: []string{"tiny"}, Tokenizer: servertest.Tokenizer(), Chat: renderer, MaxLen: 256, VocabSize: servertest.Vocabulary, Engine: eng,
		Generation: openai.Generation{EOS: servertest.EndOfTurn},
	}); err != nil {
		t.Fatal(err)
	}
	trips := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}
	s.client = &http.Client{Transport: trips}
	t.Cleanup(func() {
		trips.CloseIdleConnections()
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		s.service.Close()
		cancel()
		running.Wait()
		h.CheckReleased()
	})
	return s
}

func (s *surfaceServer) post(body string) (int, string, http.Header) {
	s.t.Helper()
	resp, err := s.client.Post("http://weir/surface", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(answer), resp.Header
}

// TestSurface: another interface gets the same answer, whole and in pieces, with ids and
// headers of its own.
func TestSurface(t *testing.T) {
	const output = "Hm</think>Yes"
	s := newSurfaceServer(t, "{{ messages[0].content }}</think>", output)
	ids := *s.script.Load()
	prompt := `{"messages":[{"role":"user","content":"Hi"}],"temperature":0,"logprobs":true,"max_tokens":50`
	n := len(servertest.Encode("Hi</think>", true))

	status, answer, header := s.post("chat " + prompt + "}")
	want := fmt.Sprintf(`whole line_1 null cut false "Hm</think>Yes" usage %d/%d/0 ids %d/%d logprobs %d`, n, len(ids), n, len(ids), len(ids))
	if status != 200 || answer != want || header.Get("X-Lines") != "tiny true" {
		t.Errorf("%d %v\n%s\nwant\n%s", status, header, answer, want)
	}
	status, answer, header = s.post("chat " + prompt + `,"stream":true}`)
	if status != 200 || header.Get("Content-Type") != "text/lines" || header.Get("X-Lines") != "tiny true" {
		t.Error(status, header)
	}
	all := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	if first := fmt.Sprintf("open line_2 prompt %d/%d", n, n); all[0] != first {
		t.Error(all[0], "want", first)
	}
	if last := "close " + strings.Replace(want, "_1 ", "_2 ", 1); all[len(all)-1] != last {
		t.Errorf("%s\nwant\n%s", all[len(all)-1], last)
	}
	content, tokens := "", 0
	for _, l := range all[1 : len(all)-1] {
		var thought, c string
		var ids, logprobs int
		if _, err := fmt.Sscanf(l, "delta %q %q %d %d", &thought, &c, &ids, &logprobs); err != nil || thought != "" || logprobs != ids {
			t.Error(err, l)
		}
		content, tokens = content+c, tokens+ids
	}
	if content != "Hm</think>Yes" || tokens != len(ids) {
		t.Errorf("%q, %d tokens", content, tokens)
	}
}

// TestSurfaceThoughts: thoughts are apart from the content, and nowhere with include_reasoning
// false.
func TestSurfaceThoughts(t *testing.T) {
	s := newSurfaceServer(t, "{{ messages[0].content }}", "Hm</think>Yes")
	for fields, want := range map[string]string{"": `"Hm" cut false "Yes"`, `,"include_reasoning":false`: `null cut false "Yes"`} {
		_, answer, _ := s.post(`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":50` + fields + "}")
		if !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
		_, answer, _ = s.post(`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":50,"stream":true` + fields + "}")
		if !strings.Contains(answer, want) || strings.Contains(answer, `delta "H`) != (fields == "") {
			t.Errorf("%s, want %s", answer, want)
		}
	}
}

// TestSurfaceErrors: every error has the interface's own form, and one choice is all.
func TestSurfaceErrors(t *testing.T) {
	s := newSurfaceServer(t, "{{ messages[0].content }}", "Yes")
	for body, want := range map[string]string{
		`{"messages":[]}`: "failed: messages: at least one message is required",
		`{"messages":[{"role":"user","content":"Hi"}],"model":"x"}`: "failed: The model `x` does not exist.",
		`{"messages":[{"role":"user","content":"Hi"}],"n":2}`:       "failed: n must be 1 here, got 2.",
		`{"messages":`: "failed: JSON decode error: ",
	} {
		if status, answer, _ := s.post(body); status/100 != 4 || !strings.HasPrefix(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	s.surface = lines{bad: failure.BadRequest("", "what?")}
	if status, answer, _ := s.post("{}"); status != 400 || answer != "failed: what?" {
		t.Error(status, answer)
	}
}
