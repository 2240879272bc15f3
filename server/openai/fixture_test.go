package openai

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api"
	"weir/backend"
	"weir/backend/sim"
	"weir/chat"
	"weir/engine"
	"weir/metrics"
	"weir/models"
	"weir/server/failure"
	"weir/server/transport"
	"weir/tokenizer"
)

// The bundled model's vocabulary: rows of its embedding, and its end tokens.
const (
	vocabulary = 3584
	endOfTurn  = 2
	endOfText  = 0
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

// bundledChat is the chat template of the bundled model.
func bundledChat(t testing.TB) *chat.Renderer {
	t.Helper()
	source, err := fs.ReadFile(models.Bundled(), "chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: string(source)}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fixture is a service without a listener, over an engine that draws what the oracle says.
type fixture struct {
	*Service
	eng  *engine.Engine
	log  lockedBuffer
	hook atomic.Pointer[func(sim.Call, int) error]
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{}
	f.eng = engine.New(engine.Config{Caching: true, MaxLive: 512, Tokenizer: bundled()}, func() (backend.Backend, error) {
		return sim.NewOracle(
			backend.Spec{VocabSize: vocabulary, BlockTokens: 16, NumBlocks: 257, MaxTokens: 256, MaxSeqs: 64, MaxSeqTokens: 1024, Depth: 1},
			sim.OracleConfig{Hook: func(c sim.Call, step int) error {
				if h := f.hook.Load(); h != nil {
					return (*h)(c, step)
				}
				return nil
			}})
	})
	cfg := transport.DefaultConfig()
	cfg.Log = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	http, err := transport.New(cfg, nil, failure.Settings{}, metrics.New())
	if err != nil {
		t.Fatal(err)
	}
	if f.Service, err = New(Config{Heartbeat: time.Hour, StallAfter: time.Hour, CompileQueue: 1, CompileWorkers: 1, Limits: api.DefaultLimits()}, http, nil, metrics.New()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.eng.Run(ctx); err != nil {
			t.Errorf("engine: %v", err)
		}
	})
	<-f.eng.Ready()
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.Close()
		_ = http.Shutdown(context.Background())
	})
	return f
}

// setHook makes h run in every call of the backend.
func (f *fixture) setHook(h func(sim.Call, int) error) { f.hook.Store(&h) }

// waitFor waits until something is done.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
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

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
