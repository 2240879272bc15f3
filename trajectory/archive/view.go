package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/pace"
	"weir/store"
	"weir/trajectory"
)

// View reads one snapshot of a tenant's batches. It may be used by one goroutine, until the
// function that it was passed to returns.
type View struct {
	r      *store.Reader
	a      *Archive
	tenant string
	meter  *pace.Meter // nil: nothing is metered

	ctx                           context.Context // whose memory is reserved; nil: none is
	spare                         int64           // bytes that are reserved and not used yet
	texts, turns, records, blocks *Room           // of the text, the turns for a filter, the row and the blocks read last
	described                     *Room           // of the facts of a text that is written again
}

// View calls f with a snapshot of what is committed, and returns its error.
func (a *Archive) View(tenant string, f func(*View) error) error {
	return a.view(&View{a: a, tenant: tenant}, f)
}

// Query is View for what a client asks for: what is read is counted (package pace), and
// reading fails with the cause of ctx soon after that has ended. What is held is reserved with
// ctx (package memory).
func (a *Archive) Query(ctx context.Context, tenant string, f func(*View) error) error {
	return a.view(&View{a: a, tenant: tenant, meter: pace.Of(ctx), ctx: ctx}, f)
}

// Pace is the pace at which what the view gives is to be read, because a single trajectory
// can have hundreds of megabytes. Whoever has worked at it asks Stopped whether it came to
// the end.
func (v *View) Pace() trajectory.Pace { return v.meter.Bytes }

// Stopped says why the work has to end; nil: it does not.
func (v *View) Stopped() error { return v.meter.Err() }

func (a *Archive) view(v *View, f func(*View) error) error {
	if err := a.waitOpen(); errors.Is(err, store.ErrOpening) || errors.Is(err, store.ErrClosed) {
		return err // a store that is full, or whose writes fail, can be read
	}
	v.texts, v.turns, v.records, v.blocks = v.Room(), v.Room(), v.Room(), v.Room()
	v.described = v.Room()
	return a.db.View(func(r *store.Reader) error {
		v.r = r
		return f(v)
	})
}

// Model sums up what was logged for a model.
type Model struct {
	Name        string
	Created     *Created // nil: it came into being with its first batch
	Splits      []string // sorted
	Batches     int
	First, Last time.Time // received
	Versions    Span
	trajectory.Counts
	Bytes int64
}

func (m *Model) add(b *Batch) {
	m.Batches++
	m.Groups += b.Groups
	m.Trajectories += b.Trajectories
	m.Exceptions += b.Exceptions
	m.Bytes += b.Bytes
	if m.First.IsZero() {
		m.First = b.Received
	}
	m.Last = b.Received // batches are in the order of their commits
	if b.Versions.Given {
		m.Versions.add(b.Versions.Min)
		m.Versions.add(b.Versions.Max)
	}
	at, known := sortedIndex(m.Splits, b.Split)
	if !known {
		m.Splits = append(m.Splits[:at], append([]string{b.Split}, m.Splits[at:]...)...)
	}
}

// Models calls f for every model of the tenant that has batches or was created, in the order
// of their names, until f returns false.
func (v *View) Models(f func(*Model) bool) error {
	created, err := v.createdModels()
	if err != nil {
		return err
	}
	going := true
	// before passes on the created models whose names come before that of a model, and says
	// whether this one was created as well. "" comes after all.
	before := func(name string) (same *Created) {
		for going && len(created) > 0 && (name == "" || created[0].ID <= name) {
			c := created[0]
			created = created[1:]
			if c.ID == name {
				return c
			}
			going = f(&Model{Name: c.ID, Created: c})
		}
		return nil
	}
	var m *Model
	prefix := tenantKey(tagHeader, v.tenant)
	err = v.scan(store.Range{Prefix: prefix}, prefix, func(b *Batch) bool {
		if m != nil && m.Name != b.Model {
			going = f(m)
			m = nil
		}
		if m == nil && going {
			m = &Model{Name: b.Model, Created: before(b.Model)}
		}
		if going {
			m.add(b)
		}
		return going
	})
	if err != nil || !going {
		return err
	}
	if m != nil {
		going = f(m)
	}
	before("")
	return nil
}

// Model sums up one model, or returns ErrNotFound.
func (v *View) Model(name string) (*Model, error) {
	m := &Model{Name: name}
	var err error
	if m.Created, err = v.Created(name); err != nil {
		return nil, err
	}
	if err := v.Batches(name, ID{}, false, func(b *Batch) bool { m.add(b); return true }); err != nil {
		return nil, err
	}
	if m.Created == nil && m.Batches == 0 {
		return nil, ErrNotFound
	}
	return m, nil
}

// scan calls f for the batches of a range until f returns false. A batch whose header is
// damaged is an error, ErrDamaged or store.ErrCorrupt: without it the answer would not be
// whole.
func (v *View) scan(r store.Range, tenant []byte, f func(*Batch) bool) error {
	var bad error
	err := v.r.Scan(r, func(key, value []byte) bool {
		if v.meter.Spend(pace.Row+len(value)) != nil {
			return false
		}
		model, rest, err := store.CutString(key[len(tenant):])
		if err == nil && len(rest) != len(ID{}) {
			err = fmt.Errorf("%w: key %q", ErrDamaged, key)
		}
		var b *Batch
		if err == nil {
			b, err = decodeBatch(model, ID(rest), value)
		}
		if err != nil {
			bad = err
			return false
		}
		return f(b)
	})
	if of := new(store.CorruptError); errors.As(err, &of) && len(of.Key) > len(ID{}) {
		err = damagedLog(idOf(of.Key), err)
	}
	return errors.Join(bad, err, v.meter.Err())
}

// Batches calls f for the batches of a model in the order of their commits, or in reverse,
// until f returns false. It begins after the batch with the id after, or with the first one
// if that is the zero ID.
func (v *View) Batches(model string, after ID, backwards bool, f func(*Batch) bool) error {
	r := store.Range{Prefix: modelKey(tagHeader, v.tenant, model), Reverse: backwards}
	if after != (ID{}) {
		r.From = headerKey(v.tenant, model, after)
	}
	return v.scan(r, tenantKey(tagHeader, v.tenant), func(b *Batch) bool {
		return after != (ID{}) && b.ID == after || f(b)
	})
}

// Known returns ErrNotFound if a model has no batches and was not created.
func (v *View) Known(model string) error {
	found, err := v.r.Has(createdKey(v.tenant, model))
	if err != nil || found {
		return err
	}
	if err := v.r.Scan(store.Range{Prefix: modelKey(tagHeader, v.tenant, model), Keys: true}, func([]byte, []byte) bool {
		found = true
		return false
	}); err != nil {
		return err
	}
	if !found {
		return ErrNotFound
	}
	return nil
}

// Batch returns one batch, or ErrNotFound.
func (v *View) Batch(model string, id ID) (*Batch, error) {
	value, err := v.r.Get(headerKey(v.tenant, model, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, damagedLog(id, err)
	}
	return decodeBatch(model, id, value)
}
