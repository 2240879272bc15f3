package backlog_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/server/backlog"
)

// bench is a queue whose works are texts such as a1, of the owner a, and run until they are ended.
type bench struct {
	*backlog.Queue[string, string]
	mu    sync.Mutex
	ends  map[string]chan struct{}
	began []string
}

func newBench(most int, order func(a, b string) int) *bench {
	b := &bench{ends: map[string]chan struct{}{}}
	b.Queue = backlog.New(backlog.Config[string, string]{
		Most: most, Order: order, Owner: func(w string) string { return w[:1] },
		Run: func(w string) {
			end := make(chan struct{})
			b.mu.Lock()
			b.began, b.ends[w] = append(b.began, w), end
			b.mu.Unlock()
			<-end
		},
	})
	return b
}

// end ends some works, one after the other.
func (b *bench) end(works ...string) {
	for _, w := range works {
		b.mu.Lock()
		end := b.ends[w]
		delete(b.ends, w)
		b.mu.Unlock()
		close(end)
		synctest.Wait()
	}
}

// expect checks which works have begun since it was called last. Those that begin together come in any order.
func (b *bench) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.began)
	if !slices.Equal(b.began, want) {
		t.Errorf("%v have begun, want %v", b.began, want)
	}
	b.began = nil
}

func TestQueueTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(2, nil)
		for _, w := range []string{"a1", "a2", "a3", "a1", "b1", "b2"} {
			b.Add(w)
		}
		b.expect(t) // there is no model yet
		b.Start()
		b.expect(t, "a1", "b1") // and not a2, though it came before b1
		b.Add("a1")             // runs already
		b.end("a1")
		b.expect(t, "a2")
		b.end("b1")
		b.expect(t, "b2")
		b.Add("c1")
		b.end("b2")
		b.expect(t, "c1") // nothing of c runs
		if !b.Remove("a3") || b.Remove("a3") || b.Remove("a2") {
			t.Error("Remove takes back what waits, once")
		}
		b.end("a2", "c1")
		b.expect(t)
		b.Wait()
	})
}

func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(1, strings.Compare)
		b.Start()
		b.Add("a5")
		b.expect(t, "a5")
		b.Add("a4")
		b.Add("a2")
		b.Add("a3")
		b.end("a5")
		b.expect(t, "a2")
		b.end("a2")
		b.expect(t, "a3")
		b.end("a3", "a4")
		b.expect(t, "a4")
		b.Wait()
	})
}

// TestQueueRestart: what an earlier process has left comes before what has come since, once.
func TestQueueRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(1, nil)
		b.Add("a3")
		b.Now("a3") // not before Start
		b.Add("a2")
		b.Prepend([]string{"a1", "a2"})
		b.Start()
		b.expect(t, "a1")
		b.Prepend([]string{"a1"})
		b.end("a1")
		b.expect(t, "a2")
		b.end("a2")
		b.expect(t, "a3")
		b.end("a3")
		b.Wait()
		b.expect(t)
	})
}

// TestQueueNow: what is cancelled does not wait for room, and what it takes of it is given back.
func TestQueueNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(1, nil)
		b.Start()
		b.Add("a1")
		b.Add("a2")
		b.Add("a3")
		b.Now("a3")
		b.Now("a3")
		b.expect(t, "a1", "a3")
		b.end("a3")
		b.expect(t) // a1 has the room
		b.end("a1")
		b.expect(t, "a2")
		b.Add("a4")
		if left := b.Close(); !slices.Equal(left, []string{"a4"}) {
			t.Errorf("%v waits", left)
		}
		b.Add("a5")
		b.Prepend([]string{"a6"})
		b.Now("a4")
		b.end("a2")
		b.expect(t)
		b.Wait()
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		backlog.Sleep(ctx, time.Second)
		backlog.Sleep(ctx, time.Hour)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("%v", d)
		}
	})
}
