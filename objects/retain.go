package objects

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"weir/internal/pace"
	"weir/store"
)

const (
	// removePiece is how many things are deleted at once, so that no other update waits for
	// long.
	removePiece = 500
	// rowPiece is how many rows are looked for in all tables of a project at once, which
	// takes some megabytes.
	rowPiece = 50_000
)

// Projects calls f with the name of every project that has something.
func (s *Store) Projects(f func(project string)) error {
	seen := map[string]bool{}
	return s.db.View(func(r *store.Reader) error {
		for _, tag := range append([]byte{tagObject}, contents...) {
			if err := r.FirstStrings(tag, func(name string) {
				if !seen[name] {
					seen[name] = true
					f(name)
				}
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Expire deletes what was published or sent last before a time in milliseconds of Unix time:
// versions of objects, tables, files, and the rows that no table has any more. It returns how
// many these were. What cannot be read is passed over.
func (s *Store) Expire(ctx context.Context, project string, before int64) (n int, err error) {
	d := deletion{store: s, project: project, before: before * 1000}
	err = d.run(ctx)
	return d.n, err
}

// Erasure names what is to be deleted of a project by who published it, and when.
type Erasure struct {
	Project string
	DryRun  bool
	Users   []string // it is of each of these users, so at most one makes sense
	Before  int64    // and was sent last before this time in microseconds of Unix time; 0: whenever
}

// Erase deletes what the users of an erasure have published, but not the rows that tables of
// others have, and returns how many things these were. With DryRun it only counts them. If
// something cannot be read, nobody knows whose it is, and that is an error.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	d := deletion{store: s, project: e.Project, before: e.Before, users: e.Users, dry: e.DryRun, strict: true}
	err = d.run(ctx)
	return d.n, err
}

// deletion deletes what was sent before a time and is of some users.
type deletion struct {
	store   *Store
	project string
	before  int64    // microseconds of Unix time; 0: whenever
	users   []string // nil: anybody
	dry     bool     // it is only counted
	strict  bool     // damage is an error
	n       int      // what was deleted
	kept    bool     // a table is damaged, so nobody knows which rows it has
}

// covers reports whether a row that is not damaged is to be deleted, but for rows of tables,
// which other tables may have.
func (d *deletion) covers(key, row []byte) bool {
	b, err := decodeBlob(row)
	if err != nil {
		return false
	}
	at := b.at
	if key[0] == tagObject {
		v, err := decodeVersion(key, row)
		if err != nil {
			return false
		}
		at = v.Published
	}
	if slices.ContainsFunc(d.users, func(u string) bool { return u != b.user }) {
		return false
	}
	return d.before == 0 || at < d.before
}

func (d *deletion) run(ctx context.Context) error {
	for _, tag := range []byte{tagObject, tagTable, tagFile} {
		if err := d.each(ctx, tag, removePiece, func(keys [][]byte) error { return d.remove(ctx, keys, nil) }); err != nil {
			return err
		}
	}
	return d.each(ctx, tagRow, rowPiece, func(keys [][]byte) error { return d.rows(ctx, keys) })
}

// each calls f with the keys that are covered, in pieces.
func (d *deletion) each(ctx context.Context, tag byte, piece int, f func(keys [][]byte) error) error {
	m := pace.Of(ctx)
	prefix := keyOf(tag, d.project)
	for from := prefix; from != nil; {
		var keys [][]byte
		err := d.scan(store.Range{Prefix: prefix, From: from}, func(key, row []byte) bool {
			if d.covers(key, row) {
				keys = append(keys, bytes.Clone(key))
			}
			return m.Spend(pace.Row+len(row)) == nil && len(keys) < piece
		})
		if err = errors.Join(err, m.Err()); err != nil {
			return err
		}
		from = nil
		if len(keys) == piece {
			from = append(bytes.Clone(keys[piece-1]), 0)
		}
		if len(keys) > 0 {
			if err := f(keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan reads a range. Damage is an error only if the deletion is strict.
func (d *deletion) scan(rg store.Range, f func(key, row []byte) bool) error {
	if !d.strict {
		rg.Damaged = func(key []byte, _ error) { d.kept = d.kept || key[0] == tagTable }
	}
	return d.store.db.View(func(r *store.Reader) error { return r.Scan(rg, f) })
}

// remove deletes keys that are still covered and, with a watch, not in a table by now.
func (d *deletion) remove(ctx context.Context, keys [][]byte, unused *watch) error {
	if d.dry {
		d.n += len(keys)
		return nil
	}
	n := 0
	err := d.store.update(ctx, "", func(w *writer) error {
		n = 0
		for _, key := range keys {
			row, err := w.tx.Get(key)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue
			}
			if err != nil {
				return err
			}
			if !d.covers(key, row) || unused != nil && !unused.has(digestOf(key)) {
				continue
			}
			n++
			if key[0] == tagObject {
				w.tx.Delete(key)
				key = valueKey(key)
			}
			if err := w.remove(d.project, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		d.n += n
	}
	return err
}

// digestOf is the digest at the end of the key of a row.
func digestOf(key []byte) string {
	_, rest, _ := store.CutString(key[1:])
	digest, _, _ := store.CutString(rest)
	return digest
}

// watch is a set of rows that no table is known to have. Tables that are written meanwhile
// take theirs out of it.
type watch struct {
	project string
	mu      sync.Mutex
	rows    map[string]bool
}

// keep takes rows of a table out of the set.
func (w *watch) keep(project string, digests []string) {
	if project != w.project {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range digests {
		delete(w.rows, d)
	}
}

func (w *watch) has(digest string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[digest]
}

// rows deletes those of some rows that no table has. The tables that are deleted too do not
// count. The watch begins before the tables are read: a table that was written earlier is
// read, and one that is written later takes its rows out of the watch.
func (d *deletion) rows(ctx context.Context, keys [][]byte) error {
	unused := &watch{project: d.project, rows: map[string]bool{}}
	for _, key := range keys {
		unused.rows[digestOf(key)] = true
	}
	s := d.store
	if err := s.db.Update(ctx, func(*store.Tx) error { s.watches[unused] = true; return nil }); err != nil {
		return err
	}
	// If this fails, the database takes no updates any more.
	defer func() {
		_ = s.db.Update(context.WithoutCancel(ctx), func(*store.Tx) error { delete(s.watches, unused); return nil })
	}()
	m := pace.Of(ctx)
	err := d.scan(store.Range{Prefix: keyOf(tagTable, d.project)}, func(key, row []byte) bool {
		if b, err := decodeBlob(row); err == nil && !d.covers(key, row) {
			unused.keep(d.project, strings.Split(string(b.data), "\n"))
		}
		return m.Spend(pace.Row+4*len(row)) == nil
	})
	if err = errors.Join(err, m.Err()); err != nil || d.kept {
		return err
	}
	keys = slices.DeleteFunc(keys, func(key []byte) bool { return !unused.has(digestOf(key)) })
	for len(keys) > 0 {
		some := keys[:min(removePiece, len(keys))]
		keys = keys[len(some):]
		if err := d.remove(ctx, some, unused); err != nil {
			return err
		}
	}
	return nil
}
