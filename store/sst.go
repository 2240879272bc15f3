package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
)

// badger trusts its tables: a damaged one panics in goroutines of its own, at the
// start or whenever it is compacted, which ends the process. With its verification
// on it is no better: an iterator ends at a damaged block as if nothing came
// behind, and compaction then drops that. So before a database is opened its tables
// are checked, and one with damaged blocks is written anew from the others.
//
// The format is badger's (table/builder.go): blocks; an index (fb.TableIndex) of
// their offsets and first keys; its length; its checksum; the length of that. A
// block is entries; their offsets, 4 bytes each; their number; its checksum; the
// length of that. An entry is how many bytes of its key are the first one's, how
// many follow, those, and a value. Lengths have 4 bytes, a checksum is a protocol
// buffer with a CRC-32C.

// maxChecked bounds the bytes of tables that are read at each start. Of larger
// databases the indexes are checked; weir store verify reads the rest.
const maxChecked = 2 << 30

// mendTables checks the tables that a database consists of.
func mendTables(dir string, opt badger.Options) (all []Damage, err error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // a new database
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	m, _, err := badger.ReplayManifestFile(f, 0, opt)
	_ = f.Close()
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	checked := int64(0)
	for id := range m.Tables {
		path := table.NewFilename(id, dir)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		checked += info.Size()
		found, err := mendTable(path, checked <= maxChecked)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func mendTable(path string, wholly bool) (found []Damage, err error) {
	b, done, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	defer done()
	index, ok := indexOf(b)
	if !ok {
		return nil, fmt.Errorf("%w: the index of %s; restore a backup", ErrCorrupt, path)
	}
	if !wholly {
		return nil, nil
	}
	var whole [][]byte
	var o fb.BlockOffset
	for i := range index.OffsetsLength() {
		if !index.Offsets(&o, i) {
			return nil, fmt.Errorf("%w: the index of %s; restore a backup", ErrCorrupt, path)
		}
		at, n := int(o.Offset()), int(o.Len())
		if at+n <= len(b) {
			if block, ok := sealed(b[at : at+n]); ok {
				whole = append(whole, block)
				continue
			}
		}
		found = append(found, Damage{File: filepath.Base(path), Offset: at, Length: n})
	}
	if len(found) == 0 {
		return nil, nil
	}
	fresh := rebuild(whole)
	if fresh == nil {
		return nil, fmt.Errorf("%w: all of %s; restore a backup", ErrCorrupt, path)
	}
	aside, err := copyAside(path)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Copy = aside
	}
	next := path + ".mended"
	if err := os.WriteFile(next, fresh, 0o600); err != nil {
		return nil, err
	}
	if err := syncFile(next); err != nil {
		return nil, err
	}
	if err := os.Rename(next, path); err != nil {
		return nil, err
	}
	return found, syncDir(filepath.Dir(path))
}

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

// rebuild is a table of the entries of blocks; nil: there are none.
func rebuild(blocks [][]byte) []byte {
	b := table.NewTableBuilder(table.Options{BlockSize: 4 << 10, BloomFalsePositive: 0.01, TableSize: 2 << 20, Compression: options.None})
	defer b.Close()
	for _, block := range blocks {
		if len(block) < 4 {
			continue
		}
		n := int(binary.BigEndian.Uint32(block[len(block)-4:]))
		from := len(block) - 4 - 4*n
		if n == 0 || from < 0 {
			continue
		}
		var first []byte
		for i := range n {
			at := int(binary.NativeEndian.Uint32(block[from+4*i:]))
			end := from
			if i+1 < n {
				end = int(binary.NativeEndian.Uint32(block[from+4*i+4:]))
			}
			if at+4 > end || end > from {
				return nil
			}
			overlap, diff := int(binary.NativeEndian.Uint16(block[at:])), int(binary.NativeEndian.Uint16(block[at+2:]))
			if overlap > len(first) || at+4+diff+3 > end {
				return nil
			}
			key := append(bytes.Clone(first[:overlap]), block[at+4:at+4+diff]...)
			if i == 0 {
				first = key
			}
			if _, k := binary.Uvarint(block[at+4+diff+2 : end]); k <= 0 {
				return nil
			}
			var v y.ValueStruct
			v.Decode(block[at+4+diff : end])
			b.Add(key, v, 0)
		}
	}
	if b.Empty() {
		return nil
	}
	return b.Finish()
}
