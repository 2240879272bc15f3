package calls

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"weir/internal/pace"
	"weir/store"
)

// position is the end of an index entry: the time of the start, as SortableTime, and the id,
// as keys have them. Positions sort as calls do by time.
type position []byte

// iterator goes over positions in one direction. What it returns is valid until it moves.
type iterator interface {
	seek(to position) position // the first one that is not before to
	next() position
	close()
}

// indexIterator goes over the entries of an index that have one value.
type indexIterator struct {
	c      *store.Cursor
	prefix int
	buf    []byte
}

func newIndexIterator(r *store.Reader, prefix []byte, reverse bool) *indexIterator {
	return &indexIterator{c: r.Keys(prefix, reverse), prefix: len(prefix), buf: bytes.Clone(prefix)}
}

func (x *indexIterator) seek(to position) position {
	x.buf = append(x.buf[:x.prefix], to...)
	return x.at(x.c.Seek(x.buf))
}

func (x *indexIterator) next() position { return x.at(x.c.Next()) }

func (x *indexIterator) at(key []byte) position {
	if key == nil {
		return nil
	}
	return key[x.prefix:]
}

func (x *indexIterator) close() { x.c.Close() }

// unionIterator merges the positions of several iterators. A call has one value in each
// index, so no position comes twice.
type unionIterator struct {
	members []iterator
	heads   []position // copies; nil: the member has ended
	least   int
	reverse bool
}

func (u *unionIterator) seek(to position) position {
	for i, m := range u.members {
		u.set(i, m.seek(to))
	}
	return u.first()
}

func (u *unionIterator) next() position {
	if u.least >= 0 {
		u.set(u.least, u.members[u.least].next())
	}
	return u.first()
}

func (u *unionIterator) set(i int, at position) {
	if at == nil {
		u.heads[i] = nil
		return
	}
	u.heads[i] = append(u.heads[i][:0], at...)
}

func (u *unionIterator) first() position {
	u.least = -1
	for i, h := range u.heads {
		if h != nil && (u.least < 0 || before(h, u.heads[u.least], u.reverse)) {
			u.least = i
		}
	}
	if u.least < 0 {
		return nil
	}
	return u.heads[u.least]
}

func (u *unionIterator) close() {
	for _, m := range u.members {
		m.close()
	}
}

// before reports whether a comes before b in a direction.
func before(a, b position, reverse bool) bool {
	c := bytes.Compare(a, b)
	return c < 0 && !reverse || c > 0 && reverse
}

// walk goes over the calls that a query finds, in the order of time. Where several indexes
// take part the first one leads, and the others are moved to its positions.
type walk struct {
	meter   *pace.Meter
	r       *store.Reader
	q       *Query
	plan    plan
	members []iterator
	reverse bool
	found   []*Record // of a query that names ids, in order; it has no members
}

// open begins to go over the calls of a query.
func (q *Query) open(ctx context.Context, r *store.Reader, reverse bool) (*walk, error) {
	w := &walk{meter: pace.Of(ctx), r: r, q: q, plan: q.plan(), reverse: reverse}
	if q.filter.ids != nil {
		return w, w.byID()
	}
	for i := range w.plan.sets {
		prefixes, ok := w.plan.sets[i].prefixes(r, q.Project)
		if !ok {
			w.plan.open = true
			continue
		}
		if len(prefixes) == 1 {
			w.members = append(w.members, newIndexIterator(r, prefixes[0], reverse))
			continue
		}
		u := &unionIterator{heads: make([]position, len(prefixes)), reverse: reverse}
		for _, prefix := range prefixes {
			u.members = append(u.members, newIndexIterator(r, prefix, reverse))
		}
		w.members = append(w.members, u)
	}
	if len(w.members) == 0 {
		w.members = append(w.members, newIndexIterator(r, IndexPrefix(TagTime, q.Project, ""), reverse))
	}
	return w, nil
}

func (w *walk) close() {
	for _, m := range w.members {
		m.close()
	}
}

// byID reads the calls that the query names, and sorts those that match.
func (w *walk) byID() error {
	for _, id := range w.q.filter.ids {
		if err := w.meter.Spend(pace.Row); err != nil {
			return err
		}
		if len(id) > MaxID {
			continue
		}
		rec, err := get(w.r, w.q.Project, id)
		if err != nil {
			return err
		}
		if rec == nil || !rec.Visible() {
			continue
		}
		ok, err := w.q.matches(rec, w.meter)
		if err != nil {
			return err
		}
		if ok {
			w.found = append(w.found, rec)
		}
	}
	slices.SortFunc(w.found, func(a, b *Record) int {
		c := cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Text(ID), b.Text(ID)))
		if w.reverse {
			return -c
		}
		return c
	})
	return w.meter.Err()
}

// each calls f with the calls that match, until it returns false or an error. rec is nil if no
// condition needed the record and records is false.
func (w *walk) each(records bool, f func(rec *Record, at position) (bool, error)) error {
	if w.q.filter.ids != nil {
		for _, rec := range w.found {
			if more, err := f(rec, nil); err != nil || !more {
				return err
			}
		}
		return nil
	}
	begin := store.AppendUint(nil, SortableTime(w.plan.from))
	if w.reverse {
		begin = append(store.AppendUint(nil, SortableTime(w.plan.until)), 0xff)
	}
	at := append(position{}, begin...)
	for at = w.align(w.members[0].seek(at)); at != nil; at = w.align(w.members[0].next()) {
		us, _, err := store.CutUint(at)
		if err != nil {
			return err
		}
		if t := TimeOf(us); t < w.plan.from || t > w.plan.until {
			return nil // the other end
		}
		rec, ok, err := w.candidate(at, records)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if more, err := f(rec, at); err != nil || !more {
			return err
		}
	}
	return w.meter.Err()
}

// candidate says whether the call at a position matches. It reads the record if records is true or
// a condition needs it, else rec is nil.
func (w *walk) candidate(at position, records bool) (rec *Record, ok bool, err error) {
	if !records && !w.plan.open {
		return nil, true, nil
	}
	if rec, err = w.record(at); err != nil {
		return nil, false, err
	}
	if rec == nil || !w.plan.open {
		return rec, rec != nil, w.meter.Err()
	}
	ok, err = w.q.matches(rec, w.meter)
	return rec, ok, err
}

// align moves all members to the first position, from one of the leading member on, that all
// of them have.
func (w *walk) align(at position) position {
	for at != nil {
		if w.meter.Spend(pace.Key*len(w.members)) != nil {
			return nil
		}
		moved := false
		for _, m := range w.members[1:] {
			to := m.seek(at)
			if to == nil {
				return nil
			}
			if !bytes.Equal(to, at) {
				at, moved = w.members[0].seek(append(position{}, to...)), true
				break
			}
		}
		if !moved {
			return at
		}
	}
	return nil
}

// record reads the call at a position; nil if the entry is left over from damage that was
// repaired.
func (w *walk) record(at position) (*Record, error) {
	us, id, err := CutPosition(at)
	if err != nil {
		return nil, err
	}
	rec, err := get(w.r, w.q.Project, id)
	if err != nil || rec == nil {
		return nil, err
	}
	if err := w.meter.Spend(pace.Row + rec.MaxJSON()/8); err != nil {
		return nil, err
	}
	if !rec.Visible() || rec.Started != us {
		return nil, nil
	}
	return rec, nil
}
