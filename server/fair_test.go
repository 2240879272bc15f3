package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/auth"
	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
)

// overload is a server with keys in a file, whose steps wait until all requests have come.
type overload struct {
	*servertest.Server
	t       *testing.T
	release func()
	stopAt  atomic.Int64  // the step at whose end the server waits again; 0: none
	stopped chan struct{} // it waits
	resume  chan struct{}
	clients sync.WaitGroup
	done    sync.Map // *atomic.Int64, requests that are answered, by name
	sent    int
}

func newOverload(t *testing.T, credentials string, change func(*servertest.Setup)) *overload {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte(credentials), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New([]string{"operator"}, file)
	if err != nil {
		t.Fatal(err)
	}
	o := &overload{t: t, stopped: make(chan struct{}), resume: make(chan struct{})}
	o.Server = servertest.New(t, func(s *servertest.Setup) {
		s.Config.Keys = keys
		s.Spec.MaxSeqs, s.Spec.MaxTokens = 8, 16
		s.EngineConfig.Caching, s.EngineConfig.Scheduler.Priority = false, true
		if change != nil {
			change(s)
		}
	})
	gate := make(chan struct{})
	steps := int64(0)
	o.SetHook(func(c sim.Call, _ int) error {
		if c != sim.End {
			return nil
		}
		<-gate
		if steps++; steps == o.stopAt.Load() {
			o.stopped <- struct{}{}
			<-o.resume
		}
		return nil
	})
	o.release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(o.release)
	return o
}

// send sends n requests, and counts their answers under a name.
func (o *overload) send(name string, n int, fields map[string]any, headers ...string) {
	count, _ := o.done.LoadOrStore(name, &atomic.Int64{})
	for range n {
		o.clients.Go(func() {
			if status, answer := o.Chat(fields, headers...); status != 200 {
				o.t.Errorf("%d %s", status, answer)
			}
			count.(*atomic.Int64).Add(1)
		})
	}
	o.sent += n
	servertest.WaitFor(o.t, "requests", func() bool { return o.Log.Times(transport.LogSubmitted) == o.sent })
}

func (o *overload) answered(name string) int {
	count, _ := o.done.Load(name)
	return int(count.(*atomic.Int64).Load())
}

// TestWeights: under overload tenants, and the projects of a tenant, get tokens as their weights in the
// credentials file say (docs/interface/operations.md, section 3).
func TestWeights(t *testing.T) {
	o := newOverload(t, `keys:
  - {id: a1, hash: "`+servertest.KeyHash("a1")+`", tenant: a, weight: 3, project_weights: {a/x: 3}}
  - {id: a2, hash: "`+servertest.KeyHash("a2")+`", tenant: a}
  - {id: b, hash: "`+servertest.KeyHash("b")+`"}
`, nil)
	fields := map[string]any{"max_tokens": 30, "ignore_eos": true}
	o.send("b", 60, fields, "Authorization: Bearer b")
	o.send("y", 50, fields, "Authorization: Bearer a1", "Compat-Project: a/y")
	o.send("x", 100, fields, "Authorization: Bearer a2", "Compat-Project: a/x")
	o.stopAt.Store(430)
	o.release()
	<-o.stopped
	series := o.Scraped("Authorization: Bearer operator")
	value := func(name, tenant string) float64 {
		v, err := strconv.ParseFloat(series["weir:tenant_"+name+`{tenant="`+tenant+`"}`], 64)
		if err != nil {
			t.Errorf("%s of %s: %v", name, tenant, err)
		}
		return v
	}
	a, b := value("computed_tokens_total", "tenant a"), value("computed_tokens_total", "tenant b")
	if part := a / (a + b); part < 0.7125 || part > 0.7875 { // 5 % of three quarters
		t.Errorf("a has %.3f of %v tokens", part, a+b)
	}
	if value("weight", "tenant a") != 3 || value("weight", "tenant b") != 1 {
		t.Errorf("the weights are %v and %v", value("weight", "tenant a"), value("weight", "tenant b"))
	}
	if n := value("running_sequences", "tenant a") + value("running_sequences", "tenant b"); n != 8 {
		t.Errorf("%v sequences are running", n)
	}
	if n := value("waiting_sequences", "tenant a"); n < 20 {
		t.Errorf("%v sequences of a wait: this is no overload", n)
	}
	x, y := o.answered("x"), o.answered("y")
	if part := float64(x) / float64(x+y); x+y < 60 || part < 0.7 || part > 0.8 { // whole answers are counted here
		t.Errorf("a/x has %d answers and a/y %d", x, y)
	}
	for who, sees := range map[string]string{"a1": "a", "a2": "a", "b": "b"} {
		for _, tenant := range []string{"a", "b"} {
			_, shown := o.Scraped("Authorization: Bearer " + who)[`weir:tenant_weight{tenant="tenant `+tenant+`"}`]
			if shown != (tenant == sees) {
				t.Errorf("the key %s is shown tenant %s: %v", who, tenant, shown)
			}
		}
	}
	for name := range o.Scraped() {
		if strings.HasPrefix(name, "weir:tenant") {
			t.Errorf("everybody sees %s", name)
		}
	}
	close(o.resume)
	o.clients.Wait()
}

// TestLeastUrgentIsAnswered: a request of the lowest priority is answered while more urgent ones
// still wait, also if a key may name no other (docs/interface/chat-completions.md, section 15.4).
func TestLeastUrgentIsAnswered(t *testing.T) {
	o := newOverload(t, `keys:
  - {id: urgent, hash: "`+servertest.KeyHash("urgent")+`"}
  - {id: low, hash: "`+servertest.KeyHash("low")+`", max_priority: 5}
`, func(s *servertest.Setup) { s.Model.Priority = true })
	fields := func(priority int) map[string]any {
		return map[string]any{"max_tokens": 20, "ignore_eos": true, "priority": priority}
	}
	o.send("urgent", 150, fields(0), "Authorization: Bearer urgent")
	o.send("least", 1, fields(1000), "Authorization: Bearer urgent")
	o.send("bounded", 1, fields(-7), "Authorization: Bearer low")
	o.release()
	for _, name := range []string{"least", "bounded"} {
		servertest.WaitFor(t, name, func() bool { return o.answered(name) == 1 })
	}
	if n := o.answered("urgent"); n < 5 || n > 120 {
		t.Errorf("%d urgent requests of 150 were answered before the others", n)
	}
	o.clients.Wait()
	if n := o.Engine.Stats().Aged; n != 2 {
		t.Errorf("%d sequences were made more urgent: %s", n, fmt.Sprint(o.Scraped()["weir:aged_sequences_total"]))
	}
}
