package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/y"
)

// badger trusts its tables. A damaged one makes goroutines of badger's panic, when it is
// opened or later when it is compacted, and that ends the process. With badger's own
// verification turned on, an iterator ends at a damaged block as if nothing followed, and
// compaction then drops the rest. So before a database is opened its tables are checked,
// and one with damaged blocks is ErrDamaged. Repair reads its other blocks.
//
// The format is badger's (table/builder.go of v4.9.6):
//
//	blocks | index | length of the index | checksum | length of the checksum
//
// The index (fb.TableIndex) has the offsets and first keys of the blocks. A block is
//
//	entries | their offsets | their number | checksum | length of the checksum
//
// An entry has the number of bytes that its key shares with the first key of the block, the
// number of bytes that follow, these bytes, and a value. Lengths and offsets have 4 bytes. A
// checksum is a protocol buffer with a CRC-32C.

// maxChecked bounds how many bytes of tables are read at each start. Of the rest of a
// larger database only the indexes are checked; DB.Verify reads everything.
const maxChecked = 2 << 30

// readTable reads a table: its blocks without their checksums, if wholly is set, and the
// offsets and lengths of those that are damaged. It is not ok if the index is damaged.
func readTable(b []byte, wholly bool) (whole [][]byte, bad [][2]int, ok bool) {
	index, ok := indexOf(b)
	if !ok || !wholly {
		return nil, nil, ok
	}
	var o fb.BlockOffset
	for i := range index.OffsetsLength() {
		if !index.Offsets(&o, i) {
			return nil, nil, false
		}
		at, n := int(o.Offset()), int(o.Len())
		if at+n <= len(b) {
			if block, ok := sealed(b[at : at+n]); ok {
				whole = append(whole, block)
				continue
			}
		}
		bad = append(bad, [2]int{at, n})
	}
	return whole, bad, true
}

// syncFile makes a file durable.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// cutSealed cuts a checksum and its length off the end of b.
func cutSealed(b []byte) (rest []byte, sum uint32, ok bool) {
	if len(b) < 4 {
		return nil, 0, false
	}
	n := binary.BigEndian.Uint32(b[len(b)-4:])
	b = b[:len(b)-4]
	if n > uint32(len(b)) || n > 16 {
		return nil, 0, false
	}
	pb := b[len(b)-int(n):]
	rest = b[:len(b)-int(n)]
	if len(pb) == 0 {
		return rest, 0, true // a sum of 0 is not written
	}
	v, k := binary.Uvarint(pb[1:])
	return rest, uint32(v), pb[0] == 2<<3 && k == len(pb)-1 // field 2; field 1 is 0, CRC-32C
}

// sealed is a block without its checksum, if that is right.
func sealed(b []byte) ([]byte, bool) {
	rest, sum, ok := cutSealed(b)
	return rest, ok && crc32.Checksum(rest, castagnoli) == sum
}

// indexOf is the index of a table, if its checksum is right.
func indexOf(b []byte) (*fb.TableIndex, bool) {
	rest, sum, ok := cutSealed(b)
	if !ok || len(rest) < 4 {
		return nil, false
	}
	n := binary.BigEndian.Uint32(rest[len(rest)-4:])
	rest = rest[:len(rest)-4]
	if n > uint32(len(rest)) || n < 8 {
		return nil, false
	}
	index := rest[len(rest)-int(n):]
	if crc32.Checksum(index, castagnoli) != sum {
		return nil, false
	}
	return fb.GetRootAsTableIndex(index, 0), true
}

// eachEntry calls f with the entries of a block, and reports whether it could read them.
func eachEntry(block []byte, f func(key []byte, v y.ValueStruct)) bool {
	if len(block) < 4 {
		return true
	}
	n := int(binary.BigEndian.Uint32(block[len(block)-4:]))
	offsets := len(block) - 4 - 4*n // where they begin, and the entries end
	if n == 0 || offsets < 0 {
		return true
	}
	var first []byte
	for i := range n {
		at, end := int(binary.NativeEndian.Uint32(block[offsets+4*i:])), offsets
		if i+1 < n {
			end = int(binary.NativeEndian.Uint32(block[offsets+4*i+4:]))
		}
		if at+4 > end || end > offsets {
			return false
		}
		key, v, ok := entryOf(block[at:end], first)
		if !ok {
			return false
		}
		if i == 0 {
			first = key
		}
		f(key, v)
	}
	return true
}

// entryOf reads an entry, given the first key of its block.
func entryOf(b, first []byte) (key []byte, v y.ValueStruct, ok bool) {
	shared, own := int(binary.NativeEndian.Uint16(b)), int(binary.NativeEndian.Uint16(b[2:]))
	if shared > len(first) || 4+own+3 > len(b) {
		return nil, v, false
	}
	value := b[4+own:]
	if _, k := binary.Uvarint(value[2:]); k <= 0 { // meta and user meta come first, then the expiry
		return nil, v, false
	}
	v.Decode(value)
	return append(bytes.Clone(first[:shared]), b[4:4+own]...), v, true
}
