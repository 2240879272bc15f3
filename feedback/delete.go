package feedback

import (
	"context"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// DecodePurge reads the body of a purge, which may only name ids
// (docs/interface/feedback.md, section 8.4). The error is that of DecodeRequest. A
// *Refusal comes with the name of the project, because the right to it is checked first.
func DecodePurge(ctx context.Context, body []byte) (project string, ids []string, err error) {
	loc := []string{"body"}
	p := newParser(pace.Of(ctx))
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return "", nil, err
	}
	m := p.Object(v, loc)
	if s := p.Text(m, "project_id", true, loc); s != nil {
		project = *s
	}
	where := p.Expression(m, true)
	p.Extras(m, loc)
	if err := p.Meter.Err(); err != nil {
		return "", nil, err
	}
	if len(p.Issues) > 0 {
		return "", nil, p.Issues
	}
	if p.Refusal == nil {
		var ok bool
		if ids, ok = purgeIDs(where); ok {
			return project, ids, nil
		}
		p.Refuse("Can only purge feedback by specifying one or more feedback ids")
	}
	return project, nil, p.Refusal
}

// purgeIDs returns the ids of an expression that only names ids.
func purgeIDs(n *query.Expr) (ids []string, ok bool) {
	isID := func(n *query.Expr) bool {
		return n.Op == "$getField" && n.Field.Column == colID && n.Field.Path == nil && n.Field.Name == "id"
	}
	isText := func(n *query.Expr) bool { return n.Op == "$literal" && n.Value.Kind == query.Text }
	switch n.Op {
	case "$eq":
		return []string{n.Args[1].Value.Text}, isID(n.Args[0]) && isText(n.Args[1])
	case "$in":
		for _, a := range n.Args[1:] {
			if !isText(a) {
				return nil, false
			}
			ids = append(ids, a.Value.Text)
		}
		return ids, isID(n.Args[0])
	case "$or":
		for _, a := range n.Args {
			if a.Op != "$eq" {
				return nil, false
			}
			some, ok := purgeIDs(a)
			if !ok {
				return nil, false
			}
			ids = append(ids, some...)
		}
		return ids, len(n.Args) > 0
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
	p := newParser(pace.Of(ctx))
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	m := p.Object(v, loc)
	e := &Erasure{Named: map[string]string{}}
	if s := p.Text(m, "project_id", true, loc); s != nil {
		e.Project = *s
	}
	confirm := p.Text(m, "confirm", false, loc)
	if d := p.Take(m, "dry_run", false, jsontext.Bool, "bool_type", loc); d != nil {
		e.DryRun = d[0] == 't'
	}
	and := &query.Expr{Op: "$and"}
	for _, name := range []string{WeirNames.userName(), WeaveNames.userName(), "creator", WeirNames.traceRefName(), WeaveNames.traceRefName()} {
		if s := p.Text(m, name, false, loc); s != nil {
			e.Named[name] = *s
			and.Args = append(and.Args, &query.Expr{Op: "$eq", Args: []*query.Expr{{Op: "$getField", Field: p.field(name)}, {Op: "$literal", Value: query.Value{Kind: query.Text, Text: *s}}}})
		}
	}
	if s := p.Text(m, "before", false, loc); s != nil {
		e.Named["before"] = *s
		lit := &query.Expr{Op: "$literal", Value: query.Value{Kind: query.Text, Text: *s}}
		f := &query.Expr{Op: "$getField", Field: p.field("created_at")}
		p.Times(f, lit)
		and.Args = append(and.Args, &query.Expr{Op: "$lt", Args: []*query.Expr{f, lit}})
	}
	p.Extras(m, loc)
	if err := p.Meter.Err(); err != nil {
		return nil, err
	}
	if len(p.Issues) > 0 {
		return nil, p.Issues
	}
	if len(and.Args) == 0 {
		p.Refuse("Nothing to erase: name a user, a creator, a ref or a time")
	}
	if !e.DryRun && (confirm == nil || *confirm != e.Project) {
		p.Refuse("confirm must repeat the project_id")
	}
	if p.Refusal != nil {
		return e, p.Refusal
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
	lit := &query.Expr{Op: "$literal", Value: query.Value{Kind: query.Num, Num: query.Number{Float: float64(before) / 1000}}}
	f := &query.Expr{Op: "$getField", Field: query.Field{Column: colCreated, Name: "created_at"}}
	return s.deleteWhere(ctx, &Query{Project: project, where: &query.Expr{Op: "$and", Args: []*query.Expr{{Op: "$lt", Args: []*query.Expr{f, lit}}}}}, false)
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
		if err := s.viewWhole(func(r *store.Reader) error {
			return q.scan(ctx, r, since, func(rec *Record) bool {
				if q.where.Truth(rec, nil) { // the index may be damaged, so look at the record
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
				if rec != nil && q.where.Truth(rec, nil) {
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
	return s.db.View(func(r *store.Reader) error { return r.FirstStrings(tagRow, f) })
}
