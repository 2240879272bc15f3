package feedback

import (
	"bytes"
	"cmp"
	"context"

	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// walk goes over the records that a plan finds, in one direction. Where several indexes
// take part, the first one leads and the others are moved to its positions, so the walk
// finds what all of them have.
type walk struct {
	meter     *pace.Meter
	r         *store.Reader
	query     *Query
	plan      *plan
	lead      iterator
	followers []*follower
	reverse   bool
	onRows    []*query.Expr // those of the plan, and sets that are too large to be sorted in memory
}

const (
	// maxMerged is how many values of an index are merged by a unionIterator. Of more
	// values the positions are sorted in memory, at most maxListed.
	maxMerged = 16
	maxListed = 1 << 18
)

// open begins to go over the records that a plan of the query finds.
func (q *Query) open(ctx context.Context, r *store.Reader, p *plan, reverse bool) (w *walk, err error) {
	w = &walk{meter: pace.Of(ctx), r: r, query: q, plan: p, reverse: reverse, onRows: p.onRows}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if p.byID {
		return w, w.openIDs()
	}
	for i := range p.sets {
		it, err := w.openSet(&p.sets[i])
		switch {
		case err != nil:
			return w, err
		case it == nil:
			w.onRows = append(w.onRows[:len(w.onRows):len(w.onRows)], p.sets[i].expr)
		case w.lead == nil:
			w.lead = it
		default:
			w.followers = append(w.followers, &follower{iterator: it})
		}
	}
	if w.lead == nil {
		w.lead = newIndexIterator(r, p.all, reverse)
	}
	return w, nil
}

// openIDs reads the records of a plan that names ids, and keeps those that match.
func (w *walk) openIDs() error {
	var all []position
	for _, id := range w.plan.ids {
		if err := w.meter.Spend(pace.Row); err != nil {
			return err
		}
		u, ok := parseUUID(id)
		if !ok {
			continue
		}
		rec, err := get(w.r, w.query.Project, u)
		if err != nil {
			return err
		}
		if rec != nil && w.query.where.Truth(rec, w.meter) {
			all = append(all, positionOf(rec))
		}
	}
	w.lead, w.onRows = newListIterator(all, w.reverse, w.meter), nil
	return w.meter.Err()
}

// openSet returns the positions of a set; nil if they are too many to be sorted.
func (w *walk) openSet(s *indexSet) (iterator, error) {
	if len(s.prefixes) == 1 {
		return newIndexIterator(w.r, s.prefixes[0], w.reverse), nil
	}
	if len(s.prefixes) <= maxMerged {
		u := newUnionIterator(nil, w.reverse)
		for _, prefix := range s.prefixes {
			u.members = append(u.members, newIndexIterator(w.r, prefix, w.reverse))
		}
		return newUnionIterator(u.members, w.reverse), nil
	}
	// One cursor serves all values of an index: opening one takes longer than seeking.
	cursors := map[byte]*store.Cursor{}
	defer func() {
		for _, c := range cursors {
			c.Close()
		}
	}()
	var all []position
	most := cmp.Or(w.query.maxListed, maxListed)
	for _, prefix := range s.prefixes {
		if err := w.meter.Spend(pace.Seek); err != nil {
			return nil, err
		}
		c := cursors[prefix[0]]
		if c == nil {
			c = w.r.Keys(append([]byte{prefix[0]}, w.plan.all[1:]...), false)
			cursors[prefix[0]] = c
		}
		one := indexIterator{c: c, buf: append(bytes.Clone(prefix), make([]byte, len(position{}))...), prefix: len(prefix)}
		for at, ok := one.seek(positionAt(w.plan.from)); ok && at.createdAt() <= w.plan.until; at, ok = one.next() {
			if all = append(all, at); len(all) > most {
				return nil, nil
			}
			if err := w.meter.Spend(pace.Key); err != nil {
				return nil, err
			}
		}
	}
	return newListIterator(all, w.reverse, w.meter), w.meter.Err()
}

func (w *walk) close() {
	if w.lead != nil {
		w.lead.close()
	}
	for _, f := range w.followers {
		f.close()
	}
}

// each calls f with the positions of the leading index from one millisecond to another,
// both inclusive, in the direction of the walk, until f returns false. match says whether
// the record at the position matches the query; rec is the record, if it had to be read
// to decide that. Consecutive calls of each go in the direction of the walk.
func (w *walk) each(from, until int64, f func(at position, rec *Record, match bool) bool) error {
	if from > until {
		return nil
	}
	begin, end := positionAt(from), lastPositionAt(until)
	if w.reverse {
		begin, end = end, begin
	}
	at, ok := w.lead.seek(begin)
	for ok && !end.before(&at, w.reverse) {
		if err := w.meter.Spend(pace.Key * (1 + len(w.followers))); err != nil {
			return err
		}
		to := at // the first position that all sets may have
		for _, o := range w.followers {
			next, ok := o.to(to, w.reverse)
			if !ok {
				return nil // this set has no further position
			}
			if to = next; to != at {
				break
			}
		}
		var rec *Record
		match := to == at
		if match {
			var err error
			if rec, match, err = w.matchesRest(&at); err != nil {
				return err
			}
		}
		if !f(at, rec, match) {
			return nil
		}
		if to == at {
			at, ok = w.lead.next()
		} else {
			at, ok = advance(w.lead, at, to, w.reverse)
		}
	}
	return nil
}

// matchesRest decides the conditions that are not answered by the sets.
func (w *walk) matchesRest(at *position) (rec *Record, ok bool, err error) {
	if len(w.plan.onKeys) > 0 && !w.plan.byID {
		key := w.keyRecord(at)
		for _, n := range w.plan.onKeys {
			if !n.Truth(key, w.meter) {
				return nil, false, w.meter.Err()
			}
		}
	}
	if len(w.onRows) == 0 {
		return nil, true, nil
	}
	if rec, err = w.record(at); rec == nil {
		return nil, false, err
	}
	for _, n := range w.onRows {
		if !n.Truth(rec, w.meter) {
			return nil, false, w.meter.Err()
		}
	}
	return rec, true, w.meter.Err()
}

// keyRecord is a record with the columns that a key tells.
func (w *walk) keyRecord(at *position) *Record {
	return &Record{Project: w.query.Project, CreatedAt: at.createdAt(), ID: uuidText(at.id())}
}

// record reads the record at a position. It is nil if the position is left over from damage
// that was repaired. A record that is damaged or missing is store.ErrCorrupt.
func (w *walk) record(at *position) (*Record, error) {
	row, err := table.Row(w.r, rowKey(w.query.Project, at.id()))
	if row == nil {
		return nil, damagedRecord(at.id(), err)
	}
	if err := w.meter.Spend(pace.Row + len(row)); err != nil {
		return nil, err
	}
	rec, err := decodeRecord(row)
	if err == nil && rec.CreatedAt != at.createdAt() {
		return nil, nil // the index entry is left over after damage; Mend removes it
	}
	return rec, damagedRecord(at.id(), err)
}

// matches calls f with the positions that match since a time, until f returns false. With
// records it also reads the records; otherwise rec may only have the columns of the key.
func (w *walk) matches(since int64, records bool, f func(at *position, rec *Record) bool) (err error) {
	var failed error
	err = w.each(max(w.plan.from, since), w.plan.until, func(at position, rec *Record, match bool) bool {
		if !match {
			return true
		}
		if rec == nil && !records {
			rec = w.keyRecord(&at)
		}
		if rec == nil {
			if rec, failed = w.record(&at); rec == nil {
				return failed == nil
			}
		}
		return f(&at, rec)
	})
	return FirstError(failed, err)
}
