package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	badger "github.com/dgraph-io/badger/v4"

	"weir/internal/longcopy"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumLen = crc32.Size

// seal puts a checksum of key and value in front of the value. badger's own checksums
// protect its logs, but not what it copies from them to tables.
func seal(key, value []byte) []byte {
	b := make([]byte, sumLen, sumLen+len(value))
	binary.LittleEndian.PutUint32(b, sum(key, value))
	return longcopy.Append(b, value)
}

func sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// CorruptError is an ErrCorrupt that says whose value it is about.
type CorruptError struct {
	Key []byte
	Err error // nil: the value does not have its checksum
}

func (e *CorruptError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%v: key %q", ErrCorrupt, e.Key)
	}
	return fmt.Sprintf("%v: key %q: %v", ErrCorrupt, e.Key, e.Err)
}

// Unwrap lets errors.Is find ErrCorrupt.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

func corruptError(key []byte, err error) error { return &CorruptError{bytes.Clone(key), err} }

// unseal returns the value in b, without a copy.
func unseal(key, b []byte) ([]byte, error) {
	if len(b) < sumLen || binary.LittleEndian.Uint32(b) != sum(key, b[sumLen:]) {
		return nil, corruptError(key, nil)
	}
	return b[sumLen:], nil
}

// A Reader reads one snapshot. It may be used by one goroutine, and only until the
// function that it was passed to returns.
type Reader struct {
	txn    *badger.Txn
	db     *DB
	inside bool // badger is running, so a panic comes from a damaged file
}

// Get returns a copy of the value of key, ErrNotFound, or ErrCorrupt.
func (r *Reader) Get(key []byte) ([]byte, error) {
	outside := r.inside
	r.inside = true
	v, err := r.get(key)
	r.inside = outside // not deferred, because View looks at it after a panic
	return v, err
}

func (r *Reader) get(key []byte) ([]byte, error) {
	item, err := r.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, corruptError(key, err)
	}
	var kept []byte
	err = item.Value(func(b []byte) error {
		v, err := unseal(key, b)
		kept = make([]byte, len(v)) // the runtime clears it piece by piece
		longcopy.Copy(kept, v)
		return err
	})
	if err == nil {
		return kept, nil
	}
	r.db.corrupt(key, err)
	if !errors.Is(err, ErrCorrupt) { // badger has not found the value
		err = corruptError(key, err)
	}
	return nil, err
}

// Opening is a number that grows whenever the database is opened again. An update that
// failed with ErrFailed can take effect only when that happens.
func (r *Reader) Opening() uint64 { return r.db.gate.turn }

// Has reports whether there is a value of key.
func (r *Reader) Has(key []byte) (bool, error) {
	outside := r.inside
	r.inside = true
	_, err := r.txn.Get(key)
	r.inside = outside
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return true, nil
}

// A Range is a set of keys, in one of the two orders.
type Range struct {
	Prefix []byte // keys that begin so
	// From is where to begin, inclusive: the least key of interest, or with Reverse the
	// greatest. nil begins at the first key with the prefix, or with Reverse at the last.
	From    []byte
	Reverse bool
	Keys    bool // values are not read: they are passed as nil
	// Damaged is called for values that are not what was written. If it is nil, the first
	// of them is counted and logged and ends the scan with ErrCorrupt: whoever asks for a
	// range gets all of it or an error.
	Damaged func(key []byte, err error)
}

// Scan calls f with the keys and values of a range, in the order of the keys,
// until f returns false. key and value are valid until f returns. Scan holds one value
// in memory at a time. A Tx can have one Scan at a time.
func (r *Reader) Scan(rg Range, f func(key, value []byte) bool) error {
	outside := r.inside
	r.inside = true
	err := r.scan(rg, func(key, value []byte) bool {
		r.inside = outside
		more := f(key, value)
		r.inside = true
		return more
	})
	r.inside = outside
	return err
}

func (r *Reader) scan(rg Range, f func(key, value []byte) bool) error {
	opt := badger.IteratorOptions{Prefix: rg.Prefix, Reverse: rg.Reverse, PrefetchValues: false}
	it := r.txn.NewIterator(opt)
	defer it.Close()
	from := rg.From
	if from == nil && rg.Reverse {
		// badger seeks to the greatest key that is not above.
		from = append(bytes.Clone(rg.Prefix), bytes.Repeat([]byte{0xff}, 64)...)
	} else if from == nil {
		from = rg.Prefix
	}
	for it.Seek(from); it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()
		if !bytes.HasPrefix(key, rg.Prefix) {
			return nil
		}
		if rg.Keys {
			if !f(key, nil) {
				return nil
			}
			continue
		}
		more := true
		err := item.Value(func(b []byte) error {
			v, err := unseal(key, b)
			if err == nil {
				more = f(key, v)
			}
			return err
		})
		switch {
		case err == nil:
		case rg.Damaged != nil:
			rg.Damaged(key, err)
		default:
			r.db.corrupt(key, err)
			if !errors.Is(err, ErrCorrupt) { // badger has not found the value
				err = corruptError(key, err)
			}
			return err
		}
		if !more {
			return nil
		}
	}
	return nil
}

// A Tx reads and writes for one update. Reads see what earlier updates have written, but
// not what this one has: it takes effect as a whole, at its end.
type Tx struct {
	Reader
	writes []write
	size        // of the writes
	sets   bool // a value is written that is not empty; an update that deletes may also write keys without values
	drops  bool // something is deleted
}

type write struct {
	key, value []byte // value is sealed; nil deletes
	expires    uint64 // in Unix seconds; 0 is never
}

// Set writes a value. It keeps key, and a copy of value.
func (tx *Tx) Set(key, value []byte) { tx.SetUntil(key, value, time.Time{}) }

// SetUntil writes a value that is gone from the second of expires on. The zero time
// means never. It keeps key, and a copy of value.
func (tx *Tx) SetUntil(key, value []byte, expires time.Time) {
	w := write{key: key, value: seal(key, value)}
	if !expires.IsZero() {
		w.expires = uint64(max(expires.Unix(), 1))
	}
	tx.sets = tx.sets || len(value) > 0
	tx.add(w)
}

// Delete removes a key, whether it is there or not. It keeps key.
func (tx *Tx) Delete(key []byte) {
	tx.drops = true
	tx.add(write{key: key})
}

func (tx *Tx) add(w write) {
	tx.writes = append(tx.writes, w)
	tx.size.add(&w, tx.db.cfg.ValueThreshold)
}

// size is the size of some writes: in bytes, in bytes of a memtable, and their number.
type size struct {
	bytes, table int64
	n            int
	large        bool // some go to the value log
}

// entryOverhead is an upper bound of what badger adds to a key and a value in a memtable.
const entryOverhead = 128

func (s *size) add(w *write, threshold int64) {
	n := int64(len(w.key)+len(w.value)) + entryOverhead
	s.bytes += n
	if int64(len(w.value)) >= threshold { // only a pointer goes to the memtable
		n -= int64(len(w.value))
		s.large = true
	}
	s.table += n
	s.n++
}

// within reports whether writes of size s and more fit one transaction. badger's bounds
// are 15 % of a memtable, and as many entries as nodes of its skip list would fill that.
// The bound in bytes keeps other updates from waiting too long.
func (s size) within(more size, memTable int64) bool {
	most := memTable * 14 / 100
	return s.table+more.table <= most && int64(s.n+more.n) <= most/entryOverhead && s.bytes+more.bytes <= maxGroup
}

// maxGroup bounds a transaction in bytes.
const maxGroup = 16 << 20
