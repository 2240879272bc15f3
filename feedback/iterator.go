package feedback

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"weir/internal/pace"
	"weir/store"
)

// position is where a record is in the order of its project: created_at and then the
// id. All index entries of the record end with these 24 bytes.
type position [24]byte

// positionAt is the first position of a millisecond.
func positionAt(at int64) (p position) {
	binary.BigEndian.PutUint64(p[:], uint64(at))
	return p
}

func positionOf(r *Record) position {
	p := positionAt(r.CreatedAt)
	id, _ := parseUUID(r.ID)
	copy(p[8:], id[:])
	return p
}

// lastPositionAt is the last position of a millisecond.
func lastPositionAt(at int64) position {
	p := positionAt(at)
	for i := 8; i < len(p); i++ {
		p[i] = 0xff
	}
	return p
}

func (p *position) createdAt() int64 { return int64(binary.BigEndian.Uint64(p[:])) }
func (p *position) id() [16]byte     { return [16]byte(p[8:]) }

// before reports whether p comes before o, in the order of the project or in reverse.
func (p *position) before(o *position, reverse bool) bool {
	if reverse {
		return bytes.Compare(p[:], o[:]) > 0
	}
	return bytes.Compare(p[:], o[:]) < 0
}

// iterator goes over positions in the order of a project, or in reverse. ok is false at
// its end.
type iterator interface {
	seek(to position) (p position, ok bool) // to the first position that is not before to
	next() (p position, ok bool)
	close()
}

// indexIterator goes over the entries of an index that have one value.
type indexIterator struct {
	c       *store.Cursor
	buf     []byte // the prefix and space for a position
	prefix  int    // its length
	reverse bool
}

func newIndexIterator(r *store.Reader, prefix []byte, reverse bool) *indexIterator {
	return &indexIterator{c: r.Keys(prefix, reverse), buf: append(bytes.Clone(prefix), make([]byte, len(position{}))...), prefix: len(prefix), reverse: reverse}
}

func (s *indexIterator) seek(to position) (position, bool) {
	copy(s.buf[s.prefix:], to[:])
	return s.check(s.c.Seek(s.buf))
}

func (s *indexIterator) next() (position, bool) { return s.check(s.c.Next()) }

// check returns the position of a key that the cursor is at.
func (s *indexIterator) check(key []byte) (position, bool) {
	for bytes.HasPrefix(key, s.buf[:s.prefix]) && len(key) != len(s.buf) { // damaged: no record has this key
		key = s.c.Next()
	}
	if !bytes.HasPrefix(key, s.buf[:s.prefix]) { // the cursor has left the prefix
		return position{}, false
	}
	return position(key[s.prefix:]), true
}

func (s *indexIterator) close() { s.c.Close() }

// unionIterator goes over the positions of all its members, without repetition.
type unionIterator struct {
	members []iterator
	at      []position // where each member is
	ok      []bool     // and whether it is at a position at all
	reverse bool
	begun   bool
}

func newUnionIterator(members []iterator, reverse bool) *unionIterator {
	return &unionIterator{members: members, at: make([]position, len(members)), ok: make([]bool, len(members)), reverse: reverse}
}

func (u *unionIterator) seek(to position) (position, bool) {
	for i, m := range u.members {
		if !u.begun || u.ok[i] && u.at[i].before(&to, u.reverse) {
			u.at[i], u.ok[i] = m.seek(to)
		}
	}
	u.begun = true
	return u.first()
}

func (u *unionIterator) next() (position, bool) {
	now, _ := u.first()
	for i, m := range u.members {
		if u.ok[i] && u.at[i] == now {
			u.at[i], u.ok[i] = m.next()
		}
	}
	return u.first()
}

// first is the first of the positions that the members are at.
func (u *unionIterator) first() (p position, ok bool) {
	for i := range u.members {
		if u.ok[i] && (!ok || u.at[i].before(&p, u.reverse)) {
			p, ok = u.at[i], true
		}
	}
	return p, ok
}

func (u *unionIterator) close() {
	for _, m := range u.members {
		m.close()
	}
}

// listIterator goes over positions in memory.
type listIterator struct {
	all []position
	i   int
	rev bool
}

// newListIterator sorts the positions. If the meter stops it, their order means nothing.
func newListIterator(all []position, reverse bool, m *pace.Meter) *listIterator {
	slices.SortFunc(all, func(a, b position) int {
		if m.Spend(pace.Compare) != nil {
			return 0
		}
		return bytes.Compare(a[:], b[:])
	})
	all = slices.Compact(all)
	if reverse {
		slices.Reverse(all)
	}
	return &listIterator{all: all, rev: reverse}
}

func (l *listIterator) seek(to position) (position, bool) {
	l.i = sort.Search(len(l.all), func(i int) bool { return !l.all[i].before(&to, l.rev) }) - 1
	return l.next()
}

func (l *listIterator) next() (position, bool) {
	if l.i++; l.i >= len(l.all) {
		return position{}, false
	}
	return l.all[l.i], true
}

func (l *listIterator) close() {}

// advance moves s from now, where it is, to the first position that is not before to.
// It is often near, and a few steps cost less than a search in all tables of the store.
func advance(s iterator, now, to position, reverse bool) (p position, ok bool) {
	const steps = 24
	for range steps {
		if !now.before(&to, reverse) {
			return now, true
		}
		if now, ok = s.next(); !ok {
			return now, false
		}
	}
	if !now.before(&to, reverse) {
		return now, true
	}
	return s.seek(to)
}

// follower is an iterator that is only moved to positions that another one leads to.
type follower struct {
	iterator
	now   position // valid if ok
	ok    bool
	begun bool
}

// to moves to the first position that is not before p. Calls go in one direction.
func (f *follower) to(p position, reverse bool) (position, bool) {
	switch {
	case !f.begun:
		f.begun = true
		f.now, f.ok = f.seek(p)
	case f.ok:
		f.now, f.ok = advance(f.iterator, f.now, p, reverse)
	}
	return f.now, f.ok
}
