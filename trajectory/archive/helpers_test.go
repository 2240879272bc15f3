package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/store"
	"weir/trajectory"
)

// testArchive is an archive on a store of its own.
type testArchive struct {
	t   testing.TB
	dir string
	db  *store.DB
	*Archive
}

// newTestArchive opens an archive in a temporary folder.
func newTestArchive(t testing.TB) *testArchive {
	s := &testArchive{t: t, dir: t.TempDir()}
	s.start()
	t.Cleanup(s.close)
	return s
}

func (s *testArchive) start() {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := store.DefaultConfig(s.dir)
	cfg.Log = log
	var err error
	if s.db, err = store.Open(cfg); err != nil {
		s.t.Fatal(err)
	}
	if s.Archive, err = New(s.db, log); err != nil {
		s.t.Fatal(err)
	}
	<-s.Ready()
}

func (s *testArchive) close() {
	if s.db != nil {
		s.Archive.Close()
		if err := s.db.Close(); err != nil {
			s.t.Error(err)
		}
		s.db = nil
	}
}

func (s *testArchive) reopen() {
	s.t.Helper()
	s.close()
	s.start()
}

// until waits until f returns true, which happens in other goroutines.
func (s *testArchive) until(what string, f func() bool) {
	s.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !f(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("still not %s", what)
		}
	}
}

// keys counts the keys of a table.
func (s *testArchive) keys(tag byte) (n int) {
	s.t.Helper()
	if err := s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func([]byte, []byte) bool { n++; return true })
	}); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// log stores a body as package server does.
func (s *testArchive) log(tenant, model, body string, m Meta) (Receipt, error) {
	u, err := s.Begin(context.Background(), tenant, model)
	if err != nil {
		return Receipt{}, err
	}
	defer u.Abort()
	e, err := trajectory.Read(strings.NewReader(body), trajectory.DefaultLimits(), u)
	if err != nil {
		return Receipt{}, err
	}
	m.Split, m.Step, m.Bytes = e.Split, e.Step, e.Bytes
	return u.Commit(m)
}

func (s *testArchive) mustLog(tenant, model, body string) Receipt {
	s.t.Helper()
	r, err := s.log(tenant, model, body, Meta{})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func batch(split string, groups ...string) string {
	return `{"split":"` + split + `","trajectory_groups":[` + strings.Join(groups, ",") + `]}`
}

func group(rest string, trajectories ...string) string {
	if rest != "" {
		rest = "," + rest
	}
	return `{"trajectories":[` + strings.Join(trajectories, ",") + `]` + rest + `}`
}

// texts are the groups and trajectories that a filter selects, each after its indexes:
// "group 0 {...}" or "0/1 {...}".
func (s *testArchive) texts(tenant, model string, f *Filter) (list []string) {
	s.t.Helper()
	err := s.View(tenant, func(v *View) error {
		var bad error
		err := v.Batches(model, ID{}, false, func(b *Batch) bool {
			c := v.Open(b)
			bad = c.Visit(f, Visitor{
				Group: func(g *GroupRow) error {
					text, err := c.GroupText(g)
					list = append(list, fmt.Sprintf("group %d %s", g.Index, text))
					return err
				},
				Trajectory: func(r *Row) error {
					text, err := c.Text(r)
					list = append(list, fmt.Sprintf("%d/%d %s", r.Group, r.Index, text))
					return err
				},
			})
			return bad == nil
		})
		return errors.Join(err, bad)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("entry %d: %.300s, want %.300s", i, got[i], want[i])
		}
	}
}

// randomText is text that zstd cannot compress well.
func randomText(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}
