package calls

import (
	"context"
	"errors"
	"fmt"

	"weir/store"
)

// Mend repairs the indexes and the counts of bytes after damage to the database, and returns
// how many entries and counts it wrote or removed.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	n, err = table.Mend(s.db, func(f func(tx *store.Tx) error) error { return s.update(ctx, f) }, nil)
	if err != nil {
		return n, err
	}
	k, err := size.Mend(ctx, s.db)
	return n + k, err
}

// Check calls f with each thing that is wrong with the indexes, the records and the counts.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error { return table.CheckText(r, f) })
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
	wrong, failed := size.Wrong(s.db)
	for project, n := range wrong {
		f(fmt.Sprintf("the calls of %s have %d bytes, and another number is counted", project, n))
	}
	return errors.Join(err, failed)
}
