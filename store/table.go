package store

import (
	"bytes"
	"errors"
	"fmt"
)

// A Table is rows of one kind with their secondary indexes. An index entry is
// written and deleted in the update that writes or deletes its row.
type Table struct {
	Tag byte // the first byte of the rows' keys
	// Entries appends the keys of a row's index entries to dst. Each begins with the tag
	// of its index and belongs to this row alone. Entries must not keep row.
	Entries func(dst [][]byte, key, row []byte) [][]byte
	Indexes []byte // the tags of the indexes
}

// Put writes a row in place of old, the row that is there, or nil.
func (t *Table) Put(tx *Tx, key, old, row []byte) {
	entries := t.Entries(nil, key, row)
	if old != nil {
		for _, e := range t.Entries(nil, key, old) {
			if !contains(entries, e) {
				tx.Delete(e)
			}
		}
	}
	for _, e := range entries {
		tx.Set(e, key)
	}
	tx.Set(key, row)
}

// Delete deletes a row and its index entries.
func (t *Table) Delete(tx *Tx, key, old []byte) {
	for _, e := range t.Entries(nil, key, old) {
		tx.Delete(e)
	}
	tx.Delete(key)
}

func contains(list [][]byte, b []byte) bool {
	for _, e := range list {
		if bytes.Equal(e, b) {
			return true
		}
	}
	return false
}

// Row is the row of an index entry. If it is damaged or missing, that is logged and counted
// and the error is ErrCorrupt.
func (t *Table) Row(r *Reader, key []byte) ([]byte, error) {
	row, err := r.Get(key)
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: an index entry without a row: key %q", ErrCorrupt, key)
		r.db.corrupt(key, err)
	}
	return row, err
}

// mendStep is how many index entries an update of Mend writes or removes.
const mendStep = 1000

// Mend writes the index entries that Check finds missing and removes those that are left over.
// update runs an update of the database. After each of them done is called with the number of
// entries so far and of all, unless it is nil. Mend returns how many entries it has treated.
// Entries of damaged rows stay, because nobody knows them.
func (t *Table) Mend(db *DB, update func(func(tx *Tx) error) error, done func(n, of int)) (n int, err error) {
	type fix struct{ entry, key []byte }
	var fixes []fix
	if err := db.View(func(r *Reader) error {
		return t.Check(r, func(entry, key []byte, _ bool) { fixes = append(fixes, fix{entry, key}) })
	}); err != nil {
		return 0, err
	}
	for {
		if done != nil {
			done(n, len(fixes))
		}
		some := fixes[n:min(n+mendStep, len(fixes))]
		if len(some) == 0 {
			return n, nil
		}
		if err := update(func(tx *Tx) error {
			for _, f := range some {
				if err := t.mendEntry(tx, f.entry, f.key); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return n, err
		}
		n += len(some)
	}
}

// mendEntry makes an index entry agree with its row, which may have changed since the check.
func (t *Table) mendEntry(tx *Tx, entry, key []byte) error {
	row, err := tx.Get(key)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err == nil && contains(t.Entries(nil, key, row), entry):
		tx.Set(entry, key)
	default:
		tx.Delete(entry)
	}
	return nil
}

// CheckText is Check with a sentence for each entry.
func (t *Table) CheckText(r *Reader, f func(what string)) error {
	return t.Check(r, func(entry, key []byte, missing bool) {
		what := "left over"
		if missing {
			what = "missing"
		}
		f(fmt.Sprintf("the entry %q of %q is %s", entry, key, what))
	})
}

// Check compares a table with its indexes. It calls f with the index entries that are
// missing, and the keys of their rows, and with those whose row does not exist.
func (t *Table) Check(r *Reader, f func(entry, key []byte, missing bool)) error {
	var failed error
	passOver := func([]byte, error) {} // who calls Check finds damaged values by reading all
	err := r.Scan(Range{Prefix: []byte{t.Tag}, Damaged: passOver}, func(key, row []byte) bool {
		for _, e := range t.Entries(nil, key, row) {
			v, err := r.Get(e)
			if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt) {
				failed = err
				return false
			}
			if err != nil || !bytes.Equal(v, key) {
				f(e, bytes.Clone(key), true)
			}
		}
		return true
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	for _, tag := range t.Indexes {
		err := r.Scan(Range{Prefix: []byte{tag}, Damaged: passOver}, func(entry, key []byte) bool {
			row, err := r.Get(key)
			if errors.Is(err, ErrCorrupt) {
				return true
			}
			if err != nil || !contains(t.Entries(nil, key, row), entry) {
				f(bytes.Clone(entry), bytes.Clone(key), false)
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
