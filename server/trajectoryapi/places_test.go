package trajectoryapi

import (
	"errors"
	"testing"
	"time"

	"weir/internal/retry"
	"weir/server/failure"
)

// TestWhenAnUploadHasAPlace: a tenant has as many places as it leaves to others. Who is refused
// is told how long it takes until so many uploads have ended that there is a place, as long as
// uploads took.
func TestWhenAnUploadHasAPlace(t *testing.T) {
	clock := time.Unix(0, 0)
	p := newPlaces(4, func() time.Time { return clock })
	take := func(tenant string) (give func()) {
		t.Helper()
		give, err := p.take(tenant)
		if err != nil {
			t.Fatalf("%s: %v", tenant, err)
		}
		return give
	}
	refused := func(tenant string, want time.Duration) {
		t.Helper()
		if _, err := p.take(tenant); !errors.Is(err, failure.ErrUploads) || retry.Of(err) != want {
			t.Errorf("%s: %v after %v, want %v", tenant, err, retry.Of(err), want)
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
	if p.count() != 0 || len(p.held) != 0 {
		t.Errorf("%d places are taken by %v", p.count(), p.held)
	}
}
