package feedback

import (
	"context"
	"errors"
	"time"

	"weir/internal/memory"
	"weir/internal/pace"
	"weir/store"
	"weir/store/outbox"
)

// Store keeps the records of all projects in one database. Its methods may be called from
// any goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db  *store.DB
	cfg Config
	now func() time.Time

	counts  countCache
	repair  repair
	changes *outbox.Log // of records, for sinks; nil: nobody wants them

	// The rest belongs to the goroutine of the database's writer, which runs all updates.
	noted  bool             // the database says which indexes it has
	newest map[string]int64 // newest created_at by project
	lastID struct {         // the newest that was made
		at     int64
		random [10]byte
	}
}

// New returns the records in db.
func New(db *store.DB, cfg Config) *Store {
	s := &Store{db: db, cfg: cfg, now: time.Now, newest: map[string]int64{}}
	s.counts.init()
	return s
}

// Ready is closed when the database is open. A lazy database is opened by its first use.
func (s *Store) Ready() <-chan struct{} { return s.db.Ready() }

// Err says why nothing can be stored now; nil if it can.
func (s *Store) Err() error { return s.db.Err() }

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// DecodeQuery is Config.DecodeQuery with the configuration of the store. It ends early with
// the cause of ctx, because a large expression takes milliseconds.
func (s *Store) DecodeQuery(ctx context.Context, body []byte, kind Kind, weave bool) (*Query, error) {
	if err := memory.Take(ctx, decodedBytes*int64(len(body))); err != nil {
		return nil, err
	}
	return s.cfg.decodeQuery(pace.Of(ctx), body, kind, weave)
}

// decodedBytes is how many bytes each byte of a query may take when it is decoded: an element
// of $in has four and takes an entry of a map.
const decodedBytes = 24

// get reads a record of a project; nil if there is none.
func get(r *store.Reader, project string, id [16]byte) (rec *Record, err error) {
	row, err := r.Get(rowKey(project, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		rec, err = decodeRecord(row)
	}
	return rec, damagedRecord(id, err)
}

// Get returns a record of a project; nil if there is none with that id.
func (s *Store) Get(project, id string) (rec *Record, err error) {
	u, ok := parseUUID(id)
	if !ok {
		return nil, nil
	}
	err = s.db.View(func(r *store.Reader) error {
		rec, err = get(r, project, u)
		return err
	})
	return rec, err
}

// Purge deletes the records with these ids, also damaged ones. Ids that do not exist are
// ignored.
func (s *Store) Purge(ctx context.Context, project string, ids []string) error {
	damaged := false
	err := s.change(ctx, func(tx *store.Tx) (err error) {
		_, damaged, err = s.deleteAll(tx, project, ids)
		return err
	})
	if err == nil && damaged {
		// Which index entries a damaged record had cannot be known from it.
		_, err = s.Mend(ctx)
	}
	return err
}

// change runs an update that may delete records.
func (s *Store) change(ctx context.Context, f func(tx *store.Tx) error) error {
	defer s.counts.beginUpdate()()
	return s.db.Update(ctx, f)
}

// deleteAll deletes records, and returns how many they were, and whether there were damaged
// ones, whose index entries stay.
func (s *Store) deleteAll(tx *store.Tx, project string, ids []string) (n int, damaged bool, err error) {
	done := map[[16]byte]bool{}
	for _, id := range ids {
		u, ok := parseUUID(id)
		if !ok || done[u] {
			continue
		}
		done[u] = true
		key := rowKey(project, u)
		row, err := tx.Get(key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case errors.Is(err, store.ErrCorrupt):
			damaged = true
			tx.Delete(key)
		case err != nil:
			return n, damaged, err
		default:
			rec, err := decodeRecord(row)
			if damaged = damaged || err != nil; err == nil {
				s.counts.deleted(project, rec.CreatedAt)
			}
			table.Delete(tx, key, row)
		}
		if err := s.changes.Note(tx, true, recordRef(project, u)); err != nil {
			return n, damaged, err
		}
		n++
	}
	return n, damaged, nil
}
