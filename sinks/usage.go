package sinks

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
	"weir/store"
	"weir/store/outbox"
	"weir/usage"
)

// tagUsage begins the keys of the newest counts of projects, in the database of feedback.
const tagUsage = 'Z'

// Usage is the counts of projects as records of a database. The ledger that they come from knows
// no changes, so it is asked now and then. A count is a sum from the beginning on, so what is lost
// between two of them is in the second.
type Usage struct {
	db   *store.DB
	log  *outbox.Log
	read func() ([]usage.Project, int64, error)
	last map[string]usage.Counts
}

// NewUsage returns the counts that read returns, kept in db.
func NewUsage(db *store.DB, log *outbox.Log, read func() ([]usage.Project, int64, error)) *Usage {
	return &Usage{db: db, log: log, read: read, last: map[string]usage.Counts{}}
}

// Poll writes the counts that have changed. It is for one goroutine at a time.
func (u *Usage) Poll(ctx context.Context) error {
	projects, since, err := u.read()
	if err != nil {
		return err
	}
	var changed []usage.Project
	for _, p := range projects {
		if last, known := u.last[p.Name]; !known || last != p.Counts {
			changed = append(changed, p)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	now := time.Now()
	if err := u.db.Update(ctx, func(tx *store.Tx) error {
		for _, p := range changed {
			if err := u.write(tx, p, since, now); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, p := range changed {
		u.last[p.Name] = p.Counts
	}
	return nil
}

const countBytes = 8 * 5

// write writes the counts of a project, after a version and the numbers alone, if they have changed.
func (u *Usage) write(tx *store.Tx, p usage.Project, since int64, now time.Time) error {
	key := append([]byte{tagUsage}, p.Name...)
	old, err := tx.Get(key)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	version := uint64(now.UnixMilli())
	row := binary.BigEndian.AppendUint64(nil, version)
	for _, n := range []uint64{uint64(since), p.Requests, p.Prompt, p.Cached, p.Completion} {
		row = binary.BigEndian.AppendUint64(row, n)
	}
	if len(old) > 8+countBytes {
		if string(old[8:8+countBytes]) == string(row[8:]) {
			return nil
		}
		version = max(version, binary.BigEndian.Uint64(old)+1)
		binary.BigEndian.PutUint64(row, version)
	}
	row = jsontext.AppendString(append(row, `{"project":`...), p.Name)
	row = append(append(append(row, `,"at":"`...), now.UTC().Format("2006-01-02T15:04:05.000Z")...), '"')
	for _, c := range []struct {
		name string
		n    uint64
	}{{"since", uint64(since)}, {"requests", p.Requests}, {"prompt_tokens", p.Prompt}, {"cached_tokens", p.Cached}, {"completion_tokens", p.Completion}} {
		row = strconv.AppendUint(append(append(append(row, ',', '"'), c.name...), '"', ':'), c.n, 10)
	}
	tx.Set(key, append(row, '}'))
	return u.log.Note(tx, false, store.AppendUint(store.AppendString(nil, p.Name), version))
}

// Run polls every so often until ctx ends.
func (u *Usage) Run(ctx context.Context, every time.Duration, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := u.Poll(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Messages implements outbox.Source.
func (u *Usage) Messages(_ context.Context, e outbox.Entry, _ []byte, _ outbox.Limits, add func(outbox.Message)) ([]byte, error) {
	project, rest, err := store.CutString(e.Ref)
	if err != nil {
		return nil, nil
	}
	version, _, err := store.CutUint(rest)
	if err != nil {
		return nil, nil
	}
	var row []byte
	err = u.db.View(func(r *store.Reader) (err error) {
		row, err = r.Get(append([]byte{tagUsage}, project...))
		return err
	})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	if err == nil && len(row) > 8+countBytes && binary.BigEndian.Uint64(row) == version {
		add(outbox.Message{Kind: "usage", Route: strings.SplitN(project, "/", 2), Key: project, Body: row[8+countBytes:]})
	}
	return nil, err
}

// Snapshot implements outbox.Source.
func (u *Usage) Snapshot(_ context.Context, after []byte, n int) (list []outbox.Entry, at []byte, err error) {
	rg := store.Range{Prefix: []byte{tagUsage}, Damaged: func([]byte, error) {}}
	if at = after; after != nil {
		rg.From = append(after[:len(after):len(after)], 0)
	}
	err = u.db.View(func(r *store.Reader) error {
		return r.Scan(rg, func(key, row []byte) bool {
			at = append([]byte(nil), key...)
			if version, _, err := store.CutUint(row); err == nil {
				list = append(list, outbox.Entry{At: int64(version), Ref: store.AppendUint(store.AppendString(nil, string(key[1:])), version)})
			}
			return len(list) < n
		})
	})
	return list, at, err
}

// Belongings implements outbox.Source.
func (u *Usage) Belongings(outbox.Entry) [][]byte { return nil }
