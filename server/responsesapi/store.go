package responsesapi

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"weir/store"
)

// Store keeps responses in a database of its own. Its methods may be called from any
// goroutine. Those that write return when the change is on stable storage.
//
// A project may keep so many bytes. When a response would be more, the oldest ones of the
// project are dropped, because a client that asks for an answer should get it however many it
// has asked for before.
type Store struct {
	db    *store.DB
	limit int64
	age   time.Duration
	now   func() time.Time
	gone  func(o Owner, id string) // told of each that is deleted before it was computed; nil: nobody is
}

// Keys are a tag, the project, the tenant, and for tagOrder the time in milliseconds and the id,
// for tagBytes nothing, and for the others the id. Values of tagOrder are the sizes of a row and
// its events, those of tagBytes the sums of these. A response in the background that is not
// computed yet has a row, and one of tagJob with what is needed to compute it, and is in no order
// and no sum: it is not dropped for others.
const (
	tagRow    = 'R'
	tagOrder  = 'O'
	tagBytes  = 'B'
	tagJob    = 'J'
	tagEvents = 'E'
)

// Limits of a Store that was told nothing.
const (
	DefaultBytes = 1 << 30
	DefaultAge   = 30 * 24 * time.Hour
)

// NewStore returns the responses in db. Each project may keep so many bytes, 0: any number.
// Responses are kept for age, 0: for ever.
func NewStore(db *store.DB, limit int64, age time.Duration) *Store {
	return &Store{db: db, limit: limit, age: age, now: time.Now}
}

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// Owner is whose a response is: those of others are not found.
type Owner struct {
	Project string // "": none was named
	Tenant  string // "": every key that the project is named for
}

func (o Owner) key(tag byte) []byte {
	return store.AppendString(store.AppendString([]byte{tag}, o.Project), o.Tenant)
}

func (o Owner) row(id string) []byte { return o.named(tagRow, id) }

func (o Owner) named(tag byte, id string) []byte { return append(o.key(tag), id...) }

func (o Owner) order(ms int64, id string) []byte {
	return append(store.AppendUint(o.key(tagOrder), uint64(ms)), id...)
}

// maxDropped bounds how many responses one update drops.
const maxDropped = 1000

// Put keeps a response. It reports false for one that is larger than all that its owner may keep.
func (s *Store) Put(ctx context.Context, o Owner, r *Record) (kept bool, err error) {
	row := r.encode()
	size := int64(len(row))
	if s.limit > 0 && size > s.limit {
		return false, nil
	}
	return true, s.db.Update(ctx, func(tx *store.Tx) error { return s.put(tx, o, r, row, size) })
}

// put sets the row of a response that takes so many bytes with what belongs to it, and makes room
// for it.
func (s *Store) put(tx *store.Tx, o Owner, r *Record, row []byte, size int64) error {
	total, err := s.bytes(&tx.Reader, o)
	if err != nil {
		return err
	}
	over := int64(0)
	if s.limit > 0 {
		over = total + size - s.limit
	}
	dropped, err := s.drop(tx, o, over, s.oldest())
	if err != nil {
		return err
	}
	tx.Set(o.row(r.ID), row)
	tx.Set(o.order(r.Created, r.ID), binary.AppendUvarint(nil, uint64(size)))
	tx.Set(o.key(tagBytes), binary.AppendUvarint(nil, uint64(max(0, total-dropped)+size)))
	return nil
}

// oldest is the time in milliseconds before which nothing is kept.
func (s *Store) oldest() int64 {
	if s.age <= 0 {
		return math.MinInt64
	}
	return s.now().Add(-s.age).UnixMilli()
}

// drop deletes the oldest responses of an owner until so many bytes are free, and those that
// are older than a time, and returns their bytes.
func (s *Store) drop(tx *store.Tx, o Owner, over, before int64) (dropped int64, err error) {
	prefix := o.key(tagOrder)
	n := 0
	err = tx.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(key, v []byte) bool {
		ms, id, err := store.CutUint(key[len(prefix):])
		if err != nil {
			return true
		}
		if dropped >= over && int64(ms) >= before || n == maxDropped {
			return false
		}
		size, _ := binary.Uvarint(v)
		dropped += int64(size)
		n++
		tx.Delete(append([]byte(nil), key...))
		tx.Delete(o.row(string(id)))
		tx.Delete(o.named(tagEvents, string(id)))
		return true
	})
	return dropped, err
}

// bytes is what an owner keeps. A count that is damaged is made anew.
func (s *Store) bytes(r *store.Reader, o Owner) (int64, error) {
	v, err := r.Get(o.key(tagBytes))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err == nil:
		if n, read := binary.Uvarint(v); read == len(v) {
			return int64(n), nil
		}
	case !errors.Is(err, store.ErrCorrupt):
		return 0, err
	}
	total := int64(0)
	err = r.Scan(store.Range{Prefix: o.key(tagOrder), Damaged: func([]byte, error) {}}, func(_, v []byte) bool {
		n, _ := binary.Uvarint(v)
		total += int64(n)
		return true
	})
	return total, err
}

