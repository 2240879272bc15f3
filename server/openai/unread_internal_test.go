package openai

import (
	"testing"

	"weir/engine"
	"weir/internal/memory"
)

// The events that streams leave unread take a quarter of the memory, and no more than there is.
// When it is used up the stream that holds most is ended. What a call has reserved is free, and
// all is given back.
func TestUnreadBudget(t *testing.T) {
	account := memory.New(4000, 0)
	u := newUnread(account)
	large, small := u.open(100), u.open(100)
	var a, b engine.Stream
	grow := func(s *streamBudget, st *engine.Stream, n int64, want bool) {
		t.Helper()
		if ok := s.Grow(st, n); ok != want {
			t.Errorf("%d bytes more: %v", n, ok)
		}
	}
	used := func(want int64) {
		t.Helper()
		if n := account.Stats().Used; n != want {
			t.Errorf("%d bytes are reserved, want %d", n, want)
		}
	}
	grow(large, &a, 100, true)
	used(0)
	grow(small, &b, 300, true)
	grow(large, &a, 600, true)
	used(800)
	grow(large, &a, 201, false) // it holds most itself
	grow(large, &a, 200, true)
	used(1000)
	if victim := u.largest(small); victim != &a || !large.failed || small.failed {
		t.Errorf("ended: the large one %v, the small one %v", large.failed, small.failed)
	}
	large.Shrink(900)
	used(200)

	others := account.Open()
	if !others.TryGrow(3790) {
		t.Fatal("there is no memory")
	}
	grow(large, &a, 50, true)
	grow(small, &b, 11, false) // there is no more memory
	grow(small, &b, 10, true)
	others.Release()
	large.close()
	small.close()
	used(0)
}
