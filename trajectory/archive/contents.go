package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"weir/trajectory"
)

// Contents reads the contents of a batch.
type Contents struct {
	Batch  *Batch
	texts  source
	rows   recordStream
	groups recordStream
	text   []byte
}

// Open returns the contents of a batch.
func (v *View) Open(b *Batch) *Contents {
	of := func(s stream) source {
		return source{r: v.r, v: v, meter: v.meter, c: v.a.codec, u: b.upload, s: s, size: b.size[s]}
	}
	return &Contents{Batch: b, texts: of(texts), rows: recordStream{source: of(rows)}, groups: recordStream{source: of(groups)}}
}

// Size is about how many bytes a group and one of its trajectories take in an answer. It is
// what their texts have, and some more for what is known of them.
func (c *Contents) Size(g *GroupRow, r *Row) int64 {
	n := min(g.text.size, c.texts.size) + min(r.text.size, c.texts.size) + 1<<10
	for _, f := range r.Finish {
		n += int64(len(f))
	}
	return n
}

// Text returns the text of a trajectory, valid until the next call.
func (c *Contents) Text(r *Row) (trajectory.Value, error) {
	text, err := c.read(r.text)
	if errors.Is(err, ErrDamaged) {
		err = &Damaged{c.Batch.ID, r.Group, r.Index, err}
	}
	return text, err
}

// GroupText returns the text of a group, valid until the next call.
func (c *Contents) GroupText(g *GroupRow) (trajectory.Value, error) {
	text, err := c.read(g.text)
	return text, damagedLog(c.Batch.ID, err)
}

func (c *Contents) read(s textRange) (trajectory.Value, error) {
	buf := c.text[:0]
	if int64(cap(buf)) < s.size && s.size <= c.texts.size { // otherwise read says what is wrong
		c.text, buf = nil, nil
		if err := c.texts.v.texts.Need(s.size); err != nil {
			return nil, err
		}
		buf = make([]byte, 0, s.size)
	}
	var err error
	if c.text, err = c.texts.read(buf, s.off, s.size); err != nil {
		return nil, err
	}
	if len(c.text) == 0 || c.text[0] != '{' || !bytes.HasSuffix(c.text, []byte("}")) {
		return nil, fmt.Errorf("%w: no object at %d", ErrDamaged, s.off)
	}
	return c.text, nil
}

// Visitor has the functions that are called for a selection, in order. Group is called before
// the first selected trajectory of the group. An error ends the visit.
type Visitor struct {
	Group      func(*GroupRow) error // may be nil
	Trajectory func(*Row) error
}

// Visit calls v for what the filter selects of the batch. A group of which no trajectory is
// selected is skipped, unless all conditions of the filter are about batches: then v.Group is
// called for groups without trajectories too.
func (c *Contents) Visit(f *Filter, v Visitor) error {
	if !f.mayMatch(c.Batch) {
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

// VisitGroup is Visit for the one group at an offset. It returns the offset of the next
// group. The error is io.EOF if there is no group at the offset.
func (c *Contents) VisitGroup(at GroupOffset, f *Filter, v Visitor) (next GroupOffset, err error) {
	next, err = c.visitGroup(at, f, v)
	return next, damagedLog(c.Batch.ID, err)
}

func (c *Contents) visitGroup(at GroupOffset, f *Filter, v Visitor) (next GroupOffset, err error) {
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
	called := v.Group == nil
	callGroup := func() error {
		if called {
			return nil
		}
		called = true
		return v.Group(&g)
	}
	if f.batchesOnly() {
		if err := callGroup(); err != nil {
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
			if err = callGroup(); err == nil {
				err = v.Trajectory(&r)
			}
		}
		if err != nil {
			return at, err
		}
	}
}

// selects reports whether the filter selects a trajectory.
func (c *Contents) selects(f *Filter, r *Row) (bool, error) {
	if !f.matches(c.Batch, r) {
		return false, nil
	}
	if f.Text == "" {
		return true, nil
	}
	text, err := c.Text(r)
	if err == nil {
		err = c.texts.v.turns.Need(trajectory.TurnBytes(text, c.texts.meter.Bytes) + 2*int64(len(text))) // a content is decoded and copied
	}
	if err != nil {
		return false, err
	}
	found := trajectory.Contains(text, f.Text, c.texts.meter.Bytes)
	return found, c.texts.meter.Err()
}

// errFound ends a visit.
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
