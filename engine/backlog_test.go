package engine

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/invariants"
)

// testBudget is a budget of limit bytes.
type testBudget struct{ limit, used, most int64 }

func (b *testBudget) Grow(_ *Stream, n int64) bool {
	if b.used+n > b.limit {
		return false
	}
	b.used += n
	b.most = max(b.most, b.used)
	return true
}

func (b *testBudget) Shrink(n int64) { b.used -= n }

func testStream(b Budget) *Stream {
	return &Stream{ready: make(chan struct{}, 1), cancel: func() {}, budget: b}
}

func randomEvent(rng *rand.Rand) (ev Event, text []byte, top []TokenLogprob) {
	ev = Event{Choice: rng.Int32N(200), Token: rng.Int32N(200_000) - 1, StopID: -1}
	text = bytes.Repeat([]byte("x"), rng.IntN(20))
	if rng.IntN(2) == 0 {
		ev.Logprob, ev.Rank = -rng.Float32(), rng.Int32N(1000)
		for range rng.IntN(30) {
			top = append(top, TokenLogprob{rng.Int32(), float32(math.Inf(-1))})
		}
	}
	if rng.IntN(20) == 0 {
		ev.Reason, ev.StopID, ev.StopStr, ev.Err = Stop, rng.Int32(), "stop", errors.New("err")
	}
	return ev, text, top
}

// What a reader takes is what was pushed, in its order, however they alternate; and the
// bytes that the budget has granted are those of the pieces that are left.
func TestBacklogKeepsEvents(t *testing.T) {
	for seed := range uint64(50) {
		testBacklog(t, seed)
	}
}

func testBacklog(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	budget := &testBudget{limit: math.MaxInt64}
	s := testStream(budget)
	var want []Event
	var ev Events
	take := func() bool {
		more := s.Take(&ev)
		for _, got := range ev.Items {
			if !sameEvent(got, want[0]) {
				t.Fatalf("seed %d: %+v, want %+v", seed, got, want[0])
			}
			want = want[1:]
		}
		return more
	}
	for range 300 {
		if rng.IntN(4) == 0 {
			take()
			continue
		}
		for range rng.IntN(1 << rng.IntN(8)) {
			e, text, top := randomEvent(rng)
			s.push(e, text, top)
			e.Text, e.Top = text, top
			want = append(want, e)
		}
		s.signal()
		if budget.used != s.mu.pending.bytes {
			t.Fatalf("seed %d: %d bytes granted, %d in use", seed, budget.used, s.mu.pending.bytes)
		}
	}
	for take() {
	}
	if len(want) > 0 {
		t.Fatalf("seed %d: %d events are lost", seed, len(want))
	}
	s.Cancel()
	if budget.used != s.mu.pending.lent || budget.used > 2*largestPiece {
		t.Errorf("seed %d: %d bytes in the end", seed, budget.used)
	}
}

func sameEvent(a, b Event) bool {
	return a.Choice == b.Choice && a.Token == b.Token && a.Reason == b.Reason && a.StopID == b.StopID && a.StopStr == b.StopStr &&
		a.Err == b.Err && a.Logprob == b.Logprob && a.Rank == b.Rank && bytes.Equal(a.Text, b.Text) && slices.Equal(a.Top, b.Top)
}

// Events that nobody reads take a few bytes each, and eight for an alternative.
func TestBacklogIsSmall(t *testing.T) {
	for _, c := range []struct{ top, most int }{{0, 16}, {20, 260}} {
		budget := &testBudget{limit: math.MaxInt64}
		s := testStream(budget)
		const steps, choices = 200, 100
		for range steps {
			for i := range int32(choices) {
				s.push(Event{Choice: i, Token: 100_000, StopID: -1, Logprob: -1, Rank: 1}, []byte(" word"), make([]TokenLogprob, c.top))
			}
			s.signal()
		}
		if each := budget.used / (steps * choices); each > int64(c.most)+largestPiece/(steps*choices) {
			t.Errorf("%d bytes for an event with %d alternatives", each, c.top)
		}
	}
}

// A stream whose budget has no more memory ends with ErrUnread and gives back what it held.
// What its reader had begun to read it still gets.
func TestUnreadStreamEnds(t *testing.T) {
	budget := &testBudget{limit: 200 << 10}
	cancelled := 0
	s := testStream(budget)
	s.cancel = func() { cancelled++ }
	var ev Events
	for i := range 100_000 {
		s.push(Event{Token: 1, StopID: -1}, []byte("text"), nil)
		s.signal()
		if i == 0 && !s.Take(&ev) {
			t.Fatal("no event")
		}
	}
	if cancelled != 1 || budget.used != 0 || budget.most > budget.limit || s.Drawn() != 100_000 {
		t.Errorf("cancelled %d times, %d bytes held, %d at most, %d drawn", cancelled, budget.used, budget.most, s.Drawn())
	}
	if !s.Take(&ev) || len(ev.Items) != 1 || ev.Items[0].Reason != Failed || !errors.Is(ev.Items[0].Err, ErrUnread) || s.Take(&ev) {
		t.Errorf("%+v", ev.Items)
	}
}

// A reader that keeps up costs no allocation and no bytes of the budget.
func TestReadStreamIsFree(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	budget := &testBudget{}
	s := testStream(budget)
	var ev Events
	step := func() {
		for i := range int32(3) {
			s.push(Event{Choice: i, Token: 5, StopID: -1}, []byte("text"), nil)
		}
		s.signal()
		s.Take(&ev)
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 || len(ev.Items) != 3 {
		t.Errorf("%v allocations, %d events", n, len(ev.Items))
	}
}
