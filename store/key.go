package store

import (
	"encoding/binary"
	"errors"
)

// Keys are ordered tuples: a byte that names the table, then strings and integers, each of
// which says where it ends. Keys that begin with the byte 0 belong to the store itself,
// keys that begin with '!' to badger.

// AppendString appends s so that keys sort as their strings do, and that no string is a
// prefix of another: the byte 0 becomes 0 255, and 0 1 ends the string.
func AppendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if dst = append(dst, s[i]); s[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// CutString reads a string that AppendString has written, at the beginning of key.
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

// AppendUint appends n as 8 bytes, which sort as numbers do.
func AppendUint(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// CutUint reads a number that AppendUint has written, at the beginning of key.
func CutUint(key []byte) (n uint64, rest []byte, err error) {
	if len(key) < 8 {
		return 0, nil, errKey
	}
	return binary.BigEndian.Uint64(key), key[8:], nil
}

var errKey = errors.New("store: malformed key")

// After is the least key that sorts after all keys with the prefix, or nil if there is none.
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

// FirstStrings calls f with every string that begins keys of a tag, as AppendString wrote it,
// in order and each once. It reads one key for each of them.
func (r *Reader) FirstStrings(tag byte, f func(s string)) error {
	for from := []byte{tag}; from != nil; {
		var first string
		found := false
		err := r.Scan(Range{Prefix: []byte{tag}, From: from, Keys: true}, func(key, _ []byte) bool {
			var err error
			first, _, err = CutString(key[1:])
			found = err == nil
			return false
		})
		if err != nil || !found {
			return err
		}
		f(first)
		from = After(AppendString([]byte{tag}, first))
	}
	return nil
}
