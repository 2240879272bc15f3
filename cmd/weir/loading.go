package main

import (
	"fmt"
	"time"

	"weir/internal/retry"
)

// reportEvery is the least time between two lines of the log about loading, and before the
// first: a load that takes less leaves none.
const reportEvery = 3 * time.Second

// A loadReport says how far the loading of a model's weights has come.
type loadReport struct {
	rate        retry.Rate // of bytes
	done, total int64
	measured    int64     // how many bytes rate has taken in
	at          time.Time // when these were loaded
	logged      time.Time // when the log was told last, or loading began
}

// add takes in that so many bytes are loaded now. Loading begins with the first call. It returns
// what clients are told, how long the rest takes, 0 if that is not known, and whether the log
// is to be told as well.
func (l *loadReport) add(now time.Time, done, total int64) (text string, left time.Duration, due bool) {
	if l.at.IsZero() || done < l.done { // after a failed step, weights are loaded again
		*l = loadReport{measured: done, at: now, logged: now}
	}
	if took := now.Sub(l.at); took > 0 {
		l.rate.Add(float64(done-l.measured), took)
		l.measured, l.at = done, now
	}
	l.done, l.total = done, total
	if due = now.Sub(l.logged) >= reportEvery && done < total; due {
		l.logged = now
	}
	text = fmt.Sprintf("%d of %d MB", done>>20, total>>20)
	if l.rate.PerSecond() > 0 && done < total {
		text += fmt.Sprintf(" at %d MB/s, about %s left", int64(l.rate.PerSecond())>>20, l.left())
	}
	return text, retry.Time(float64(total-done), l.rate.PerSecond()), due
}

// left is how long the rest takes, in whole seconds, rounded up.
func (l *loadReport) left() time.Duration {
	seconds := float64(l.total-l.done) / l.rate.PerSecond()
	return time.Duration(min(seconds, 1e6)+1) * time.Second
}

// attributes is a line of the log, in pairs of name and value.
func (l *loadReport) attributes() []any {
	list := []any{"megabytes", l.done >> 20, "of", l.total >> 20}
	if l.rate.PerSecond() > 0 {
		list = append(list, "megabytes_per_second", int64(l.rate.PerSecond())>>20, "left", l.left())
	}
	return list
}
