package feedback

import (
	"context"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// DecodePurge reads the body of a purge, which may only name ids
// (docs/interface/feedback.md, section 8.4). The error is that of DecodeRequest. A
// *Refusal comes with the name of the project, because the right to it is checked first.
func DecodePurge(ctx context.Context, body []byte) (project string, ids []string, err error) {
	loc := []string{"body"}
	p := parser{decoder: &decoder{meter: pace.Of(ctx)}}
	v, err := p.scan(body)
	if err != nil {
		return "", nil, err
	}
	m := p.object(v, loc)
	if s := p.text(m, "project_id", true, loc); s != nil {
		project = *s
	}
	where := p.expression(m, true)
	p.extras(m, loc)
	if err := p.meter.Err(); err != nil {
		return "", nil, err
	}
	if len(p.issues) > 0 {
		return "", nil, p.issues
	}
	if p.refusal == nil {
		var ok bool
		if ids, ok = purgeIDs(where); ok {
			return project, ids, nil
		}
		p.refuse("Can only purge feedback by specifying one or more feedback ids")
	}
	return project, nil, p.refusal
}

// purgeIDs returns the ids of an expression that only names ids.
func purgeIDs(n *expr) (ids []string, ok bool) {
	isID := func(n *expr) bool {
		return n.op == "$getField" && n.field.column == colID && n.field.path == nil && n.field.name == "id"
	}
	isText := func(n *expr) bool { return n.op == "$literal" && n.value.kind == kindText }
	switch n.op {
	case "$eq":
		return []string{n.args[1].value.text}, isID(n.args[0]) && isText(n.args[1])
	case "$in":
		for _, a := range n.args[1:] {
			if !isText(a) {
				return nil, false
			}
			ids = append(ids, a.value.text)
		}
		return ids, isID(n.args[0])
	case "$or":
		for _, a := range n.args {
			if a.op != "$eq" {
				return nil, false
			}
			some, ok := purgeIDs(a)
			if !ok {
				return nil, false
			}
			ids = append(ids, some...)
		}
		return ids, len(n.args) > 0
	}
	return nil, false
}

// Erasure names records to delete by what is in them, for requests of people to delete
// their data (docs/interface/feedback.md, section 8.8).
type Erasure struct {
	Project string
	DryRun  bool
	Named   map[string]string // the conditions as they were given, by the names of their members
	where   *Query
}

// DecodeErasure reads the body of an erasure. The error is that of DecodeRequest.
func DecodeErasure(ctx context.Context, body []byte) (*Erasure, error) {
	loc := []string{"body"}
	p := parser{decoder: &decoder{meter: pace.Of(ctx)}}
	v, err := p.scan(body)
	if err != nil {
		return nil, err
	}
	m := p.object(v, loc)
	e := &Erasure{Named: map[string]string{}}
	if s := p.text(m, "project_id", true, loc); s != nil {
		e.Project = *s
	}
	confirm := p.text(m, "confirm", false, loc)
	if d := p.take(m, "dry_run", false, jsontext.Bool, "bool_type", loc); d != nil {
		e.DryRun = d[0] == 't'
	}
	and := &expr{op: "$and"}
	for _, name := range []string{WeirNames.userName(), WeaveNames.userName(), "creator", WeirNames.traceRefName(), WeaveNames.traceRefName()} {
		if s := p.text(m, name, false, loc); s != nil {
			e.Named[name] = *s
			and.args = append(and.args, &expr{op: "$eq", args: []*expr{{op: "$getField", field: p.field(name)}, {op: "$literal", value: value{kind: kindText, text: *s}}}})
		}
	}
	if s := p.text(m, "before", false, loc); s != nil {
		e.Named["before"] = *s
		lit := &expr{op: "$literal", value: value{kind: kindText, text: *s}}
		f := &expr{op: "$getField", field: p.field("created_at")}
		p.times(f, lit)
		and.args = append(and.args, &expr{op: "$lt", args: []*expr{f, lit}})
	}
	p.extras(m, loc)
	if err := p.meter.Err(); err != nil {
		return nil, err
	}
	if len(p.issues) > 0 {
		return nil, p.issues
	}
	if len(and.args) == 0 {
		p.refuse("Nothing to erase: name a user, a creator, a ref or a time")
	}
	if !e.DryRun && (confirm == nil || *confirm != e.Project) {
		p.refuse("confirm must repeat the project_id")
	}
	if p.refusal != nil {
		return e, p.refusal
	}
	e.where = &Query{Project: e.Project, where: and}
	return e, nil
}

// Erase deletes the records that an erasure names and returns how many they are. With
// DryRun it only counts them.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	return s.deleteWhere(ctx, e.where, e.DryRun)
}

// Expire deletes the records of a project that were written before a time in
// milliseconds of Unix time, and returns how many they were.
func (s *Store) Expire(ctx context.Context, project string, before int64) (n int, err error) {
	lit := &expr{op: "$literal", value: value{kind: kindNum, num: number{float: float64(before) / 1000}}}
	f := &expr{op: "$getField", field: field{column: colCreated, name: "created_at"}}
	return s.deleteWhere(ctx, &Query{Project: project, where: &expr{op: "$and", args: []*expr{{op: "$lt", args: []*expr{f, lit}}}}}, false)
}

// deleteWhere deletes in pieces, so that no other update waits for long.
func (s *Store) deleteWhere(ctx context.Context, q *Query, dry bool) (n int, err error) {
	if dry {
		err = s.view(func(r *store.Reader, seen uint64) error {
			n, err = s.total(ctx, q, r, seen)
			return err
		})
		return n, err
	}
	const piece = 500
	since := int64(0) // records before it have been deleted; to read their remains takes long
	for {
		var ids []string
		if err := s.db.View(func(r *store.Reader) error {
			return q.scan(ctx, r, since, func(rec *Record) bool {
				if q.where.truth(rec, nil) { // the index may be damaged, so look at the record
					ids, since = append(ids, strings.Clone(rec.ID)), rec.CreatedAt
				}
				return len(ids) < piece
			})
		}); err != nil || len(ids) == 0 {
			return n, err
		}
		if err := s.change(ctx, func(tx *store.Tx) error {
			kept := ids[:0]
			for _, id := range ids { // it may have been replaced since
				u, _ := parseUUID(id)
				rec, err := get(&tx.Reader, q.Project, u)
				if err != nil {
					return err
				}
				if rec != nil && q.where.truth(rec, nil) {
					kept = append(kept, id)
				}
			}
			k, _, err := s.deleteAll(tx, q.Project, kept)
			n += k
			return err
		}); err != nil {
			return n, err
		}
	}
}

// Projects calls f with the name of every project that has records.
func (s *Store) Projects(f func(project string)) error {
	return s.db.View(func(r *store.Reader) error {
		from := []byte{tagRow}
		for from != nil {
			name := ""
			err := r.Scan(store.Range{Prefix: []byte{tagRow}, From: from, Keys: true}, func(key, _ []byte) bool {
				name, _, _ = store.CutString(key[1:])
				return false
			})
			if err != nil || name == "" {
				return err
			}
			f(strings.Clone(name))
			from = store.After(store.AppendString([]byte{tagRow}, name))
		}
		return nil
	})
}
