package feedback

import (
	"context"
	"slices"

	"weir/store"
)

// reading is a query being answered out of one snapshot.
type reading struct {
	*walk
	b     *Store
	seen  uint64 // deletions that the snapshot has
	flip  bool   // ids of one millisecond go against the direction
	count bool   // all that match are counted, also those behind the page

	offset, limit int
	emit          func(rec *Record, n int) error

	rank   int // places that matched so far
	n      int // records that were emitted
	group  []place
	newest int64 // -1: not looked for yet
	steps  int   // places outside of blocks
	fresh  []block
	known  []block // from changes, and of which edition
	edit   uint64
	sum    [32]byte
}

// view runs f on a snapshot.
func (s *Store) view(f func(r *store.Reader, seen uint64) error) error {
	seen := s.changes.seen() // before the snapshot is taken, so that it has all of them
	return s.db.View(func(r *store.Reader) error { return f(r, seen) })
}

// page calls emit with the records of a page, numbered from 0, and returns how many
// match in all if that is asked for. Their order is that of created_at.
func (s *Store) page(ctx context.Context, q *Query, r *store.Reader, seen uint64, count bool, emit func(rec *Record, n int) error) (total int, err error) {
	p := q.plan()
	reverse, flip := q.direction()
	w, err := q.open(ctx, r, p, reverse)
	if err != nil {
		return 0, err
	}
	defer w.close()
	x := &reading{walk: w, b: s, seen: seen, flip: flip, count: count, offset: q.offset, limit: q.limit, emit: emit, newest: -1}
	if p.from > p.until {
		return 0, nil
	}
	if !p.byID {
		x.sum = p.sum()
		x.known, x.edit = s.changes.find(x.sum, q.Project, seen, r.Opening())
	}
	for _, s := range x.spans() {
		if x.done() {
			break
		}
		if err := x.span(s); err != nil {
			return 0, err
		}
	}
	if len(x.fresh) > 0 && (x.edit > 0 || x.steps >= s.changes.most.steps) {
		s.changes.keep(x.sum, seen, r.Opening(), x.edit, x.fresh)
	}
	return x.rank, nil
}

// done reports whether there is nothing left to find out.
func (x *reading) done() bool { return !x.count && x.rank >= x.offset+x.limit }

// wanted reports whether one of the next n records is on the page.
func (x *reading) wanted(n int) bool {
	return x.limit > 0 && x.rank < x.offset+x.limit && x.rank+n > x.offset
}

// spans cuts the time that is asked for into known blocks and the rest, with steps -1,
// in the direction of the walk.
func (x *reading) spans() (out []block) {
	from, until := x.p.from, x.p.until
	for _, k := range x.known {
		if k.until < from || k.from > until {
			continue
		}
		if k.until >= x.newestTime() {
			break // counted in a later snapshot
		}
		if k.from > from {
			out = append(out, block{from: from, until: k.from - 1, steps: -1})
		}
		out = append(out, k)
		from = k.until + 1
	}
	if from <= until {
		out = append(out, block{from: from, until: until, steps: -1})
	}
	if x.reverse {
		slices.Reverse(out)
	}
	return out
}

// newestTime is when the newest record of the project was written. New ones are no
// older.
func (x *reading) newestTime() int64 {
	if x.newest < 0 {
		s := newStretch(x.r, x.p.all, true)
		defer s.close()
		at, ok := s.seek(endOf(maxInt))
		if x.newest = 0; ok {
			x.newest = at.at()
		}
	}
	return x.newest
}

func (x *reading) span(s block) error {
	if s.steps >= 0 {
		if s.from >= x.p.from && s.until <= x.p.until && !x.wanted(s.n) {
			x.rank += s.n
			return nil
		}
		return x.through(max(s.from, x.p.from), min(s.until, x.p.until), nil)
	}
	if x.p.byID {
		return x.through(s.from, s.until, nil)
	}
	now := block{from: s.from, until: s.until}
	var last int64
	cut := func(at int64) {
		if now.steps >= x.b.changes.most.steps && at != last {
			rest := now
			if x.reverse {
				now.from, rest.until = at+1, at
			} else {
				now.until, rest.from = at-1, at
			}
			x.keep(now)
			now = rest
			now.n, now.steps = 0, 0
		}
		last = at
		now.steps++
		x.steps++
	}
	whole := true
	err := x.through(s.from, s.until, func(at *place, match bool) {
		cut(at.at())
		now.n += b2i(match)
		whole = !x.done()
	})
	if err == nil && whole {
		x.keep(now)
	}
	return err
}

// keep notes a block that no new record will be in.
func (x *reading) keep(k block) {
	if x.steps >= x.b.changes.most.steps || x.edit > 0 {
		if k.until < x.newestTime() {
			x.fresh = append(x.fresh, k)
		}
	}
}

// maxGroup bounds the places of one millisecond that are turned round.
const maxGroup = 1 << 20

// through goes over the records of a span, and tells note of every place.
func (x *reading) through(from, until int64, note func(at *place, match bool)) error {
	var failed error
	err := x.over(from, until, func(at place, rec *Record, match bool) bool {
		if x.flip && len(x.group) > 0 && x.group[0].at() != at.at() {
			failed = x.turn()
		}
		if note != nil {
			note(&at, match)
		}
		if match && failed == nil {
			if x.flip {
				if x.group = append(x.group, at); len(x.group) > maxGroup {
					failed = refuse("Too many records of one millisecond; sort by id in the same direction")
				}
			} else {
				failed = x.found(&at, rec)
			}
		}
		return failed == nil && !x.done()
	})
	if failed == nil && err == nil {
		failed = x.turn() // spans do not cut a millisecond
	}
	return firstError(failed, err)
}

// turn passes the places of a millisecond on, the last first.
func (x *reading) turn() error {
	for i := len(x.group) - 1; i >= 0; i-- {
		if err := x.found(&x.group[i], nil); err != nil {
			return err
		}
	}
	x.group = x.group[:0]
	return nil
}

// found takes the next record of the order; rec may have to be read yet.
func (x *reading) found(at *place, rec *Record) (err error) {
	if x.wanted(1) {
		if rec == nil {
			rec, err = x.record(at)
		}
		if rec != nil && err == nil {
			err = x.emit(rec, x.n)
			x.n++
		}
	}
	x.rank++
	return err
}
