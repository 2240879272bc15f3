package calls

import (
	"context"
	"errors"
	"time"

	"weir/internal/jsontext"
	"weir/internal/quota"
	"weir/store"
)

// prepared is all that an update does to one record.
type prepared struct {
	project, id string
	key         []byte
	changes     []*Change
	fresh       Record   // what the changes make of nothing, which is the usual case
	row         []byte   // fresh, encoded
	entries     [][]byte // of fresh
	trace       string   // of the record as it is stored
}

// prepare puts the changes of a request together by calls, and encodes as much as can be
// encoded without the records that there are: the writer of the database is one goroutine
// for all requests.
func (s *Store) prepare(a Author, changes []*Change) ([]*prepared, map[*Change]*prepared) {
	now := s.now().UnixMicro()
	of := make(map[*Change]*prepared, len(changes))
	byKey := make(map[string]*prepared, len(changes))
	list := make([]*prepared, 0, len(changes))
	for _, c := range changes {
		c.rec.fields[User] = []byte(a.User)
		c.rec.Written = now
		key := RowKey(c.rec.Text(Project), c.rec.Text(ID))
		p := byKey[string(key)]
		if p == nil {
			p = &prepared{project: c.rec.Text(Project), id: c.rec.Text(ID), key: key}
			byKey[string(key)] = p
			list = append(list, p)
		}
		p.changes = append(p.changes, c)
		of[c] = p
	}
	for _, p := range list {
		if rec, _ := p.apply(nil); rec != nil {
			p.fresh = *rec
			p.row = rec.append(nil)
			p.entries = rec.entries(nil)
		}
	}
	return list, of
}

// apply makes all changes to a record. It returns nil if they change nothing.
func (p *prepared) apply(old *Record) (*Record, error) {
	rec, changed := old, false
	for _, c := range p.changes {
		next, ok := c.apply(rec)
		rec, changed = next, changed || ok
	}
	if !changed {
		return nil, nil
	}
	size := 0
	for _, f := range rec.fields {
		size += len(f)
	}
	if size > MaxRecord {
		return nil, errTooLarge
	}
	return rec, nil
}

// write writes a record in an update.
func (p *prepared) write(tx *store.Tx, sum quota.Delta) error {
	row, err := tx.Get(p.key)
	if errors.Is(err, store.ErrNotFound) {
		if p.row == nil {
			return errTooLarge
		}
		for _, e := range p.entries {
			tx.Set(e, p.key)
		}
		tx.Set(p.key, p.row)
		sum[p.project] += int64(len(p.row))
		p.trace = p.fresh.Text(TraceID)
		return nil
	}
	var old *Record
	if err == nil {
		old, err = ViewRecord(row)
	}
	if errors.Is(err, store.ErrCorrupt) {
		return &Damaged{Project: p.project, ID: p.id, Err: err}
	}
	if err != nil {
		return err
	}
	p.trace = old.Text(TraceID)
	rec, err := p.apply(old)
	if rec == nil || err != nil {
		return err
	}
	p.trace = rec.Text(TraceID)
	next := rec.append(nil)
	table.Put(tx, p.key, row, next)
	sum[p.project] += rowBytes(next) - rowBytes(row)
	return nil
}

// Write carries out a request, as a whole or not at all, and returns the answer. Who sends a
// request again changes nothing by it.
func (s *Store) Write(ctx context.Context, a Author, r *Request) ([]byte, error) {
	list, of := s.prepare(a, r.Changes)
	if err := s.put(ctx, list); err != nil {
		return nil, err
	}
	one := func(dst []byte, c *Change) []byte {
		if c.kind != start {
			return append(dst, "{}"...)
		}
		dst = jsontext.AppendString(append(dst, `{"id":`...), c.rec.Text(ID))
		trace := of[c].trace
		if trace == "" { // the call was deleted
			trace = c.rec.Text(TraceID)
		}
		return append(jsontext.AppendString(append(dst, `,"trace_id":`...), trace), '}')
	}
	switch r.Form {
	case FormComplete:
		return []byte("{}"), nil
	case FormUpsert:
		out := []byte(`{"res":[`)
		for i, c := range r.Changes {
			if i > 0 {
				out = append(out, ',')
			}
			out = one(out, c)
		}
		return append(out, "]}"...), nil
	}
	return one(nil, r.Changes[0]), nil
}

