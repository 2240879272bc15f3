package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/store"
	"weir/trajectory"
)

// View reads one snapshot of a tenant's batches. It is for one goroutine and
// for as long as the function it was given to.
type View struct {
	r      *store.Reader
	a      *Archive
	tenant string
}

// View calls f with a snapshot of what is committed, and returns its error.
func (a *Archive) View(tenant string, f func(*View) error) error {
	if err := a.need(); errors.Is(err, store.ErrOpening) || errors.Is(err, store.ErrClosed) {
		return err // a store that is full or failing can be read
	}
	return a.db.View(func(r *store.Reader) error { return f(&View{r, a, tenant}) })
}

// Model sums up what was logged for a model.
type Model struct {
	Name        string
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
	m.Last = b.Received // batches come in order
	if b.Versions.Given {
		m.Versions.add(b.Versions.Min)
		m.Versions.add(b.Versions.Max)
	}
	at, known := sortedIndex(m.Splits, b.Split)
	if !known {
		m.Splits = append(m.Splits[:at], append([]string{b.Split}, m.Splits[at:]...)...)
	}
}

// Models calls f for every model of the tenant that has batches, in the order
// of their names, until f returns false.
func (v *View) Models(f func(*Model) bool) error {
	var m *Model
	prefix := tenantKey(tagHeader, v.tenant)
	var bad error
	err := v.scan(store.Range{Prefix: prefix}, prefix, func(b *Batch) bool {
		if m != nil && m.Name != b.Model {
			if !f(m) {
				m = nil
				return false
			}
			m = nil
		}
		if m == nil {
			m = &Model{Name: b.Model}
		}
		m.add(b)
		return true
	})
	if err == nil && m != nil {
		f(m)
	}
	return errors.Join(err, bad)
}

// scan calls f for the batches of a range. Those whose header is damaged are
// reported and passed over: the others can be read.
func (v *View) scan(r store.Range, tenant []byte, f func(*Batch) bool) error {
	return v.r.Scan(r, func(key, value []byte) bool {
		model, rest, err := store.CutString(key[len(tenant):])
		if err == nil && len(rest) != len(ID{}) {
			err = fmt.Errorf("%w: key %q", ErrDamaged, key)
		}
		var b *Batch
		if err == nil {
			b, err = decodeBatch(model, ID(rest), value)
		}
		if err != nil {
			v.a.log.Error("a batch is passed over", "error", err)
			return true
		}
		return f(b)
	})
}

// Batches calls f for the batches of a model in the order of their commits, or
// backwards, until f returns false. It begins behind the batch after; the zero
// ID is the beginning.
func (v *View) Batches(model string, after ID, backwards bool, f func(*Batch) bool) error {
	r := store.Range{Prefix: modelKey(tagHeader, v.tenant, model), Reverse: backwards}
	if after != (ID{}) {
		r.From = headerKey(v.tenant, model, after)
	}
	return v.scan(r, tenantKey(tagHeader, v.tenant), func(b *Batch) bool {
		return after != (ID{}) && b.ID == after || f(b)
	})
}

// Known reports ErrNotFound for a model that has no batches.
func (v *View) Known(model string) error {
	found := false
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
		return nil, err
	}
	return decodeBatch(model, id, value)
}

// Contents reads what is in a batch.
type Contents struct {
	Batch  *Batch
	texts  source
	rows   reader
	groups reader
	text   []byte
}

// Open returns the contents of a batch.
func (v *View) Open(b *Batch) *Contents {
	of := func(s stream) source {
		return source{r: v.r, c: v.a.codec, u: b.upload, s: s, size: b.size[s]}
	}
	return &Contents{Batch: b, texts: of(texts), rows: reader{source: of(rows)}, groups: reader{source: of(groups)}}
}

// Text returns the text of a trajectory, valid until the next call.
func (c *Contents) Text(r *Row) (trajectory.Value, error) { return c.read(r.text) }

// GroupText returns the text of a group, valid until the next call.
func (c *Contents) GroupText(g *GroupRow) (trajectory.Value, error) { return c.read(g.text) }

func (c *Contents) read(s span) (trajectory.Value, error) {
	var err error
	c.text, err = c.texts.read(c.text[:0], s.off, s.size)
	if err != nil {
		return nil, err
	}
	if len(c.text) == 0 || c.text[0] != '{' || !bytes.HasSuffix(c.text, []byte("}")) {
		return nil, fmt.Errorf("%w: no object at %d", ErrDamaged, s.off)
	}
	return c.text, nil
}

// Visitor is told what a selection finds, in order: a group before the first
// of its trajectories that are selected. An error of it ends the visit.
type Visitor struct {
	Group      func(*GroupRow) error // nil: not of interest
	Trajectory func(*Row) error
}

// Visit tells v what of the batch the filter selects. Groups of which no
// trajectory is selected are passed over, unless the filter looks at batches
// alone: then groups without trajectories are told, too.
func (c *Contents) Visit(f *Filter, v Visitor) error {
	if !f.batch(c.Batch) {
		return nil
	}
	for at := (GroupOffset{}); ; {
		next, err := c.VisitGroup(at, f, v)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		at = next
	}
}

// GroupOffset is where a group begins in its batch. The zero value is the first.
type GroupOffset struct{ group, row int64 }

// VisitGroup is Visit for the one group at a mark. It returns the next group's;
// the error is io.EOF when there is no group at the mark.
func (c *Contents) VisitGroup(at GroupOffset, f *Filter, v Visitor) (next GroupOffset, err error) {
	c.groups.off, c.rows.off = at.group, at.row
	b, err := c.groups.next()
	if err != nil {
		return at, err
	}
	if b == nil {
		return at, io.EOF
	}
	var g GroupRow
	if err := g.parse(b); err != nil {
		return at, err
	}
	g.Offset = at
	told := v.Group == nil
	tell := func() error {
		if told {
			return nil
		}
		told = true
		return v.Group(&g)
	}
	if f.whole() {
		if err := tell(); err != nil {
			return at, err
		}
	}
	var r Row
	for {
		next = GroupOffset{c.groups.off, c.rows.off}
		b, err := c.rows.next()
		if err != nil {
			return at, err
		}
		if b == nil {
			return next, nil
		}
		if err := r.parse(b); err != nil {
			return at, err
		}
		if r.Group != g.Index {
			return next, nil
		}
		ok, err := c.selects(f, &r)
		if err == nil && ok {
			if err = tell(); err == nil {
				err = v.Trajectory(&r)
			}
		}
		if err != nil {
			return at, err
		}
	}
}

func (c *Contents) selects(f *Filter, r *Row) (bool, error) {
	if !f.row(c.Batch, r) {
		return false, nil
	}
	if f.Text == "" {
		return true, nil
	}
	text, err := c.Text(r)
	if err != nil {
		return false, err
	}
	return trajectory.Contains(text, f.Text), nil
}

// errFound ends a visit that has found what it looked for.
var errFound = errors.New("found")

// Find returns one trajectory of the batch and its group, or ErrNotFound.
func (c *Contents) Find(group, index int) (row Row, g GroupRow, err error) {
	err = c.Visit(&Filter{}, Visitor{
		Group: func(r *GroupRow) error {
			if g = *r; g.Index > group {
				return ErrNotFound
			}
			return nil
		},
		Trajectory: func(r *Row) error {
			if r.Group == group && r.Index == index {
				row = *r
				return errFound
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errFound):
		return row, g, nil
	case err == nil:
		err = ErrNotFound
	}
	return row, g, err
}
