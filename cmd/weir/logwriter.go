package main

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// queuedLog is where lines of the log wait to be written, so that nobody who logs waits for a
// terminal, a pipe or a disk that is slow. Lines for which there is no room are dropped and
// counted; the log says how many as soon as it is read again.
type queuedLog struct {
	out    io.Writer
	format string
	wake   chan struct{} // capacity 1: there is something to write
	closed chan struct{} // the writer has ended

	mu      sync.Mutex
	waiting []byte
	dropped int  // lines, since that was last told
	ending  bool // Close was called
}

// mostQueued bounds what waits, in bytes: some 4,000 lines of requests.
const mostQueued = 1 << 20

func newQueuedLog(out io.Writer, format string) *queuedLog {
	q := &queuedLog{out: out, format: format, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	go q.run()
	return q
}

// Write takes a line. It never waits and never fails.
func (q *queuedLog) Write(line []byte) (int, error) {
	q.mu.Lock()
	if len(q.waiting)+len(line) > mostQueued {
		q.dropped++
	} else {
		q.waiting = append(q.waiting, line...)
	}
	q.mu.Unlock()
	q.signal()
	return len(line), nil
}

func (q *queuedLog) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run writes what waits, until Close.
func (q *queuedLog) run() {
	defer close(q.closed)
	var writing []byte
	for range q.wake {
		q.mu.Lock()
		writing, q.waiting = q.waiting, writing[:0]
		dropped, ending := q.dropped, q.ending
		q.dropped = 0
		q.mu.Unlock()
		if dropped > 0 {
			writing = append(writing, q.told(dropped)...)
		}
		_, _ = q.out.Write(writing) // there is nobody to tell of an error
		if ending {
			return
		}
	}
}

// told is the line about lines that were dropped.
func (q *queuedLog) told(lines int) []byte {
	var b bytes.Buffer
	slog.New(logHandler(&b, slog.LevelWarn, q.format)).Warn("lines of the log were dropped, because it is read too slowly", "lines", lines)
	return b.Bytes()
}

// logEnd is how long Close waits for a reader of the log.
const logEnd = 2 * time.Second

// Close writes what waits. Nothing is written after that.
func (q *queuedLog) Close() {
	q.mu.Lock()
	q.ending = true
	q.mu.Unlock()
	q.signal()
	select {
	case <-q.closed:
	case <-time.After(logEnd):
	}
}

// logHandler writes lines in one of the formats of --log-format. In JSON, durations are seconds.
func logHandler(w io.Writer, level slog.Level, format string) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if format != "json" {
		return slog.NewTextHandler(w, o)
	}
	o.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.Float64Value(a.Value.Duration().Seconds())
		}
		return a
	}
	return slog.NewJSONHandler(w, o)
}
