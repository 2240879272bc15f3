package tilecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

const (
	magic      = "weirtls1"
	footerSize = 8 + 4 + len(magic)
	maxIndex   = 256 << 20 // bytes
)

// errForeign says that a file is not one of this package.
var errForeign = errors.New("it is not a cache of packed weights")

// readIndex reads and checks everything but the tiles.
func readIndex(f *os.File, identity string) (map[string]entry, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() < int64(footerSize) {
		return nil, errForeign
	}
	footer := make([]byte, footerSize)
	if _, err := f.ReadAt(footer, info.Size()-int64(footerSize)); err != nil {
		return nil, err
	}
	at, sum := binary.LittleEndian.Uint64(footer), binary.LittleEndian.Uint32(footer[8:])
	if string(footer[12:]) != magic {
		return nil, errForeign
	}
	end := uint64(info.Size()) - uint64(footerSize)
	if at > end || end-at > maxIndex {
		return nil, fmt.Errorf("its index is at byte %d of %d", at, info.Size())
	}
	index := make([]byte, end-at)
	if _, err := f.ReadAt(index, int64(at)); err != nil {
		return nil, err
	}
	if crc32.Checksum(index, castagnoli) != sum {
		return nil, errors.New("its index has another checksum")
	}
	return parseIndex(index, int64(at), identity)
}

// parseIndex reads an index in front of which there are so many bytes of data.
func parseIndex(index []byte, data int64, identity string) (map[string]entry, error) {
	r := reader{index}
	if got := r.text(); got != identity {
		return nil, errors.New("it is of other weights")
	}
	entries := map[string]entry{}
	for len(r.left) > 0 {
		key := r.text()
		e := entry{at: r.number(), size: r.number(), piece: r.number()}
		if r.left == nil || e.piece <= 0 || e.size <= 0 || e.at > data || e.size > data-e.at {
			return nil, fmt.Errorf("its index has wrong numbers for %.200q", key)
		}
		n := (e.size-1)/e.piece + 1
		if n > int64(len(r.left)/4) {
			return nil, fmt.Errorf("its index lacks checksums of %.200q", key)
		}
		for range n {
			e.sums = append(e.sums, binary.LittleEndian.Uint32(r.left))
			r.left = r.left[4:]
		}
		entries[key] = e
	}
	if r.left == nil {
		return nil, errors.New("its index is cut")
	}
	return entries, nil
}

// reader reads an index. left is nil once something was missing.
type reader struct{ left []byte }

func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 || v > 1<<62 {
		r.left = nil
		return 0
	}
	r.left = r.left[n:]
	return int64(v)
}

func (r *reader) text() string {
	n := r.number()
	if n > int64(len(r.left)) {
		r.left = nil
	}
	if r.left == nil {
		return ""
	}
	text := string(r.left[:n])
	r.left = r.left[n:]
	return text
}

// appendText adds a text to an index.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// footer is the end of a file whose index begins at a byte.
func footer(at int64, index []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(index, castagnoli))
	return append(b, magic...)
}
