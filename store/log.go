package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4/y"
)

// badger replays a log up to the first damaged record and cuts off the rest, so a single
// flipped bit would cost every acknowledged record after it. Before a database is opened,
// the logs that badger replays (all *.mem, and the newest *.vlog) are therefore read here.
// Damage that is followed by whole records is overwritten, in place, with a filler record
// of the same length, which deletes a key that nobody uses:
//
//	before   record 1 | record 2, damaged | record 3
//	after    record 1 | filler            | record 3
//
// The other records keep their offsets, to which tables point.
//
// The format is badger's (memtable.go and structs.go of v4.9.6): a header of 20 bytes, then
// records. A record has meta, user meta, the lengths of key and value, expiry, key, value,
// and a CRC-32C of all that. Keys end in the number of the transaction. The records of a
// transaction are marked, and one more record ends it. badger takes all of a transaction or
// nothing.

const (
	logHeader   = 20
	metaDelete  = 1 << 0
	metaPointer = 1 << 1
	metaTxn     = 1 << 6
	metaEnd     = 1 << 7
	metaKnown   = 1<<0 | 1<<1 | 1<<2 | 1<<3 | metaTxn | metaEnd
	endKey      = "!badger!txn"
	fillerKey   = "\x00lost"
	maxVarint32 = 5
)

// Damage is a part of a log or a table that cannot be read.
type Damage struct {
	File   string
	Offset int // of the first byte that is not part of a whole record or block
	Length int
	Copy   string // where the file was copied before it was changed; "" if it was not
}

func (m Damage) String() string {
	s := fmt.Sprintf("%s: %d bytes at %d", m.File, m.Length, m.Offset)
	if m.Copy != "" {
		s += ", the file as it was: " + m.Copy
	}
	return s
}

// mendDir repairs the logs of a directory.
func mendDir(dir string) (all []Damage, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store: %w", err)
		}
	}()
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	values, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return nil, err
	}
	slices.Sort(values)
	if n := len(values); n > 0 {
		logs = append(logs, values[n-1])
	}
	for _, path := range logs {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Size() < logHeader {
			// A crash came after it was created and before it was given its size. It
			// is empty, and badger would refuse to open the directory.
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		found, err := mendFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// mendFile repairs a log, after copying it, and returns what was damaged.
func mendFile(path string) ([]Damage, error) {
	b, done, err := mapLog(path)
	if err != nil {
		return nil, err
	}
	defer done()
	patches := inspect(b, strings.HasSuffix(path, ".mem")).patches
	if len(patches) == 0 {
		return nil, nil
	}
	aside, err := copyAside(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []Damage
	for _, p := range patches {
		found = append(found, Damage{File: filepath.Base(path), Offset: p.at, Length: p.length, Copy: aside})
		if _, err := f.WriteAt(p.filler, int64(p.at)); err != nil {
			return nil, err
		}
	}
	return found, f.Sync()
}

// copyAside copies a file, as it was found, to the directory damaged.
func copyAside(path string) (string, error) {
	to, err := nameAside(path)
	if err != nil {
		return "", err
	}
	b, done, err := mapFile(path)
	if err != nil {
		return "", err
	}
	defer done()
	return to, os.WriteFile(to, trimZeros(b), 0o600)
}

// linkAside gives a file that is going to be deleted, and is never written to, a second
// name in the directory damaged. Unlike a copy that takes no space.
func linkAside(path string) (string, error) {
	to, err := nameAside(path)
	if err != nil {
		return "", err
	}
	if os.Link(path, to) == nil {
		return to, nil
	}
	return copyAside(path) // some file systems have no links
}

func nameAside(path string) (string, error) {
	dir := filepath.Join(filepath.Dir(path), "damaged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)+"."+time.Now().UTC().Format("20060102T150405.000000000")), nil
}

// record is a whole record of a log.
type record struct {
	end     int // offset of the byte after it
	meta    byte
	expires uint64 // in Unix seconds; 0 is never
	key     []byte // with the number of the transaction
	val     []byte
}

// txn is the number of a record's transaction.
func (r *record) txn() uint64 { return y.ParseTs(r.key) }

// recordAt reads the record at an offset.
func recordAt(b []byte, at int) (r record, ok bool) {
	end, klen, vlen, ok := headerAt(b, at)
	if !ok || end > len(b) {
		return r, false
	}
	if binary.BigEndian.Uint32(b[end-crc32.Size:]) != crc32.Checksum(b[at:end-crc32.Size], castagnoli) {
		return r, false
	}
	from := end - crc32.Size - klen - vlen
	body := b[from:]
	r = record{end: end, meta: b[at], key: body[:klen:klen], val: body[klen : klen+vlen : klen+vlen]}
	for i, fields := at+2, 0; i < from; fields++ { // the lengths of key and value, and the expiry
		v, n := binary.Uvarint(b[i:])
		if fields == 2 {
			r.expires = v
		}
		i += n
	}
	return r, true
}

// headerAt reads a record's header and returns where the record ends.
func headerAt(b []byte, at int) (end, klen, vlen int, ok bool) {
	if at+2 > len(b) || b[at]&^metaKnown != 0 {
		return 0, 0, 0, false
	}
	i := at + 2
	k, n := binary.Uvarint(b[i:])
	if n <= 0 || k < 9 || k > 1<<16 {
		return 0, 0, 0, false
	}
	i += n
	v, n := binary.Uvarint(b[i:])
	if n <= 0 || v > 1<<31 {
		return 0, 0, 0, false
	}
	i += n
	_, n = binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, 0, 0, false
	}
	return i + n + int(k) + int(v) + crc32.Size, int(k), int(v), true
}

// patch is what to write over damage.
type patch struct {
	at, length int
	filler     []byte
	lost       bool // a record was there, and not only the mark that ends a transaction
}

// scan is what was found in a log.
type scan struct {
	patches []patch
	end     int // of the whole records, once the patches are applied
	done    int // of the last transaction that is whole
	open    uint64
	// stuck says that damage is followed by whole records and cannot be bridged, so that
	// badger would drop them.
	stuck bool
}

// lost says that records of the log cannot be read, of which badger would tell nobody.
func (s *scan) lost() bool {
	for _, p := range s.patches {
		if p.lost {
			return true
		}
	}
	return s.stuck
}

// inspect finds the damage in a log that is followed by whole records, and what to write
// in its place so that badger goes on. wal says that the log is that of a memtable, which
// has transactions.
func inspect(b []byte, wal bool) (s scan) {
	if len(b) < logHeader {
		return s
	}
	s.end, s.done = logHeader, logHeader
	if !bytes.Equal(b[:8], make([]byte, 8)) { // the number of an encryption key; there is no encryption
		s.patches = append(s.patches, patch{at: 0, length: 8, filler: make([]byte, 8)})
	}
	for s.end < len(b) {
		if r, ok := recordAt(b, s.end); ok {
			s.take(&r, wal)
			continue
		}
		next := resume(b, s.end)
		if next < 0 {
			s.finish(b)
			return s
		}
		p, ok := s.bridge(b, next, wal)
		if !ok {
			s.stuck = true
			return s
		}
		s.patches = append(s.patches, p)
		s.end = next
	}
	return s
}

// take goes on after a whole record.
func (s *scan) take(r *record, wal bool) {
	s.end = r.end
	switch {
	case !wal:
	case r.meta&metaEnd != 0:
		s.open = 0
	case r.meta&metaTxn != 0:
		s.open = r.txn()
	}
	if s.open == 0 {
		s.done = s.end
	}
}

// finish judges what follows the last whole record.
func (s *scan) finish(b []byte) {
	for _, p := range tail(b, s.end, s.open) {
		s.patches = append(s.patches, p)
		s.end += len(p.filler)
		s.done, s.open = s.end, 0
	}
}

// bridge is what to write between the end of the whole records and the next one. It is
// not ok if no record has that length.
func (s *scan) bridge(b []byte, next int, wal bool) (p patch, ok bool) {
	r, _ := recordAt(b, next)
	p = patch{at: s.end, length: next - s.end, lost: true}
	switch same := s.open != 0 && r.txn() == s.open; {
	case wal && s.open != 0 && !same && r.meta&metaEnd != 0:
		// The end of the open transaction is lost, and all of the next but its end.
		p.filler = endOf(s.open, 0)
		p.filler = append(p.filler, fill(metaDelete|metaTxn, r.txn(), p.length-len(p.filler))...)
		ok = len(p.filler) == p.length
	case wal && s.open != 0 && !same:
		p.filler = endOf(s.open, p.length)
		p.lost = p.length != len(endOf(s.open, 0))
		s.open = 0
		ok = p.filler != nil
	case wal && r.meta&(metaTxn|metaEnd) != 0:
		p.filler = fill(metaDelete|metaTxn, r.txn(), p.length)
		ok = p.filler != nil
	default:
		p.filler = fill(metaDelete, 1, p.length)
		ok = p.filler != nil
	}
	return p, ok
}

// resume finds the first whole record after the damage at an offset, or returns -1. A
// client cannot plant one in a value for resume to find: a record contains a 0, its user
// meta, and the values that clients choose are JSON, which contains none.
func resume(b []byte, at int) int {
	for i := at + 1; i < len(b); i++ {
		if b[i] == 0 {
			if n := leadingZeros(b[i:]); n >= maxVarint32 { // a key is never empty
				i += n - 3 // meta and user meta may be 0
				continue
			}
		}
		if _, ok := recordAt(b, i); ok {
			return i
		}
	}
	return -1
}

// tail judges bytes at the end of a log that are no whole record. As a rule a crash has cut
// off a record that was not acknowledged. But the record that ends a transaction is written
// after all of its records. If the bytes look like that record, damaged, the transaction is
// whole, and the record is written again.
func tail(b []byte, at int, open uint64) []patch {
	if open == 0 {
		return nil
	}
	rest, end := trimZeros(b[at:]), endOf(open, 0)
	if len(rest) > len(end) || at+len(end) > cap(b) { // the capacity is the length of the file
		return nil
	}
	same := 0
	for i := range rest {
		if rest[i] == end[i] {
			same++
		}
	}
	if 2*same <= len(rest) {
		return nil
	}
	return []patch{{at: at, length: len(rest), filler: end}}
}

// fill is a record of a length that deletes a key that nobody uses, or nil if there is none.
func fill(meta byte, txn uint64, length int) []byte {
	for pad := range 3 { // a longer key helps where a length needs one byte more
		key := y.KeyWithTs([]byte(fillerKey+"..."[:pad]), txn)
		if r := exactly(meta, key, length, 0xff); r != nil {
			return r
		}
	}
	return nil
}

// endOf is a record of a length that ends a transaction. Length 0 means the shortest. The
// number of the transaction is decimal text, and zeros in front of it make up the length.
func endOf(txn uint64, length int) []byte {
	digits := strconv.FormatUint(txn, 10)
	key := y.KeyWithTs([]byte(endKey), txn)
	if length == 0 {
		return appendRecord(nil, metaEnd, key, []byte(digits))
	}
	least := len(appendRecord(nil, metaEnd, key, []byte(digits)))
	for n := max(0, length-least-maxVarint32); n <= length-least; n++ {
		if r := appendRecord(nil, metaEnd, key, append(bytes.Repeat([]byte{'0'}, n), digits...)); len(r) == length {
			return r
		}
	}
	// No number of zeros fits, because a length needs one byte more: put a record in front.
	if first := fill(metaDelete|metaTxn, txn, length-least); first != nil {
		return append(first, endOf(txn, 0)...)
	}
	return nil
}

// exactly is a record of a length whose value repeats a byte, or nil if there is none.
func exactly(meta byte, key []byte, length int, with byte) []byte {
	least := len(appendRecord(nil, meta, key, nil))
	for n := max(0, length-least-maxVarint32); n <= length-least; n++ {
		if r := appendRecord(nil, meta, key, bytes.Repeat([]byte{with}, n)); len(r) == length {
			return r
		}
	}
	return nil
}

// appendRecord appends a record that never expires.
func appendRecord(dst []byte, meta byte, key, value []byte) []byte {
	from := len(dst)
	dst = append(dst, meta, 0)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	dst = append(dst, 0) // expiry
	dst = append(dst, key...)
	dst = append(dst, value...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}
