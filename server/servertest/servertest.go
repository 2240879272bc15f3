// Package servertest is a whole server over the simulated backend, for tests of the
// server's packages: what cmd/weir puts together, with a clock, ids and an engine that a
// test can control. It is imported by tests alone.
//
// A test starts one with [New], or with [NewTrajectories], [NewRecording] or
// [NewFeedback] where it needs a store, and talks to it with [Server.Get], [Server.Chat] and
// [Server.Complete]. When the test ends, the server is stopped, and the test fails if
// anything is left: connections, bytes of bodies, KV blocks, goroutines ([Main]).
package servertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"weir/backend"
	"weir/backend/sim"
	"weir/chat"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/models"
	"weir/server"
	"weir/server/openai"
	"weir/server/transport"
	"weir/tokenizer"
)

// Tokenizer is the tokenizer of the Tokenizer model; it takes a while to load.
var Tokenizer = sync.OnceValue(func() *tokenizer.Tokenizer {
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		panic(err)
	}
	return tok
})

// Encode returns the tokens of a text in the Tokenizer model's Vocabulary.
func Encode(text string, addSpecial bool) []int32 {
	ids, err := Tokenizer().Encode(nil, text, addSpecial)
	if err != nil {
		panic(err)
	}
	return ids
}

// template is the Tokenizer model's.
var Template = sync.OnceValue(func() *chat.Renderer {
	source, err := fs.ReadFile(models.Bundled(), "chat_template.jinja")
	if err != nil {
		panic(err)
	}
	r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: string(source)}}})
	if err != nil {
		panic(err)
	}
	return r
})

// Facts of the bundled model.
const (
	Vocabulary = 3584 // rows of the Tokenizer model's embedding
	EndOfTurn  = 2
	EndOfText  = 0
)

// Setup is what a test may change before its server is built.
type Setup struct {
	Config       server.Config
	Spec         backend.Spec
	EngineConfig engine.Config
	Oracle       sim.OracleConfig
	Open         func() (backend.Backend, error) // nil: the oracle, with Script
	// Script has the tokens that choice i draws with seed ScriptSeed, in place of the
	// oracle's.
	Script  [][]int32
	Model   openai.Model
	NoModel bool // start without one
	TCP     bool // listen on a real socket
	Unix    bool // with TCP: on a Unix socket
	// With TCP: TLS is the server's, and Trust what clients have; nil: there is no TLS.
	TLS   func() *tls.Config
	Trust *tls.Config
}

// scripted is an oracle that draws given tokens, and then the end of turn.
type scripted struct {
	*sim.Oracle
	script [][]int32
	draws  *backend.Draws
}

// ScriptSeed is the seed of requests that get the script.
const ScriptSeed = 1000

func (s *scripted) Draw(d *backend.Draws) error {
	s.draws = d
	return s.Oracle.Draw(d)
}

func (s *scripted) End(out *backend.Out) error {
	if err := s.Oracle.End(out); err != nil {
		return err
	}
	for i, r := range s.draws.Rows {
		if choice := r.Seed - ScriptSeed; choice < uint64(len(s.script)) && r.Target < 0 {
			out.Tokens[i] = EndOfTurn
			if text := s.script[choice]; int(r.Index) < len(text) {
				out.Tokens[i] = text[r.Index]
			}
		}
	}
	return nil
}

// Server is a server over the simulated backend, as cmd/weir would build it.
type Server struct {
	T        testing.TB
	Instance *server.Server
	Engine   *engine.Engine
	Model    *openai.Model
	Dial     func() (net.Conn, error)
	Addr     string // of a real socket
	Client   *http.Client
	Log      *Log
	Stop     func() // stops the server; the end of the test does so too

	hook  atomic.Pointer[func(sim.Call, int) error]
	clock atomic.Pointer[func() time.Time]
	newID atomic.Pointer[func() string]
}

