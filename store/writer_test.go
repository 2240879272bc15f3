package store

import (
	"testing"
	"time"
)

// The writer waits for clients it has seen lately, and for nobody else.
func TestCrowd(t *testing.T) {
	var in intake
	in.init(100)
	push := func(n int) {
		for range n {
			if err := in.push(&update{}); err != nil {
				t.Error(err)
			}
		}
	}
	c := crowd{most: time.Microsecond}
	c.saw(2, 0, time.Second)
	push(1)
	if c.gather(&in); c.timer != nil {
		t.Error("two clients are a crowd")
	}
	c.most = time.Minute
	c.saw(8, 8, time.Hour)
	push(7)
	go push(8)
	if c.gather(&in); in.waiting() != 16 {
		t.Errorf("%d of 16 are there", in.waiting())
	}
	in.take()
	c.saw(16, 0, time.Hour)
	push(8)
	// Those who do not come are waited for more and more seldom.
	c.most = time.Microsecond
	waits := 0
	for range 100 {
		left := c.left
		if c.gather(&in); c.left > left {
			waits++
		}
	}
	if waits != 6 { // with 1, 3, 7, 15, 31 and 63 in between
		t.Errorf("waited in vain %d times of 100", waits)
	}
}
