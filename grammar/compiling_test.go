package grammar

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestSmallAndLarge: every constraint has a try among the small ones, but for those whose text
// is long. One that takes more work has a second turn among the large ones.
func TestSmallAndLarge(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	for _, test := range []struct {
		name string
		n    size
		want []bool
	}{
		{"enum", 10, []bool{false}},
		{"groups", 300, []bool{false, true}}, // 2.9 million units, 1,800 bytes
		{"types", 20_000, []bool{true}},      // little work, 180,000 bytes
	} {
		var got []bool
		g, err := c.CompileOn(t.Context(), hostileSpecs[test.name](test.n), func(_ context.Context, large bool, f func()) error {
			got = append(got, large)
			f()
			return nil
		})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: turns among large ones %v, want %v (%v)", test.name, got, test.want, err)
			continue
		}
		g.Release()
	}
}

// TestRefusalsAreNotTriedTwice: what is refused for another reason than its size has one turn.
func TestRefusalsAreNotTriedTwice(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	for _, s := range []Spec{re("("), schema(`{"type":"nothing"}`), hostileSpecs["anyOf"](4100)} {
		turns := 0
		_, err := c.CompileOn(t.Context(), s, func(_ context.Context, _ bool, f func()) error { turns++; f(); return nil })
		if e := (*Error)(nil); !errors.As(err, &e) || turns != 1 {
			t.Errorf("%d turns: %v", turns, err)
		}
	}
}

// TestWhoComesFirstCompiles: callers of one constraint all wait for a turn. The first one that
// has it compiles, and the others then have the grammar without a turn of theirs.
func TestWhoComesFirstCompiles(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	s := hostileSpecs["enum"](50)
	waiting, first := make(chan struct{}), make(chan *Grammar, 1)
	go func() {
		g, err := c.CompileOn(t.Context(), s, func(ctx context.Context, _ bool, _ func()) error {
			close(waiting)
			<-ctx.Done() // its turn does not come
			return context.Cause(ctx)
		})
		if err != nil {
			t.Error(err)
		}
		first <- g
	}()
	<-waiting
	second, err := c.CompileOn(t.Context(), s, func(_ context.Context, _ bool, f func()) error { f(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if <-first != second {
		t.Error("the caller that came first has another grammar")
	}
}

// TestWhoComesLaterNeedsNoWorker: while a constraint is compiled, others that ask for it wait
// outside of the queue, so that they keep no worker from other constraints. They have the
// grammar even if the client has left for whom it is compiled.
func TestWhoComesLaterNeedsNoWorker(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	s := hostileSpecs["groups"](300)
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the client has left")
	large, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.CompileOn(ctx, s, func(ctx context.Context, l bool, f func()) error {
			if !l {
				f()
				return nil
			}
			compiled := make(chan struct{})
			go func() {
				defer close(compiled)
				f()
			}()
			close(large)
			select {
			case <-compiled:
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		})
		ended <- err
	}()
	<-large
	awaitStage(c, runs)
	later := make(chan error, 1)
	go func() {
		_, err := c.CompileOn(t.Context(), s, func(context.Context, bool, func()) error {
			return errors.New("a turn for what is being compiled")
		})
		later <- err
	}()
	awaitCallers(c, 2)
	leave(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("the client that has left: %v", err)
	}
	if err := <-later; err != nil {
		t.Errorf("the other one: %v", err)
	}
}

// awaitStage waits until the only compilation is in a stage.
func awaitStage(c *Compiler, want stage) {
	for {
		c.mu.Lock()
		el := c.recent.Front()
		there := el != nil && el.Value.(*entry).stage == want
		c.mu.Unlock()
		if there {
			return
		}
		runtime.Gosched()
	}
}

// TestRefusedTurn: who has no turn in the queue is told so. Nothing is left of it, and others
// who wait for the same constraint are not refused.
func TestRefusedTurn(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	full := errors.New("full")
	refuse := func(context.Context, bool, func()) error { return full }
	if _, err := c.CompileOn(t.Context(), re("a"), refuse); err != full {
		t.Errorf("alone: %v", err)
	}
	if len(c.entries) != 0 || c.recent.Len() != 0 {
		t.Errorf("%d entries are left", len(c.entries))
	}
	_, err := c.CompileOn(t.Context(), re("a"), func(_ context.Context, _ bool, f func()) error {
		if _, err := c.CompileOn(t.Context(), re("a"), refuse); err != full {
			t.Errorf("beside another one: %v", err)
		}
		f()
		return nil
	})
	if err != nil {
		t.Errorf("the other one: %v", err)
	}
}

// TestDeadlineIsNotKept: that the machine was too slow says nothing about the constraint.
func TestDeadlineIsNotKept(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Deadline = time.Nanosecond
	c := testCompiler(t, testVocabulary, cfg)
	s := hostileSpecs["groups"](300)
	if _, err := c.Compile(t.Context(), s); err != ErrDeadline {
		t.Errorf("%v", err)
	}
	if len(c.entries) != 0 {
		t.Errorf("%d entries are kept", len(c.entries))
	}
	c.cfg.Deadline = time.Hour
	if _, err := c.Compile(t.Context(), s); err != nil {
		t.Errorf("with more time: %v", err)
	}
}
