package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/feedback"
	"weir/store"
	"weir/store/outbox"
	"weir/store/storetest"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/usage"
)

// memorySink keeps what it has got, without repetitions.
type memorySink struct {
	name   string
	limits outbox.Limits

	mu     sync.Mutex
	ids    map[string]string // what an id stood for
	values map[string]string // by kind and key
	order  []string          // keys, without repetitions
	again  int               // repetitions
	fail   func(n int) error // of the n-th call; nil: none fails
	calls  int
	wrong  []string
}

func newMemorySink() *memorySink {
	return &memorySink{name: "memory://x", limits: outbox.Limits{Messages: 8, Bytes: 1 << 10, Body: 4 << 10}, ids: map[string]string{}, values: map[string]string{}}
}

func (s *memorySink) Name() string          { return s.name }
func (s *memorySink) Limits() outbox.Limits { return s.limits }
func (s *memorySink) Close() error          { return nil }

func (s *memorySink) failWith(f func(n int) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.calls = f, 0
}

func (s *memorySink) Send(_ context.Context, list []outbox.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var err error
	if s.fail != nil {
		err = s.fail(s.calls)
	}
	keys := map[string]bool{}
	for i, m := range list {
		if err != nil && i%2 == 0 {
			continue // a sink that fails may have stored some
		}
		s.take(m)
		if keys[m.Key] {
			s.wrong = append(s.wrong, "twice in a call: "+m.Key)
		}
		keys[m.Key] = true
	}
	return err
}

func (s *memorySink) take(m outbox.Message) {
	text := fmt.Sprint(m.Kind, " ", m.Key, " ", string(m.Body))
	if before, known := s.ids[m.ID]; known {
		if s.again++; before != text {
			s.wrong = append(s.wrong, m.ID+": "+before+", then "+text)
		}
		return
	}
	if m.Gone != (m.Body == nil) {
		s.wrong = append(s.wrong, "a tombstone with a body: "+text)
	}
	s.ids[m.ID] = text
	s.order = append(s.order, m.Key)
	if m.Gone {
		delete(s.values, m.Kind+" "+m.Key)
	} else {
		s.values[m.Kind+" "+m.Key] = string(m.Body)
	}
}

// fixture is databases and a sink.
type fixture struct {
	t       testing.TB
	dir     string
	sink    *memorySink
	to      []Sink
	backlog uint64
	off     bool // without sinks

	db, tdb *store.DB
	book    *feedback.Store
	archive *archive.Archive
	counts  []usage.Project
	usage   *Usage
	logs    []*outbox.Log
	group   *Group
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{t: t, dir: t.TempDir(), sink: newMemorySink(), backlog: 1 << 20}
	f.to = []Sink{f.sink}
	t.Cleanup(f.stop)
	return f
}

func (f *fixture) start() *fixture {
	f.t.Helper()
	var err error
	if f.db, err = store.Open(storetest.Config(f.dir + "/f")); err != nil {
		f.t.Fatal(err)
	}
	if f.tdb, err = store.Open(storetest.Config(f.dir + "/t")); err != nil {
		f.t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	f.book = feedback.New(f.db, feedback.DefaultConfig())
	if f.archive, err = archive.New(f.tdb, quiet); err != nil {
		f.t.Fatal(err)
	}
	f.logs = []*outbox.Log{outbox.New(f.db, 'f', !f.off), outbox.New(f.db, 'u', !f.off), outbox.New(f.tdb, 't', !f.off)}
	f.book.SetChanges(f.logs[0])
	f.usage = NewUsage(f.db, f.logs[1], func() ([]usage.Project, int64, error) { return f.counts, 7, nil })
	f.archive.SetChanges(f.logs[2])
	<-f.archive.Ready()
	if !f.off {
		f.group = Start(Config{Sinks: f.to, Backlog: f.backlog, Log: quiet, TrimEvery: 10 * time.Millisecond, PauseMost: 10 * time.Millisecond, Feeds: []Feed{
			{"feedback", f.logs[0], f.book.Changes(), f.db.Ready()}, {"usage", f.logs[1], f.usage, f.db.Ready()}, {"trajectories", f.logs[2], f.archive.Changes(), f.archive.Ready()},
		}})
	}
	return f
}

func (f *fixture) stop() {
	if f.db == nil {
		return
	}
	f.group.Close(0)
	f.archive.Close()
	if err := errors.Join(f.db.Close(), f.tdb.Close()); err != nil {
		f.t.Error(err)
	}
	f.db, f.group = nil, nil
}

// until waits until done returns true.
func (f *fixture) until(what string, done func() bool) {
	f.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			f.t.Fatalf("still not %s: %+v", what, f.group.Stats())
		}
	}
}

// drained waits until the sink has everything.
func (f *fixture) drained() {
	f.t.Helper()
	f.until("drained", func() bool {
		stats := f.group.Stats()
		for _, s := range stats {
			if s.Lag > 0 {
				return false
			}
		}
		return len(stats) == 3*len(f.to)
	})
}

// stat is what has been done for a feed.
func (f *fixture) stat(feed string) (of Stat) {
	f.t.Helper()
	for _, s := range f.group.Stats() {
		if s.Feed == feed {
			of = s
		}
	}
	return of
}

// put writes a record under an id, in place of the one that is there, and returns its text.
func (f *fixture) put(project, id, text string) {
	f.t.Helper()
	if err := putRecord(f.book, project, id, text); err != nil {
		f.t.Fatal(err)
	}
}

func putRecord(book *feedback.Store, project, id, text string) error {
	body, err := json.Marshal(map[string]any{"project_id": project, "trace_ref": "weave:///" + project + "/call/1", "feedback_type": "custom", "payload": map[string]any{"text": text}, "id": id, "feedback_id": id})
	if err != nil {
		return err
	}
	r, err := feedback.DecodeRequest(context.Background(), body, feedback.Replace)
	if err != nil {
		return err
	}
	_, err = book.Replace(context.Background(), feedback.Author{User: "u"}, r, feedback.Once{})
	return err
}

func (f *fixture) purge(project string, ids ...string) {
	f.t.Helper()
	if err := f.book.Purge(context.Background(), project, ids); err != nil {
		f.t.Fatal(err)
	}
}

func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// log stores a batch of trajectories.
func (f *fixture) log(body string) archive.ID {
	f.t.Helper()
	u, err := f.archive.Begin(context.Background(), "acme", "agent")
	if err != nil {
		f.t.Fatal(err)
	}
	defer u.Abort()
	e, err := trajectory.Read(strings.NewReader(body), trajectory.DefaultLimits(), u)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := u.Commit(archive.Meta{Split: e.Split, Step: e.Step, Bytes: e.Bytes})
	if err != nil {
		f.t.Fatal(err)
	}
	return r.ID
}

// stored is what the sink should have of feedback.
func (f *fixture) stored() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	if err := f.book.Each(func(rec *feedback.Record) error {
		all["feedback "+rec.Project+"/"+rec.ID] = string(rec.AppendAll(nil))
		return nil
	}, func(_ []byte, err error) { f.t.Error(err) }); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// same compares what the sink has of a kind with what it should have.
func (f *fixture) same(kind string, want map[string]string) {
	f.t.Helper()
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	got := maps.Clone(f.sink.values)
	maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, kind+" ") })
	if !maps.Equal(got, want) {
		f.t.Errorf("%s: got %d, want %d\n%v\n%v", kind, len(got), len(want), got, want)
	}
	for _, w := range f.sink.wrong {
		f.t.Error(w)
	}
}
