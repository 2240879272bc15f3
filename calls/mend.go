package calls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"weir/store"
)

// fix is an index entry that is missing or left over.
type fix struct{ entry, key []byte }

// Mend repairs the indexes and the counts of bytes after damage to the database, and returns
// how many entries it wrote or removed.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	var fixes []fix
	err = s.db.View(func(r *store.Reader) error {
		return table.Check(r, func(entry, key []byte, _ bool) { fixes = append(fixes, fix{entry, key}) })
	})
	const step = 1000
	for len(fixes) > 0 && err == nil {
		some := fixes[:min(step, len(fixes))]
		fixes = fixes[len(some):]
		err = s.update(ctx, func(tx *store.Tx) error {
			for _, f := range some {
				if err := f.apply(tx); err != nil {
					return err
				}
			}
			return nil
		})
		n += len(some)
	}
	if err != nil {
		return n, err
	}
	return n, s.recount(ctx)
}

// apply makes an entry agree with its record, which may have changed since the check.
func (f *fix) apply(tx *store.Tx) error {
	row, err := tx.Get(f.key)
	if errors.Is(err, store.ErrCorrupt) {
		return nil // nobody knows what entries it has; a deletion removes them
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, e := range table.Entries(nil, f.key, row) {
		if string(e) == string(f.entry) {
			tx.Set(f.entry, f.key)
			return nil
		}
	}
	tx.Delete(f.entry)
	return nil
}

// recount writes the counts of bytes that are not those of the records.
func (s *Store) recount(ctx context.Context) error {
	wrong, err := s.wrongCounts()
	if err != nil {
		return err
	}
	for project := range wrong {
		if err := s.update(ctx, func(tx *store.Tx) error {
			n, err := countBytes(&tx.Reader, project)
			if err != nil {
				return err
			}
			tx.Set(bytesKey(project), binary.BigEndian.AppendUint64(nil, uint64(n)))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// wrongCounts returns the projects whose count is not the bytes of their records, with those
// bytes.
func (s *Store) wrongCounts() (map[string]int64, error) {
	wrong := map[string]int64{}
	counts := map[string]int64{}
	err := s.db.View(func(r *store.Reader) error {
		passOver := func([]byte, error) {}
		err := r.Scan(store.Range{Prefix: []byte{TagRow}, Damaged: passOver}, func(key, row []byte) bool {
			if project, _, err := store.CutString(key[1:]); err == nil {
				wrong[project] += rowBytes(row)
			}
			return true
		})
		return errors.Join(err, r.Scan(store.Range{Prefix: []byte{tagBytes}, Damaged: passOver}, func(key, v []byte) bool {
			if project, _, err := store.CutString(key[1:]); err == nil && len(v) == 8 {
				counts[project] = int64(binary.BigEndian.Uint64(v))
			}
			return true
		}))
	})
	for project, n := range counts {
		if wrong[project] == n {
			delete(wrong, project)
		} else if _, ok := wrong[project]; !ok {
			wrong[project] = 0
		}
	}
	for project, n := range wrong {
		if n == 0 && counts[project] == 0 {
			delete(wrong, project) // only of deleted calls
		}
	}
	return wrong, err
}

// Check calls f with each thing that is wrong with the indexes, the records and the counts.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error {
		return table.Check(r, func(entry, key []byte, missing bool) {
			if missing {
				f(fmt.Sprintf("the entry %q of %q is missing", entry, key))
			} else {
				f(fmt.Sprintf("the entry %q of %q is left over", entry, key))
			}
		})
	})
	// The caller finds damaged values by reading all of them. This finds those that are
	// intact and not records.
	err = errors.Join(err, s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{TagRow}, Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
			if _, err := ViewRecord(row); err != nil {
				f(fmt.Sprintf("%q is no record", key))
			}
			return true
		})
	}))
	wrong, failed := s.wrongCounts()
	for project, n := range wrong {
		f(fmt.Sprintf("the calls of %s have %d bytes, and another number is counted", project, n))
	}
	return errors.Join(err, failed)
}
