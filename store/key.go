package store

import (
	"encoding/binary"
	"errors"
)

// Keys are ordered tuples: a byte that names the table, then strings and
// integers of which none can run into the next. The first byte 0 is the store's
// own, and so is '!' (badger's).

// AppendString appends s such that keys sort as their strings do, and that no
// string is the beginning of another: 0 becomes 0 255, and 0 1 ends it.
func AppendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if dst = append(dst, s[i]); s[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// CutString takes a string that AppendString has appended off the front of key.
func CutString(key []byte) (s string, rest []byte, err error) {
	var out []byte
	for i := 0; i+1 < len(key); i++ {
		switch {
		case key[i] != 0:
			out = append(out, key[i])
		case key[i+1] == 1:
			return string(out), key[i+2:], nil
		case key[i+1] == 0xff:
			out = append(out, 0)
			i++
		default:
			return "", nil, errKey
		}
	}
	return "", nil, errKey
}

// AppendUint appends n in 8 bytes that sort as numbers do.
func AppendUint(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// CutUint takes a number that AppendUint has appended off the front of key.
func CutUint(key []byte) (n uint64, rest []byte, err error) {
	if len(key) < 8 {
		return 0, nil, errKey
	}
	return binary.BigEndian.Uint64(key), key[8:], nil
}

var errKey = errors.New("store: malformed key")

// After is the least key behind all that begin with prefix; nil if there is none.
func After(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
