package main

import (
	"testing"
	"time"
)

// TestTimeToLoad: how long the rest of the weights takes follows from how fast those before came.
func TestTimeToLoad(t *testing.T) {
	var l loadSpeed
	now := time.Unix(0, 0)
	for i, c := range []struct {
		after, want time.Duration
		done        int64
	}{
		{time.Hour, 0, 0}, // it begins only now
		{2 * time.Second, 8 * time.Second, 200},
		{0, 7 * time.Second, 300}, // in no time: the speed is not known any better
		{2 * time.Second, 5 * time.Second, 500},
		{5 * time.Second, 1, 1000},
	} {
		now = now.Add(c.after)
		if got := l.left(now, c.done, 1000); got.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("call %d: %v left with %d of 1000 loaded, want %v", i, got, c.done, c.want)
		}
	}
}
