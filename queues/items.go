package queues

import (
	"context"
	"errors"
	"strconv"

	"weir/internal/form"
	"weir/store"
)

// Added says what an addition did.
type Added struct {
	Count      int // calls that were added
	Duplicates int // calls that were in the queue, or that the request names again
}

// Add adds the calls of a request to a queue. found has those that exist, by their ids; the
// others are passed over.
func (s *Store) Add(ctx context.Context, user, id string, r *Request, found map[string]Call) (a Added, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		a = Added{}
		q, err := get(&tx.Reader, r.Project, id)
		if err != nil {
			return err
		}
		at := s.moment()
		now := make(map[string]bool, len(r.calls))
		for _, call := range r.calls {
			there := now[call]
			if !there {
				if there, err = tx.Has(key(tagCall, r.Project, id, call)); err != nil {
					return err
				}
			}
			c, exists := found[call]
			if there {
				a.Duplicates++
			}
			if there || !exists {
				continue
			}
			now[call] = true
			it := &item{Project: r.Project, Queue: id, ID: newID(at, a.Count), Call: c, Fields: r.fields, AddedBy: user, At: at, Updated: at}
			if err := it.put(tx, nil); err != nil {
				return err
			}
			a.Count++
		}
		if a.Count == 0 {
			return nil
		}
		if q.Items += a.Count; q.Items > maxItems {
			return &form.Refusal{Status: 400, Reason: "A queue has at most " + strconv.Itoa(maxItems) + " items, and would have " + strconv.Itoa(q.Items)}
		}
		return q.put(tx)
	})
	return a, err
}

// put writes an item in place of old.
func (it *item) put(tx *store.Tx, old []byte) error {
	row, err := encode(it)
	if err == nil {
		items.Put(tx, it.key(), old, row)
	}
	return err
}

// getItem reads an item and its row.
func getItem(r *store.Reader, project, queue, id string) (*item, []byte, error) {
	if len(id) > maxID {
		return nil, nil, notFound("Item", id)
	}
	row, err := r.Get(key(tagItem, project, queue, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, notFound("Item", id)
	}
	var it *item
	if err == nil {
		it, err = decodeItem(row)
	}
	return it, row, damaged(queue, err)
}

// SetProgress sets how far a user has come with an item, and returns the item as JSON.
func (s *Store) SetProgress(ctx context.Context, user, queue, id string, r *Request) (answer []byte, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		q, err := get(&tx.Reader, r.Project, queue)
		if err != nil {
			return err
		}
		it, row, err := getItem(&tx.Reader, r.Project, queue, id)
		if err != nil {
			return err
		}
		change, err := it.mayBecome(user, r.state)
		if err != nil {
			return err
		}
		if !change {
			answer = it.appendJSON(nil, 0)
			return nil
		}
		before := it.finished()
		it.set(user, r.state, s.moment())
		answer = it.appendJSON(nil, 0)
		if it.finished() != before {
			q.Done++
			if err := q.put(tx); err != nil {
				return err
			}
		}
		return it.put(tx, row)
	})
	return answer, err
}

// mayBecome says whether the state of an annotator changes to another one; an error: it may
// not.
func (it *item) mayBecome(user string, state State) (change bool, err error) {
	now := Unstarted
	for _, p := range it.Progress {
		if p.User == user {
			now = p.State
		}
	}
	switch {
	case now == state:
		return false, nil
	case now == Unstarted && len(it.Progress) >= maxProgress:
		return false, &form.Refusal{Status: 400, Reason: "An item has at most " + strconv.Itoa(maxProgress) + " annotators"}
	case now == Unstarted || now == InProgress:
		return true, nil
	}
	return false, &form.Refusal{Status: 400, Reason: "An item that is " + string(now) + " cannot become " + string(state)}
}
