package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"weir/store"
)

// Mend repairs after damage to the database what depends on what was lost, and returns how
// many things it wrote or removed: a version without its value, a value without its version,
// and the counts of bytes.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	var lone [][]byte
	if err := s.lone(func(key []byte) { lone = append(lone, bytes.Clone(key)) }); err != nil {
		return 0, err
	}
	for len(lone) > 0 {
		some := lone[:min(removePiece, len(lone))]
		lone = lone[len(some):]
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			for _, key := range some {
				ok, err := whole(&tx.Reader, key)
				if err != nil {
					return err
				}
				if !ok { // else it was published again since
					tx.Delete(key)
				}
			}
			return nil
		}); err != nil {
			return n, err
		}
		n += len(some)
	}
	k, err := size.Mend(ctx, s.db)
	return n + k, err
}

// whole reports whether there is a version to a value, or a value to a version that was not
// deleted. Damaged values count as being there: what is damaged is reported where it is read.
func whole(r *store.Reader, key []byte) (bool, error) {
	other := valueKey(key)
	if key[0] == tagValue {
		other[0] = tagObject
		return r.Has(other)
	}
	row, err := r.Get(key)
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if v, err := decodeVersion(key, row); err != nil || v.Deleted != 0 {
		return true, nil
	}
	return r.Has(other)
}

// lone calls f with the keys of versions without values, and of values without versions.
func (s *Store) lone(f func(key []byte)) error {
	return s.db.View(func(r *store.Reader) error {
		for _, tag := range []byte{tagObject, tagValue} {
			var failed error
			err := r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func(key, _ []byte) bool {
				ok := false
				if ok, failed = whole(r, key); failed == nil && !ok {
					f(key)
				}
				return failed == nil
			})
			if err = errors.Join(failed, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// Check calls f with each thing that is wrong: rows that are none, versions and values that
// lack each other, and counts. The caller finds damaged values by reading all of them.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error {
		for _, tag := range append([]byte{tagObject}, contents...) {
			if err := r.Scan(store.Range{Prefix: []byte{tag}, Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
				_, err := decodeBlob(row)
				if tag == tagObject {
					_, err = decodeVersion(key, row)
				}
				if err != nil {
					f(fmt.Sprintf("%q is no object", key))
				}
				return true
			}); err != nil {
				return err
			}
		}
		return nil
	})
	err = errors.Join(err, s.lone(func(key []byte) {
		if key[0] == tagObject {
			f(fmt.Sprintf("the value of the version %q is missing", key))
		} else {
			f(fmt.Sprintf("the version of the value %q is missing", key))
		}
	}))
	wrong, failed := size.Wrong(s.db)
	for project, n := range wrong {
		f(fmt.Sprintf("the objects of %s have %d bytes, and another number is counted", project, n))
	}
	return errors.Join(err, failed)
}
