package feedback

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weir/store"
)

// The first byte of a key names the table or index; what follows is in the comment.
const (
	tagRow     = 'r' // project, id
	tagTime    = 't' // project, time, id
	tagRef     = 'f' // project, trace_ref, time, id; so are the following
	tagType    = 'y'
	tagUser    = 'u'
	tagQueue   = 'q'
	tagCall    = 'c' // call_ref
	tagIndexes = 'v' // the tags of the indexes that the database has
	tagOnce    = 'k' // idempotency keys
	tagReward  = 'w' // tenant, call, time, id: a reward that is not settled
)

// rowKey is the key of a record.
func rowKey(project string, id [16]byte) []byte {
	key := append(make([]byte, 0, len(project)+len(id)+3), tagRow)
	return append(store.AppendString(key, project), id[:]...)
}

// table is the records and their indexes. The key of an index entry ends with created_at
// and the id.
var table = store.Table{
	Tag:     tagRow,
	Indexes: []byte{tagTime, tagRef, tagType, tagUser, tagQueue, tagCall},
	Entries: func(dst [][]byte, key, row []byte) [][]byte {
		r, err := viewRecord(row)
		if err != nil {
			return dst
		}
		id, _ := parseUUID(r.ID)
		entry := func(tag byte, value *string) {
			if value == nil {
				return
			}
			k := store.AppendString([]byte{tag}, r.Project)
			if tag != tagTime {
				k = store.AppendString(k, *value)
			}
			dst = append(dst, append(store.AppendUint(k, uint64(r.CreatedAt)), id[:]...))
		}
		entry(tagTime, new(string))
		entry(tagRef, &r.TraceRef)
		entry(tagType, &r.Type)
		entry(tagUser, &r.User)
		entry(tagQueue, r.Queue)
		entry(tagCall, r.Refs.Call)
		return dst
	},
}

// repair is how far a repair of the indexes has come.
type repair struct {
	whole       atomic.Bool // the indexes are complete
	mended      atomic.Bool // Mend has ended
	done, fixes atomic.Int64
}

// wholeIndexes returns an error while the indexes may lack entries, because the database was
// damaged, or was written by a version that had fewer of them: a query would find fewer
// records than there are. r is any snapshot.
func (s *Store) wholeIndexes(r *store.Reader) error {
	if s.repair.whole.Load() {
		return nil
	}
	if len(s.db.Damage()) == 0 || s.repair.mended.Load() {
		if of, empty, err := indexesOf(r); err != nil {
			return err
		} else if empty || string(of) == string(table.Indexes) {
			s.repair.whole.Store(true)
			return nil
		}
	}
	percent := int64(0)
	if n := s.repair.fixes.Load(); n > 0 {
		percent = s.repair.done.Load() * 100 / n
	}
	return &Refusal{Status: 503, Reason: fmt.Sprintf("The indexes of feedback are being completed (%d %%); ask again when that is done", percent)}
}

// viewWhole runs f on a snapshot with complete indexes.
func (s *Store) viewWhole(f func(r *store.Reader) error) error {
	return s.db.View(func(r *store.Reader) error {
		if err := s.wholeIndexes(r); err != nil {
			return err
		}
		return f(r)
	})
}

// indexesOf returns the tags of the indexes that a database has, and whether it has no records.
func indexesOf(r *store.Reader) (have []byte, empty bool, err error) {
	empty = true
	if err := r.Scan(store.Range{Prefix: []byte{tagRow}, Keys: true}, func([]byte, []byte) bool { empty = false; return false }); err != nil {
		return nil, false, err
	}
	have, err = r.Get([]byte{tagIndexes})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		err = nil
	}
	return have, empty, err
}

// note writes down, with the first record of a database, which indexes it has.
func (s *Store) note(tx *store.Tx) error {
	if s.noted {
		return nil
	}
	have, empty, err := indexesOf(&tx.Reader)
	if err != nil {
		return err
	}
	if empty && len(have) == 0 {
		tx.Set([]byte{tagIndexes}, table.Indexes)
	}
	s.noted = true
	return nil
}

// Mend repairs the indexes after damage to a log of the database, and returns how many
// entries it wrote or removed.
func (s *Store) Mend(ctx context.Context) (n int, err error) {
	n, err = table.Mend(s.db, func(f func(tx *store.Tx) error) error {
		return s.change(ctx, func(tx *store.Tx) error {
			s.counts.invalidateAll()
			return f(tx)
		})
	}, func(n, of int) {
		s.repair.fixes.Store(int64(of))
		s.repair.done.Store(int64(n))
	})
	s.repair.mended.Store(err == nil)
	return n, err
}

// Upgrade makes the indexes that a database of an earlier version of weir does not have,
// and returns how many entries it wrote.
func (s *Store) Upgrade(ctx context.Context) (n int, err error) {
	var have []byte
	empty := false
	err = s.db.View(func(r *store.Reader) (err error) {
		have, empty, err = indexesOf(r)
		return err
	})
	if err != nil || empty || string(have) == string(table.Indexes) {
		return 0, err
	}
	if n, err = s.Mend(ctx); err != nil {
		return n, err
	}
	return n, s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Set([]byte{tagIndexes}, table.Indexes)
		return nil
	})
}

// Check calls f with each thing that is wrong with the indexes and the records.
func (s *Store) Check(f func(what string)) error {
	err := s.db.View(func(r *store.Reader) error { return table.CheckText(r, f) })
	// The caller finds damaged values by reading all of them. This finds those that
	// are intact and not records.
	return FirstError(err, s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tagRow}, Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
			if _, err := decodeRecord(row); err != nil {
				f(fmt.Sprintf("%q is no record", key))
			}
			return true
		})
	}))
}
