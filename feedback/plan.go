package feedback

import (
	"crypto/sha256"
	"math"
	"slices"

	"weir/internal/query"
	"weir/store"
)

// plan says how a query is answered: which conditions the keys of indexes decide, and
// which need the record itself. A record matches if it meets all of them.
type plan struct {
	all         []byte // prefix of the index of the whole project
	from, until int64  // created_at, both inclusive
	byID        bool   // read the records of ids; whether they match is still to be decided
	ids         []string
	sets        []indexSet    // most selective first, one may hope
	onKeys      []*query.Expr // conditions on created_at and id alone
	onRows      []*query.Expr // conditions that need the record
}

// indexSet is the records that have one of some values in an index. Each value is a prefix
// of keys.
type indexSet struct {
	prefixes [][]byte
	rank     int         // of its least selective column, as an index of indexed
	expr     *query.Expr // the condition that the set stands for
}

// indexed lists the columns that have an index, the most selective first.
var indexed = []struct {
	column int
	tag    byte
}{{colRef, tagRef}, {colCall, tagCall}, {colQueue, tagQueue}, {colUser, tagUser}, {colType, tagType}}

// maxSets, with maxMerged, bounds the cursors of a query.
const maxSets = 4

func (q *Query) plan() *plan {
	p := &plan{all: store.AppendString([]byte{tagTime}, q.Project), until: maxInt}
	if q.where != nil {
		p.add(q.Project, q.where)
	}
	slices.SortStableFunc(p.sets, func(a, b indexSet) int { return a.rank - b.rank })
	for len(p.sets) > maxSets {
		p.onRows = append(p.onRows, p.sets[len(p.sets)-1].expr)
		p.sets = p.sets[:len(p.sets)-1]
	}
	return p
}

// add adds a condition that records have to meet.
func (p *plan) add(project string, n *query.Expr) {
	if n.Op == "$and" {
		for _, a := range n.Args {
			p.add(project, a)
		}
		return
	}
	if p.between(n) {
		return
	}
	if s, ok := indexSetOf(project, n); ok {
		s.expr = n
		p.sets = append(p.sets, s)
		return
	}
	if ids, ok := purgeIDs(n); ok && !p.byID {
		p.byID, p.ids = true, ids
		return
	}
	if keyed(n) {
		p.onKeys = append(p.onKeys, n)
		return
	}
	p.onRows = append(p.onRows, n)
}

// between adds a bound of created_at to the plan, or reports that n is none.
func (p *plan) between(n *query.Expr) bool {
	f, lit, op, ok := n.Sides()
	if !ok || f.Field.Column != colCreated || lit.Value.Kind != query.Num || !(lit.Value.Num.Float > 1 && lit.Value.Num.Float < 1e12) {
		return false
	}
	// Seconds are not exact as a float64, so the expression itself says for which
	// milliseconds near the bound it is true.
	truth := func(at int64) bool { return n.Truth(&Record{CreatedAt: at}, nil) }
	const slack = 4
	ms := int64(math.Floor(lit.Value.Num.Float * 1000))
	first, last := ms-slack, ms+slack
	switch op {
	case "$lt", "$lte":
		for last >= first && !truth(last) {
			last--
		}
		p.until = min(p.until, last)
		return true
	case "$gt", "$gte":
		for first <= last && !truth(first) {
			first++
		}
		p.from = max(p.from, first)
		return true
	}
	for first <= last && !truth(first) {
		first++
	}
	for last >= first && !truth(last) {
		last--
	}
	p.from, p.until = max(p.from, first), min(p.until, last)
	return true
}

// indexSetOf returns the set of a condition that an indexed column equals a text, or one
// of several texts, or of an alternative of such conditions.
func indexSetOf(project string, n *query.Expr) (s indexSet, ok bool) {
	equals := func(f, lit *query.Expr) bool { // adds a value to the set

		if f.Op != "$getField" || f.Field.Path != nil || lit.Op != "$literal" || lit.Value.Kind != query.Text {
			return false
		}
		for i, x := range indexed {
			if x.column == f.Field.Column {
				s.rank = max(s.rank, i)
				s.prefixes = append(s.prefixes, store.AppendString(store.AppendString([]byte{x.tag}, project), lit.Value.Text))
				return true
			}
		}
		return false
	}
	switch n.Op {
	case "$eq":
		f, lit, _, ok := n.Sides()
		return s, ok && equals(f, lit)
	case "$in":
		for _, lit := range n.Args[1:] {
			if !equals(n.Args[0], lit) {
				return s, false
			}
		}
		return s, len(n.Args) > 1
	case "$or":
		for _, a := range n.Args {
			some, ok := indexSetOf(project, a)
			if !ok {
				return s, false
			}
			s.prefixes, s.rank = append(s.prefixes, some.prefixes...), max(s.rank, some.rank)
		}
		return s, true
	}
	return s, false
}

// keyed reports whether n is about nothing but created_at, id and project_id.
func keyed(n *query.Expr) bool {
	if n.Op == "$getField" {
		return keyedField(&n.Field)
	}
	for _, a := range n.Args {
		if !keyed(a) {
			return false
		}
	}
	return true
}

func keyedField(f *query.Field) bool {
	return f.Path == nil && (f.Column == colCreated || f.Column == colID || f.Column == colProject)
}

// key identifies what a plan finds, except for its bounds of created_at.
func (p *plan) key() [sha256.Size]byte {
	b := slices.Clip(p.all)
	for _, s := range p.sets {
		b = s.expr.Append(b)
	}
	for _, n := range p.onKeys {
		b = n.Append(b)
	}
	for _, n := range p.onRows {
		b = n.Append(b)
	}
	return sha256.Sum256(b)
}
