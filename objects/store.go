package objects

import (
	"time"

	"weir/store"
)

// Store keeps the objects of all projects. Its keys begin with the bytes 'O' to 'T'; the
// database belongs to packages calls and queues as well.
type Store struct {
	db  *store.DB
	now func() time.Time
}

// New returns the objects in db.
func New(db *store.DB) *Store { return &Store{db: db, now: time.Now} }

// Err says why nothing can be stored now; nil if it can.
func (s *Store) Err() error { return s.db.Err() }
