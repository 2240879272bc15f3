package grammar

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/memory"
)

// heapWatch finds out how far the heap grows.
type heapWatch struct {
	before int64
	most   atomic.Int64
	stop   chan struct{}
	done   sync.WaitGroup
}

func watchHeap() *heapWatch {
	w := &heapWatch{before: heapNow(), stop: make(chan struct{})}
	percent := debug.SetGCPercent(20) // garbage is not what is measured
	w.done.Go(func() {
		defer debug.SetGCPercent(percent)
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-ticker.C:
				metrics.Read(sample)
				w.most.Store(max(w.most.Load(), int64(sample[0].Value.Uint64())-w.before))
			}
		}
	})
	return w
}

// growth ends the watch and returns the bytes by which the heap has grown at most.
func (w *heapWatch) growth() int64 {
	close(w.stop)
	w.done.Wait()
	return w.most.Load()
}

// TestCompilerStaysWithinItsAccount: any number of different constraints, compiled, used and
// put down one after another, hold no more than the account has. The account gets back
// what nobody uses when it is needed elsewhere, and only that.
func TestCompilerStaysWithinItsAccount(t *testing.T) {
	const limit = 16 << 20
	v := syntheticVocabulary(t, 32_000, false)
	mustCompile(t, schema(`{}`), v)
	watch := watchHeap()
	account := memory.New(limit, 0)
	c, err := NewCompiler(v, DefaultConfig(), account)
	if err != nil {
		t.Fatal(err)
	}
	kinds := manySpecs()
	delete(kinds, "ambiguous rules") // they take long
	delete(kinds, "counted properties")
	compiled := 0
	for i := range 10 {
		for name, spec := range kinds {
			g, err := c.Compile(t.Context(), spec(i))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			compiled++
			walkAtRandom(g)
			g.Release()
			if s := account.Stats(); s.Used > limit || s.Used != s.Cached {
				t.Fatalf("%s: %+v", name, s)
			}
		}
	}
	if len(c.entries) == compiled || len(c.entries) == 0 {
		t.Errorf("%d of %d grammars are kept", len(c.entries), compiled)
	}
	if grown := watch.growth(); grown > limit/4*5+(8<<20) {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	used, err := c.Compile(t.Context(), kinds["two properties"](9))
	if err != nil {
		t.Fatal(err)
	}
	r, err := account.Reserve(t.Context(), limit-(2<<20))
	if err != nil {
		t.Fatal(err)
	}
	if s := account.Stats(); s.Cached > 2<<20 || len(c.entries) == 0 {
		t.Errorf("%+v, %d grammars", s, len(c.entries))
	}
	r.Release()
	if again, _ := c.Compile(t.Context(), kinds["two properties"](9)); again != used {
		t.Error("a grammar in use was dropped")
	}
	used.Release()
	used.Release()
	if s := account.Stats(); s.Used != s.Cached {
		t.Errorf("in the end: %+v", s)
	}
}

// TestCompilingStaysWithinItsAccount: a constraint that takes more memory to compile than
// there is, is refused while it is compiled, and what it took is given back.
func TestCompilingStaysWithinItsAccount(t *testing.T) {
	const limit = 48 << 20
	for name, n := range map[string]size{"choices": 30_000, "rules in a row": 3000, "tags": 30_000, "enum": 100_000, "separated tags": 30_000, "groups": 10_000} {
		t.Run(name, func(t *testing.T) {
			s := hostileSpecs[name](n)
			watch := watchHeap()
			account := memory.New(limit, 0)
			c, err := NewCompiler(testVocabulary, DefaultConfig(), account)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Compile(t.Context(), s)
			if !errors.Is(err, memory.ErrNever) {
				t.Errorf("%v", err)
			}
			if grown := watch.growth(); grown > limit/2*3 {
				t.Errorf("the heap has grown by %d KiB", grown>>10)
			}
			if used := account.Stats().Used; used != 0 || len(c.entries) != 0 {
				t.Errorf("%d bytes are reserved in the end for %d grammars", used, len(c.entries))
			}
		})
	}
}

// TestCompilingWaitsForMemory: a constraint that does not fit now is compiled when others
// have given memory back, is refused after the wait of the account, and leaves with its
// caller.
func TestCompilingWaitsForMemory(t *testing.T) {
	account := memory.New(8<<20, time.Hour)
	c, err := NewCompiler(testVocabulary, DefaultConfig(), account)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := account.Reserve(t.Context(), 8<<20)
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, end := range []func(){func() { cancel(left) }, other.Release} {
		result := make(chan error)
		go func() {
			_, err := c.Compile(ctx, re("ab*"))
			result <- err
		}()
		for account.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		want := error(nil)
		if end(); ctx.Err() != nil && account.Stats().Used > 4<<20 {
			want = left
		}
		if err := <-result; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		ctx = t.Context()
	}
	full, err := NewCompiler(testVocabulary, DefaultConfig(), memory.New(8<<20, 0))
	if err != nil {
		t.Fatal(err)
	}
	if other, err = full.account.Reserve(t.Context(), 8<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := full.Compile(t.Context(), re("ab*")); !errors.Is(err, memory.ErrFull) {
		t.Error(err)
	}
	other.Release()
	if _, err := full.Compile(t.Context(), re("ab*")); err != nil {
		t.Error(err)
	}
}

// TestMasksStayWithinTheAccount: when there is no memory for more masks, a grammar in use
// drops those that it has, and its texts go on.
func TestMasksStayWithinTheAccount(t *testing.T) {
	account := memory.New(8<<20, 0)
	c, err := NewCompiler(syntheticVocabulary(t, 4096, false), DefaultConfig(), account)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Compile(t.Context(), ambiguousRules(4))
	if err != nil {
		t.Fatal(err)
	}
	all, err := account.Reserve(t.Context(), 8<<20-account.Stats().Used)
	if err != nil {
		t.Fatal(err)
	}
	bound := g.entry.hold.granted.Load()
	for range 3 {
		walkAtRandom(g)
	}
	if s := account.Stats(); s.Used > 8<<20 || g.Bytes() > bound+(1<<20) {
		t.Errorf("%+v; the grammar has %d bytes, and %d are reserved", s, g.Bytes(), bound)
	}
	all.Release()
	walkAtRandom(g)
	if g.Bytes() <= bound {
		t.Errorf("it has %d bytes with free memory, and had %d before", g.Bytes(), bound)
	}
	g.Release()
}
