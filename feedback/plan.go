package feedback

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"weir/store"
)

// plan says how a query is answered: which conditions the keys of indexes decide, and
// which need the record itself. A record matches if it meets all of them.
type plan struct {
	all         []byte // prefix of the index of the whole project
	from, until int64  // created_at, both inclusive
	byID        bool   // read the records of ids; whether they match is still to be decided
	ids         []string
	sets        []indexSet // most selective first, one may hope
	onKeys      []*expr    // conditions on created_at and id alone
	onRows      []*expr    // conditions that need the record
}

// indexSet is the records that have one of some values in an index. Each value is a prefix
// of keys.
type indexSet struct {
	prefixes [][]byte
	rank     int   // of its least selective column, as an index of indexed
	expr     *expr // the condition that the set stands for
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
func (p *plan) add(project string, n *expr) {
	if n.op == "$and" {
		for _, a := range n.args {
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
	if n.keyed() {
		p.onKeys = append(p.onKeys, n)
		return
	}
	p.onRows = append(p.onRows, n)
}

// mirrored are the comparisons with their sides exchanged.
var mirrored = map[string]string{"$eq": "$eq", "$gt": "$lt", "$gte": "$lte", "$lt": "$gt", "$lte": "$gte"}

// sides returns the field and the literal that n compares, and the comparison with the
// field on its left.
func (n *expr) sides() (f, lit *expr, op string, ok bool) {
	op, ok = mirrored[n.op]
	if !ok {
		return nil, nil, "", false
	}
	if f, lit = n.args[1], n.args[0]; n.args[0].op == "$getField" {
		f, lit, op = n.args[0], n.args[1], n.op
	}
	return f, lit, op, f.op == "$getField" && f.field.path == nil && lit.op == "$literal"
}

// between adds a bound of created_at to the plan, or reports that n is none.
func (p *plan) between(n *expr) bool {
	f, lit, op, ok := n.sides()
	if !ok || f.field.column != colCreated || lit.value.kind != kindNum || !(lit.value.num.float > 1 && lit.value.num.float < 1e12) {
		return false
	}
	// Seconds are not exact as a float64, so the expression itself says for which
	// milliseconds near the bound it is true.
	truth := func(at int64) bool { return n.truth(&Record{CreatedAt: at}, nil) }
	const slack = 4
	ms := int64(math.Floor(lit.value.num.float * 1000))
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
func indexSetOf(project string, n *expr) (s indexSet, ok bool) {
	equals := func(f, lit *expr) bool { // adds a value to the set

		if f.op != "$getField" || f.field.path != nil || lit.op != "$literal" || lit.value.kind != kindText {
			return false
		}
		for i, x := range indexed {
			if x.column == f.field.column {
				s.rank = max(s.rank, i)
				s.prefixes = append(s.prefixes, store.AppendString(store.AppendString([]byte{x.tag}, project), lit.value.text))
				return true
			}
		}
		return false
	}
	switch n.op {
	case "$eq":
		f, lit, _, ok := n.sides()
		return s, ok && equals(f, lit)
	case "$in":
		for _, lit := range n.args[1:] {
			if !equals(n.args[0], lit) {
				return s, false
			}
		}
		return s, len(n.args) > 1
	case "$or":
		for _, a := range n.args {
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
func (n *expr) keyed() bool {
	if n.op == "$getField" {
		return n.field.keyed()
	}
	for _, a := range n.args {
		if !a.keyed() {
			return false
		}
	}
	return true
}

func (f *field) keyed() bool {
	return f.path == nil && (f.column == colCreated || f.column == colID || f.column == colProject)
}

// key identifies what a plan finds, except for its bounds of created_at.
func (p *plan) key() [sha256.Size]byte {
	b := slices.Clip(p.all)
	for _, s := range p.sets {
		b = s.expr.append(b)
	}
	for _, n := range p.onKeys {
		b = n.append(b)
	}
	for _, n := range p.onRows {
		b = n.append(b)
	}
	return sha256.Sum256(b)
}

// append appends everything that affects which records n is true of.
func (n *expr) append(dst []byte) []byte {
	text := func(s string) { dst = store.AppendString(dst, s) }
	text(n.op)
	text(n.to)
	dst = append(dst, byte(n.value.kind), byte(b2i(n.value.bool)), byte(b2i(n.fold)), byte(n.field.column), byte(b2i(n.field.path == nil)))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(n.value.num.float))
	text(n.value.text)
	text(string(n.value.raw))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(n.field.path)))
	for _, s := range n.field.path {
		text(s)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(n.args)))
	for _, a := range n.args {
		dst = a.append(dst)
	}
	return dst
}
