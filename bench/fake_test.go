package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/api"
)

const msec = time.Millisecond

// plan is what the fake server does with a request.
type plan struct {
	status  int    // 0: 200
	refusal string // body of an answer with another status
	steps   []step
	cut     bool // after the steps, the connection is cut
	quits   bool // the connection takes no further request: it ends when one comes, without a word
	hang    bool // after the steps, nothing happens until the client leaves
}

// step waits, and then writes a text at once.
type step struct {
	after time.Duration
	text  string
}

const (
	role   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
	token  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n"
	finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
)

func usageEvent(prompt, completion int) string {
	return fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n", prompt, prompt+completion, completion)
}

// steady is an answer of n tokens. The first of them arrives after first, together with the
// role, the others after gap each, and the last together with all that ends a stream.
func steady(prompt, n int, first, gap time.Duration) plan {
	p := plan{steps: []step{{first, role + token}}}
	for range n - 1 {
		p.steps = append(p.steps, step{gap, token})
	}
	p.steps[n-1].text += finish + usageEvent(prompt, n) + api.Done
	return p
}

// fake is a server in memory. Its clock is that of a synctest bubble.
type fake struct {
	plans map[string]plan // by prompt
	early int             // how many times /v1/models answers 503 before it answers 200

	mute  int    // connections after this many end as soon as a request comes; 0: none
	token []byte // what /tokenize answers; nil: 404

	mu     sync.Mutex
	conns  int
	bodies []map[string]any
	keys   []string
}

// quitter is a connection that can end when a request comes, before a byte of its answer.
type quitter struct {
	net.Conn
	quit atomic.Bool
}

func (q *quitter) Read(p []byte) (int, error) {
	n, err := q.Conn.Read(p)
	if n > 0 && q.quit.Load() {
		q.Close()
		return 0, io.EOF
	}
	return n, err
}

type connKey struct{}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.keys = append(f.keys, r.Header.Get("Authorization"))
	f.early--
	early := f.early >= 0
	f.mu.Unlock()
	if r.URL.Path == "/v1/models" {
		if early {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"fake-1"},{"id":"fake-2"}]}`)
		return
	}
	if r.URL.Path == "/tokenize" {
		if f.token == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(f.token)
		return
	}
	raw, err := io.ReadAll(r.Body)
	var body map[string]any
	if err != nil || json.Unmarshal(raw, &body) != nil {
		panic(string(raw))
	}
	prompt, completion := body["prompt"].(string)
	if !completion {
		prompt = body["messages"].([]any)[0].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
	}
	if completion != (r.URL.Path == Completions.path()) {
		panic(r.URL.Path)
	}
	f.mu.Lock()
	f.bodies = append(f.bodies, body)
	f.mu.Unlock()
	p := f.plans[prompt]
	if p.status != 0 {
		w.WriteHeader(p.status)
		fmt.Fprint(w, p.refusal)
		return
	}
	if p.quits {
		r.Context().Value(connKey{}).(*quitter).quit.Store(true)
	}
	flush := w.(http.Flusher).Flush
	flush()
	for _, s := range p.steps {
		time.Sleep(s.after) // the bubble's clock
		if r.Context().Err() != nil {
			return
		}
		_, _ = io.WriteString(w, s.text)
		flush()
	}
	switch {
	case p.cut:
		panic(http.ErrAbortHandler)
	case p.hang:
		<-r.Context().Done()
	}
}

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// plansInTurn makes a server with a plan for each of the prompts "0", "1", ….
func plansInTurn(plans ...plan) (f *fake, prompts []Prompt) {
	f = &fake{plans: map[string]plan{}}
	for i, p := range plans {
		name := strconv.Itoa(i)
		f.plans[name] = p
		prompts = append(prompts, Prompt{Text: name, OutputLen: 10 + i})
	}
	return f, prompts
}

// measure runs RunServe against f in a bubble. The configuration asks for one request of
// each prompt, unless change says otherwise.
func measure(t *testing.T, f *fake, prompts []Prompt, ctx func() (context.Context, context.CancelFunc), change func(*ServeConfig)) (r *Report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn), make(chan struct{})}
		var handling sync.WaitGroup // a client may have left, and its handler sleeps on
		defer handling.Wait()
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handling.Add(1)
			defer handling.Done()
			f.ServeHTTP(w, r)
		})
		server := &http.Server{Handler: handler, ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }}
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := server.Serve(l); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		defer serving.Wait()
		defer server.Close()
		cfg := DefaultServeConfig()
		cfg.Data, cfg.NumPrompts = InTurn(prompts), len(prompts)
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			f.mu.Lock()
			f.conns++
			q := &quitter{Conn: theirs}
			q.quit.Store(f.mute > 0 && f.conns > f.mute)
			f.mu.Unlock()
			select {
			case l.conns <- q:
				return ours, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if change != nil {
			change(&cfg)
		}
		c := context.Background()
		if ctx != nil {
			var cancel context.CancelFunc
			c, cancel = ctx()
			defer cancel()
		}
		if r, err = RunServe(c, cfg); r != nil {
			// Processor time is real and not the bubble's, so it is replaced.
			r.Date, r.Generator.CPU, r.Generator.Processors, r.Generator.Warnings = r.Date.UTC(), 0.25, 2, nil
			r.addWarnings()
		}
	})
	return r, err
}

func mustMeasure(t *testing.T, f *fake, prompts []Prompt, change func(*ServeConfig)) *Report {
	t.Helper()
	r, err := measure(t, f, prompts, nil, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
