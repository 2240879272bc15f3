package ratelimit

import "time"

// bucket is a token bucket that is filled by its limit in a minute. The zero value is full.
type bucket struct {
	missing float64 // what is taken out of a full one; it may be more than the limit
	at      time.Time
}

const minute = time.Minute

// fill lets the bucket fill until now. A clock that was set back fills nothing.
func (b *bucket) fill(limit int64, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.missing = max(0, b.missing-float64(limit)*passed.Seconds()/minute.Seconds())
	}
	b.at = now
}

// wait returns how long it takes until n can be taken; 0: they can now. If n is more than the limit,
// it can be taken when the bucket is full.
func (b *bucket) wait(limit, n int64) time.Duration {
	return span(b.missing+float64(min(n, limit))-float64(limit), limit)
}

// left is how much can be taken now.
func (b *bucket) left(limit int64) int64 { return max(0, int64(float64(limit)-b.missing)) }

// full returns how long it takes until the bucket is full.
func (b *bucket) full(limit int64) time.Duration { return span(b.missing, limit) }

// span is how long a bucket takes to fill by so much.
func span(amount float64, limit int64) time.Duration {
	if amount <= 1e-9*float64(limit) { // what rounding leaves is nothing
		return 0
	}
	return max(1, time.Duration(amount/float64(limit)*float64(minute)))
}
