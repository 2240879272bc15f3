package queues

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/longcopy"
	"weir/internal/memory"
	"weir/internal/pace"
	"weir/store"
)

func lower(s string) string { return strings.ToLower(s) }

// WriteQueues writes the queues that a query selects, each as a line.
func (s *Store) WriteQueues(ctx context.Context, q *Query, w io.Writer) error {
	var list []*Queue
	m := pace.Of(ctx)
	err := s.db.View(func(r *store.Reader) error {
		var failed error
		err := r.Scan(store.Range{Prefix: key(tagQueue, q.Project)}, func(_, row []byte) bool {
			var one *Queue
			if failed = m.Spend(pace.Key + pace.Row + len(row)); failed != nil {
				return false
			}
			if one, failed = decodeQueue(row); failed != nil {
				return false
			}
			if one.DeletedAt != 0 || q.name != "" && !strings.Contains(lower(one.Name), q.name) {
				return true
			}
			list = append(list, one)
			failed = memory.Take(ctx, int64(2*len(row)))
			return failed == nil
		})
		return errors.Join(failed, err)
	})
	if err != nil {
		return damaged("of "+q.Project, err)
	}
	slices.SortFunc(list, q.compareQueues)
	list = list[min(q.offset, len(list)):]
	if q.limit >= 0 {
		list = list[:min(q.limit, len(list))]
	}
	for _, one := range list {
		if _, err := w.Write(append(one.AppendJSON(nil), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// compareQueues orders queues as the query asks, or else with the newest first, and equal ones
// by their ids.
func (q *Query) compareQueues(a, b *Queue) int {
	for _, o := range q.sort {
		c := 0
		switch o.Field {
		case "id":
			c = cmp.Compare(a.ID, b.ID)
		case "name":
			c = cmp.Compare(a.Name, b.Name)
		case "created_at":
			c = cmp.Compare(a.CreatedAt, b.CreatedAt)
		case "updated_at":
			c = cmp.Compare(a.UpdatedAt, b.UpdatedAt)
		}
		if c != 0 {
			return turn(c, o.Descending)
		}
	}
	if len(q.sort) == 0 && a.CreatedAt != b.CreatedAt {
		return cmp.Compare(b.CreatedAt, a.CreatedAt)
	}
	return cmp.Compare(a.ID, b.ID)
}

func turn(c int, desc bool) int {
	if desc {
		return -c
	}
	return c
}

// place is an item in an order that is not that of the keys.
type place struct {
	key                  []byte
	op                   string
	started, at, updated int64
}

// placeBytes is about what a place takes beside its key and op.
const placeBytes = 128

// WriteItems writes the items that a query selects, as {"items": [...]}.
func (s *Store) WriteItems(ctx context.Context, q *Query, w io.Writer) error {
	out := &itemWriter{query: q, w: w}
	err := s.db.View(func(r *store.Reader) error {
		if _, err := get(r, q.Project, q.Queue); err != nil {
			return err
		}
		if q.inOrder() {
			return q.scan(ctx, r, func(_ []byte, it *item, n int) (bool, error) { return out.add(it, n) })
		}
		return q.sorted(ctx, r, out)
	})
	if err == nil {
		_, err = w.Write(append(out.before(), "]}"...))
	}
	return err
}

// inOrder reports whether the items are wanted in the order of their keys.
func (q *Query) inOrder() bool {
	return len(q.sort) == 0 || q.sort[0] == form.Sort{Field: "created_at"} && len(q.sort) == 1
}

// itemWriter writes the items of a page.
type itemWriter struct {
	query     *Query
	w         io.Writer
	seen, out int
}

// before is what stands before the next item.
func (o *itemWriter) before() []byte {
	if o.out == 0 {
		return []byte(`{"items":[`)
	}
	return nil
}

// add takes the next item of the order, and reports whether more are wanted.
func (o *itemWriter) add(it *item, position int) (bool, error) {
	state, _ := it.state()
	if o.query.filter.states != nil && !o.query.filter.states[state] {
		return true, nil
	}
	if o.full() {
		return false, nil
	}
	if o.seen++; o.seen <= o.query.offset {
		return true, nil
	}
	if !o.query.Position {
		position = 0
	}
	text := o.before()
	if o.out > 0 {
		text = append(text, ',')
	}
	o.out++
	_, err := o.w.Write(it.appendJSON(text, position))
	return !o.full(), err
}

func (o *itemWriter) full() bool { return o.query.limit >= 0 && o.out >= o.query.limit }

// scan calls f with the items of the queue that the filter selects but for their states, in
// the order of their keys, and their places in it.
func (q *Query) scan(ctx context.Context, r *store.Reader, f func(key []byte, it *item, n int) (bool, error)) error {
	m := pace.Of(ctx)
	var failed error
	n := 0
	err := r.Scan(store.Range{Prefix: key(tagItem, q.Project, q.Queue)}, func(k, row []byte) bool {
		var it *item
		if failed = m.Spend(pace.Key + pace.Row + 8*len(row)); failed != nil {
			return false
		}
		if it, failed = decodeItem(row); failed != nil {
			return false
		}
		if !q.filter.fits(it) {
			return true
		}
		n++
		more := true
		more, failed = f(k, it, n)
		return more && failed == nil
	})
	return damaged(q.Queue, errors.Join(failed, err))
}

func (f *itemFilter) fits(it *item) bool {
	for _, c := range [...]struct {
		want *string
		is   string
	}{{f.id, it.ID}, {f.call, it.Call.ID}, {f.op, it.Call.Op}, {f.trace, it.Call.Trace}, {f.by, it.AddedBy}} {
		if c.want != nil && *c.want != c.is {
			return false
		}
	}
	return true
}

// sorted writes the items in another order than that of their keys.
func (q *Query) sorted(ctx context.Context, r *store.Reader, out *itemWriter) error {
	var places []place
	if err := q.scan(ctx, r, func(k []byte, it *item, _ int) (bool, error) {
		places = append(places, place{key: longcopy.Append(nil, k), op: it.Call.Op, started: it.Call.Started, at: it.At, updated: it.Updated})
		return true, memory.Take(ctx, int64(placeBytes+len(k)+len(it.Call.Op)))
	}); err != nil {
		return err
	}
	m := pace.Of(ctx)
	if err := m.Spend(200 * len(places)); err != nil {
		return err
	}
	slices.SortFunc(places, func(a, b place) int {
		for _, o := range q.sort {
			c := 0
			switch o.Field {
			case "call_started_at":
				c = cmp.Compare(a.started, b.started)
			case "call_op_name":
				c = cmp.Compare(a.op, b.op)
			case "updated_at":
				c = cmp.Compare(a.updated, b.updated)
			default:
				c = cmp.Compare(a.at, b.at)
			}
			if c != 0 {
				return turn(c, o.Descending)
			}
		}
		return slices.Compare(a.key, b.key)
	})
	for i, p := range places {
		if err := m.Spend(pace.Seek + pace.Row); err != nil {
			return err
		}
		row, err := r.Get(p.key)
		var it *item
		if err == nil {
			it, err = decodeItem(row)
		}
		if err != nil {
			return damaged(q.Queue, err)
		}
		more, err := out.add(it, i+1)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Stats answers with the numbers of items of queues.
func (s *Store) Stats(ctx context.Context, r *Request) ([]byte, error) {
	out := []byte(`{"stats":[`)
	m := pace.Of(ctx)
	err := s.db.View(func(rd *store.Reader) error {
		for i, id := range r.ids {
			if err := m.Spend(pace.Seek + pace.Row); err != nil {
				return err
			}
			q, err := get(rd, r.Project, id)
			if err != nil {
				if errors.Is(err, store.ErrCorrupt) {
					return err
				}
				q = &Queue{ID: id} // it is not there
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = appendText(out, `{"queue_id":`, id)
			out = strconv.AppendInt(append(out, `,"total_items":`...), int64(q.Items), 10)
			out = append(strconv.AppendInt(append(out, `,"completed_items":`...), int64(q.Done), 10), '}')
		}
		return nil
	})
	return append(out, "]}"...), err
}
