package calls

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"weir/internal/form"
	"weir/internal/memory"
	"weir/internal/pace"
	"weir/internal/quota"
	"weir/store"
)

const (
	// keepDeleted is how long a deleted call is remembered, so that requests about it that
	// arrive late do nothing. Weave's clients repeat a request for up to 36 hours.
	keepDeleted = 72 * time.Hour
	// maxDeleted bounds the calls that one request deletes, with those below them.
	maxDeleted = 200_000
	// idBytes is about what an id takes in memory while calls are deleted.
	idBytes = 192
	// deletePiece is how many calls are deleted at once, so that no other update waits for
	// long.
	deletePiece = 500
)

// Delete deletes calls and all calls below them, and returns how many that were. Ids that do
// not exist are ignored, and damaged records are deleted too.
func (s *Store) Delete(ctx context.Context, project string, ids []string) (n int, err error) {
	all, err := s.descendants(ctx, project, ids)
	if err != nil {
		return 0, err
	}
	d := deletion{store: s, project: project, remember: true}
	for len(all) > 0 && err == nil {
		some := all[:min(deletePiece, len(all))]
		all = all[len(some):]
		err = d.delete(ctx, some)
	}
	return d.n, errors.Join(err, d.mend(ctx))
}

// descendants returns these ids and those of all calls below them, each once.
func (s *Store) descendants(ctx context.Context, project string, ids []string) (all []string, err error) {
	seen := map[string]bool{}
	add := func(id string) error {
		if seen[id] || len(id) > MaxID || id == "" { // "" is what roots have as their parent
			return nil
		}
		if len(all) == maxDeleted {
			return errManyDeleted
		}
		seen[id] = true
		all = append(all, id)
		return memory.Take(ctx, idBytes)
	}
	for _, id := range ids {
		if err := add(id); err != nil {
			return nil, err
		}
	}
	m := pace.Of(ctx)
	err = s.db.View(func(r *store.Reader) error {
		for i := 0; i < len(all); i++ {
			if err := m.Spend(pace.Seek); err != nil {
				return err
			}
			prefix := IndexPrefix(TagParent, project, all[i])
			var failed error
			err := r.Scan(store.Range{Prefix: prefix, Keys: true}, func(key, _ []byte) bool {
				_, id, err := CutPosition(key[len(prefix):])
				if failed = errors.Join(err, m.Spend(pace.Key)); failed == nil {
					failed = add(id)
				}
				return failed == nil
			})
			if failed != nil {
				return failed
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

var errManyDeleted = &form.Refusal{Status: 413, Reason: "A request may delete at most 200000 calls with those below them; delete some of those below first"}

// deletion deletes calls of a project in pieces.
type deletion struct {
	store    *Store
	project  string
	remember bool               // late requests about the calls do nothing
	which    func(*Record) bool // nil: all of them
	n        int                // calls that were deleted
	damaged  bool               // some records were damaged, so that their index entries are still there
}

// delete deletes some calls.
func (d *deletion) delete(ctx context.Context, ids []string) error {
	n := 0
	err := d.store.update(ctx, func(tx *store.Tx) error {
		n = 0
		sum := quota.Delta{}
		for _, id := range ids {
			k, err := d.one(tx, id, sum)
			if err != nil {
				return err
			}
			n += k
		}
		return size.Settle(tx, sum, &d.store.limit)
	})
	if err == nil {
		d.n += n
	}
	return err
}

func (d *deletion) one(tx *store.Tx, id string, sum quota.Delta) (n int, err error) {
	key := RowKey(d.project, id)
	row, err := tx.Get(key)
	var r Record
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case errors.Is(err, store.ErrCorrupt), err == nil && !r.view(row):
		d.damaged = true
		tx.Delete(key)
		return 1, nil
	case err != nil:
		return 0, err
	case r.flags&isDeleted != 0, d.which != nil && !d.which(&r):
		return 0, nil
	case r.Visible():
		n = 1
	}
	for _, e := range r.entries(nil) {
		tx.Delete(e)
	}
	sum[d.project] -= rowBytes(row)
	if !d.remember {
		tx.Delete(key)
		return n, nil
	}
	left := Record{flags: isDeleted, Ended: NotEnded, Written: d.store.now().UnixMicro()}
	left.fields[Project], left.fields[ID] = r.fields[Project], r.fields[ID]
	tx.SetUntil(key, left.append(nil), d.store.now().Add(keepDeleted))
	return n, nil
}

// mend repairs the indexes if damaged records were deleted: which entries they had cannot be
// known from them.
func (d *deletion) mend(ctx context.Context) error {
	if !d.damaged {
		return nil
	}
	_, err := d.store.Mend(ctx)
	return err
}

// Expire deletes the calls of a project that began before a time in milliseconds of Unix time,
// and what was written before it for calls whose start has not come. It returns how many
// calls they were.
func (s *Store) Expire(ctx context.Context, project string, before int64) (n int, err error) {
	d := deletion{store: s, project: project}
	err = d.where(ctx, before*1000)
	return d.n, errors.Join(err, d.mend(ctx))
}

// Erasure names calls to delete by what is in them. All that is given has to hold.
type Erasure struct {
	Project string
	DryRun  bool
	Users   []string // the call is of each of these users, so at most one makes sense
	Refs    []string // and is the one that each of these references names
	Before  int64    // and began before this time in microseconds of Unix time; 0: whenever
}

// ErasureOf is an erasure with the conditions of an erasure of feedback, by the names that
// these have in its request (docs/interface/feedback.md, section 8.8). Whoever made a call is
// its user and its creator.
func ErasureOf(project string, dryRun bool, named map[string]string) *Erasure {
	e := &Erasure{Project: project, DryRun: dryRun}
	for name, v := range named {
		switch name {
		case "before":
			us, ok := timeOfText(v)
			if e.Before = us; !ok {
				e.Before = math.MinInt64 // it is not understood, so nothing is before it
			}
		case "trace_ref", "weave_ref":
			e.Refs = append(e.Refs, v)
		default:
			e.Users = append(e.Users, v)
		}
	}
	return e
}

// Erase deletes the calls that an erasure names and returns how many they are. With DryRun it
// only counts them.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	before := e.Before
	if before == 0 {
		before = math.MaxInt64
	}
	for _, ref := range e.Refs {
		if project, id := callOf(ref); project != e.Project || id == "" {
			return 0, nil
		}
	}
	d := deletion{store: s, project: e.Project, remember: true, which: func(r *Record) bool { return e.covers(r, before) }}
	if e.DryRun {
		err = s.each(ctx, e.Project, before, func(r *Record) bool {
			n += b2i(r.Visible() && d.which(r))
			return true
		})
		return n, err
	}
	err = d.where(ctx, before)
	return d.n, errors.Join(err, d.mend(ctx))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (e *Erasure) covers(r *Record, before int64) bool {
	for _, u := range e.Users {
		if u != r.Text(User) {
			return false
		}
	}
	for _, ref := range e.Refs {
		if _, id := callOf(ref); id != r.Text(ID) {
			return false
		}
	}
	return r.at() < before
}

// at is the time by which a record is kept: when its call began, or when it was written if
// that is not known.
func (r *Record) at() int64 {
	if r.flags&hasStart == 0 {
		return r.Written
	}
	return r.Started
}

// callOf is the project and the id of the call that a reference names; "": it names none.
func callOf(ref string) (project, id string) {
	_, rest, _ := strings.Cut(ref, ":///")
	parts := strings.Split(rest, "/")
	if len(parts) < 4 || parts[2] != "call" {
		return "", ""
	}
	return parts[0] + "/" + parts[1], parts[3]
}

// where deletes the calls that began before a time, in microseconds, and that d is about.
func (d *deletion) where(ctx context.Context, before int64) error {
	var ids []string
	for _, tag := range [...]byte{TagTime, tagHalf} {
		var from []byte // what is before it was deleted; to read its remains takes long
		for {
			ids = ids[:0]
			next, err := d.store.piece(ctx, tag, d.project, from, before, func(r *Record) bool {
				if d.which == nil || d.which(r) {
					ids = append(ids, strings.Clone(r.Text(ID)))
				}
				return len(ids) < deletePiece
			})
			if err == nil && len(ids) > 0 {
				err = d.delete(ctx, ids)
			}
			if err != nil {
				return err
			}
			if from = next; from == nil {
				break
			}
		}
	}
	return nil
}

// each calls f with the records of a project from before a time, until it returns false.
func (s *Store) each(ctx context.Context, project string, before int64, f func(*Record) bool) error {
	for _, tag := range [...]byte{TagTime, tagHalf} {
		if _, err := s.piece(ctx, tag, project, nil, before, f); err != nil {
			return err
		}
	}
	return nil
}

// piece reads the records of an index of time from a key on, until f returns false. Then it
// returns the key of the last entry; nil: there are no more.
func (s *Store) piece(ctx context.Context, tag byte, project string, from []byte, before int64, f func(*Record) bool) (next []byte, err error) {
	m := pace.Of(ctx)
	prefix := IndexPrefix(tag, project, "")
	err = s.db.View(func(r *store.Reader) error {
		c := r.Keys(prefix, false)
		defer c.Close()
		if from == nil {
			from = prefix
		}
		for key := c.Seek(from); key != nil; key = c.Next() {
			at, id, err := CutPosition(key[len(prefix):])
			if err != nil {
				return err
			}
			if at >= before {
				return nil
			}
			rec, err := get(r, project, id)
			if err != nil {
				return err
			}
			if rec == nil {
				continue // a left-over entry
			}
			if err := m.Spend(pace.Key + pace.Row + int(rec.Size())); err != nil {
				return err
			}
			if !f(rec) {
				next = bytes.Clone(key)
				return nil
			}
		}
		return nil
	})
	return next, err
}

// Projects calls f with the name of every project that has records.
func (s *Store) Projects(f func(project string)) error {
	return s.db.View(func(r *store.Reader) error { return r.FirstStrings(TagRow, f) })
}
