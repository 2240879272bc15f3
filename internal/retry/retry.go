// Package retry says when a request that was refused may be sent again: after the time that
// what is before it takes, as far as that was measured. Whoever refuses computes that time, and
// passes it on with the error:
//
//	wait := retry.Time(ahead, speed)
//	return retry.After(ErrFull, wait)
//
// The server then answers with a header Retry-After ([Of], [Seconds]). The package reads no clock.
package retry

import (
	"errors"
	"time"
)

// Most bounds what clients are told. A longer estimate is too uncertain to keep them away for
// that long.
const Most = 60 * time.Second

// refusal is an error with the time after which the request may be sent again.
type refusal struct {
	error
	after time.Duration
}

func (r *refusal) Unwrap() error { return r.error }

// After adds to an error when the request may be sent again. A time of 0 or less is not known,
// and adds nothing.
func After(err error, wait time.Duration) error {
	if wait <= 0 {
		return err
	}
	return &refusal{err, wait}
}

// Of returns what After has added to an error; 0: nothing.
func Of(err error) time.Duration {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.after
	}
	return 0
}

// Seconds returns a time in whole seconds, rounded up, of at least 1 and at most those of Most.
func Seconds(wait time.Duration) int {
	wait = min(max(wait, 1), Most)
	return int((wait + time.Second - 1) / time.Second)
}

// Time returns how long it takes to serve an amount at a rate per second; 0: the rate is not
// known.
func Time(amount, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	seconds := min(max(amount, 0)/perSecond, 2*Most.Seconds())
	return max(1, time.Duration(seconds*float64(time.Second)))
}

// Shared returns about how much is served of a whole until n are of one of its parts, where all
// parts are served equally: the others have as much as this one, but no more than they want together.
func Shared(n, others int64, parts int) int64 { return n + min(others, int64(parts)*n) }

// A Rate measures how fast something is served. The zero value has measured nothing.
type Rate struct{ amount, seconds float64 }

// window is the time after which what was measured counts for little.
const window = 10 * time.Second

// Add takes in an amount that was served in a time.
func (r *Rate) Add(amount float64, took time.Duration) {
	if took <= 0 {
		return
	}
	keep := 1 / (1 + took.Seconds()/window.Seconds())
	r.amount, r.seconds = (r.amount+amount)*keep, (r.seconds+took.Seconds())*keep
}

// PerSecond returns the rate; 0: it is not known.
func (r *Rate) PerSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.amount / r.seconds
}

// A Mean measures how long something takes on average. The zero value has measured nothing.
type Mean struct{ sum, weight float64 }

// forget is the part of its weight that a Mean loses with each further time.
const forget = 1.0 / 32

// Add takes in a time, with a weight.
func (m *Mean) Add(took time.Duration, weight float64) {
	m.sum = m.sum*(1-forget) + took.Seconds()*weight
	m.weight = m.weight*(1-forget) + weight
}

// Times returns n times the average; 0: it is not known.
func (m *Mean) Times(n float64) time.Duration {
	if m.weight == 0 {
		return 0
	}
	return Time(n*m.sum/m.weight, 1)
}
