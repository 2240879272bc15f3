package feedback

import (
	"bytes"
	"container/heap"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/store"
)

// Query asks for records of one project.
type Query struct {
	Dialect Dialect
	Project string

	fields []field // nil: all columns
	count  bool    // fields is ["count(*)"]
	where  *expr   // nil: all
	sort   []order // nil: by created_at, then id
	limit  int
	offset int
	listed int // maxListed, if not 0
}

type order struct {
	field
	descending bool
}

const (
	countAll = "count(*)"
	// maxSorted bounds the rows that are sorted in memory.
	maxSorted = 200_000
	maxInt    = 1 << 62
)

// Kind says which function a query is for.
type Kind int

const (
	ForQuery Kind = iota
	ForExport
)

// DecodeQuery reads the body of a query, or of an export, which has no limit on
// its rows. Its error is
// Invalid, or a *Refusal, which comes with the query. theirs says that a client of the
// reference sent it, which decides the names of an answer where the body does not.
func (c *Config) DecodeQuery(body []byte, kind Kind, theirs bool) (*Query, error) {
	v, err := scan(body)
	if err != nil {
		return nil, err
	}
	loc := []string{"body"}
	p := parser{decoder: &decoder{}}
	q := &Query{limit: c.MaxRows}
	if kind == ForExport {
		q.limit = maxInt
	}
	m := p.object(v, loc)
	if s := p.text(m, "project_id", true, loc); s != nil {
		q.Project = *s
	}
	p.names(q, m, loc)
	q.where = p.expression(m, false)
	p.order(q, m, loc)
	if n, ok := p.integer(m, "limit", loc); ok {
		q.limit = min(n, q.limit)
	}
	if n, ok := p.integer(m, "offset", loc); ok {
		q.offset = n
	}
	p.extras(m, loc)
	if q.Dialect, err = p.end(theirs); err != nil {
		return q.refused(err)
	}
	if !q.byTime() && kind == ForQuery && q.offset+q.limit > maxSorted {
		return q, refuse("offset and limit are too large for this order")
	}
	return q, nil
}

// refused keeps a query whose form is right, since permission is asked before the
// rest is judged.
func (q *Query) refused(err error) (*Query, error) {
	if _, malformed := err.(Invalid); malformed {
		return nil, err
	}
	return q, err
}

// end is the dialect of a request, or what is wrong with it.
func (p *parser) end(theirs bool) (Dialect, error) {
	if p.theirs && p.ours {
		p.issue("extra_forbidden", []string{"body", WeaveNames.traceRefName()})
	}
	if len(p.issues) > 0 {
		return "", p.issues
	}
	if p.refusal != nil {
		return "", p.refusal
	}
	if theirs && !p.ours {
		return WeaveNames, nil
	}
	return p.dialect(), nil
}

func (p *parser) names(q *Query, m *members, loc []string) {
	list := p.take(m, "fields", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return
	}
	for i, v := range list.Elements() {
		if v.Kind() != jsontext.String {
			p.issue("string_type", loc, "fields", strconv.Itoa(i))
			continue
		}
		if name := v.Text(); name == countAll {
			q.count = true
		} else {
			q.fields = append(q.fields, p.field(name))
		}
	}
	if q.count && len(q.fields) > 0 {
		p.refuse(countAll + " cannot be combined with other fields")
	}
}

func (p *parser) order(q *Query, m *members, loc []string) {
	list := p.take(m, "sort_by", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return
	}
	for i, v := range list.Elements() {
		loc := append(slices.Clip(loc), "sort_by", strconv.Itoa(i))
		o := p.object(v, loc)
		name, direction := p.text(o, "field", true, loc), p.text(o, "direction", true, loc)
		p.extras(o, loc)
		if name == nil || direction == nil {
			continue
		}
		if *direction != "asc" && *direction != "desc" {
			p.issue("literal_error", loc, "direction")
			continue
		}
		q.sort = append(q.sort, order{p.field(*name), *direction == "desc"})
	}
}

// integer takes a number of rows; ok is false if there is none.
func (p *parser) integer(m *members, name string, loc []string) (n int, ok bool) {
	v := p.take(m, name, false, jsontext.Number, "int_type", loc)
	if v == nil {
		return 0, false
	}
	num, _ := parseNumber(string(v))
	switch {
	case !num.integer():
		p.issue("int_type", loc, name)
		return 0, false
	case num.float < 0:
		p.refuse(name + " must not be negative")
		return 0, false
	case !num.exact || num.small > maxInt/4:
		return maxInt / 4, true
	}
	return int(num.small), true
}

// Query writes {"result": [...], "total_count": n}. It reads one snapshot, however
// long w takes, and ends early with ctx.
func (s *Store) Query(ctx context.Context, q *Query, w io.Writer) error {
	return s.view(func(r *store.Reader, seen uint64) error {
		if q.count {
			n, err := s.total(ctx, q, r, seen)
			if err != nil {
				return err
			}
			_, err = w.Write([]byte(`{"result":[{"` + countAll + `":` + strconv.Itoa(n) + `}],"total_count":` + strconv.Itoa(n) + `}`))
			return err
		}
		if _, err := io.WriteString(w, `{"result":[`); err != nil {
			return err
		}
		var buf []byte
		total, err := s.each(ctx, q, r, seen, true, func(rec *Record, n int) error {
			buf = buf[:0]
			if n > 0 {
				buf = append(buf, ',')
			}
			buf = q.appendRow(buf, rec)
			_, err := w.Write(buf)
			return err
		})
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, `],"total_count":`+strconv.Itoa(total)+`}`)
		return err
	})
}

