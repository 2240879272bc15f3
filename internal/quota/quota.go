// Package quota counts how many bytes the records of each project take in a database, and
// refuses what would take more than a project may have. The counts are written in the update
// that writes the records, so they are exact after every crash.
package quota

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/form"
	"weir/store"
)

// Limit is what a project may have. The zero Limit is none.
type Limit struct {
	Bytes int64 // 0: as many as there is room for
	// Others is how many bytes other records of a project take that count for the same limit.
	// nil: there are none.
	Others func(r *store.Reader, project string) (int64, error)
}

// allows refuses a project that grows beyond its limit: its records would take n bytes, which
// are d more than before. The status is one that makes no client repeat the request or split
// it, as 413 and 422 do.
func (l *Limit) allows(r *store.Reader, project string, n, d int64) error {
	if l.Bytes <= 0 || d <= 0 {
		return nil
	}
	if l.Others != nil {
		others, err := l.Others(r, project)
		if err != nil {
			return err
		}
		n += others
	}
	if n > l.Bytes {
		return &form.Refusal{Status: 403, Reason: fmt.Sprintf("Project %s would take %d bytes, and its quota is %d; delete some of its calls or objects first", project, n, l.Bytes)}
	}
	return nil
}

// Counter counts the bytes of records whose keys are a tag, the name of a project
// (store.AppendString) and more.
type Counter struct {
	Tag     byte                        // of the keys of the counts, which are this tag and the name of a project
	Content []byte                      // the tags of the records that count
	Size    func(key, row []byte) int64 // what a record counts for
}

// Delta is by how many bytes an update changes what projects take.
type Delta map[string]int64

func (c *Counter) key(project string) []byte { return store.AppendString([]byte{c.Tag}, project) }

// set writes the count of a project.
func (c *Counter) set(tx *store.Tx, project string, n int64) {
	if n <= 0 {
		tx.Delete(c.key(project))
		return
	}
	tx.Set(c.key(project), binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// Of is how many bytes the records of a project take. If the count is damaged, they are
// counted anew.
func (c *Counter) Of(r *store.Reader, project string) (int64, error) {
	v, err := r.Get(c.key(project))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err == nil && len(v) == 8:
		return int64(binary.BigEndian.Uint64(v)), nil
	case err != nil && !errors.Is(err, store.ErrCorrupt):
		return 0, err
	}
	return c.count(r, project)
}

// count adds up the records of a project. Damaged ones count nothing.
func (c *Counter) count(r *store.Reader, project string) (n int64, err error) {
	for _, tag := range c.Content {
		if err := r.Scan(store.Range{Prefix: store.AppendString([]byte{tag}, project), Damaged: passOver}, func(key, row []byte) bool {
			n += c.Size(key, row)
			return true
		}); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func passOver([]byte, error) {}

// Settle writes the counts of an update. A project that grows beyond the limit is refused with
// a *form.Refusal of the status 403, and then the update must not be written.
func (c *Counter) Settle(tx *store.Tx, delta Delta, limit *Limit) error {
	for project, d := range delta {
		if d == 0 {
			continue
		}
		n, err := c.Of(&tx.Reader, project)
		if err != nil {
			return err
		}
		n = max(n+d, 0)
		if err := limit.allows(&tx.Reader, project, n, d); err != nil {
			return err
		}
		c.set(tx, project, n)
	}
	return nil
}

// Wrong returns the projects whose count is not the bytes of their records, with those bytes.
func (c *Counter) Wrong(db *store.DB) (map[string]int64, error) {
	sums, counts := map[string]int64{}, map[string]int64{}
	err := db.View(func(r *store.Reader) error {
		for _, tag := range c.Content {
			if err := r.Scan(store.Range{Prefix: []byte{tag}, Damaged: passOver}, func(key, row []byte) bool {
				if project, _, err := store.CutString(key[1:]); err == nil {
					sums[project] += c.Size(key, row)
				}
				return true
			}); err != nil {
				return err
			}
		}
		return r.Scan(store.Range{Prefix: []byte{c.Tag}, Damaged: passOver}, func(key, v []byte) bool {
			if project, _, err := store.CutString(key[1:]); err == nil && len(v) == 8 {
				counts[project] = int64(binary.BigEndian.Uint64(v))
			}
			return true
		})
	})
	wrong := map[string]int64{}
	for project, n := range sums {
		if counts[project] != n {
			wrong[project] = n
		}
	}
	for project, n := range counts {
		if _, ok := sums[project]; !ok && n != 0 {
			wrong[project] = 0
		}
	}
	return wrong, err
}

// Mend writes the counts that are wrong, and returns how many those were.
func (c *Counter) Mend(ctx context.Context, db *store.DB) (n int, err error) {
	wrong, err := c.Wrong(db)
	if err != nil {
		return 0, err
	}
	for project := range wrong {
		if err := db.Update(ctx, func(tx *store.Tx) error {
			bytes, err := c.count(&tx.Reader, project)
			if err == nil {
				c.set(tx, project, bytes)
			}
			return err
		}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
