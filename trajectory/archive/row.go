package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"weir/trajectory"
)

// span is where a text is in the stream of texts.
type span struct{ off, size int64 }

// Row is what is known of a trajectory without its text.
type Row struct {
	Group, Index int
	text         span
	trajectory.Facts
}

// GroupRow is what is known of a group without its text.
type GroupRow struct {
	Index        int
	Trajectories int
	Exceptions   int
	Metrics      []trajectory.Score
	// Of the rewards of those of its trajectories that have one, for advantages.
	Scored          int
	Mean, Deviation float64
	Offset          GroupOffset // where it is
	text            span
}

// Records are written as varints and strings with their length in front: a
// million of them are read for one query.

// Bits of a row's first byte.
const (
	hasScore = 1 << iota
	hasInitial
	hasFinal
	hasStart
	hasTools
	hasTokens
)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendScores(b []byte, list []trajectory.Score) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, m := range list {
		b = appendFloat(appendText(b, m.Name), m.Value)
	}
	return b
}

func appendFloat(b []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
}

func (s span) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.off)), uint64(s.size))
}

// longLabel is the length from which of a metadata value only a hash is kept:
// the text is in the trajectory.
const longLabel = 128

// label is the form of a metadata value that rows hold and filters compare.
func label(s string) string {
	if len(s) < longLabel {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	const marked = longLabel // no short value is that long
	return string(append(make([]byte, marked-len(sum), marked), sum[:]...))
}

func (r *Row) append(b []byte) []byte {
	var bits byte
	flag := func(bit byte, on bool) {
		if on {
			bits |= bit
		}
	}
	flag(hasScore, r.Scored)
	flag(hasInitial, r.Initial.Given)
	flag(hasFinal, r.Final.Given)
	flag(hasStart, !r.Start.IsZero())
	flag(hasTools, r.Tools)
	flag(hasTokens, r.Tokens.Given)
	b = append(b, bits)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Group)), uint64(r.Index))
	b = r.text.append(b)
	if r.Scored {
		b = appendFloat(b, r.Reward)
	}
	for _, n := range []trajectory.Int{r.Initial, r.Final, r.Tokens} {
		if n.Given {
			b = binary.AppendVarint(b, n.N)
		}
	}
	if !r.Start.IsZero() {
		b = binary.AppendVarint(b, r.Start.Unix())
		b = binary.AppendUvarint(b, uint64(r.Start.Nanosecond()))
	}
	b = binary.AppendUvarint(b, uint64(r.Choices))
	b = binary.AppendUvarint(b, uint64(len(r.Finish)))
	for _, f := range r.Finish {
		b = appendText(b, f)
	}
	b = appendScores(b, r.Metrics)
	b = binary.AppendUvarint(b, uint64(len(r.Metadata)))
	for _, l := range r.Metadata {
		b = appendText(appendText(b, l.Name), label(l.Value))
	}
	return b
}

func (g *GroupRow) append(b []byte) []byte {
	for _, n := range []int{g.Index, g.Trajectories, g.Exceptions, g.Scored} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = g.text.append(appendFloat(appendFloat(b, g.Mean), g.Deviation))
	return appendScores(b, g.Metrics)
}

var errRecord = errors.New("a record is cut short")

// record reads what append wrote. After an error everything it returns is zero.
type record struct {
	b   []byte
	err error
}

func (r *record) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *record) int() int { return int(r.uint() & math.MaxInt) }

func (r *record) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *record) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.err = nil, errRecord
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *record) float() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (r *record) text() string { return string(r.take(r.int())) }

func (r *record) span() span { return span{int64(r.int()), int64(r.int())} }

// count reads the length of a list whose elements take at least size bytes.
func (r *record) count(size int) int {
	n := r.int()
	if n > len(r.b)/size {
		r.b, r.err = nil, errRecord
		return 0
	}
	return n
}

func (r *record) scores() (list []trajectory.Score) {
	if n := r.count(9); n > 0 {
		list = make([]trajectory.Score, n)
	}
	for i := range list {
		list[i].Name = r.text()
		list[i].Value = r.float()
	}
	return list
}

func (r *record) given(on bool) trajectory.Int {
	if !on {
		return trajectory.Int{}
	}
	return trajectory.Some(r.varint())
}

func (w *Row) parse(b []byte) error {
	r := record{b: b}
	*w = Row{}
	bits := byte(0)
	if first := r.take(1); first != nil {
		bits = first[0]
	}
	w.Group, w.Index, w.text = r.int(), r.int(), r.span()
	w.Tools = bits&hasTools != 0
	if w.Scored = bits&hasScore != 0; w.Scored {
		w.Reward = r.float()
	}
	w.Initial = r.given(bits&hasInitial != 0)
	w.Final = r.given(bits&hasFinal != 0)
	w.Tokens = r.given(bits&hasTokens != 0)
	if bits&hasStart != 0 {
		sec := r.varint()
		w.Start = time.Unix(sec, int64(r.uint())).UTC()
	}
	w.Choices = r.int()
	if n := r.count(1); n > 0 {
		w.Finish = make([]string, n)
	}
	for i := range w.Finish {
		w.Finish[i] = r.text()
	}
	w.Metrics = r.scores()
	if n := r.count(2); n > 0 {
		w.Metadata = make([]trajectory.Label, n)
	}
	for i := range w.Metadata {
		w.Metadata[i].Name = r.text()
		w.Metadata[i].Value = r.text()
	}
	return r.end()
}

func (g *GroupRow) parse(b []byte) error {
	r := record{b: b}
	*g = GroupRow{Index: r.int(), Trajectories: r.int(), Exceptions: r.int(), Scored: r.int()}
	g.Mean, g.Deviation = r.float(), r.float()
	g.text = r.span()
	g.Metrics = r.scores()
	return r.end()
}

func (r *record) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("a record is too long")
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, r.err)
	}
	return nil
}

// reader goes over the records of a stream.
type reader struct {
	source
	off int64
	buf []byte
}

// next returns the next record, valid until it is called again; nil at the end.
func (r *reader) next() ([]byte, error) {
	if r.off == r.size {
		return nil, nil
	}
	n := min(binary.MaxVarintLen64, r.size-r.off)
	b, err := r.read(r.buf[:0], r.off, n)
	if err != nil {
		return nil, err
	}
	length, size := binary.Uvarint(b)
	if size <= 0 || length > math.MaxInt64 {
		return nil, fmt.Errorf("%w: no record at %d", ErrDamaged, r.off)
	}
	if r.buf, err = r.read(b[:0], r.off+int64(size), int64(length)); err != nil {
		return nil, err
	}
	r.off += int64(size) + int64(length)
	return r.buf, nil
}