func (s *Store) put(ctx context.Context, list []*prepared) error {
	if len(list) == 0 {
		return nil
	}
	return s.update(ctx, func(tx *store.Tx) error {
		sum := quota.Delta{}
		for _, p := range list {
			if err := p.write(tx, sum); err != nil {
				return err
			}
		}
		return size.Settle(tx, sum, &s.limit)
	})
}

// Complete is a call that has ended, for programs that write calls without a request. Texts
// that are empty and values that are nil stand for null.
type Complete struct {
	Project, ID, OpName, TraceID, ParentID, ThreadID, TurnID, DisplayName, RunID, Source, Exception string

	Started, Ended time.Time // Ended may be zero: the call runs

	Attributes, Inputs, Output, Summary, OtelDump jsontext.Value // compact
	RunStep, RunStepEnd                           jsontext.Value // whole numbers
}

// Complete writes calls, all or none. Who writes a call with the same id again replaces it.
func (s *Store) Complete(ctx context.Context, a Author, finished []Complete) error {
	changes := make([]*Change, len(finished))
	for i := range finished {
		c, err := finished[i].change()
		if err != nil {
			return err
		}
		changes[i] = c
	}
	list, _ := s.prepare(a, changes)
	return s.put(ctx, list)
}

func (f *Complete) change() (*Change, error) {
	c := &Change{kind: complete}
	r := &c.rec
	r.flags, r.Started, r.Ended = hasStart, f.Started.UnixMicro(), NotEnded
	if !f.Ended.IsZero() {
		r.flags, r.Ended = hasStart|hasEnd, f.Ended.UnixMicro()
	}
	for col, text := range map[Column]string{
		Project: f.Project, ID: f.ID, OpName: f.OpName, TraceID: f.TraceID, ParentID: f.ParentID, ThreadID: f.ThreadID, TurnID: f.TurnID,
		DisplayName: f.DisplayName, RunID: f.RunID, Source: f.Source, Exception: f.Exception,
	} {
		if text != "" {
			r.fields[col] = []byte(text)
		}
	}
	for col, v := range map[Column]jsontext.Value{Attributes: f.Attributes, Inputs: f.Inputs, Output: f.Output, Summary: f.Summary, OtelDump: f.OtelDump, RunStep: f.RunStep, RunStepEnd: f.RunStepEnd} {
		if len(v) > 0 {
			r.fields[col] = v
		}
	}
	for _, col := range [...]Column{Attributes, Inputs, Summary} {
		if r.fields[col] == nil {
			r.fields[col] = []byte("{}")
		}
	}
	if r.fields[ID] == nil {
		r.fields[ID] = []byte(newID())
	}
	if r.fields[TraceID] == nil {
		r.fields[TraceID] = r.fields[ID]
	}
	d := decoder{project: f.Project}
	d.must(r, Project, nil)
	d.lengths(r, nil)
	if len(d.Issues) > 0 {
		return nil, d.Issues
	}
	return c, nil
}

// Rename gives a call another display name; "" takes it away. A call that is not there gets
// it when it starts.
func (s *Store) Rename(ctx context.Context, a Author, project, id, name string) error {
	c := &Change{kind: rename}
	c.rec.Ended = NotEnded
	c.rec.fields[Project], c.rec.fields[ID], c.rec.fields[Renamed] = []byte(project), []byte(id), append([]byte{}, name...)
	list, _ := s.prepare(a, []*Change{c})
	return s.put(ctx, list)
}
