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
type place [24]byte

func placeAt(at int64) (p place) {
	binary.BigEndian.PutUint64(p[:], uint64(at))
	return p
}

func placeOf(r *Record) place {
	p := placeAt(r.CreatedAt)
	id, _ := parseUUID(r.ID)
	copy(p[8:], id[:])
	return p
}

// endOf is the last place of a millisecond.
func endOf(at int64) place {
	p := placeAt(at)
	for i := 8; i < len(p); i++ {
		p[i] = 0xff
	}
	return p
}

func (p *place) at() int64    { return int64(binary.BigEndian.Uint64(p[:])) }
func (p *place) id() [16]byte { return [16]byte(p[8:]) }

// before reports whether p comes before o, going up or in reverse.
func (p *place) before(o *place, reverse bool) bool {
	if reverse {
		return bytes.Compare(p[:], o[:]) > 0
	}
	return bytes.Compare(p[:], o[:]) < 0
}

// places is a sequence of places in the order of a project, or the opposite one.
// ok is false at its end.
type places interface {
	seek(to place) (p place, ok bool) // the first that is not before to
	next() (p place, ok bool)
	close()
}

// stretch is the entries of an index that have one value.
type stretch struct {
	c       *store.Cursor
	buf     []byte // the prefix, and room for a place
	prefix  int
	reverse bool
}

func newStretch(r *store.Reader, prefix []byte, reverse bool) *stretch {
	return &stretch{c: r.Keys(prefix, reverse), buf: append(bytes.Clone(prefix), make([]byte, len(place{}))...), prefix: len(prefix), reverse: reverse}
}

func (s *stretch) seek(to place) (place, bool) {
	copy(s.buf[s.prefix:], to[:])
	return s.got(s.c.Seek(s.buf))
}

func (s *stretch) next() (place, bool) { return s.got(s.c.Next()) }

func (s *stretch) got(key []byte) (place, bool) {
	for bytes.HasPrefix(key, s.buf[:s.prefix]) && len(key) != len(s.buf) { // damaged: it belongs to nothing
		key = s.c.Next()
	}
	if !bytes.HasPrefix(key, s.buf[:s.prefix]) { // the cursor may go further
		return place{}, false
	}
	return place(key[s.prefix:]), true
}

func (s *stretch) close() { s.c.Close() }

// union is the places of all its members.
type union struct {
	members []places
	at      []place
	ok      []bool
	reverse bool
	begun   bool
}

func newUnion(members []places, reverse bool) *union {
	return &union{members: members, at: make([]place, len(members)), ok: make([]bool, len(members)), reverse: reverse}
}

func (u *union) seek(to place) (place, bool) {
	for i, m := range u.members {
		if !u.begun || u.ok[i] && u.at[i].before(&to, u.reverse) {
			u.at[i], u.ok[i] = m.seek(to)
		}
	}
	u.begun = true
	return u.first()
}

func (u *union) next() (place, bool) {
	now, _ := u.first()
	for i, m := range u.members {
		if u.ok[i] && u.at[i] == now {
			u.at[i], u.ok[i] = m.next()
		}
	}
	return u.first()
}

func (u *union) first() (p place, ok bool) {
	for i := range u.members {
		if u.ok[i] && (!ok || u.at[i].before(&p, u.reverse)) {
			p, ok = u.at[i], true
		}
	}
	return p, ok
}

func (u *union) close() {
	for _, m := range u.members {
		m.close()
	}
}

// list is places in memory.
type list struct {
	all []place
	i   int
	rev bool
}

func newList(all []place, reverse bool) *list {
	slices.SortFunc(all, func(a, b place) int { return bytes.Compare(a[:], b[:]) })
	all = slices.Compact(all)
	if reverse {
		slices.Reverse(all)
	}
	return &list{all: all, rev: reverse}
}

func (l *list) seek(to place) (place, bool) {
	l.i = sort.Search(len(l.all), func(i int) bool { return !l.all[i].before(&to, l.rev) }) - 1
	return l.next()
}

func (l *list) next() (place, bool) {
	if l.i++; l.i >= len(l.all) {
		return place{}, false
	}
	return l.all[l.i], true
}

func (l *list) close() {}

// jump goes from now, where s is, to the first place that is not before to. Where
// that is near, as it often is, a few steps cost less than a search of all tables.
func jump(s places, now, to place, reverse bool) (p place, ok bool) {
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
	places
	now   place
	ok    bool
	begun bool
}

// to is the first place that is not before p. Its calls go in one direction.
func (f *follower) to(p place, reverse bool) (place, bool) {
	switch {
	case !f.begun:
		f.begun = true
		f.now, f.ok = f.seek(p)
	case f.ok:
		f.now, f.ok = jump(f.places, f.now, p, reverse)
	}
	return f.now, f.ok
}
