package queues

import (
	"time"

	"weir/store"
)

// Store keeps the queues of all projects. Its keys begin with the bytes 'U' to 'Z'; the
// database belongs to packages calls and objects as well.
type Store struct {
	db  *store.DB
	now func() time.Time
}

// New returns the queues in db.
func New(db *store.DB) *Store { return &Store{db: db, now: time.Now} }

// Err says why nothing can be stored now; nil if it can.
func (s *Store) Err() error { return s.db.Err() }
