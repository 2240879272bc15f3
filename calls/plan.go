package calls

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"weir/internal/query"
	"weir/store"
)

// plan says which entries of indexes a query reads. Everything that a plan leaves open is
// decided on the records.
type plan struct {
	sets        []set
	from, until int64 // started_at, both inclusive
	open        bool  // there are conditions that need the record
}

// set is the calls that have one of some values in an index.
type set struct {
	tag    byte
	values []string
	begins []string // values that begin with one of these
}

// maxSets bounds the indexes of a query, maxMerged the values of one that are merged.
const (
	maxSets   = 3
	maxMerged = 64
)

// plan chooses the indexes, the most selective first, one may hope: traces, parents,
// threads, ops, the status.
func (q *Query) plan() plan {
	p := plan{from: minSeconds * 1e6, until: (maxSeconds + 1) * 1e6}
	add := func(tag byte, values map[string]bool) {
		if len(values) <= maxMerged && len(p.sets) < maxSets {
			p.sets = append(p.sets, set{tag: tag, values: slices.Sorted(maps.Keys(values))})
			return
		}
		p.open = true
	}
	equal := map[int]map[string]bool{} // what the expression demands of columns
	rest := q.where
	if q.where != nil {
		rest = p.add(q.where, equal)
	}
	p.open = rest != nil
	for _, x := range []struct {
		tag    byte
		column Column
	}{{TagTrace, TraceID}, {TagParent, ParentID}, {TagThread, ThreadID}} {
		if values := q.filter.in[x.column]; values != nil {
			add(x.tag, values)
		} else if values := equal[int(x.column)]; values != nil {
			add(x.tag, values)
		}
		p.open = p.open || q.filter.in[x.column] != nil && equal[int(x.column)] != nil
	}
	if q.filter.rootsOnly {
		if q.filter.in[ParentID] != nil || equal[int(ParentID)] != nil {
			p.open = true
		} else {
			add(TagParent, map[string]bool{"": true})
		}
	}
	switch f := &q.filter.ops; {
	case !f.empty() && len(f.exact)+len(f.begin) <= maxMerged && len(p.sets) < maxSets:
		p.sets = append(p.sets, set{TagOp, slices.Sorted(maps.Keys(f.exact)), f.begin})
		p.open = p.open || equal[int(OpName)] != nil
	case !f.empty():
		p.open = true
	case equal[int(OpName)] != nil:
		add(TagOp, equal[int(OpName)])
	}
	if values := equal[fieldStatus]; values != nil {
		add(TagStatus, values)
	}
	for _, c := range []Column{TurnID, User, RunID} {
		p.open = p.open || q.filter.in[c] != nil
	}
	p.open = p.open || !q.filter.inputRefs.empty() || !q.filter.outputRefs.empty()
	return p
}

// add takes out of an expression what indexes decide: bounds of started_at, and columns that
// equal texts. It returns what is left, nil if that is nothing.
func (p *plan) add(n *query.Expr, equal map[int]map[string]bool) *query.Expr {
	if n.Op == "$and" {
		var left *query.Expr
		for _, a := range n.Args {
			if rest := p.add(a, equal); rest != nil {
				left = rest
			}
		}
		return left
	}
	if p.between(n) {
		return nil
	}
	if column, values, ok := equals(n); ok && equal[column] == nil {
		equal[column] = values
		return nil
	}
	return n
}

// indexed are the fields that have an index, with how their values are in it.
var indexed = map[int]bool{int(TraceID): true, int(ParentID): true, int(ThreadID): true, int(OpName): true, fieldStatus: true}

// statuses are the values of the status in its index, by their names.
var statuses = map[string]Status{"running": Running, "success": Success, "error": Failed, "descendant_error": DescendantError}

// equals returns the texts that a condition demands of an indexed field.
func equals(n *query.Expr) (column int, values map[string]bool, ok bool) {
	values = map[string]bool{}
	take := func(f, lit *query.Expr) bool {
		if f.Op != "$getField" || f.Field.Path != nil || !indexed[f.Field.Column] || lit.Op != "$literal" || lit.Value.Kind != query.Text || lit.Value.Text == "" {
			return false
		}
		column = f.Field.Column
		if column == fieldStatus {
			if s, ok := statuses[lit.Value.Text]; ok {
				values[string(rune(s))] = true
			}
			return true
		}
		values[lit.Value.Text] = true
		return true
	}
	switch n.Op {
	case "$eq":
		f, lit, _, ok := n.Sides()
		return column, values, ok && take(f, lit) || false
	case "$in":
		for _, lit := range n.Args[1:] {
			if !take(n.Args[0], lit) {
				return 0, nil, false
			}
		}
		return column, values, len(n.Args) > 1
	}
	return 0, nil, false
}

// between adds a bound of started_at to the plan, or reports that n is none.
func (p *plan) between(n *query.Expr) bool {
	f, lit, op, ok := n.Sides()
	if !ok || f.Field.Column != fieldStarted || lit.Value.Kind != query.Num || !(math.Abs(lit.Value.Num.Float) < maxSeconds) {
		return false
	}
	// Seconds are not exact as a float64, so the expression itself says for which
	// microseconds near the bound it is true.
	truth := func(us int64) bool { return n.Truth(row{&Record{Started: us}, nil}, nil) }
	const slack = 8
	us := int64(math.Floor(lit.Value.Num.Float * 1e6))
	first, last := us-slack, us+slack
	if op != "$lt" && op != "$lte" {
		for first <= last && !truth(first) {
			first++
		}
		p.from = max(p.from, first)
	}
	if op != "$gt" && op != "$gte" {
		for last >= first && !truth(last) {
			last--
		}
		p.until = min(p.until, last)
	}
	return true
}

// prefixes are what the keys of a set's values begin with, each once: several texts of begins
// may lead to one value. It returns false if there are too
// many values that begin as the set says.
func (x *set) prefixes(r *store.Reader, project string) (out [][]byte, ok bool) {
	for _, v := range x.values {
		out = append(out, IndexPrefix(x.tag, project, v))
	}
	for _, begin := range x.begins {
		whole := IndexPrefix(x.tag, project, begin)
		open := whole[:len(whole)-2] // without the mark that ends a text
		c := r.Keys(open, false)
		for key := c.Seek(open); key != nil; {
			value, _, err := store.CutString(key[len(store.AppendString([]byte{x.tag}, project)):])
			if err != nil {
				break
			}
			prefix := IndexPrefix(x.tag, project, value)
			if !slices.ContainsFunc(out, func(b []byte) bool { return bytes.Equal(b, prefix) }) {
				if out = append(out, prefix); len(out) > maxMerged {
					c.Close()
					return nil, false
				}
			}
			key = c.Seek(store.After(prefix))
		}
		c.Close()
	}
	return out, true
}
