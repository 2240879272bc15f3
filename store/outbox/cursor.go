package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/jsontext"
	"weir/store"
)

// State is how far a sink has come.
type State struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"` // of the last entry that it has
	// Snapshot says that the sink gets, after the entries up to Until, all records that are
	// there; of those entries it gets only deletions.
	Snapshot bool   `json:"snapshot,omitempty"`
	Until    uint64 `json:"until,omitempty"`
	At       []byte `json:"at,omitempty"`   // the position in the snapshot
	Part     int    `json:"part,omitempty"` // how many parts of the snapshot have been sent
	// Planned is the last entry of a range that may have been sent already, as a whole and under
	// its own name; 0: there is none.
	Planned uint64 `json:"planned,omitempty"`
}

// Wants reports whether the sink is sent an entry, and does not get a snapshot in its place.
func (s *State) Wants(e Entry) bool { return e.Gone || !s.Snapshot || e.Seq > s.Until }

// needs reports whether the sink still has to get an entry.
func (s *State) needs(e Entry) bool { return e.Seq > s.Seq && s.Wants(e) }

// Cursor is the state of one sink in one log. It is on the disk.
type Cursor struct {
	log  *Log
	sink string
	wake <-chan struct{}

	mu        sync.Mutex
	state     State
	saved     State // what is on the disk
	snapshots uint64
}

// Open returns the cursors of these sinks, when the database is open, and removes those of
// others. A sink without a cursor, or whose cursor is about entries that are lost, begins with a
// snapshot.
func (l *Log) Open(ctx context.Context, sinks ...string) ([]*Cursor, error) {
	var list []*Cursor
	err := l.db.Update(ctx, func(tx *store.Tx) error {
		list = nil
		if err := l.begin(tx); err != nil {
			return err
		}
		for _, name := range sinks {
			c, err := l.load(tx, name)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return l.removeOthers(tx, sinks)
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	for _, c := range list {
		c.wake = l.wakes()
	}
	l.mu.Lock()
	l.cursors = list
	l.mu.Unlock()
	return list, nil
}

func (l *Log) load(tx *store.Tx, name string) (*Cursor, error) {
	c := &Cursor{log: l, sink: name}
	text, err := tx.Get(l.cursorKey(name))
	switch {
	case err == nil && jsontext.Decode(text, &c.state) == nil && c.state.Epoch == l.Epoch():
		c.saved = c.state
		return c, nil
	case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt):
		return nil, err
	}
	c.state = State{Epoch: l.Epoch(), Snapshot: true, Until: l.Head()}
	c.snapshots = 1
	return c, c.put(tx)
}

func (c *Cursor) put(tx *store.Tx) error {
	text, err := jsontext.Encode(c.state)
	if err == nil {
		tx.Set(c.log.cursorKey(c.sink), text)
	}
	return err
}

func (l *Log) removeOthers(tx *store.Tx, sinks []string) error {
	prefix := []byte{tagState, l.space, 'c'}
	return tx.Scan(store.Range{Prefix: prefix, Keys: true}, func(key, _ []byte) bool {
		if name, _, err := store.CutString(key[len(prefix):]); err != nil || !slices.Contains(sinks, name) {
			tx.Delete(append([]byte(nil), key...))
		}
		return true
	})
}

// State is how far the sink has come.
func (c *Cursor) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Snapshots is how many snapshots the sink has begun since the start.
func (c *Cursor) Snapshots() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshots
}

// Change changes the state and saves it. If that fails, the state has changed all the same, and
// the next change saves it: what has been sent is not sent again because a disk is full.
func (c *Cursor) Change(ctx context.Context, f func(s *State)) error {
	c.mu.Lock()
	f(&c.state)
	c.mu.Unlock()
	return c.save(ctx, func(*State) {})
}

// save calls f, in the database's order of updates, and saves the state.
func (c *Cursor) save(ctx context.Context, f func(s *State)) error {
	var written State
	err := c.log.db.Update(ctx, func(tx *store.Tx) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		f(&c.state)
		written = c.state
		return c.put(tx)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if written.Seq >= c.saved.Seq && written.Until >= c.saved.Until {
		c.saved = written
	}
	return nil
}

// Wake gets a value when there may be new entries.
func (c *Cursor) Wake() <-chan struct{} { return c.wake }

// trimAtOnce is how many entries one update of Trim removes.
const trimAtOnce = 1000

// Trim removes the entries that every sink has. A sink that lacks more than most entries is
// to get a snapshot of the records instead of them, but for deletions, which no snapshot tells.
// The newest entry stays.
func (l *Log) Trim(ctx context.Context, src Source, most uint64) error {
	l.mu.Lock()
	cursors, head, from, thinned := l.cursors, l.head, max(l.oldest, 1), l.thinned
	l.mu.Unlock()
	if len(cursors) == 0 {
		return nil
	}
	var states []State
	for _, c := range cursors {
		if err := c.fallBehind(ctx, most); err != nil {
			return err
		}
		c.mu.Lock()
		states = append(states, c.saved)
		c.mu.Unlock()
	}
	until := uint64(0) // entries up to it may be needed by nobody although one before is
	for _, s := range states {
		if s.Snapshot && s.Until > thinned {
			until = max(until, s.Until)
		}
	}
	first := uint64(0) // the first entry that stays
	for {
		list, err := l.Read(from-1, trimAtOnce)
		if err != nil {
			return err
		}
		var gone [][]byte
		for _, e := range list {
			from = e.Seq + 1
			if e.Seq < head && !slices.ContainsFunc(states, func(s State) bool { return s.needs(e) }) {
				gone = append(append(gone, l.key(e)), src.Belongings(e)...)
			} else if first == 0 {
				first = e.Seq
			}
		}
		if err := l.remove(ctx, gone); err != nil {
			return err
		}
		if len(list) < trimAtOnce || first != 0 && from > until {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first == 0 {
		first = from
	}
	l.oldest, l.thinned = first, max(thinned, until)
	return nil
}

func (l *Log) remove(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	return l.db.Update(ctx, func(tx *store.Tx) error {
		for _, k := range keys {
			tx.Delete(k)
		}
		return nil
	})
}

// fallBehind lets a sink that lacks more than most entries begin with a snapshot. It looks at the
// newest entry in an update, where all before it are in the database.
func (c *Cursor) fallBehind(ctx context.Context, most uint64) error {
	s := c.State()
	if head := c.log.Head(); head <= most || max(s.Seq, s.Until) >= head-most {
		return nil
	}
	c.mu.Lock()
	c.snapshots++
	c.mu.Unlock()
	return c.save(ctx, func(s *State) {
		s.Snapshot, s.Until, s.At, s.Part = true, c.log.Head(), nil, 0
	})
}

// Lag is how many entries the sink lacks, and how old the first of them is; 0, if there is none. A sink
// that gets a snapshot lacks at least one.
func (c *Cursor) Lag(now time.Time) (entries uint64, age time.Duration) {
	head, s := c.log.Head(), c.State()
	if s.Snapshot {
		entries = 1
	}
	if s.Seq >= head {
		return entries, 0
	}
	list, err := c.log.Read(s.Seq, 1)
	if err != nil || len(list) == 0 {
		return entries, 0
	}
	return max(entries, head-s.Seq), max(0, now.Sub(time.UnixMilli(list[0].At)))
}
