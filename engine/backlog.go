package engine

import (
	"encoding/binary"
	"math"
)

// An event takes some ten bytes while it waits for its reader, and eight more for each
// alternative, where an Event has 128 and its memory is doubled as it grows: a stream of
// 128 choices whose client does not read held 100 MB that way. It is written into a piece
// of memory as
//
//	choice, token + 1         varints
//	flags                     see below
//	log-probability, rank     with flagScored: 4 bytes, varint
//	text                      its length as a varint, and the bytes
//	alternatives              with flagTop: their number as a varint, then 4 bytes for the
//	                          token and 4 for its log-probability each
//
// What ends a choice has pointers, and is kept beside.
const (
	flagScored = 1 << iota
	flagTop
	flagEnd
)

// ending is what the last event of a choice has and others have not.
type ending struct {
	reason Reason
	id     int32
	str    string
	err    error
}

// records are events in the form above.
type records struct {
	b    []byte
	ends []ending // in the order of their events
}

// add appends an event.
func (r *records) add(ev *Event, text []byte, top []TokenLogprob) {
	b := binary.AppendUvarint(r.b, uint64(ev.Choice))
	b = binary.AppendUvarint(b, uint64(ev.Token+1))
	flags := byte(0)
	if math.Float32bits(ev.Logprob) != 0 || ev.Rank != 0 {
		flags |= flagScored
	}
	if len(top) > 0 {
		flags |= flagTop
	}
	if ev.Reason != NotDone {
		flags |= flagEnd
		r.ends = append(r.ends, ending{ev.Reason, ev.StopID, ev.StopStr, ev.Err})
	}
	b = append(b, flags)
	if flags&flagScored != 0 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(ev.Logprob))
		b = binary.AppendUvarint(b, uint64(ev.Rank))
	}
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	if flags&flagTop != 0 {
		b = binary.AppendUvarint(b, uint64(len(top)))
		for _, t := range top {
			b = binary.LittleEndian.AppendUint32(b, uint32(t.Token))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(t.Logprob))
		}
	}
	r.b = b
}

// reset forgets everything but its memory.
func (r *records) reset() {
	clear(r.ends)
	r.b, r.ends = r.b[:0], r.ends[:0]
}

// decoder reads records.
type decoder struct{ b []byte }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
	return v
}

// take reads the first event into ev, and its end from ends. It returns the ends that are
// left.
func (d *decoder) take(ev *Events, ends []ending) []ending {
	it := Event{Choice: int32(d.uvarint()), Token: int32(d.uvarint()) - 1, StopID: -1}
	flags := d.b[0]
	d.b = d.b[1:]
	if flags&flagScored != 0 {
		it.Logprob = math.Float32frombits(d.uint32())
		it.Rank = int32(d.uvarint())
	}
	n := d.uvarint()
	ev.text = append(ev.text, d.b[:n]...)
	d.b = d.b[n:]
	if flags&flagTop != 0 {
		for range d.uvarint() {
			ev.top = append(ev.top, TokenLogprob{Token: int32(d.uint32()), Logprob: math.Float32frombits(d.uint32())})
		}
	}
	if flags&flagEnd != 0 {
		it.Reason, it.StopID, it.StopStr, it.Err = ends[0].reason, ends[0].id, ends[0].str, ends[0].err
		ends = ends[1:]
	}
	it.textEnd, it.topEnd = len(ev.text), len(ev.top)
	ev.Items = append(ev.Items, it)
	return ends
}

// Sizes of pieces. Small ones are not charged: nearly all streams have no more than two of
// them.
const (
	smallPiece   = 4 << 10
	largestPiece = 64 << 10
)

// piece is memory with the records of whole events.
type piece struct {
	next *piece
	records
}

// charged is the number of bytes that a piece is charged with.
func (p *piece) charged() int64 {
	if p == nil || cap(p.b) <= smallPiece {
		return 0
	}
	return int64(cap(p.b))
}

// backlog holds events that wait for their reader, in a list of pieces. Pieces that have
// been read are used again or become garbage, so that it shrinks as it is read.
type backlog struct {
	first, last *piece
	spare       *piece // empty, or nil
	bytes       int64  // charged for all pieces, and those that the reader has
	lent        int64  // charged for those
}

// room returns the size of the piece that has to be added before n more bytes fit; 0: they
// fit.
func (l *backlog) room(n int) int {
	switch {
	case n == 0:
		return 0
	case l.last != nil && len(l.last.b)+n <= cap(l.last.b), l.spare != nil && n <= cap(l.spare.b):
		return 0
	case l.last == nil:
		return max(n+n/2, smallPiece) // the next step may give a little more
	}
	return max(n+n/2, min(2*cap(l.last.b), largestPiece))
}

// append adds copies of records.
func (l *backlog) append(r *records) {
	if len(r.b) == 0 {
		return
	}
	if l.last == nil || len(l.last.b)+len(r.b) > cap(l.last.b) {
		p := l.spare
		if p != nil && len(r.b) <= cap(p.b) {
			l.spare = nil
		} else {
			p = &piece{records: records{b: make([]byte, 0, l.room(len(r.b)))}}
			l.bytes += p.charged()
		}
		if l.last == nil {
			l.first = p
		} else {
			l.last.next = p
		}
		l.last = p
	}
	l.last.b = append(l.last.b, r.b...)
	l.last.ends = append(l.last.ends, r.ends...)
}

// take removes and returns the first piece; nil: there is none. It is still charged.
func (l *backlog) take() *piece {
	p := l.first
	if p != nil {
		if l.first = p.next; l.first == nil {
			l.last = nil
		}
		p.next = nil
		l.lent = p.charged()
	}
	return p
}

// give takes back a piece that has been read, and returns the number of bytes that are not
// needed any more.
func (l *backlog) give(p *piece) int64 {
	p.reset()
	l.lent = 0
	if l.spare == nil || cap(l.spare.b) < cap(p.b) {
		p, l.spare = l.spare, p // p is the one to drop; nil: none
	}
	n := p.charged()
	l.bytes -= n
	return n
}

// drop forgets all events, and returns the number of bytes that are not needed any more.
func (l *backlog) drop() int64 {
	n := l.bytes - l.lent
	*l = backlog{bytes: l.lent, lent: l.lent}
	return n
}
