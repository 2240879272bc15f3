package transport

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pacing "weir/internal/pace"
	"weir/internal/retry"
	"weir/server/failure"
)

// turnsTest has queries that note each slice of their time. With one worker only one of
// them runs at a time, so the clock and the notes need no lock.
type turnsTest struct {
	*testing.T
	*Turns
	clock time.Time
	notes []string
	wg    sync.WaitGroup
	first chan struct{} // ends the query that has the worker at the beginning
}

func newTurnsTest(t *testing.T, l TurnLimits) *turnsTest {
	if l.Workers == 0 {
		l.Workers = 1
	}
	if l.Places == 0 {
		l.Places = 100
	}
	if l.Begun == 0 {
		l.Begun = 8
	}
	l.Slice = time.Millisecond
	x := &turnsTest{T: t, clock: time.Unix(0, 0), first: make(chan struct{})}
	x.Turns = newTurns(l, func() time.Time { return x.clock })
	return x
}

// occupy lets a query of nobody else have the worker until go is called.
func (x *turnsTest) occupy() {
	begun := make(chan struct{})
	x.wg.Go(func() {
		_ = x.Do(context.Background(), "first", func(context.Context) error {
			close(begun)
			<-x.first
			return nil
		})
	})
	<-begun
}

// query adds a query that takes so many slices, and returns when it waits.
func (x *turnsTest) query(ctx context.Context, tenant, name string, slices int) {
	before := x.waitingNow()
	x.wg.Go(func() {
		err := x.Do(ctx, tenant, func(ctx context.Context) error {
			m := pacing.Of(ctx)
			for range slices {
				x.notes = append(x.notes, name)
				x.clock = x.clock.Add(time.Millisecond)
				if err := m.Spend(pacing.Grain); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			x.Error(name, err)
		}
	})
	for x.waitingNow() == before {
		runtime.Gosched()
	}
}

func (x *turnsTest) waitingNow() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.mu.lines {
		n += l.fresh.Len() + l.begun.Len()
	}
	return n
}

// end lets all queries end and checks that nothing is left of them.
func (x *turnsTest) end() string {
	x.Helper()
	close(x.first)
	x.wg.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.open != 0 || x.mu.running != 0 || x.mu.waiting.Len() != 0 || len(x.mu.lines) != 0 {
		x.Errorf("%d open, %d running, %d lines wait, of %d", x.mu.open, x.mu.running, x.mu.waiting.Len(), len(x.mu.lines))
	}
	return strings.Join(x.notes, " ")
}

func TestTurnsAreFair(t *testing.T) {
	ctx := context.Background()
	t.Run("tenants", func(t *testing.T) {
		x := newTurnsTest(t, TurnLimits{})
		x.occupy()
		for i := range 5 {
			x.query(ctx, "many", fmt.Sprint("m", i), 3)
		}
		x.query(ctx, "one", "one", 4)
		// The one has every second slice, whatever the other tenant has waiting.
		got := x.end()
		notes := strings.Fields(got)
		if last := slices.Index(notes[slices.Index(notes, "one"):], "one"); last < 0 || slices.Index(notes, "one") > 1 || strings.Count(strings.Join(notes[:9], " "), "one") != 4 {
			t.Error(got)
		}
	})
	t.Run("a short query behind long ones", func(t *testing.T) {
		x := newTurnsTest(t, TurnLimits{})
		x.occupy()
		for i := range 3 {
			x.query(ctx, "a", fmt.Sprint("long", i), 50)
		}
		x.query(ctx, "a", "short", 1)
		got := strings.Fields(x.end())
		if at := slices.Index(got, "short"); at > 10 {
			t.Errorf("it ran as number %d: %v", at, got[:at+1])
		}
	})
	t.Run("begun ones go on while new ones come", func(t *testing.T) {
		x := newTurnsTest(t, TurnLimits{})
		x.occupy()
		x.query(ctx, "a", "long", 4)
		for i := range 20 {
			x.query(ctx, "a", fmt.Sprint("new", i), 1)
		}
		got := strings.Fields(x.end())
		if n := strings.Count(strings.Join(got[:8], " "), "long"); n != 4 {
			t.Error(got)
		}
	})
	t.Run("few have begun", func(t *testing.T) {
		x := newTurnsTest(t, TurnLimits{Begun: 2})
		x.occupy()
		for i := range 4 {
			x.query(ctx, "a", fmt.Sprint(i), 3)
		}
		if got := x.end(); strings.LastIndex(got, "0") > strings.Index(got, "3") || !strings.HasPrefix(got, "0 1") && !strings.HasPrefix(got, "0 0 1") {
			t.Error(got)
		}
	})
}

func TestTurnsAreBounded(t *testing.T) {
	x := newTurnsTest(t, TurnLimits{Places: 3})
	x.occupy()
	ctx, leave := context.WithCancelCause(context.Background())
	x.query(ctx, "a", "left", 1)
	x.query(context.Background(), "b", "b", 1)
	never := func(context.Context) error { t.Error("a query ran that has no place"); return nil }
	if err := x.Do(context.Background(), "c", never); !errors.Is(err, failure.ErrQueriesFull) {
		t.Errorf("a fourth query: %v", err)
	}
	if x.Open() != 3 {
		t.Errorf("%d queries", x.Open())
	}
	leave(failure.ErrGone)
	for x.Open() != 2 { // it leaves its line although the worker is not free
		runtime.Gosched()
	}
	if err := x.Do(ctx, "c", never); !errors.Is(err, failure.ErrGone) {
		t.Errorf("a query of a client that has left: %v", err)
	}
	if got := x.end(); got != "b" {
		t.Error(got)
	}
}

// TestTurnOutside checks that a query whose client takes its answer slowly has no worker
// meanwhile, that it counts as begun, and that the client may leave at any of these times.
func TestTurnOutside(t *testing.T) {
	x := newTurnsTest(t, TurnLimits{Begun: 1})
	ctx, leave := context.WithCancelCause(context.Background())
	outside, taken := make(chan struct{}), make(chan struct{})
	x.wg.Go(func() {
		err := x.do(ctx, "slow", func(_ context.Context, q *turn) error {
			return q.outside(func() error { close(outside); <-taken; return nil })
		})
		if !errors.Is(err, failure.ErrGone) {
			t.Error(err)
		}
	})
	<-outside
	x.occupy() // the worker is free for it
	x.query(context.Background(), "slow", "same tenant", 1)
	leave(failure.ErrGone)
	close(taken)
	if got := x.end(); got != "same tenant" {
		t.Error(got)
	}
}

// TestTurnRests checks that a worker sleeps after each slice, while something is computed.
func TestTurnRests(t *testing.T) {
	for want, computing := range map[int]func() bool{5: nil, 0: func() bool { return false }} {
		testTurnRests(t, computing, want)
	}
}

func testTurnRests(t *testing.T, computing func() bool, want int) {
	t.Helper()
	x := newTurnsTest(t, TurnLimits{Rest: time.Second})
	if computing != nil {
		x.RestWhile(computing)
	}
	slept := 0
	x.sleep = func(_ context.Context, d time.Duration) {
		if slept++; d != time.Second {
			t.Error(d)
		}
	}
	x.occupy()
	x.query(context.Background(), "a", "a", 5)
	if got := x.end(); got != "a a a a a" || slept != want {
		t.Errorf("%s, %d rests, want %d", got, slept, want)
	}
}

// Nobody keeps others out by taking all places: the newest query that has not begun of the
// tenant that has most of them goes. Who is refused is told how long the queries before take.
func TestTurnsPlacesAreShared(t *testing.T) {
	x := newTurnsTest(t, TurnLimits{Places: 4})
	x.clock = x.clock.Add(time.Second)
	for range 100 { // each takes three seconds
		if err := x.Do(t.Context(), "before", func(context.Context) error { x.clock = x.clock.Add(3 * time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	x.occupy()
	refused := func(err error, want time.Duration) {
		t.Helper()
		if !errors.Is(err, failure.ErrQueriesFull) || retry.Of(err).Round(time.Millisecond) != want {
			t.Errorf("%v after %v, want %v", err, retry.Of(err), want)
		}
	}
	for i := range 2 {
		x.query(t.Context(), "many", fmt.Sprint("m", i), 1)
	}
	lost := make(chan error)
	go func() {
		lost <- x.Do(t.Context(), "many", func(context.Context) error { t.Error("the newest has run"); return nil })
	}()
	for x.waitingNow() < 3 {
		runtime.Gosched()
	}
	refused(x.Do(t.Context(), "many", nil), (3+1)*3*time.Second)
	x.wg.Go(func() {
		if err := x.Do(t.Context(), "few", func(context.Context) error { x.notes = append(x.notes, "few"); return nil }); err != nil {
			t.Error(err)
		}
	})
	refused(<-lost, (2+1+1)*3*time.Second)
	refused(x.Do(t.Context(), "few", nil), (1+2+1)*3*time.Second)
	if got := x.end(); got != "m0 few m1" {
		t.Errorf("served in the order %q", got)
	}
}
