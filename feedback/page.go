package feedback

import (
	"context"
	"slices"

	"weir/store"
)

// pageReader answers one query that is in the order of created_at from one snapshot.
type pageReader struct {
	*walk
	s          *Store
	seen       uint64 // the snapshot has the deletions below this number
	reverseIDs bool   // the ids of one millisecond are in the opposite order
	countAll   bool   // count all matches, also those after the page

	offset, limit int
	emit          func(rec *Record, n int) error

	matched  int // positions that matched so far
	emitted  int // records that were passed to emit
	sameTime []position
	newest   int64 // created_at of the newest record of the project; -1: not looked for yet
	keys     int   // keys that were read outside of known blocks
	counted  []block
	known    []block // from countCache.find, with their version
	version  uint64
	planKey  [32]byte
}

// view runs f on a snapshot, which has all deletions below seen.
func (s *Store) view(f func(r *store.Reader, seen uint64) error) error {
	seen := s.counts.seen() // before the snapshot is taken, so that it has all of these
	return s.viewWhole(func(r *store.Reader) error { return f(r, seen) })
}

// page calls emit with the records of a page, numbered from 0, in the order of created_at.
// With count it returns how many records match the query in all.
func (s *Store) page(ctx context.Context, q *Query, r *store.Reader, seen uint64, count bool, emit func(rec *Record, n int) error) (total int, err error) {
	p := q.plan()
	reverse, reverseIDs := q.direction()
	w, err := q.open(ctx, r, p, reverse)
	if err != nil {
		return 0, err
	}
	defer w.close()
	x := &pageReader{walk: w, s: s, seen: seen, reverseIDs: reverseIDs, countAll: count, offset: q.offset, limit: q.limit, emit: emit, newest: -1}
	if p.from > p.until {
		return 0, nil
	}
	if !p.byID {
		x.planKey = p.key()
		x.known, x.version = s.counts.find(x.planKey, q.Project, seen, r.Opening())
	}
	for _, s := range x.spans() {
		if x.done() {
			break
		}
		if err := x.span(s); err != nil {
			return 0, err
		}
	}
	if len(x.counted) > 0 && (x.version > 0 || x.keys >= s.counts.limits.blockKeys) {
		s.counts.put(x.planKey, seen, r.Opening(), x.version, x.counted)
	}
	return x.matched, nil
}

// done reports whether the answer is complete.
func (x *pageReader) done() bool { return !x.countAll && x.matched >= x.offset+x.limit }

// wanted reports whether one of the next n records is on the page.
func (x *pageReader) wanted(n int) bool {
	return x.limit > 0 && x.matched < x.offset+x.limit && x.matched+n > x.offset
}

// spans divides the time of the plan into known blocks and the stretches between them,
// whose keys are -1. They are in the direction of the walk.
func (x *pageReader) spans() (out []block) {
	from, until := x.plan.from, x.plan.until
	for _, k := range x.known {
		if k.until < from || k.from > until {
			continue
		}
		if k.until >= x.newestTime() {
			break // it was counted in a later snapshot
		}
		if k.from > from {
			out = append(out, block{from: from, until: k.from - 1, keys: -1})
		}
		out = append(out, k)
		from = k.until + 1
	}
	if from <= until {
		out = append(out, block{from: from, until: until, keys: -1})
	}
	if x.reverse {
		slices.Reverse(out)
	}
	return out
}

// newestTime is when the newest record of the project was written. Later records are not
// older than it.
func (x *pageReader) newestTime() int64 {
	if x.newest < 0 {
		s := newIndexIterator(x.r, x.plan.all, true)
		defer s.close()
		at, ok := s.seek(lastPositionAt(maxInt))
		if x.newest = 0; ok {
			x.newest = at.createdAt()
		}
	}
	return x.newest
}

// span answers for one element of spans.
func (x *pageReader) span(s block) error {
	if s.keys >= 0 {
		if s.from >= x.plan.from && s.until <= x.plan.until && !x.wanted(s.matches) {
			x.matched += s.matches
			return nil
		}
		return x.scan(max(s.from, x.plan.from), min(s.until, x.plan.until), nil)
	}
	if x.plan.byID {
		return x.scan(s.from, s.until, nil)
	}
	return x.count(s.from, s.until)
}

// count goes over the positions from one millisecond to another, both inclusive, and
// counts the matches in blocks. A block does not divide a millisecond.
func (x *pageReader) count(from, until int64) error {
	now := block{from: from, until: until}
	var last int64
	// next ends the block before a key of the millisecond at, if it is full.
	next := func(at int64) {
		if now.keys >= x.s.counts.limits.blockKeys && at != last {
			rest := now
			if x.reverse {
				now.from, rest.until = at+1, at
			} else {
				now.until, rest.from = at-1, at
			}
			x.addBlock(now)
			now = rest
			now.matches, now.keys = 0, 0
		}
		last = at
		now.keys++
		x.keys++
	}
	whole := true
	err := x.scan(from, until, func(at *position, match bool) {
		next(at.createdAt())
		now.matches += b2i(match)
		whole = !x.done()
	})
	if err == nil && whole {
		x.addBlock(now)
	}
	return err
}

// addBlock adds a block that was counted, if no new record can fall into it and the
// query was long enough for blocks to be worth their memory.
func (x *pageReader) addBlock(k block) {
	if x.keys >= x.s.counts.limits.blockKeys || x.version > 0 {
		if k.until < x.newestTime() {
			x.counted = append(x.counted, k)
		}
	}
}

// maxSameTime bounds the positions of one millisecond whose order is reversed in memory.
const maxSameTime = 1 << 20

// scan goes over the positions from one millisecond to another, both inclusive, and calls
// note, if there is one, with each of them.
func (x *pageReader) scan(from, until int64, note func(at *position, match bool)) error {
	var failed error
	err := x.each(from, until, func(at position, rec *Record, match bool) bool {
		if x.reverseIDs && len(x.sameTime) > 0 && x.sameTime[0].createdAt() != at.createdAt() {
			failed = x.emitReversed()
		}
		if note != nil {
			note(&at, match)
		}
		if match && failed == nil {
			if x.reverseIDs {
				if x.sameTime = append(x.sameTime, at); len(x.sameTime) > maxSameTime {
					failed = refuse("Too many records of one millisecond; sort by id in the same direction")
				}
			} else {
				failed = x.match(&at, rec)
			}
		}
		return failed == nil && !x.done()
	})
	if failed == nil && err == nil {
		failed = x.emitReversed() // a span has whole milliseconds
	}
	return FirstError(failed, err)
}

// emitReversed passes on the positions of one millisecond, the last one first.
func (x *pageReader) emitReversed() error {
	for i := len(x.sameTime) - 1; i >= 0; i-- {
		if err := x.match(&x.sameTime[i], nil); err != nil {
			return err
		}
	}
	x.sameTime = x.sameTime[:0]
	return nil
}

// match takes the next match in the order of the answer. rec is nil if the record has not
// been read yet.
func (x *pageReader) match(at *position, rec *Record) (err error) {
	if x.wanted(1) {
		if rec == nil {
			rec, err = x.record(at)
		}
		if rec != nil && err == nil {
			err = x.emit(rec, x.emitted)
			x.emitted++
		}
	}
	x.matched++
	return err
}
