package calls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/form"
	"weir/store"
)

// ValueThreshold is what store.Config.ValueThreshold should be for a database of calls: nearly
// all of them are then in the value log, which compaction does not copy, and which a read
// finds without decoding a block of its neighbours. With a threshold of 32 KiB, calls of
// 1.4 KB took 1.7 times as long to write, and three times as long to read.
const ValueThreshold = 512

// Config is the configuration of a store.
type Config struct {
	// Quota is how many bytes the calls of a project may take; 0: as many as there is room for.
	Quota int64
	// Others is how many bytes something else of a project takes that counts for the same
	// quota. nil: there is nothing else.
	Others func(r *store.Reader, project string) (int64, error)
}

// Store keeps the calls of all projects. Its keys begin with the bytes 'A' to 'N'; the
// database belongs to packages objects and queues as well. Its methods may be called from
// any goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db  *store.DB
	cfg Config
	now func() time.Time
}

// New returns the calls in db, without a quota.
func New(db *store.DB) *Store { return NewConfigured(db, Config{}) }

// NewConfigured returns the calls in db.
func NewConfigured(db *store.DB, cfg Config) *Store {
	return &Store{db: db, cfg: cfg, now: time.Now}
}

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// Author says who writes.
type Author struct {
	User string // wb_user_id of the calls
}

// Get returns a call that is visible; nil if there is none with that id in the project.
func (s *Store) Get(project, id string) (rec *Record, err error) {
	if len(id) > maxID || len(project) > maxProject {
		return nil, nil
	}
	err = s.db.View(func(r *store.Reader) error {
		rec, err = get(r, project, id)
		return err
	})
	if err != nil || rec == nil || !rec.Visible() {
		return nil, err
	}
	return rec, nil
}

// bytesKey is the key of how many bytes the records of a project take.
func bytesKey(project string) []byte { return store.AppendString([]byte{tagBytes}, project) }

// Bytes is how many bytes the records of a project take.
func (s *Store) Bytes(project string) (n int64, err error) {
	err = s.db.View(func(r *store.Reader) error {
		n, err = bytesOf(r, project)
		return err
	})
	return n, err
}

// bytesOf reads the count of a project. If it is damaged, the records are counted anew.
func bytesOf(r *store.Reader, project string) (int64, error) {
	v, err := r.Get(bytesKey(project))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err == nil && len(v) == 8:
		return int64(binary.BigEndian.Uint64(v)), nil
	case err != nil && !errors.Is(err, store.ErrCorrupt):
		return 0, err
	}
	return countBytes(r, project)
}

// countBytes adds up the records of a project. Damaged ones count nothing.
func countBytes(r *store.Reader, project string) (n int64, err error) {
	prefix := store.AppendString([]byte{TagRow}, project)
	err = r.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(_, row []byte) bool {
		n += rowBytes(row)
		return true
	})
	return n, err
}

// rowBytes is what a stored record counts for: nothing if its call was deleted.
func rowBytes(row []byte) int64 {
	if len(row) >= recordHead && row[1]&isDeleted != 0 {
		return 0
	}
	return int64(len(row))
}

// account is the changes of an update to the counts of bytes.
type account struct {
	tx    *store.Tx
	delta map[string]int64
}

func (a *account) add(project string, n int64) {
	if n == 0 {
		return
	}
	if a.delta == nil {
		a.delta = map[string]int64{}
	}
	a.delta[project] += n
}

// settle writes the counts. If there is a configuration, a project that grows beyond its
// quota is refused.
func (a *account) settle(cfg *Config) error {
	for project, d := range a.delta {
		n, err := bytesOf(&a.tx.Reader, project)
		if err != nil {
			return err
		}
		n = max(n+d, 0)
		if cfg != nil {
			if err := cfg.allows(&a.tx.Reader, project, n, d); err != nil {
				return err
			}
		}
		if n == 0 {
			a.tx.Delete(bytesKey(project))
			continue
		}
		a.tx.Set(bytesKey(project), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return nil
}

// allows refuses a project that grows beyond its quota. Its calls would take n bytes, which are
// d more than before. The status is one that makes no client repeat the request or split it,
// as 413 and 422 do.
func (c *Config) allows(r *store.Reader, project string, n, d int64) error {
	if c.Quota <= 0 || d <= 0 {
		return nil
	}
	if c.Others != nil {
		others, err := c.Others(r, project)
		if err != nil {
			return err
		}
		n += others
	}
	if n > c.Quota {
		return &form.Refusal{Status: 403, Reason: fmt.Sprintf("Project %s would take %d bytes, and its quota is %d; delete some of its calls or objects first", project, n, c.Quota)}
	}
	return nil
}

// BytesIn is how many bytes the calls of a project take in a snapshot.
func BytesIn(r *store.Reader, project string) (int64, error) { return bytesOf(r, project) }

// update runs an update that may write calls. All updates go through it.
func (s *Store) update(ctx context.Context, f func(tx *store.Tx) error) error {
	return s.db.Update(ctx, f)
}
