package queues

import (
	"context"
	"errors"
	"strings"

	"weir/internal/longcopy"
	"weir/internal/pace"
	"weir/store"
)

// Projects calls f with the name of every project that has queues.
func (s *Store) Projects(f func(project string)) error {
	return s.db.View(func(r *store.Reader) error { return r.FirstStrings(tagQueue, f) })
}

// queues returns the ids of the queues of a project, also of those that are being removed.
func (s *Store) queues(project string) (live, going []string, err error) {
	prefix := key(tagQueue, project)
	err = s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(k, row []byte) bool {
			id, _, err := store.CutString(k[len(prefix):])
			if err != nil {
				return true
			}
			if q, err := decodeQueue(row); err == nil && q.DeletedAt != 0 {
				going = append(going, strings.Clone(id))
			} else {
				live = append(live, strings.Clone(id))
			}
			return true
		})
	})
	return live, going, err
}

// Sweep removes the queues whose deletion a crash has interrupted.
func (s *Store) Sweep(ctx context.Context) error {
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil {
		return err
	}
	for _, p := range projects {
		_, going, err := s.queues(p)
		for _, id := range going {
			if err == nil {
				err = s.remove(ctx, p, id)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Expire deletes the items of a project that were added before a time in milliseconds of Unix
// time, and the queues without items that were changed last before it. It returns how many
// items and queues it deleted.
func (s *Store) Expire(ctx context.Context, project string, before int64) (n int, err error) {
	live, _, err := s.queues(project)
	for _, id := range live {
		if err != nil {
			return n, err
		}
		var k int
		k, err = s.change(ctx, project, id, func(it *item) effect {
			if it.At < before {
				return drop
			}
			return keep
		})
		n += k
		if err == nil {
			k, err = s.expireQueue(ctx, project, id, before)
			n += k
		}
	}
	return n, err
}

// expireQueue deletes a queue that is old and empty.
func (s *Store) expireQueue(ctx context.Context, project, id string, before int64) (n int, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		n = 0
		q, err := get(&tx.Reader, project, id)
		if err != nil || q.Items > 0 || q.UpdatedAt >= before {
			return ignore(err)
		}
		n = 1
		tx.Delete(q.key())
		return nil
	})
	return n, err
}

// ignore passes over queues that are not there or damaged.
func ignore(err error) error {
	if errors.Is(err, store.ErrCorrupt) || isNotFound(err) {
		return nil
	}
	return err
}

// effect is what a change does to an item.
type effect int

const (
	keep effect = iota
	rewrite
	drop
)

// change applies f to all items of a queue, in pieces, and returns how many it changed or
// deleted. f may be called several times for an item, and must then say the same.
func (s *Store) change(ctx context.Context, project, id string, f func(*item) effect) (n int, err error) {
	prefix := key(tagItem, project, id)
	m := pace.Of(ctx)
	from := prefix
	for from != nil {
		var keys [][]byte
		var failed error
		next := []byte(nil)
		if err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: prefix, From: from, Damaged: func([]byte, error) {}}, func(k, row []byte) bool {
				if failed = m.Spend(pace.Key + pace.Row + 8*len(row)); failed != nil {
					return false
				}
				if len(keys) == deletePiece {
					next = longcopy.Append(nil, k)
					return false
				}
				if it, err := decodeItem(row); err == nil && f(it) != keep {
					keys = append(keys, longcopy.Append(nil, k))
				}
				return true
			})
		}); err != nil || failed != nil {
			return n, errors.Join(failed, err)
		}
		if from = next; len(keys) == 0 {
			continue
		}
		k := 0
		if err := s.db.Update(ctx, func(tx *store.Tx) (err error) {
			k, err = changeAll(tx, project, id, keys, f)
			return err
		}); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func changeAll(tx *store.Tx, project, id string, keys [][]byte, f func(*item) effect) (n int, err error) {
	gone, undone := 0, 0
	for _, k := range keys {
		row, err := tx.Get(k)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			continue
		}
		if err != nil {
			return 0, err
		}
		it, err := decodeItem(row)
		if err != nil {
			continue
		}
		before := it.finished()
		switch f(it) {
		case keep:
			continue
		case drop:
			gone += 1
			undone += b2i(before)
			items.Delete(tx, k, row)
		case rewrite:
			undone += b2i(before) - b2i(it.finished())
			if err := it.put(tx, row); err != nil {
				return 0, err
			}
		}
		n++
	}
	q, err := get(&tx.Reader, project, id)
	if err != nil {
		return n, ignore(err)
	}
	q.Items, q.Done = q.Items-gone, q.Done-undone
	return n, q.put(tx)
}

// Erasure names what to erase by what is in it. All that is given has to hold.
type Erasure struct {
	Project string
	DryRun  bool
	Users   []string // it is of each of these users, so at most one makes sense
	Refs    []string // and about the call that each of these references names
	Before  int64    // and from before this time in microseconds of Unix time; 0: whenever
}

// Erase erases items: those that the user added are deleted, the progress of the user is
// taken out of others, and the user's name out of queues. It returns how many items and
// queues that are. With DryRun it only counts them.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	live, going, err := s.queues(e.Project)
	if err != nil {
		return 0, err
	}
	for _, id := range append(live, going...) {
		var k int
		if e.DryRun {
			k, err = s.count(ctx, e.Project, id, e)
		} else {
			k, err = s.change(ctx, e.Project, id, e.effect)
		}
		if n += k; err != nil {
			return n, err
		}
		if k, err = s.eraseCreator(ctx, id, e); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func (s *Store) count(ctx context.Context, project, id string, e *Erasure) (n int, err error) {
	m := pace.Of(ctx)
	var failed error
	err = s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: key(tagItem, project, id), Damaged: func([]byte, error) {}}, func(_, row []byte) bool {
			if it, err := decodeItem(row); err == nil && e.effect(it) != keep {
				n++
			}
			failed = m.Spend(pace.Key + pace.Row + 8*len(row))
			return failed == nil
		})
	})
	return n, errors.Join(failed, err)
}

// of reports whether the erasure is about what a user did at a time in milliseconds.
func (e *Erasure) of(user string, at int64) bool {
	for _, u := range e.Users {
		if u != user {
			return false
		}
	}
	return e.Before == 0 || at < e.Before/1000
}

// effect is what the erasure does to an item.
func (e *Erasure) effect(it *item) effect {
	for _, ref := range e.Refs {
		if ref != "weave:///"+e.Project+"/call/"+it.Call.ID {
			return keep
		}
	}
	if e.of(it.AddedBy, it.At) {
		return drop
	}
	for _, p := range it.Progress {
		if len(e.Users) > 0 && e.of(p.User, p.At) {
			it.forget(p.User)
			return rewrite
		}
	}
	return keep
}

// eraseCreator takes the name of the user out of a queue.
func (s *Store) eraseCreator(ctx context.Context, id string, e *Erasure) (n int, err error) {
	if len(e.Users) == 0 || len(e.Refs) > 0 {
		return 0, nil
	}
	hit := func(q *Queue) bool { return q.CreatedBy != "" && e.of(q.CreatedBy, q.CreatedAt) }
	q, err := s.Get(e.Project, id)
	if err != nil || !hit(q) {
		return 0, ignore(err)
	}
	if e.DryRun {
		return 1, nil
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		q, err := get(&tx.Reader, e.Project, id)
		if err != nil || !hit(q) {
			return ignore(err)
		}
		n, q.CreatedBy = 1, ""
		return q.put(tx)
	})
	return n, err
}
