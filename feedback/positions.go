package feedback

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"weir/store"
)

// place is where a record is in the order of its project: created_at and id, the end
// of all its index entries.
type position [24]byte

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

// endOf is the last place of a millisecond.
func lastPositionAt(at int64) position {
	p := positionAt(at)
	for i := 8; i < len(p); i++ {
		p[i] = 0xff
	}
	return p
}

func (p *position) createdAt() int64 { return int64(binary.BigEndian.Uint64(p[:])) }
func (p *position) id() [16]byte     { return [16]byte(p[8:]) }

// before reports whether p comes before o, going up or in reverse.
func (p *position) before(o *position, reverse bool) bool {
	if reverse {
		return bytes.Compare(p[:], o[:]) > 0
	}
	return bytes.Compare(p[:], o[:]) < 0
}

// places is a sequence of places in the order of a project, or the opposite one.
// ok is false at its end.
type iterator interface {
	seek(to position) (p position, ok bool) // the first that is not before to
	next() (p position, ok bool)
	close()
}

// stretch is the entries of an index that have one value.
type indexIterator struct {
	c       *store.Cursor
	buf     []byte // the prefix, and room for a place
	prefix  int
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

func (s *indexIterator) check(key []byte) (position, bool) {
	for bytes.HasPrefix(key, s.buf[:s.prefix]) && len(key) != len(s.buf) { // damaged: it belongs to nothing
		key = s.c.Next()
	}
	if !bytes.HasPrefix(key, s.buf[:s.prefix]) { // the cursor may go further
		return position{}, false
	}
	return position(key[s.prefix:]), true
}

func (s *indexIterator) close() { s.c.Close() }

// union is the places of all its members.
type unionIterator struct {
	members []iterator
	at      []position
	ok      []bool
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

// list is places in memory.
type listIterator struct {
	all []position
	i   int
	rev bool
}

func newListIterator(all []position, reverse bool) *listIterator {
	slices.SortFunc(all, func(a, b position) int { return bytes.Compare(a[:], b[:]) })
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

// jump goes from now, where s is, to the first place that is not before to. Where
// that is near, as it often is, a few steps cost less than a search of all tables.
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

// follower is places that are looked at only where others lead.
type follower struct {
	iterator
	now   position
	ok    bool
	begun bool
}

// to is the first place that is not before p. Its calls go in one direction.
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
