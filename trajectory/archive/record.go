package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"weir/trajectory"
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

var errRecord = errors.New("a record is cut short")

// recordReader reads what Row.append and GroupRow.append wrote: varints, floats, and strings
// after their length. A query may read a million records, so the form is compact and fast.
// After an error the reader returns zero values.
type recordReader struct {
	b   []byte
	err error
}

func (r *recordReader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *recordReader) int() int { return int(r.uint() & math.MaxInt) }

func (r *recordReader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *recordReader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.err = nil, errRecord
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *recordReader) float() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (r *recordReader) text() string { return string(r.take(r.int())) }

func (r *recordReader) span() textRange { return textRange{int64(r.int()), int64(r.int())} }

// count reads the length of a list whose elements take at least size bytes.
func (r *recordReader) count(size int) int {
	n := r.int()
	if n > len(r.b)/size {
		r.b, r.err = nil, errRecord
		return 0
	}
	return n
}

func (r *recordReader) scores() (list []trajectory.Score) {
	if n := r.count(9); n > 0 {
		list = make([]trajectory.Score, n)
	}
	for i := range list {
		list[i].Name = r.text()
		list[i].Value = r.float()
	}
	return list
}

func (r *recordReader) given(on bool) trajectory.Int {
	if !on {
		return trajectory.Int{}
	}
	return trajectory.Some(r.varint())
}

// end reports an error of the reader, or bytes that were not read.
func (r *recordReader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("a record is too long")
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, r.err)
	}
	return nil
}

// recordStream goes over the records of a stream. Each follows its length.
type recordStream struct {
	source
	off int64
	buf []byte
}

// recordBytes is how many bytes each byte of a record may take as a Row: a label of four bytes
// has two texts.
const recordBytes = 16

// next returns the next record, valid until it is called again; nil at the end.
func (r *recordStream) next() ([]byte, error) {
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
	if int64(length) <= r.size { // otherwise read says what is wrong
		if err := r.v.records.Need(recordBytes * int64(length)); err != nil {
			return nil, err
		}
	}
	if r.buf, err = r.read(b[:0], r.off+int64(size), int64(length)); err != nil {
		return nil, err
	}
	r.off += int64(size) + int64(length)
	return r.buf, nil
}
