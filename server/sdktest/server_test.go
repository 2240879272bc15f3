// Package sdktest drives a listening server with OpenAI's own client. It is a
// package of its own because that client takes minutes to compile, and because
// it shows all that a server needs from outside.
package sdktest

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/chat"
	"weir/engine"
	"weir/models"
	"weir/server"
	"weir/server/openai"
	"weir/tokenizer"
)

// testServer is a server over the simulated backend on a real socket.
type testServer struct {
	addr  string
	srv   *server.Server
	eng   *engine.Engine
	model *openai.Model
	hook  atomic.Pointer[func(sim.Call, int) error]
}

func (h *testServer) setHook(f func(sim.Call, int) error) { h.hook.Store(&f) }

func (h *testServer) noBlocks() bool {
	st := h.eng.Stats()
	return st.BlocksUsed == 0 && st.Running == 0 && st.Waiting == 0
}

// newServer builds one; it is stopped when the test ends. Without loaded it has
// no model yet.
func newServer(t *testing.T, loaded bool, change func(*server.Config)) *testServer {
	t.Helper()
	h := &testServer{}
	read := func(name string) []byte {
		data, err := fs.ReadFile(models.Bundled(), name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	tok, err := tokenizer.Load(read("tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := chat.New(chat.Config{Templates: []chat.Template{{Source: string(read("chat_template.jinja"))}}})
	if err != nil {
		t.Fatal(err)
	}
	spec := backend.Spec{VocabSize: 3584, BlockTokens: 16, NumBlocks: 257, MaxTokens: 256, MaxSeqs: 64, MaxSeqTokens: 1024, Depth: 1, Hidden: 8}
	hook := func(c sim.Call, step int) error {
		if f := h.hook.Load(); f != nil {
			return (*f)(c, step)
		}
		return nil
	}
	h.eng = engine.New(engine.Config{Caching: true, MaxLive: 64, Tokenizer: tok}, func() (backend.Backend, error) {
		return sim.NewOracle(spec, sim.OracleConfig{Hook: hook})
	})
	cfg := server.DefaultConfig()
	cfg.Log = slog.New(slog.DiscardHandler)
	change(&cfg)
	if h.srv, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	h.model = &openai.Model{
		Names: []string{"tiny", "alias"}, Root: "models/tiny", Created: time.Now(), Engine: h.eng, Tokenizer: tok, Chat: renderer,
		MaxLen: 1024, VocabSize: 3584, Generation: openai.Generation{EOS: 2, Stop: []int32{0}},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- h.eng.Run(ctx) }()
	go func() { served <- h.srv.Serve(ln) }()
	<-h.eng.Ready()
	if loaded {
		if err := h.srv.SetModel(h.model); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := h.srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("engine: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return h
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
}
