package queues

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/form"
	"weir/store"
)

func isNotFound(err error) bool {
	r := (*form.Refusal)(nil)
	return errors.As(err, &r) && r.Status == 404
}

// Mend repairs the index and the numbers of items after damage to the database, removes items
// whose queue is gone, and returns how many entries and records it wrote or removed.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	n, err = items.Mend(s.db, func(f func(tx *store.Tx) error) error { return s.db.Update(ctx, f) }, nil)
	if err != nil {
		return n, err
	}
	wrong, err := s.wrongCounts()
	for k := range wrong {
		if err == nil {
			err = s.recount(ctx, k)
			n++
		}
	}
	return n, err
}

// named is a queue by its name.
type named struct{ project, id string }

type counts struct{ items, done int }

// countIn counts the items with a prefix by their queues.
func countIn(r *store.Reader, prefix []byte) (map[named]counts, error) {
	have := map[named]counts{}
	err := r.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(_, row []byte) bool {
		if it, err := decodeItem(row); err == nil {
			k := named{it.Project, it.Queue}
			c := have[k]
			have[k] = counts{c.items + 1, c.done + b2i(it.finished())}
		}
		return true
	})
	return have, err
}

// wrongCounts returns the queues whose numbers are not those of their items, with these. Items
// of a queue that is not there count as wrong, too.
func (s *Store) wrongCounts() (wrong map[named]counts, err error) {
	err = s.db.View(func(r *store.Reader) error {
		if wrong, err = countIn(r, []byte{tagItem}); err != nil {
			return err
		}
		return r.Scan(store.Range{Prefix: []byte{tagQueue}, Damaged: func(k []byte, _ error) {
			// A damaged queue has whatever items it has.
			if project, rest, err := store.CutString(k[1:]); err == nil {
				id, _, _ := store.CutString(rest)
				delete(wrong, named{project, id})
			}
		}}, func(_, row []byte) bool {
			q, err := decodeQueue(row)
			if err != nil {
				return true
			}
			k := named{q.Project, q.ID}
			if c := wrong[k]; q.DeletedAt != 0 || c == (counts{q.Items, q.Done}) {
				delete(wrong, k)
			} else {
				wrong[k] = c
			}
			return true
		})
	})
	return wrong, err
}

// recount writes the numbers of a queue, or removes the items of one that is not there.
func (s *Store) recount(ctx context.Context, k named) error {
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		q, err := get(&tx.Reader, k.project, k.id)
		if err != nil {
			return err
		}
		have, err := countIn(&tx.Reader, key(tagItem, k.project, k.id))
		if err != nil {
			return err
		}
		c := have[k]
		q.Items, q.Done = c.items, c.done
		return q.put(tx)
	})
	if isNotFound(err) {
		return s.remove(ctx, k.project, k.id)
	}
	return ignore(err)
}

// Check calls f with each thing that is wrong with the index, the records and the numbers.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error {
		for _, tag := range []byte{tagQueue, tagItem} {
			if err := r.Scan(store.Range{Prefix: []byte{tag}, Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
				_, err := decodeQueue(row)
				if tag == tagItem {
					_, err = decodeItem(row)
				}
				if err != nil {
					f(fmt.Sprintf("%q is no record", key))
				}
				return true
			}); err != nil {
				return err
			}
		}
		return items.CheckText(r, f)
	})
	wrong, failed := s.wrongCounts()
	for k, c := range wrong {
		f(fmt.Sprintf("the queue %s of %s has %d items, of which %d are finished, and other numbers are kept", k.id, k.project, c.items, c.done))
	}
	return errors.Join(err, failed)
}
