package feedback

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"weir/store"
)

// walk goes over the records that a plan finds, in one direction.
type walk struct {
	ctx     context.Context
	r       *store.Reader
	q       *Query
	p       *plan
	lead    places
	with    []*follower
	reverse bool
	onRows  []*expr // of the plan, and sets that are too large to be put in order
	steps   int
}

const (
	// maxMerged is how many stretches of an index are merged; of more, the places
	// are put in order in memory, at most maxListed.
	maxMerged = 16
	maxListed = 1 << 18
)

// open begins to go over what a query finds.
func (q *Query) open(ctx context.Context, r *store.Reader, p *plan, reverse bool) (w *walk, err error) {
	w = &walk{ctx: ctx, r: r, q: q, p: p, reverse: reverse, onRows: p.onRows}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if p.byID {
		return w, w.openIDs()
	}
	for i := range p.sets {
		places, err := w.openSet(&p.sets[i])
		switch {
		case err != nil:
			return w, err
		case places == nil:
			w.onRows = append(w.onRows[:len(w.onRows):len(w.onRows)], p.sets[i].expr)
		case w.lead == nil:
			w.lead = places
		default:
			w.with = append(w.with, &follower{places: places})
		}
	}
	if w.lead == nil {
		w.lead = newStretch(r, p.all, reverse)
	}
	return w, nil
}

// openIDs finds the records of some ids, and which of them match.
func (w *walk) openIDs() error {
	var all []place
	for _, id := range w.p.ids {
		if err := w.step(); err != nil {
			return err
		}
		u, ok := parseUUID(id)
		if !ok {
			continue
		}
		rec, err := get(w.r, rowKey(w.q.Project, u))
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		if rec != nil && w.q.where.truth(rec) {
			all = append(all, placeOf(rec))
		}
	}
	w.lead, w.onRows = newList(all, w.reverse), nil
	return nil
}

// openSet is the places of a set; nil: they are too many.
func (w *walk) openSet(s *set) (places, error) {
	if len(s.prefixes) == 1 {
		return newStretch(w.r, s.prefixes[0], w.reverse), nil
	}
	if len(s.prefixes) <= maxMerged {
		u := newUnion(nil, w.reverse)
		for _, prefix := range s.prefixes {
			u.members = append(u.members, newStretch(w.r, prefix, w.reverse))
		}
		return newUnion(u.members, w.reverse), nil
	}
	// One cursor to an index: to open one takes longer than to seek.
	cursors := map[byte]*store.Cursor{}
	defer func() {
		for _, c := range cursors {
			c.Close()
		}
	}()
	var all []place
	most := cmp.Or(w.q.listed, maxListed)
	for _, prefix := range s.prefixes {
		if err := w.step(); err != nil {
			return nil, err
		}
		c := cursors[prefix[0]]
		if c == nil {
			c = w.r.Keys(append([]byte{prefix[0]}, w.p.all[1:]...), false)
			cursors[prefix[0]] = c
		}
		one := stretch{c: c, buf: append(bytes.Clone(prefix), make([]byte, len(place{}))...), prefix: len(prefix)}
		for at, ok := one.seek(placeAt(w.p.from)); ok && at.at() <= w.p.until; at, ok = one.next() {
			if all = append(all, at); len(all) > most {
				return nil, nil
			}
		}
	}
	return newList(all, w.reverse), nil
}

func (w *walk) close() {
	if w.lead != nil {
		w.lead.close()
	}
	for _, f := range w.with {
		f.close()
	}
}

// step lets who asked leave.
func (w *walk) step() error {
	if w.steps++; w.steps%256 == 0 && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// over calls f with the places from one millisecond to another, both inclusive, in
// the direction of the walk, until f returns false. match says whether the record
// there is meant; rec is it, if it had to be read for that. Spans follow each other
// in the direction of the walk.
func (w *walk) over(from, until int64, f func(at place, rec *Record, match bool) bool) error {
	if from > until {
		return nil
	}
	begin, end := placeAt(from), endOf(until)
	if w.reverse {
		begin, end = end, begin
	}
	at, ok := w.lead.seek(begin)
	for ok && !end.before(&at, w.reverse) {
		if err := w.step(); err != nil {
			return err
		}
		to := at // where all sets could meet
		for _, o := range w.with {
			next, ok := o.to(to, w.reverse)
			if !ok {
				return nil // no more here, nor behind it
			}
			if to = next; to != at {
				break
			}
		}
		var rec *Record
		match := to == at
		if match {
			var err error
			if rec, match, err = w.meets(&at); err != nil {
				return err
			}
		}
		if !f(at, rec, match) {
			return nil
		}
		if to == at {
			at, ok = w.lead.next()
		} else {
			at, ok = jump(w.lead, at, to, w.reverse)
		}
	}
	return nil
}

// meets decides what the sets leave open.
func (w *walk) meets(at *place) (rec *Record, ok bool, err error) {
	if len(w.p.onKeys) > 0 && !w.p.byID {
		key := w.keyRecord(at)
		for _, n := range w.p.onKeys {
			if !n.truth(key) {
				return nil, false, nil
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
		if !n.truth(rec) {
			return nil, false, nil
		}
	}
	return rec, true, nil
}

// keyRecord is what a key says of its record.
func (w *walk) keyRecord(at *place) *Record {
	return &Record{Project: w.q.Project, CreatedAt: at.at(), ID: uuidText(at.id())}
}

// record reads the record at a place; nil: it is damaged, which the log has.
func (w *walk) record(at *place) (*Record, error) {
	row, err := table.Row(w.r, rowKey(w.q.Project, at.id()))
	if row == nil {
		return nil, err
	}
	rec, err := decodeRecord(row)
	if err == nil && rec.CreatedAt != at.at() {
		return nil, nil // the entry is left over from damage; Mend removes it
	}
	return rec, err
}

// matches calls f with the places that match, since a time, and their records, or
// where those are not needed with what their keys say.
func (w *walk) matches(since int64, records bool, f func(at *place, rec *Record) bool) (err error) {
	var failed error
	err = w.over(max(w.p.from, since), w.p.until, func(at place, rec *Record, match bool) bool {
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
	return firstError(failed, err)
}
