package servertest

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
)

// Log is a log that counts its messages and keeps the text of warnings and errors.
type Log struct {
	slog.Handler
	text  Buffer
	mu    sync.Mutex
	count map[string]int
	lines map[string][]map[string]string // of Info and above, by message
}

func newLog() *Log {
	l := &Log{count: map[string]int{}, lines: map[string][]map[string]string{}}
	l.Handler = slog.NewTextHandler(&l.text, nil)
	return l
}

// Enabled implements slog.Handler.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *Log) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	l.count[r.Message]++
	if r.Level >= slog.LevelInfo {
		line := map[string]string{}
		r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
		l.lines[r.Message] = append(l.lines[r.Message], line)
	}
	l.mu.Unlock()
	if r.Level < slog.LevelWarn {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// Times is how often a message was logged.
func (l *Log) Times(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[message]
}

// Lines are the lines with a message, of level Info and above: their attributes.
func (l *Log) Lines(message string) []map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines[message])
}

// Text is the text of all warnings and errors.
func (l *Log) Text() string { return l.text.String() }

// Reset forgets the text, where warnings were asked for.
func (l *Log) Reset() { l.text.Reset() }

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Reset empties the buffer.
func (l *Buffer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
