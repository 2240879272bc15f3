package feedback

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"weir/internal/longcopy"
	"weir/store"
)

// Author says who writes.
type Author struct {
	User   string
	Key    string // the scope of idempotency keys
	Tenant string // the tenant whose recorded completions get the rewards
}

// Once makes a request take effect once, however often it is sent
// (docs/interface/feedback.md, section 11.3).
type Once struct {
	Key  string // the Idempotency-Key; "": it takes effect whenever it is sent
	Path string // of the function
	Body []byte
}

// keepOnce is how long an answer is remembered. Weave's client repeats a request for up to
// 36 hours.
const keepOnce = 72 * time.Hour

// update runs f in an update and returns its answer. If o says that the request has been
// carried out before, it returns the answer of that time instead.
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
			tx.SetUntil(key, longcopy.Append(body[:], answer), s.now().Add(keepOnce))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Replace writes a record in place of the one with the id r.Replaces, if there is
// one, and returns the answer (docs/interface/feedback.md, section 4).
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

// Create writes a new record and returns the answer (docs/interface/feedback.md,
// section 8.1).
func (s *Store) Create(ctx context.Context, a Author, r *Request, o Once) ([]byte, error) {
	return s.Replace(ctx, a, r, o) // which replaces nothing, since nothing has the id ""
}

// CreateAll writes new records, all or none, and returns the answer
// (docs/interface/feedback.md, section 8.2).
func (s *Store) CreateAll(ctx context.Context, a Author, batch []*Request, o Once) ([]byte, error) {
	for i, r := range batch {
		if f := s.cfg.check(r); f != nil {
			return nil, inBatch(i, f)
		}
	}
	return s.update(ctx, a, o, func(tx *store.Tx) ([]byte, error) {
		written := map[string]*Record{}
		records := make([]*Record, len(batch))
		size := 16
		for i, r := range batch {
			rec, err := s.write(tx, a, r, written)
			if f := (*Refusal)(nil); errors.As(err, &f) {
				return nil, inBatch(i, f)
			}
			if err != nil {
				return nil, err
			}
			records[i] = rec
			size += rec.maxReceipt() + 1
		}
		// Payloads make the answer tens of megabytes long. If it grew with each of them, all
		// before would be copied at once, and a copy that long holds up everybody (longcopy).
		out := append(make([]byte, 0, size), `{"res":[`...)
		for i, rec := range records {
			if i > 0 {
				out = append(out, ',')
			}
			out = rec.AppendReceipt(out, batch[i].Dialect)
		}
		return append(out, `]}`...), nil
	})
}

// inBatch is a refusal of one request of a batch.
func inBatch(i int, f *Refusal) *Refusal {
	return &Refusal{Status: f.Status, Reason: "batch[" + strconv.Itoa(i) + "]: " + f.Reason}
}

// write writes a record. others are those that this update has written, by key;
// the database does not show them to it.
func (s *Store) write(tx *store.Tx, a Author, r *Request, others map[string]*Record) (*Record, error) {
	load := func(id [16]byte) (*Record, error) {
		key := rowKey(r.Project, id)
		if rec := others[string(key)]; rec != nil {
			return rec, nil
		}
		return get(&tx.Reader, r.Project, id)
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
				return other, nil // the same request again: its answer was lost (docs/interface/feedback.md, F-25)
			}
			return nil, errConflict
		}
	}
	at, err := s.createdAt(tx, r.Project)
	if err := FirstError(err, s.note(tx)); err != nil {
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
	if w, ok, _ := rec.reward(); ok {
		tx.Set(w.rewardKey(a.Tenant, at, id), []byte(r.Project))
	}
	if others != nil {
		others[string(key)] = rec
	}
	return rec, s.noteWritten(tx, r.Project, id, at, old != nil, replaces)
}

// noteWritten notes a record that is written, and one under another id that it replaces.
func (s *Store) noteWritten(tx *store.Tx, project string, id [16]byte, at int64, replaced bool, before [16]byte) error {
	if replaced && before != id {
		if err := s.changes.Note(tx, true, recordRef(project, before)); err != nil {
			return err
		}
	}
	return s.changes.Note(tx, false, store.AppendUint(recordRef(project, id), uint64(at)))
}

// newID makes an id that sorts after all earlier ones, also within a millisecond.
func (s *Store) newID(at int64) [16]byte {
	count := s.lastID.random[6:]
	if n := binary.BigEndian.Uint32(count); at == s.lastID.at && n < 1<<32-1 {
		binary.BigEndian.PutUint32(count, n+1)
	} else {
		_, _ = rand.Read(s.lastID.random[:]) // never fails (crypto/rand)
		count[0] &= 0x7f                     // leave half of the values for counting up
	}
	s.lastID.at = at
	return uuid7(at, s.lastID.random)
}

// maxNewest bounds the projects in Store.newest.
const maxNewest = 100_000

// createdAt is the time of a new record: that of the clock, but never before the newest
// record of the project (docs/interface/feedback.md, F-31).
func (s *Store) createdAt(tx *store.Tx, project string) (int64, error) {
	newest, known := s.newest[project]
	if !known {
		if len(s.newest) >= maxNewest {
			clear(s.newest)
			s.counts.invalidateAll() // the newest record may have been deleted, and times may then go back
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