// appendRow appends what a query asked for of a record.
func (q *Query) appendRow(dst []byte, rec *Record) []byte {
	if q.fields == nil {
		return rec.AppendJSON(dst, q.Dialect)
	}
	dst = append(dst, '{')
	for i := range q.fields {
		f := &q.fields[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, f.name), ':')
		dst = f.appendJSON(dst, rec)
	}
	return append(dst, '}')
}

func (f *field) appendJSON(dst []byte, rec *Record) []byte {
	if f.path == nil {
		return rec.appendColumn(dst, f.column)
	}
	if v := f.get(rec); v.raw != nil {
		return append(dst, v.raw...)
	}
	return append(dst, "null"...)
}

// total is how many records match.
func (s *Store) total(ctx context.Context, q *Query, r *store.Reader, seen uint64) (int, error) {
	return s.page(ctx, &Query{Project: q.Project, where: q.where}, r, seen, true, nil)
}

// each calls f with the records of a page, numbered from 0, and returns how many
// match in all, if count asks for that.
func (s *Store) each(ctx context.Context, q *Query, r *store.Reader, seen uint64, count bool, f func(rec *Record, n int) error) (total int, err error) {
	if !q.byTime() {
		return q.sorted(ctx, r, f)
	}
	return s.page(ctx, q, r, seen, count, f)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// byTime reports whether the indexes have the order asked for: by created_at, then
// by id.
func (q *Query) byTime() bool {
	return len(q.sort) == 0 || q.sort[0].column == colCreated && (len(q.sort) == 1 || q.sort[1].column == colID)
}

// direction says which way an order by time goes, and whether the ids of one
// millisecond go the other way.
func (q *Query) direction() (reverse, flip bool) {
	if len(q.sort) > 0 {
		reverse = q.sort[0].descending
	}
	return reverse, reverse != (len(q.sort) > 1 && q.sort[1].descending)
}

// row is a record to be sorted: where it is, and what decides its place.
type row struct {
	at   place
	keys []value
}

// rows is a heap whose root is the row that comes last.
type rows struct {
	list []row
	sort []order
}

func (h *rows) Len() int           { return len(h.list) }
func (h *rows) Less(i, j int) bool { return h.before(&h.list[j], &h.list[i]) }
func (h *rows) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *rows) Push(x any)         { h.list = append(h.list, x.(row)) }
func (h *rows) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// rank orders kinds (rule 8): numbers, text, others, and last what is not there.
func rank(v *value) int {
	switch v.kind {
	case kindNum:
		return 0
	case kindText:
		return 1
	case kindBool:
		return 2
	case kindMissing:
		return 4
	}
	return 3
}

func (h *rows) before(a, b *row) bool {
	for i := range h.sort {
		va, vb := &a.keys[i], &b.keys[i]
		if ra, rb := rank(va), rank(vb); ra != rb {
			return ra < rb
		}
		if c, ok := compareValues(*va, *vb); ok && c != 0 {
			return c < 0 != h.sort[i].descending
		}
	}
	return bytes.Compare(a.at[8:], b.at[8:]) < 0
}

// sorted is each for an order that no index has: the rows of the page and those in
// front of it are held in memory, without their records.
func (q *Query) sorted(ctx context.Context, r *store.Reader, f func(rec *Record, n int) error) (total int, err error) {
	keyed := true // the order can be told by keys
	for i := range q.sort {
		keyed = keyed && q.sort[i].keyed()
	}
	w, err := q.open(ctx, r, q.plan(), false)
	if err != nil {
		return 0, err
	}
	defer w.close()
	most := q.offset + q.limit
	h := rows{sort: q.sort}
	full := false
	if err := w.matches(0, !keyed, func(at *place, rec *Record) bool {
		total++
		if most == 0 {
			return true
		}
		next := row{at: *at, keys: make([]value, len(q.sort))}
		for i := range q.sort {
			next.keys[i] = q.sort[i].get(rec)
		}
		if len(h.list) == most {
			if !h.before(&next, &h.list[0]) {
				return true
			}
			heap.Pop(&h)
		} else if len(h.list) == maxSorted {
			full = true
			return false
		}
		for i := range next.keys {
			next.keys[i] = next.keys[i].own()
		}
		heap.Push(&h, next)
		return true
	}); err != nil {
		return 0, err
	}
	if full {
		return 0, refuse("Too many rows for this order; narrow the query or sort by created_at")
	}
	slices.SortFunc(h.list, func(a, b row) int { return b2i(h.before(&b, &a)) - b2i(h.before(&a, &b)) })
	n := 0
	for i := min(q.offset, len(h.list)); i < len(h.list); i++ {
		rec, err := w.record(&h.list[i].at)
		if err != nil {
			return 0, err
		}
		if rec == nil {
			continue
		}
		if err := f(rec, n); err != nil {
			return 0, err
		}
		n++
	}
	return total, nil
}

// own is v without a hold on its record, and no longer than an order needs.
func (v value) own() value {
	v.text, v.raw = strings.Clone(v.text[:min(len(v.text), 256)]), nil
	return v
}

// scan calls f with the records that match and were written since a time, by
// created_at and then id, until f returns false.
func (q *Query) scan(ctx context.Context, r *store.Reader, since int64, f func(rec *Record) bool) error {
	w, err := q.open(ctx, r, q.plan(), false)
	if err != nil {
		return err
	}
	defer w.close()
	return w.matches(since, true, func(_ *place, rec *Record) bool { return f(rec) })
}