// New builds and starts a server; it is stopped, and checked for leaks,
// when the test ends.
func New(t testing.TB, change func(*Setup)) *Server {
	t.Helper()
	h := &Server{T: t}
	s := Setup{
		Config:       server.DefaultConfig(),
		Spec:         backend.Spec{VocabSize: Vocabulary, BlockTokens: 16, NumBlocks: 257, MaxTokens: 256, MaxSeqs: 64, MaxSeqTokens: 1024, Depth: 1},
		EngineConfig: engine.Config{Caching: true, MaxLive: 512, Tokenizer: Tokenizer()},
		Model: openai.Model{
			Names: []string{"tiny", "alias"}, Root: "models/tiny", Created: time.Unix(1_772_900_000, 0),
			Tokenizer: Tokenizer(), Chat: Template(), MaxLen: 1024, VocabSize: Vocabulary,
			Generation: openai.Generation{EOS: EndOfTurn, Stop: []int32{EndOfText}},
		},
	}
	// Requests without a seed draw the same tokens at every run, so that none ends at once by chance.
	seed := uint64(1)
	s.Config.Seed = &seed
	s.Config.AllowedHosts = []string{"weir"} // which the requests of tests name, also over TCP
	h.Log = newLog()
	s.Config.Log = slog.New(h.Log)
	s.Oracle.Hook = func(c sim.Call, step int) error {
		if f := h.hook.Load(); f != nil {
			return (*f)(c, step)
		}
		return nil
	}
	if change != nil {
		change(&s)
	}
	if s.Open == nil {
		s.Open = func() (backend.Backend, error) {
			o, err := sim.NewOracle(s.Spec, s.Oracle)
			return &scripted{Oracle: o, script: s.Script}, err
		}
	}
	h.Engine = engine.New(s.EngineConfig, s.Open)
	s.Model.Engine = h.Engine
	h.Model = &s.Model
	h.SetClock(func() time.Time { return time.Unix(1_772_900_001, 0) })
	if s.Config.Heartbeat != server.DefaultConfig().Heartbeat {
		h.SetClock(time.Now) // the test is about time
	}
	var ids atomic.Int64
	h.SetNewID(func() string { return fmt.Sprintf("%016x", ids.Add(1)) })
	s.Config.Clock = func() time.Time { return (*h.clock.Load())() }
	s.Config.NewID = func() string { return (*h.newID.Load())() }
	var err error
	if h.Instance, err = server.New(s.Config); err != nil {
		t.Fatal(err)
	}
	ln := h.listen(&s)
	roundTrips := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return h.Dial() },
		DisableCompression: true,
	}
	h.Client = &http.Client{Transport: roundTrips}

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.Engine.Run(ctx); err != nil {
			t.Errorf("engine: %v", err)
		}
	})
	running.Go(func() {
		if err := h.Instance.ServeTLS(ln, s.TLS); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	<-h.Engine.Ready()
	if !s.NoModel {
		if err := h.Instance.SetModel(h.Model); err != nil {
			t.Fatal(err)
		}
	}
	h.Stop = sync.OnceFunc(func() {
		roundTrips.CloseIdleConnections()
		ctx, cancelShutdown := context.WithTimeout(context.Background(), Deadline)
		defer cancelShutdown()
		if err := h.Instance.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		h.Idle()
		cancel()
		running.Wait()
		if held := h.Instance.Transport().Held(); held != (transport.Held{}) {
			t.Errorf("the server still holds %+v", held)
		}
		if text := h.Log.Text(); t.Failed() && text != "" {
			t.Logf("the server's log:\n%s", text)
		}
	})
	t.Cleanup(h.Stop)
	return h
}

// listen opens the listener that the setup asks for.
func (h *Server) listen(s *Setup) net.Listener {
	h.T.Helper()
	if !s.TCP {
		mem := fasthttputil.NewInmemoryListener()
		h.Dial = mem.Dial
		return mem
	}
	network, addr := "tcp", "127.0.0.1:0"
	if s.Unix {
		network, addr = "unix", filepath.Join(h.T.TempDir(), "s")
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		h.T.Fatal(err)
	}
	h.Addr = ln.Addr().String()
	h.Dial = func() (net.Conn, error) { return net.Dial(network, h.Addr) }
	if s.TLS != nil {
		h.Dial = func() (net.Conn, error) { return tls.Dial(network, h.Addr, s.Trust) }
	}
	return ln
}

// Idle waits until the engine has nothing to do and holds nothing.
func (h *Server) Idle() {
	h.T.Helper()
	if !Eventually(5*time.Second, h.NoBlocks) {
		h.T.Errorf("the engine is not idle: %+v", h.Engine.Stats())
	}
}

// NoBlocks reports whether the engine holds nothing and has nothing to do.
func (h *Server) NoBlocks() bool {
	st := h.Engine.Stats()
	return st.BlocksUsed == 0 && st.StatesUsed == 0 && st.Running == 0 && st.Waiting == 0
}

// Eventually asks every millisecond whether something is done.
func Eventually(within time.Duration, done func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !done(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// WaitFor waits until something is done, until the Deadline.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !Eventually(Deadline, done) {
		t.Fatalf("%s: not within %v", what, Deadline)
	}
}

// Clock is the server's clock.
func (h *Server) Clock() func() time.Time { return *h.clock.Load() }

// NewID names the requests that bring no id.
func (h *Server) NewID() func() string { return *h.newID.Load() }

// SetClock makes f the server's clock.
func (h *Server) SetClock(f func() time.Time) { h.clock.Store(&f) }

// SetNewID makes f name the requests that bring no id.
func (h *Server) SetNewID(f func() string) { h.newID.Store(&f) }

// SetHook makes f run in every call of the backend; nil ends that.
func (h *Server) SetHook(f func(sim.Call, int) error) {
	if f == nil {
		h.hook.Store(nil)
		return
	}
	h.hook.Store(&f)
}

// HoldSteps makes steps of the backend wait at their end until release is called. held has an
// element once a step waits.
func (h *Server) HoldSteps() (held <-chan struct{}, release func()) {
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			select {
			case reached <- struct{}{}:
			default:
			}
			<-gate
		}
		return nil
	})
	return reached, sync.OnceFunc(func() { close(gate) })
}

