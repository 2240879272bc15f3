package calls

import (
	"context"
	"errors"
	"time"

	"weir/internal/quota"
	"weir/store"
)

// ValueThreshold is what store.Config.ValueThreshold should be for a database of calls: nearly
// all of them are then in the value log, which compaction does not copy, and which a read
// finds without decoding a block of its neighbours. With a threshold of 32 KiB, calls of
// 1.4 KB took 1.7 times as long to write, and three times as long to read.
const ValueThreshold = 512

// Store keeps the calls of all projects. Its keys begin with the bytes 'A' to 'N'; the
// database belongs to packages objects and queues as well. Its methods may be called from
// any goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db    *store.DB
	limit quota.Limit
	now   func() time.Time
}

// New returns the calls in db, without a limit.
func New(db *store.DB) *Store { return NewLimited(db, quota.Limit{}) }

// NewLimited returns the calls in db. limit is for the calls of each project.
func NewLimited(db *store.DB, limit quota.Limit) *Store {
	return &Store{db: db, limit: limit, now: time.Now}
}

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// Author says who writes.
type Author struct {
	User string // wb_user_id of the calls
}

// Get returns a call that is visible; nil if there is none with that id in the project.
func (s *Store) Get(project, id string) (rec *Record, err error) {
	if len(id) > MaxID || len(project) > maxProject {
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

// size counts the bytes of the calls of each project.
var size = quota.Counter{Tag: tagBytes, Content: []byte{TagRow}, Size: func(_, row []byte) int64 { return rowBytes(row) }}

// BytesIn is how many bytes the calls of a project take in a snapshot.
func BytesIn(r *store.Reader, project string) (int64, error) { return size.Of(r, project) }

// Bytes is how many bytes the calls of a project take.
func (s *Store) Bytes(project string) (n int64, err error) {
	err = s.db.View(func(r *store.Reader) error {
		n, err = size.Of(r, project)
		return err
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

// update runs an update that may write calls. All updates go through it.
func (s *Store) update(ctx context.Context, f func(tx *store.Tx) error) error {
	return s.db.Update(ctx, f)
}

// Each calls f with all calls of all projects, in the order of projects and ids, and damaged with
// the key of every record that cannot be read. What waits for its start, and what was deleted, is no
// call.
func (s *Store) Each(f func(*Record) error, damaged func(key []byte, err error)) error {
	return s.db.View(func(r *store.Reader) error {
		var failed error
		err := r.Scan(store.Range{Prefix: []byte{TagRow}, Damaged: damaged}, func(key, row []byte) bool {
			rec, err := ViewRecord(row)
			if err != nil {
				damaged(key, err)
				return true
			}
			if rec.Visible() {
				failed = f(rec)
			}
			return failed == nil
		})
		return errors.Join(failed, err)
	})
}
