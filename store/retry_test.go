package store

import (
	"errors"
	"testing"
	"time"

	"weir/internal/retry"
)

// TestWhenToWriteAgain: who is refused because too many updates wait is told how long these
// take, and those that are being written, as fast as updates were written before.
func TestWhenToWriteAgain(t *testing.T) {
	var in intake
	in.init(6)
	fill := func(want time.Duration) {
		t.Helper()
		for range 6 {
			if err := in.push(&update{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.push(&update{}); !errors.Is(err, ErrBusy) || retry.Of(err) != want {
			t.Errorf("%v after %v, want %v", err, retry.Of(err), want)
		}
	}
	fill(0) // nothing was measured
	in.take()
	in.wrote(3 * time.Second) // two per second
	fill(3 * time.Second)
	in.take()
	fill(6 * time.Second)
}

// TestWhenTheStoreIsOpen: who comes while the database is being opened is told to come again
// when that has taken as long once more.
func TestWhenTheStoreIsOpen(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Lazy = true
	d, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Err(); !errors.Is(err, ErrOpening) || retry.Of(err) != 0 {
		t.Errorf("before the opening: %v after %v", err, retry.Of(err))
	}
	d.begin()
	<-d.ready
	d.setErr(ErrOpening)
	d.state.since = time.Now().Add(-10 * time.Second)
	for _, err := range []error{d.Err(), d.Opening()} {
		if !errors.Is(err, ErrOpening) || retry.Of(err) < 10*time.Second {
			t.Errorf("%v after %v, want at least 10s", err, retry.Of(err))
		}
	}
	d.setErr(nil)
	if err := errors.Join(d.Err(), d.Close()); err != nil {
		t.Error(err)
	}
}
