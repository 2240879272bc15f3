package store

import (
	"testing"
	"time"
)

// TestBatching: the writer waits for as many clients as it has seen last, and for no more.
func TestBatching(t *testing.T) {
	var in intake
	in.init(100)
	push := func(n int) {
		for range n {
			if err := in.push(&update{}); err != nil {
				t.Error(err)
			}
		}
	}
	c := batching{most: time.Microsecond}
	c.wrote(2, 0, time.Second)
	push(1)
	if c.wait(&in); c.timer != nil {
		t.Error("two clients are worth waiting for")
	}
	c.most = time.Minute
	c.wrote(8, 8, time.Hour)
	push(7)
	go push(8)
	if c.wait(&in); in.waiting() != 16 {
		t.Errorf("%d of 16 are there", in.waiting())
	}
	in.take()
	c.wrote(16, 0, time.Hour)
	push(8)
	// Clients that do not come are waited for more and more seldom.
	c.most = time.Microsecond
	waits := 0
	for range 100 {
		left := c.left
		if c.wait(&in); c.left > left {
			waits++
		}
	}
	if waits != 6 { // with 1, 3, 7, 15, 31 and 63 in between
		t.Errorf("waited in vain %d times of 100", waits)
	}
}
