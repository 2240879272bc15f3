package feedback

import (
	"context"
	"errors"
	"strings"

	"weir/store"
	"weir/store/outbox"
)

// SetChanges lets every change of a record be noted in a log, for [Changes]. It is called before
// the store is used.
func (s *Store) SetChanges(l *outbox.Log) { s.changes = l }

// recordRef names a record in the log of changes. The entry of one that was written has its time
// behind it, which every version of a record has another of.
func recordRef(project string, id [16]byte) []byte {
	return append(store.AppendString(nil, project), id[:]...)
}

// Changes makes messages of the log of changes: the records, with all columns.
func (s *Store) Changes() outbox.Source { return changes{s} }

type changes struct{ s *Store }

// Messages implements outbox.Source.
func (c changes) Messages(_ context.Context, e outbox.Entry, _ []byte, l outbox.Limits, add func(outbox.Message)) ([]byte, error) {
	project, rest, err := store.CutString(e.Ref)
	if err != nil || len(rest) < 16 {
		return nil, nil // not written by this version
	}
	id := [16]byte(rest)
	m := outbox.Message{Kind: "feedback", Route: strings.SplitN(project, "/", 2), Key: project + "/" + uuidText(id)}
	if e.Gone {
		add(m)
		return nil, nil
	}
	at, _, err := store.CutUint(rest[16:])
	if err != nil {
		return nil, nil
	}
	var rec *Record
	err = c.s.db.View(func(r *store.Reader) error {
		rec, err = get(r, project, id)
		return err
	})
	if err != nil || rec == nil || rec.CreatedAt != int64(at) {
		if errors.Is(err, store.ErrCorrupt) {
			err = nil // it is counted and logged, and must not keep the others from being sent
		}
		return nil, err // or a later entry says what has become of it
	}
	if m.Body = rec.AppendAll(nil); len(m.Body) > l.Body {
		m.Omitted = int64(len(m.Body))
		m.Body = outbox.Omitted(m.Key, m.Omitted)
	}
	add(m)
	return nil, nil
}

// Snapshot implements outbox.Source.
func (c changes) Snapshot(_ context.Context, after []byte, n int) (list []outbox.Entry, at []byte, err error) {
	rg := store.Range{Prefix: []byte{tagRow}, Damaged: func([]byte, error) {}}
	if at = after; after != nil {
		rg.From = append(after[:len(after):len(after)], 0)
	}
	err = c.s.db.View(func(r *store.Reader) error {
		return r.Scan(rg, func(key, row []byte) bool {
			at = append([]byte(nil), key...)
			if rec, err := viewRecord(row); err == nil {
				ref := append([]byte(nil), key[1:]...)
				list = append(list, outbox.Entry{At: rec.CreatedAt, Ref: store.AppendUint(ref, uint64(rec.CreatedAt))})
			}
			return len(list) < n
		})
	})
	return list, at, err
}

// Belongings implements outbox.Source.
func (c changes) Belongings(outbox.Entry) [][]byte { return nil }
