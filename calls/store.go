package calls

import (
	"time"

	"weir/store"
)

// Store keeps the calls of all projects. Its keys begin with the bytes 'A' to 'N'; the
// database belongs to packages objects and queues as well.
type Store struct {
	db  *store.DB
	now func() time.Time
}

// New returns the calls in db.
func New(db *store.DB) *Store { return &Store{db: db, now: time.Now} }

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }
