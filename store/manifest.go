package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// badger's MANIFEST says which tables there are. It has 8 bytes of header and then sets of
// changes, each with its length and CRC-32C in front, big-endian. A set is appended and
// synced after the tables that it adds have been written, and before those that it removes
// are deleted. Nothing is ever changed in it, but after 10,000 deletions badger writes it
// anew: all tables in one set, in a new file that takes the place of the old one.
//
// badger itself takes a file that ends within a set, or even within the first, for one
// whose last write was cut off by a crash, drops that set, and deletes all tables that it
// has not read of.

const (
	manifestName   = "MANIFEST"
	manifestHeader = "Bdgr\x00\x00\x00\x08"
	// rewritesAfter is less than the number of deletions after which badger writes the
	// file anew.
	rewritesAfter = 9000
)

// manifest is what was read of a MANIFEST, up to the end of a set.
type manifest struct {
	length    int64
	sum       uint32 // CRC-32C of the first length bytes
	first     uint32 // CRC-32C of the first set
	sets      int
	deletions int
	flushes   int            // sets that add one table to level 0 and do nothing else: flushes of memtables
	tables    map[uint64]int // those there are: level by id
	removed   map[uint64]bool
}

var errManifest = errors.New("a set of changes in it is damaged")

// read continues with the bytes that follow the first m.length, and returns how many at
// their end are not a whole set.
func (m *manifest) read(b []byte) (torn int, err error) {
	if m.tables == nil {
		m.tables, m.removed = map[uint64]int{}, map[uint64]bool{}
	}
	if m.length == 0 {
		if len(b) < len(manifestHeader) {
			return len(b), nil
		}
		if !bytes.HasPrefix(b, []byte(manifestHeader)) {
			return len(b), errors.New("it does not begin as the file of this version of badger does")
		}
		b = m.take(b, len(manifestHeader))
	}
	for len(b) >= 8 {
		n := uint64(binary.BigEndian.Uint32(b))
		if n > uint64(len(b)-8) {
			break
		}
		set, sum := b[8:8+n], binary.BigEndian.Uint32(b[4:])
		var changes pb.ManifestChangeSet
		if crc32.Checksum(set, castagnoli) != sum || proto.Unmarshal(set, &changes) != nil {
			return len(b), errManifest
		}
		if m.sets == 0 {
			m.first = sum
		}
		m.apply(changes.GetChanges())
		b = m.take(b, 8+int(n))
	}
	return len(b), nil
}

func (m *manifest) take(b []byte, n int) (rest []byte) {
	m.length += int64(n)
	m.sum = crc32.Update(m.sum, castagnoli, b[:n])
	return b[n:]
}

func (m *manifest) apply(changes []*pb.ManifestChange) {
	m.sets++
	for _, c := range changes {
		switch c.GetOp() {
		case pb.ManifestChange_CREATE:
			m.tables[c.GetId()] = int(c.GetLevel())
			delete(m.removed, c.GetId())
		case pb.ManifestChange_DELETE:
			delete(m.tables, c.GetId())
			m.removed[c.GetId()] = true
			m.deletions++
		}
	}
	if len(changes) == 1 && changes[0].GetOp() == pb.ManifestChange_CREATE && changes[0].GetLevel() == 0 {
		m.flushes++
	}
}
