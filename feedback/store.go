package feedback

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/store"
)

// Store is the records of all projects, in one database. Its methods may be called
// from any goroutine; those that write return when that is on stable storage.
type Store struct {
	db  *store.DB
	cfg Config
	now func() time.Time

	counts countCache

	// The writer's goroutine, on which all updates run, has what follows.
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

// Ready is closed when the database is open, which the first who needs it may cause.
func (s *Store) Ready() <-chan struct{} { return s.db.Ready() }

// StoreStats is what the database has done.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// Mend repairs the indexes after a crash has damaged a log of the database, and
// reports how many entries it wrote or removed.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	type fix struct {
		entry, key []byte
		missing    bool
	}
	var fixes []fix
	err = s.db.View(func(r *store.Reader) error {
		return table.Check(r, func(entry, key []byte, missing bool) { fixes = append(fixes, fix{entry, key, missing}) })
	})
	const step = 1000
	for len(fixes) > 0 && err == nil {
		some := fixes[:min(step, len(fixes))]
		fixes = fixes[len(some):]
		err = s.change(ctx, func(tx *store.Tx) error {
			s.counts.invalidateAll()
			for _, f := range some {
				// The row may have changed since.
				row, err := tx.Get(f.key)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				belongs := false
				for _, e := range table.Entries(nil, f.key, row) {
					belongs = belongs || string(e) == string(f.entry)
				}
				if belongs {
					tx.Set(f.entry, f.key)
				} else {
					tx.Delete(f.entry)
				}
			}
			return nil
		})
		n += len(some)
	}
	return n, err
}

// Upgrade makes the indexes that the database, written by an earlier version of this
// program, does not have yet.
func (s *Store) Upgrade(ctx context.Context) (n int, err error) {
	var have []byte
	empty := true
	err = s.db.View(func(r *store.Reader) (err error) {
		if err := r.Scan(store.Range{Prefix: []byte{tagRow}, Keys: true}, func([]byte, []byte) bool { empty = false; return false }); err != nil {
			return err
		}
		if have, err = r.Get([]byte{tagIndexes}); errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			err = nil
		}
		return err
	})
	if err != nil || empty || string(have) == string(table.Indexes) {
		return 0, err
	}
	if n, err = s.Mend(ctx); err != nil {
		return n, err
	}
	return n, s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Set([]byte{tagIndexes}, table.Indexes)
		return nil
	})
}

// Check calls f with what is wrong with the indexes and the records.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error {
		return table.Check(r, func(entry, key []byte, missing bool) {
			if missing {
				f(fmt.Sprintf("the entry %q of %q is missing", entry, key))
			} else {
				f(fmt.Sprintf("the entry %q of %q is left over", entry, key))
			}
		})
	})
	// Damaged values are found by whoever reads all of them; here are those that
	// are whole and no records.
	return firstError(err, s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tagRow}, Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
			if _, err := decodeRecord(row); err != nil {
				f(fmt.Sprintf("%q is no record", key))
			}
			return true
		})
	}))
}

// DecodeQuery is Config.DecodeQuery.
func (s *Store) DecodeQuery(body []byte, kind Kind, theirs bool) (*Query, error) {
	return s.cfg.DecodeQuery(body, kind, theirs)
}

// Author is who writes.
type Author struct {
	User   string
	Key    string // scope of idempotency keys
	Tenant string // whose recorded completions get the rewards
}

// Once makes a request take effect once, however often it is sent (spec 11.3).
type Once struct {
	Key  string // "": as often as it is sent
	Path string // of the function
	Body []byte
}

// keepOnce is how long an answer is remembered; the reference's client tries for
// 36 hours.
const keepOnce = 72 * time.Hour

