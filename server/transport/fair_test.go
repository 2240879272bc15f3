package transport

import (
	"errors"
	"testing"
	"time"

	"weir/internal/retry"
)

// TestFairPlaces: an owner has as many places as it leaves to others. Who is refused
// is told how long it takes until so many requests have ended that there is a place, as long as
// requests took.
func TestFairPlaces(t *testing.T) {
	clock := time.Unix(0, 0)
	errFull := errors.New("full")
	p := NewFairPlaces[string](4, func() time.Time { return clock }, errFull)
	take := func(owner string) (give func()) {
		t.Helper()
		give, err := p.Take(owner)
		if err != nil {
			t.Fatalf("%s: %v", owner, err)
		}
		return give
	}
	refused := func(owner string, want time.Duration) {
		t.Helper()
		if _, err := p.Take(owner); !errors.Is(err, errFull) || retry.Of(err) != want {
			t.Errorf("%s: %v after %v, want %v", owner, err, retry.Of(err), want)
		}
	}
	first, second := take("a"), take("a")
	refused("a", 0) // nothing was measured
	clock = clock.Add(12 * time.Second)
	first()
	first = take("a")
	refused("a", 6*time.Second) // one of two has to end
	third := take("b")
	refused("a", 8*time.Second) // two of three
	refused("b", 4*time.Second)
	fourth := take("c")
	refused("d", 3*time.Second) // one of four
	for _, give := range []func(){first, second, third, fourth} {
		give()
	}
	if p.Taken() != 0 || len(p.held) != 0 {
		t.Errorf("%d places are taken by %v", p.Taken(), p.held)
	}
}