// Get returns a response; nil: the owner has none with that id.
func (s *Store) Get(o Owner, id string) (rec *Record, err error) {
	err = s.db.View(func(r *store.Reader) error {
		rec, err = s.get(r, o, id)
		return err
	})
	return rec, err
}

func (s *Store) get(r *store.Reader, o Owner, id string) (*Record, error) {
	row, err := r.Get(o.row(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := decodeRecord(id, row)
	if err != nil {
		return nil, &store.CorruptError{Key: o.row(id), Err: err}
	}
	if rec.Created < s.oldest() {
		return nil, nil
	}
	return rec, nil
}

// Delete deletes a response, and reports whether there was one.
func (s *Store) Delete(ctx context.Context, o Owner, id string) (found bool, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		rec, err := s.get(&tx.Reader, o, id)
		if found = rec != nil; err != nil || rec == nil {
			return err
		}
		return s.remove(tx, o, rec)
	})
	return found, err
}

// remove deletes a response in an update that deletes no other.
func (s *Store) remove(tx *store.Tx, o Owner, rec *Record) error {
	total, err := s.bytes(&tx.Reader, o)
	if err != nil {
		return err
	}
	size := uint64(0) // of one that is not computed yet
	switch v, err := tx.Get(o.order(rec.Created, rec.ID)); {
	case err == nil:
		size, _ = binary.Uvarint(v)
	case errors.Is(err, store.ErrCorrupt):
		size = uint64(len(rec.encode()))
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	tx.Delete(o.row(rec.ID))
	tx.Delete(o.named(tagJob, rec.ID))
	tx.Delete(o.named(tagEvents, rec.ID))
	tx.Delete(o.order(rec.Created, rec.ID))
	tx.Set(o.key(tagBytes), binary.AppendUvarint(nil, uint64(max(0, total-int64(size)))))
	if s.gone != nil {
		s.gone(o, rec.ID)
	}
	return nil
}

// owners returns all owners, or those of a project.
func (s *Store) owners(project *string) (all []Owner, err error) {
	err = s.db.View(func(r *store.Reader) error {
		prefix := []byte{tagBytes}
		if project != nil {
			prefix = store.AppendString(prefix, *project)
		}
		return r.Scan(store.Range{Prefix: prefix, Keys: true}, func(key, _ []byte) bool {
			p, rest, err := store.CutString(key[1:])
			if err != nil {
				return true
			}
			if tenant, _, err := store.CutString(rest); err == nil {
				all = append(all, Owner{p, tenant})
			}
			return true
		})
	})
	return all, err
}

// Expire deletes what is older than the Store keeps, and returns how many responses that were.
func (s *Store) Expire(ctx context.Context) (n int, err error) {
	if s.age <= 0 {
		return 0, nil
	}
	owners, err := s.owners(nil)
	for i := 0; i < len(owners) && err == nil; i++ {
		var m int
		m, err = s.erase(ctx, owners[i], false, func(r *Record) bool { return r.Created < s.oldest() })
		n += m
	}
	return n, err
}

// Erasure says which responses of a project are to be deleted: those whose user is each of Users,
// and that are older than Before.
type Erasure struct {
	Project string
	Users   []string
	Before  int64 // Unix milliseconds; 0: all
	DryRun  bool  // only counts them
}

// Erase deletes the responses that an erasure names, and returns how many they are.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	owners, err := s.owners(&e.Project)
	for i := 0; i < len(owners) && err == nil; i++ {
		var m int
		m, err = s.erase(ctx, owners[i], e.DryRun, func(r *Record) bool {
			for _, u := range e.Users {
				if r.User != u {
					return false
				}
			}
			return e.Before == 0 || r.Created < e.Before
		})
		n += m
	}
	return n, err
}

// erase deletes responses of an owner, one in an update.
func (s *Store) erase(ctx context.Context, o Owner, dryRun bool, which func(*Record) bool) (n int, err error) {
	var found []*Record
	prefix := o.key(tagRow)
	if err := s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(key, v []byte) bool {
			rec, err := decodeRecord(string(key[len(prefix):]), v)
			if err == nil && which(rec) {
				found = append(found, &Record{ID: rec.ID})
			}
			return ctx.Err() == nil
		})
	}); err != nil {
		return 0, err
	}
	if dryRun {
		return len(found), ctx.Err()
	}
	for _, f := range found {
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			row, err := tx.Get(o.row(f.ID))
			if err != nil {
				if errors.Is(err, store.ErrNotFound) {
					return nil
				}
				return err
			}
			rec, err := decodeRecord(f.ID, row)
			if err != nil {
				return err
			}
			return s.remove(tx, o, rec)
		}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
