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

// settle writes the counts. If quota is not 0, a project that grows beyond it is refused.
func (a *account) settle(quota int64) error {
	for project, d := range a.delta {
		n, err := bytesOf(&a.tx.Reader, project)
		if err != nil {
			return err
		}
		n = max(n+d, 0)
		if quota > 0 && d > 0 && n > quota {
			return &form.Refusal{Status: 400, Reason: fmt.Sprintf("The calls of project %s would take %d bytes, and its quota is %d", project, n, quota)}
		}
		if n == 0 {
			a.tx.Delete(bytesKey(project))
			continue
		}
		a.tx.Set(bytesKey(project), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return nil
}

// update runs an update that may write calls. All updates go through it.
func (s *Store) update(ctx context.Context, f func(tx *store.Tx) error) error {
	return s.db.Update(ctx, f)
}