// ChatPath is the path of chat completions.
const ChatPath = "/v1/chat/completions"

// Do sends a request. Headers are "Name: value".
func (h *Server) Do(method, path, body string, headers ...string) *http.Response {
	h.T.Helper()
	req, err := http.NewRequest(method, "http://weir"+path, strings.NewReader(body))
	if err != nil {
		h.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		h.T.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// Get sends a request and reads the whole answer.
func (h *Server) Get(method, path, body string, headers ...string) (status int, answer string, header http.Header) {
	h.T.Helper()
	resp := h.Do(method, path, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.T.Fatalf("%s %s: %v after %q", method, path, err, data)
	}
	return resp.StatusCode, string(data), resp.Header
}

// Chat sends the request of Body to chat completions.
// A field that is given as nil goes as null; Remove deletes it.
func (h *Server) Chat(fields map[string]any, headers ...string) (status int, answer string) {
	h.T.Helper()
	status, answer, _ = h.Get("POST", ChatPath, Body(h.T, fields), headers...)
	return status, answer
}

type removed struct{}

// Remove, as the value of a field, leaves the field out of a Body.
var Remove removed

// Body is the base request of docs/interface/chat-completions.md, section 21, with fields
// replaced.
func Body(t testing.TB, fields map[string]any) string {
	t.Helper()
	req := map[string]any{
		"model": "tiny", "max_tokens": 5, "temperature": 0,
		"messages": []any{map[string]any{"role": "user", "content": "Hi"}},
	}
	for k, v := range fields {
		if v == Remove {
			delete(req, k)
			continue
		}
		req[k] = v
	}
	body, err := jsontext.Encode(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Main runs the tests of a package, and looks for goroutines of ours that outlived theirs.
// TestMain calls it.
func Main(m *testing.M) {
	// The first response starts fasthttp's clock, which never stops: not in a bubble.
	new(fasthttp.ResponseHeader).AppendBytes(nil)
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Println("goroutines left over:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that run code of this repository or of the HTTP server.
func leaked() string {
	var left string
	Eventually(5*time.Second, func() bool {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = ""
		for i, g := range strings.Split(string(buf), "\n\n") {
			if i > 0 && (strings.Contains(g, "weir/") || strings.Contains(g, "fasthttp.(*Server)")) {
				left += g + "\n\n"
			}
		}
		return left == ""
	})
	return left
}

// TextOf is the text of a token on its own.
func TextOf(tok *tokenizer.Tokenizer, id int32) string {
	if b := tok.Bytes(id); b != nil {
		return string(b)
	}
	return tok.Text(id)
}