// update runs f, which appends the answer to its argument, unless o says that it
// has run before; then it returns the answer of that time.
func (s *Store) update(ctx context.Context, a Author, o Once, f func(tx *store.Tx) ([]byte, error)) (answer []byte, err error) {
	var key []byte
	body := sha256.Sum256(o.Body)
	if o.Key != "" {
		scope := store.AppendString(store.AppendString(store.AppendString(nil, a.Key), o.Path), o.Key)
		sum := sha256.Sum256(scope)
		key = append([]byte{tagOnce}, sum[:]...)
	}
	err = s.change(ctx, func(tx *store.Tx) error {
		if key != nil {
			v, err := tx.Get(key)
			switch {
			case errors.Is(err, store.ErrNotFound):
			case err != nil:
				return err
			case len(v) < len(body) || [32]byte(v[:32]) != body:
				return errKeyReused
			default:
				answer = v[32:]
				return nil
			}
		}
		var err error
		if answer, err = f(tx); err == nil && key != nil {
			tx.SetUntil(key, append(body[:], answer...), s.now().Add(keepOnce))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Replace writes a record in place of the one with the id r.Replaces, if there is
// one, and returns the answer (spec feedback 4).
func (s *Store) Replace(ctx context.Context, a Author, r *Request, o Once) ([]byte, error) {
	if f := s.cfg.check(r); f != nil {
		return nil, f
	}
	return s.update(ctx, a, o, func(tx *store.Tx) ([]byte, error) {
		rec, err := s.write(tx, a, r, nil)
		if err != nil {
			return nil, err
		}
		return rec.AppendReceipt(nil, r.Dialect), nil
	})
}

// Create writes a new record and returns the answer (spec feedback 8.1).
func (s *Store) Create(ctx context.Context, a Author, r *Request, o Once) ([]byte, error) {
	return s.Replace(ctx, a, r, o) // which replaces nothing, since nothing has the id ""
}

// CreateAll writes new records, all or none, and returns the answer (spec 8.2).
func (s *Store) CreateAll(ctx context.Context, a Author, batch []*Request, o Once) ([]byte, error) {
	for i, r := range batch {
		if f := s.cfg.check(r); f != nil {
			return nil, inBatch(i, f)
		}
	}
	return s.update(ctx, a, o, func(tx *store.Tx) ([]byte, error) {
		written := map[string]*Record{}
		out := []byte(`{"res":[`)
		for i, r := range batch {
			rec, err := s.write(tx, a, r, written)
			if f := (*Refusal)(nil); errors.As(err, &f) {
				return nil, inBatch(i, f)
			}
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = rec.AppendReceipt(out, r.Dialect)
		}
		return append(out, `]}`...), nil
	})
}

func inBatch(i int, f *Refusal) *Refusal {
	return &Refusal{f.Status, "batch[" + strconv.Itoa(i) + "]: " + f.Reason}
}

// write writes a record. others are those that this update has written, by key;
// the database does not show them to it.
func (s *Store) write(tx *store.Tx, a Author, r *Request, others map[string]*Record) (*Record, error) {
	load := func(id [16]byte) (*Record, error) {
		key := rowKey(r.Project, id)
		if rec := others[string(key)]; rec != nil {
			return rec, nil
		}
		return get(&tx.Reader, key)
	}
	var old *Record
	replaces, isID := parseUUID(r.Replaces)
	var err error
	if isID {
		if old, err = load(replaces); err != nil {
			return nil, err
		}
	}
	id, given := parseUUID(r.ID)
	if given && !(isID && id == replaces) {
		other, err := load(id)
		if err != nil {
			return nil, err
		}
		if other != nil {
			if old == nil && other.same(r.Record(other.ID, a.User, 0)) {
				return other, nil // the answer got lost (spec F-25)
			}
			return nil, errConflict
		}
	}
	at, err := s.createdAt(tx, r.Project)
	if err != nil {
		return nil, err
	}
	if old != nil {
		at = max(at, old.CreatedAt+1)
	}
	if !given {
		id = s.newID(at)
	}
	s.newest[r.Project] = at
	rec := r.Record(uuidText(id), a.User, at)
	key := rowKey(r.Project, id)
	var before []byte
	if old != nil {
		s.counts.deleted(r.Project, old.CreatedAt)
		before = old.append(nil)
		if oldKey := rowKey(r.Project, replaces); string(oldKey) != string(key) {
			table.Delete(tx, oldKey, before)
			before = nil
		}
	}
	table.Put(tx, key, before, rec.append(nil))
	if w, ok := rec.reward(); ok {
		tx.Set(w.rewardKey(a.Tenant, at, id), []byte(r.Project))
	}
	if others != nil {
		others[string(key)] = rec
	}
	return rec, nil
}

// newID makes an id that sorts behind those made before, within a millisecond too.
func (s *Store) newID(at int64) [16]byte {
	count := s.lastID.random[6:]
	if n := binary.BigEndian.Uint32(count); at == s.lastID.at && n < 1<<32-1 {
		binary.BigEndian.PutUint32(count, n+1)
	} else {
		_, _ = rand.Read(s.lastID.random[:]) // never fails (crypto/rand)
		count[0] &= 0x7f                     // room to count
	}
	s.lastID.at = at
	return uuid7(at, s.lastID.random)
}

// get is the record of a key; nil: there is none.
func get(r *store.Reader, key []byte) (*Record, error) {
	row, err := r.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeRecord(row)
}

// maxLast bounds what is remembered of projects.
const maxLast = 100_000

// createdAt is the time for a new record: the clock's, but never before the
// newest of the project (spec F-31).
func (s *Store) createdAt(tx *store.Tx, project string) (int64, error) {
	newest, known := s.newest[project]
	if !known {
		if len(s.newest) >= maxLast {
			clear(s.newest)
			s.counts.invalidateAll() // the newest that is found may be older than one that was deleted
		}
		prefix := store.AppendString([]byte{tagTime}, project)
		if err := tx.Scan(store.Range{Prefix: prefix, Reverse: true, Keys: true}, func(key, _ []byte) bool {
			if at, _, err := store.CutUint(key[len(prefix):]); err == nil {
				newest = int64(at)
			}
			return false
		}); err != nil {
			return 0, err
		}
		s.newest[project] = newest
	}
	return max(s.now().UnixMilli(), newest), nil
}

// Get is a record of a project; nil: there is none of that id.
func (s *Store) Get(project, id string) (rec *Record, err error) {
	u, ok := parseUUID(id)
	if !ok {
		return nil, nil
	}
	err = s.db.View(func(r *store.Reader) error {
		rec, err = get(r, rowKey(project, u))
		return err
	})
	return rec, err
}

// Purge deletes the records of those ids, of which some may not exist.
func (s *Store) Purge(ctx context.Context, project string, ids []string) error {
	return s.change(ctx, func(tx *store.Tx) error {
		_, err := s.deleteAll(tx, project, ids)
		return err
	})
}

// change runs an update that may delete records.
func (s *Store) change(ctx context.Context, f func(tx *store.Tx) error) error {
	defer s.counts.beginUpdate()()
	return s.db.Update(ctx, f)
}

func (s *Store) deleteAll(tx *store.Tx, project string, ids []string) (n int, err error) {
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
			tx.Delete(key) // its index entries are removed by Mend
		case err != nil:
			return n, err
		default:
			if rec, err := decodeRecord(row); err == nil {
				s.counts.deleted(project, rec.CreatedAt)
			}
			table.Delete(tx, key, row)
		}
		n++
	}
	return n, nil
}
