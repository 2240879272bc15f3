package retry

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]int{
		-time.Second: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 59*time.Second + 1: 60, time.Minute: 60, time.Hour: 60, math.MaxInt64: 60,
	} {
		if got := Seconds(wait); got != want {
			t.Errorf("%v: %d seconds, want %d", wait, got, want)
		}
	}
}

func TestAfter(t *testing.T) {
	full := errors.New("full")
	err := fmt.Errorf("wrapped: %w", After(full, 3*time.Second))
	if !errors.Is(err, full) || Of(err) != 3*time.Second || After(full, 3*time.Second).Error() != "full" {
		t.Errorf("%v after %v", err, Of(err))
	}
	if After(full, 0) != full || Of(full) != 0 || Of(nil) != 0 {
		t.Error("an unknown time is known")
	}
}

func TestTime(t *testing.T) {
	for _, c := range []struct {
		amount, rate float64
		want         time.Duration
	}{
		{100, 0, 0}, {100, 50, 2 * time.Second}, {0, 50, 1}, {-5, 50, 1}, {1, 1000, time.Millisecond}, {1e300, 1e-300, 2 * time.Minute},
	} {
		if got := Time(c.amount, c.rate); got != c.want {
			t.Errorf("%v at %v: %v, want %v", c.amount, c.rate, got, c.want)
		}
	}
}

// A rate is that of the last ten seconds or so, whatever the pieces in which it was measured.
func TestRate(t *testing.T) {
	var r Rate
	if r.Add(5, 0); r.PerSecond() != 0 {
		t.Error("a rate in no time")
	}
	near := func(want float64) {
		t.Helper()
		if got := r.PerSecond(); math.Abs(got-want) > want/20 {
			t.Errorf("%v per second, want about %v", got, want)
		}
	}
	r.Add(50, time.Second/2)
	near(100)
	for range 10_000 {
		r.Add(2, 10*time.Millisecond)
	}
	near(200)
	for range 200 {
		r.Add(10, time.Second)
	}
	near(10)
	r.Add(1000*100, 1000*time.Second)
	near(100)
}

// A mean follows what it measures, and a large weight counts for more.
func TestMean(t *testing.T) {
	var m Mean
	if m.Times(5) != 0 {
		t.Error("a mean of nothing")
	}
	m.Add(2*time.Second, 1)
	if got := m.Times(3); got != 6*time.Second {
		t.Errorf("three times 2s: %v", got)
	}
	for range 500 {
		m.Add(time.Second, 1)
	}
	if got := m.Times(1).Round(time.Millisecond); got != time.Second {
		t.Errorf("after many of 1s: %v", got)
	}
	m.Add(11*time.Second, 1e6)
	if got := m.Times(1); got < 10*time.Second {
		t.Errorf("after a heavy one of 11s: %v", got)
	}
}

func TestShared(t *testing.T) {
	for _, c := range []struct {
		n, others int64
		parts     int
		want      int64
	}{{10, 0, 0, 10}, {10, 100, 1, 20}, {10, 100, 5, 60}, {10, 15, 5, 25}} {
		if got := Shared(c.n, c.others, c.parts); got != c.want {
			t.Errorf("%d beside %d of %d others: %d, want %d", c.n, c.others, c.parts, got, c.want)
		}
	}
}
