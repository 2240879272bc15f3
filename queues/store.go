package queues

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/longcopy"
	"weir/store"
)

// Store keeps the queues of all projects. Its keys begin with the bytes 'U' to 'Z'; the
// database belongs to packages calls and objects as well. Its methods may be called from any
// goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db  *store.DB
	now func() time.Time

	last int64 // the latest moment; it belongs to the goroutine of the database's writer
}

// New returns the queues in db.
func New(db *store.DB) *Store { return &Store{db: db, now: time.Now} }

// Err says why nothing can be stored now; nil if it can.
func (s *Store) Err() error { return s.db.Err() }

const (
	maxQueues   = 1000    // of a project
	maxItems    = 100_000 // of a queue
	maxProgress = 1000    // annotators of an item
	deletePiece = 500     // items that are deleted at once, so that no other update waits for long
)

// Damaged says which record cannot be read. It is store.ErrCorrupt.
type Damaged struct {
	Queue string
	Err   error
}

func (e *Damaged) Error() string { return "queues: " + e.Queue + ": " + e.Err.Error() }

// Unwrap lets errors.Is find store.ErrCorrupt.
func (e *Damaged) Unwrap() error { return e.Err }

func damaged(queue string, err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		return &Damaged{queue, err}
	}
	return err
}

func notFound(what, id string) error {
	if len(id) > maxID {
		id = id[:maxID]
	}
	return &form.Refusal{Status: 404, Reason: what + " " + strings.ToValidUTF8(id, "�") + " not found"}
}

// moment is the time of an update, in milliseconds, which is later than that of any before,
// so that ids sort as things were added. Only updates may call it.
func (s *Store) moment() int64 {
	s.last = max(s.now().UnixMilli(), s.last+1)
	return s.last
}

// newID is a UUID of version 7 for a moment. Of one moment they sort by n, which has 18 bits.
func newID(ms int64, n int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16)
	if _, err := rand.Read(b[9:]); err != nil {
		panic(err) // it never returns one
	}
	binary.BigEndian.PutUint16(b[6:], 0x7000|uint16(n>>6)&0x0fff)
	b[8] = 0x80 | byte(n&0x3f)
	t := hex.EncodeToString(b[:])
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// Create makes a queue and returns its id.
func (s *Store) Create(ctx context.Context, user string, r *Request) (id string, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		n := 0
		if err := tx.Scan(store.Range{Prefix: key(tagQueue, r.Project), Keys: true}, func(_, _ []byte) bool { n++; return n < maxQueues }); err != nil {
			return err
		}
		if n >= maxQueues {
			return &form.Refusal{Status: 400, Reason: "A project has at most 1000 annotation queues; delete one first"}
		}
		at := s.moment()
		q := &Queue{Project: r.Project, ID: newID(at, 0), Name: *r.name, Scorers: r.scorers, CreatedBy: user, CreatedAt: at, UpdatedAt: at, Extra: jsontext.RawMessage(r.extra)}
		if r.description != nil {
			q.Description = *r.description
		}
		id = q.ID
		return q.put(tx)
	})
	return id, err
}

func (q *Queue) put(tx *store.Tx) error {
	row, err := encode(q)
	if err == nil {
		tx.Set(q.key(), row)
	}
	return err
}

// get reads a queue that is not deleted.
func get(r *store.Reader, project, id string) (*Queue, error) {
	if len(id) > maxID || len(project) > maxProject {
		return nil, notFound("Queue", id)
	}
	row, err := r.Get(key(tagQueue, project, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("Queue", id)
	}
	var q *Queue
	if err == nil {
		q, err = decodeQueue(row)
	}
	if err != nil {
		return nil, damaged(id, err)
	}
	if q.DeletedAt != 0 {
		return nil, notFound("Queue", id)
	}
	return q, nil
}

// Get returns a queue.
func (s *Store) Get(project, id string) (q *Queue, err error) {
	err = s.db.View(func(r *store.Reader) error {
		q, err = get(r, project, id)
		return err
	})
	return q, err
}

// Update changes a queue and returns it.
func (s *Store) Update(ctx context.Context, id string, r *Request) (q *Queue, err error) {
	if r.name == nil && r.description == nil && !r.hasScorers && r.extra == nil {
		return s.Get(r.Project, id)
	}
	err = s.db.Update(ctx, func(tx *store.Tx) (err error) {
		if q, err = get(&tx.Reader, r.Project, id); err != nil {
			return err
		}
		if r.name != nil {
			q.Name = *r.name
		}
		if r.description != nil {
			q.Description = *r.description
		}
		if r.hasScorers {
			q.Scorers = r.scorers
		}
		if r.extra != nil {
			if q.Extra, err = merge(q.Extra, r.extra); err != nil {
				return err
			}
		}
		q.UpdatedAt = s.moment()
		return q.put(tx)
	})
	return q, err
}

// merge puts the members of an object in place of those that another one has.
func merge(old jsontext.RawMessage, new jsontext.Value) (jsontext.RawMessage, error) {
	out := []byte(nil)
	if len(old) > 0 {
		for name, v := range jsontext.Value(old).RawMembers() {
			if new.Member(name.Text()) == nil {
				out = append(append(append(append(out, ",{"[b2i(out == nil)]), name...), ':'), v...)
			}
		}
	}
	for name, v := range new.RawMembers() {
		out = append(append(append(append(out, ",{"[b2i(out == nil)]), name...), ':'), v...)
	}
	if len(out) > maxExtra {
		return nil, &form.Refusal{Status: 413, Reason: "The members of the queue that are not known here take more than 64 KiB"}
	}
	return append(out, '}'), nil
}

// Delete deletes a queue with its items and returns it as it was.
func (s *Store) Delete(ctx context.Context, project, id string) (q *Queue, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) (err error) {
		if q, err = get(&tx.Reader, project, id); err != nil {
			return err
		}
		q.DeletedAt = s.moment()
		q.UpdatedAt = q.DeletedAt
		return q.put(tx)
	})
	if err != nil {
		return nil, err
	}
	return q, s.remove(ctx, project, id)
}

// remove removes a queue that is marked as deleted, the items first.
func (s *Store) remove(ctx context.Context, project, id string) error {
	for {
		var keys [][]byte
		prefix := key(tagItem, project, id)
		if err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: prefix, Keys: true}, func(key, _ []byte) bool {
				keys = append(keys, longcopy.Append(nil, key))
				return len(keys) < deletePiece
			})
		}); err != nil {
			return err
		}
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			for _, k := range keys {
				if err := dropItem(tx, k); err != nil {
					return err
				}
			}
			if len(keys) < deletePiece {
				tx.Delete(key(tagQueue, project, id))
			}
			return nil
		}); err != nil || len(keys) < deletePiece {
			return err
		}
	}
}

// dropItem deletes an item and its index entry. Of a damaged one the entry stays, which Mend
// removes.
func dropItem(tx *store.Tx, k []byte) error {
	row, err := tx.Get(k)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrCorrupt):
		tx.Delete(k)
		return nil
	case err != nil:
		return err
	}
	items.Delete(tx, k, row)
	return nil
}
