package engine_test

import (
	"errors"
	"testing"
	"time"

	"weir/engine"
	"weir/internal/retry"
)

// A request that has waited for as long as it may ends, whether it was late when it came or its time
// passes while it waits. Others go on.
func TestMaxWait(t *testing.T) {
	c := newCrowd(t, engine.Config{Scheduler: schedulerConfig(8, 1), MaxLive: 100}, simSpec(65, 4, 8, 1, 1))
	defer c.stop()
	defer c.open()
	timed := func(wait, ago time.Duration) engine.Request {
		q := accounted(request(5, 2), "a", "")
		q.MaxWait, q.Arrived = wait, time.Now().Add(-ago)
		return q
	}
	running := c.submit("a", "", request(5, 50))
	patient, other := c.mustSubmit(t, timed(24*time.Hour, time.Minute)), c.submit("a", "", request(5, 2))
	if _, err := c.Submit(timed(time.Second, time.Minute)); !errors.Is(err, engine.ErrQueueTime) || retry.Of(err) <= 0 {
		t.Errorf("one that is a minute late when it comes: %v, again after %v", err, retry.Of(err))
	}
	c.noPlace(engine.Reservation{Tenant: "a", Tokens: 5, Arrived: time.Now().Add(-time.Minute), MaxWait: time.Second}, engine.ErrQueueTime)
	told := make(chan error, 1)
	place := c.place(engine.Reservation{Tenant: "a", Tokens: 5, MaxWait: 100 * time.Millisecond, Lost: func(err error) { told <- err }})
	defer place.Release()
	short := c.mustSubmit(t, timed(100*time.Millisecond, 0))
	<-time.After(200 * time.Millisecond)
	c.next() // the loop looks at what waits between steps
	if err := <-told; !errors.Is(err, engine.ErrQueueTime) {
		t.Errorf("the place was lost: %v", err)
	}
	q := timed(time.Hour, 0)
	q.Place = place
	if _, err := c.Submit(q); !errors.Is(err, engine.ErrQueueTime) {
		t.Errorf("with the place that was lost: %v", err)
	}
	c.open()
	if r := collect(t.Context(), short, job{req: request(5, 2)}); !errors.Is(r.err, engine.ErrQueueTime) {
		t.Errorf("one whose time has passed: %v", r.err)
	}
	for i, s := range []*engine.Stream{running, patient, other} {
		if r := collect(t.Context(), s, job{req: request(5, 2)}); r.err != nil {
			t.Errorf("stream %d: %v", i, r.err)
		}
	}
}
