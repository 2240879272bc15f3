package sinks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/store/outbox"
)

// fileSink stores ranges under names that tell them apart.
type fileSink struct {
	every time.Duration
	most  int

	mu     sync.Mutex
	files  map[string][]string // keys, by the name of the range
	ranges []Range             // as they were stored, repetitions too
	fail   bool                // after storing
}

func (s *fileSink) Name() string { return "files" }
func (s *fileSink) Limits() outbox.Limits {
	return outbox.Limits{Messages: 4, Bytes: 1 << 10, Body: 4 << 10}
}
func (s *fileSink) Close() error                                 { return nil }
func (s *fileSink) Every() time.Duration                         { return s.every }
func (s *fileSink) Most() int                                    { return s.most }
func (s *fileSink) Begin(r Range) Writer                         { return &fileWriter{s: s, r: r} }
func (s *fileSink) Send(context.Context, []outbox.Message) error { return errors.New("not a file") }

type fileWriter struct {
	s    *fileSink
	r    Range
	keys []string
}

func (w *fileWriter) Add(_ context.Context, list []outbox.Message) error {
	for _, m := range list {
		w.keys = append(w.keys, m.Key)
	}
	return nil
}

func (w *fileWriter) Commit(context.Context) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.files[fmt.Sprintf("%s %d-%d.%d", w.r.Feed, w.r.First, w.r.Last, w.r.Part)] = w.keys
	w.s.ranges = append(w.s.ranges, w.r)
	if w.s.fail {
		return errors.New("the answer was lost")
	}
	return nil
}

// TestRanges: files follow each other without a gap, have as many entries as one may have, and keep
// their names when they are stored again, although more has been written since.
func TestRanges(t *testing.T) {
	f := newFixture(t)
	s := &fileSink{every: time.Hour, most: 10, files: map[string][]string{}}
	f.to = []Sink{s}
	f.start()
	f.until("snapshots", func() bool {
		for _, c := range f.group.Stats() {
			if c.Lag > 0 {
				return false
			}
		}
		return len(f.group.Stats()) == 3
	})
	s.mu.Lock()
	s.fail = true
	s.mu.Unlock()
	for i := range 14 {
		f.put("a/b", uuid(i), "x")
	}
	stored := func(n int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.ranges) >= n
		}
	}
	f.until("stored, and stored again", stored(2))
	f.stop() // as a crash: the answer never came
	s.mu.Lock()
	before := len(s.ranges)
	s.most, s.fail = 12, false
	s.mu.Unlock()
	f.start()
	for i := range 12 {
		f.put("a/b", uuid(100+i), "x")
	}
	f.until("stored", stored(before+2))
	f.stop()
	if len(s.files) != 2 || len(s.files["feedback 1-10.0"]) != 10 || len(s.files["feedback 11-22.0"]) != 12 {
		t.Errorf("%v", s.files)
	}
}

// TestRangesByTime: a range ends with its time, and is stored soon after.
func TestRangesByTime(t *testing.T) {
	f := newFixture(t)
	s := &fileSink{every: 50 * time.Millisecond, most: 1000, files: map[string][]string{}}
	f.to = []Sink{s}
	f.start()
	for i := range 3 {
		f.put("a/b", uuid(i), "x")
		f.until("stored", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			have := map[string]bool{} // what is written before the snapshot is in it, and may be told again
			for _, keys := range s.files {
				for _, key := range keys {
					have[key] = true
				}
			}
			return len(have) == i+1
		})
	}
	f.stop()
	for _, r := range s.ranges {
		if r.First > r.Last && r.First > 0 || r.Start.Nanosecond()%int(50*time.Millisecond) != 0 {
			t.Errorf("%+v", r)
		}
	}
}
