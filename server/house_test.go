package server

import (
	"bytes"
	"context"
	"encoding/json"
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
	"weir/models"
	"weir/server/openai"
	"weir/server/transport"
	"weir/tokenizer"
)

// bundled is the tokenizer of the bundled model; it takes a while to load.
var bundled = sync.OnceValue(func() *tokenizer.Tokenizer {
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

// encode returns the tokens of a text in the bundled model's vocabulary.
func encode(text string, addSpecial bool) []int32 {
	ids, err := bundled().Encode(nil, text, addSpecial)
	if err != nil {
		panic(err)
	}
	return ids
}

// template is the bundled model's.
var template = sync.OnceValue(func() *chat.Renderer {
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

const (
	vocabulary = 3584 // rows of the bundled model's embedding
	endOfTurn  = 2
	endOfText  = 0
)

// setup is what a test may change before its house is built.
type setup struct {
	cfg     Config
	spec    backend.Spec
	eng     engine.Config
	oracle  sim.OracleConfig
	open    func() (backend.Backend, error) // nil: the oracle, with script
	script  [][]int32                       // tokens that choice i draws with seed scriptSeed, in place of the oracle's
	model   openai.Model
	noModel bool // start without one
	tcp     bool // listen on a real socket
	unix    bool // with tcp: on a Unix socket
	peeks   bool // watch the sockets without the kernel's queue
}

// scripted is an oracle that draws given tokens, and then the end of turn.
type scripted struct {
	*sim.Oracle
	script [][]int32
	draws  *backend.Draws
}

// scriptSeed is the seed of requests that get the script.
const scriptSeed = 1000

func (s *scripted) Draw(d *backend.Draws) error {
	s.draws = d
	return s.Oracle.Draw(d)
}

func (s *scripted) End(out *backend.Out) error {
	if err := s.Oracle.End(out); err != nil {
		return err
	}
	for i, r := range s.draws.Rows {
		if choice := r.Seed - scriptSeed; choice < uint64(len(s.script)) && r.Target < 0 {
			out.Tokens[i] = endOfTurn
			if text := s.script[choice]; int(r.Index) < len(text) {
				out.Tokens[i] = text[r.Index]
			}
		}
	}
	return nil
}

// house is a server over the simulated backend, as cmd would build it.
type house struct {
	t     testing.TB
	srv   *Server
	eng   *engine.Engine
	model *openai.Model
	dial  func() (net.Conn, error)
	addr  string // of a real socket
	http  *http.Client
	log   *logbook

	hook  atomic.Pointer[func(sim.Call, int) error]
	clock atomic.Pointer[func() time.Time]
	newID atomic.Pointer[func() string]
	stop  func()
}

// newHouse builds and starts a house; it is stopped, and checked for leaks,
// when the test ends.
func newHouse(t testing.TB, change func(*setup)) *house {
	t.Helper()
	h := &house{t: t}
	s := setup{
		cfg:  DefaultConfig(),
		spec: backend.Spec{VocabSize: vocabulary, BlockTokens: 16, NumBlocks: 257, MaxTokens: 256, MaxSeqs: 64, MaxSeqTokens: 1024, Depth: 1},
		eng:  engine.Config{Caching: true, MaxLive: 512, Tokenizer: bundled()},
		model: openai.Model{
			Names: []string{"tiny", "alias"}, Root: "models/tiny", Created: time.Unix(1_772_900_000, 0),
			Tokenizer: bundled(), Chat: template(), MaxLen: 1024, VocabSize: vocabulary,
			Generation: openai.Generation{EOS: endOfTurn, Stop: []int32{endOfText}},
		},
	}
	h.log = newLogbook()
	s.cfg.Log = slog.New(h.log)
	s.oracle.Hook = func(c sim.Call, step int) error {
		if f := h.hook.Load(); f != nil {
			return (*f)(c, step)
		}
		return nil
	}
	if change != nil {
		change(&s)
	}
	if s.open == nil {
		s.open = func() (backend.Backend, error) {
			o, err := sim.NewOracle(s.spec, s.oracle)
			return &scripted{Oracle: o, script: s.script}, err
		}
	}
	h.eng = engine.New(s.eng, s.open)
	s.model.Engine = h.eng
	h.model = &s.model
	h.setClock(func() time.Time { return time.Unix(1_772_900_001, 0) })
	if s.cfg.Heartbeat != DefaultConfig().Heartbeat {
		h.setClock(time.Now) // the test is about time
	}
	var ids atomic.Int64
	h.setNewID(func() string { return fmt.Sprintf("%016x", ids.Add(1)) })
	s.cfg.Clock = func() time.Time { return (*h.clock.Load())() }
	s.cfg.NewID = func() string { return (*h.newID.Load())() }
	s.cfg.PollClients = s.peeks
	var err error
	if h.srv, err = New(s.cfg); err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	if s.tcp {
		network, addr := "tcp", "127.0.0.1:0"
		if s.unix {
			network, addr = "unix", filepath.Join(t.TempDir(), "s")
		}
		if ln, err = net.Listen(network, addr); err != nil {
			t.Fatal(err)
		}
		h.addr = ln.Addr().String()
		h.dial = func() (net.Conn, error) { return net.Dial(network, h.addr) }
	} else {
		mem := fasthttputil.NewInmemoryListener()
		ln, h.dial = mem, mem.Dial
	}
	roundTrips := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return h.dial() },
		DisableCompression: true,
	}
	h.http = &http.Client{Transport: roundTrips}

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.eng.Run(ctx); err != nil {
			t.Errorf("engine: %v", err)
		}
	})
	running.Go(func() {
		if err := h.srv.Serve(ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	<-h.eng.Ready()
	if !s.noModel {
		if err := h.srv.SetModel(h.model); err != nil {
			t.Fatal(err)
		}
	}
	h.stop = sync.OnceFunc(func() {
		roundTrips.CloseIdleConnections()
		ctx, cancelShutdown := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancelShutdown()
		if err := h.srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		h.idle()
		cancel()
		running.Wait()
		if held := h.srv.http.Held(); held != (transport.Held{}) {
			t.Errorf("the server still holds %+v", held)
		}
		if text := h.log.text.String(); t.Failed() && text != "" {
			t.Logf("the server's log:\n%s", text)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// idle waits until the engine has nothing to do and holds nothing.
func (h *house) idle() {
	h.t.Helper()
	if !eventually(5*time.Second, h.noBlocks) {
		h.t.Errorf("the engine is not idle: %+v", h.eng.Stats())
	}
}

func (h *house) noBlocks() bool {
	st := h.eng.Stats()
	return st.BlocksUsed == 0 && st.Running == 0 && st.Waiting == 0
}

// eventually asks every millisecond whether something is done.
func eventually(within time.Duration, done func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !done(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !eventually(10*time.Second, done) {
		t.Fatalf("%s: not within ten seconds", what)
	}
}

// setClock makes f the server's clock.
func (h *house) setClock(f func() time.Time) { h.clock.Store(&f) }

// setNewID makes f name the requests that bring no id.
func (h *house) setNewID(f func() string) { h.newID.Store(&f) }

// setHook makes f run in every call of the backend; nil ends that.
func (h *house) setHook(f func(sim.Call, int) error) {
	if f == nil {
		h.hook.Store(nil)
		return
	}
	h.hook.Store(&f)
}

const chatPath = "/v1/chat/completions"

// do sends a request. Headers are "Name: value".
func (h *house) do(method, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequest(method, "http://weir"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
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
	resp, err := h.http.Do(req)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// get sends a request and reads the whole answer.
func (h *house) get(method, path, body string, headers ...string) (status int, answer string, header http.Header) {
	h.t.Helper()
	resp := h.do(method, path, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s %s: %v after %q", method, path, err, data)
	}
	return resp.StatusCode, string(data), resp.Header
}

// chat sends the base request of spec chat-completions 21 with fields replaced.
// A field that is given as nil goes as null; remove deletes it.
func (h *house) chat(fields map[string]any, headers ...string) (status int, answer string) {
	h.t.Helper()
	status, answer, _ = h.get("POST", chatPath, base(h.t, fields), headers...)
	return status, answer
}

type removed struct{}

var remove removed

func base(t testing.TB, fields map[string]any) string {
	t.Helper()
	req := map[string]any{
		"model": "tiny", "max_tokens": 5, "temperature": 0,
		"messages": []any{map[string]any{"role": "user", "content": "Hi"}},
	}
	for k, v := range fields {
		if v == remove {
			delete(req, k)
			continue
		}
		req[k] = v
	}
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// logbook is a log that counts its messages and keeps the text of warnings and errors.
type logbook struct {
	slog.Handler
	text  lockedBuffer
	mu    sync.Mutex
	count map[string]int
	lines map[string][]map[string]string // of Info and above, by message
}

func newLogbook() *logbook {
	l := &logbook{count: map[string]int{}, lines: map[string][]map[string]string{}}
	l.Handler = slog.NewTextHandler(&l.text, nil)
	return l
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }

func (l *logbook) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	l.count[r.Message]++
	if r.Level >= slog.LevelInfo {
		line := map[string]string{}
		r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
		l.lines[r.Message] = append(l.lines[r.Message], line)
	}
	l.mu.Unlock()
	if r.Level < slog.LevelWarn {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// times is how often a message was logged.
func (l *logbook) times(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[message]
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestMain looks for goroutines of ours that outlived their test.
func TestMain(m *testing.M) {
	// The first response starts fasthttp's clock, which never stops: not in a bubble.
	new(fasthttp.ResponseHeader).AppendBytes(nil)
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Println("goroutines left over:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that run this room's or the engine's code.
func leaked() string {
	var left string
	eventually(5*time.Second, func() bool {
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

// textOf is the text of a token on its own.
func textOf(tok *tokenizer.Tokenizer, id int32) string {
	if b := tok.Bytes(id); b != nil {
		return string(b)
	}
	return tok.Text(id)
}
