package feedback

import (
	"context"
	"io"
	"strconv"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Query asks for records of one project.
type Query struct {
	Dialect Dialect
	Project string

	fields    []query.Field // nil: all columns
	count     bool          // fields is ["count(*)"]
	where     *query.Expr   // nil: all
	sort      []order       // nil: by created_at, then id
	limit     int
	offset    int
	maxListed int // for tests: a smaller maxListed; 0: the constant
}

// order is an element of sort_by.
type order struct {
	query.Field
	descending bool
}

const (
	countAll = "count(*)"
	// maxSorted bounds the records that are sorted in memory.
	maxSorted = 200_000
	maxInt    = 1 << 62
)

// Kind says which function a query is for.
type Kind int

const (
	ForQuery  Kind = iota // at most Config.MaxRows records
	ForExport             // any number of records
)

// DecodeQuery reads the body of a query, or of an export, which has no limit on its
// records (docs/interface/feedback.md, sections 8.3 and 8.8). The error is Invalid, or a
// *Refusal that comes with the query. weave says that a client of W&B Weave sent the body;
// it decides the names of columns in the answer if the body does not.
func (c *Config) DecodeQuery(body []byte, kind Kind, weave bool) (*Query, error) {
	return c.decodeQuery(nil, body, kind, weave)
}

func (c *Config) decodeQuery(meter *pace.Meter, body []byte, kind Kind, weave bool) (*Query, error) {
	loc := []string{"body"}
	p := newParser(meter)
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	q := &Query{limit: c.MaxRows}
	if kind == ForExport {
		q.limit = maxInt
	}
	m := p.Object(v, loc)
	if s := p.Text(m, "project_id", true, loc); s != nil {
		q.Project = *s
	}
	p.names(q, m, loc)
	q.where = p.Expression(m, false)
	p.order(q, m, loc)
	if n, ok := p.Integer(m, "limit", loc); ok {
		q.limit = min(n, q.limit)
	}
	if n, ok := p.Integer(m, "offset", loc); ok {
		q.offset = n
	}
	p.Extras(m, loc)
	if err := meter.Err(); err != nil {
		return nil, err
	}
	if q.Dialect, err = p.end(weave); err != nil {
		return q.refused(err)
	}
	if !q.byTime() && kind == ForQuery && q.offset+q.limit > maxSorted {
		return q, refuse("offset and limit are too large for this order")
	}
	return q, nil
}

// refused returns a query with a *Refusal, because the right to its project is checked
// before its meaning. A malformed body has no query.
func (q *Query) refused(err error) (*Query, error) {
	if _, malformed := err.(Invalid); malformed {
		return nil, err
	}
	return q, err
}

// end returns the dialect of a request, or what is wrong with it.
func (p *parser) end(weave bool) (Dialect, error) {
	if p.weave && p.weir {
		p.Issue("extra_forbidden", []string{"body", WeaveNames.traceRefName()})
	}
	if len(p.Issues) > 0 {
		return "", p.Issues
	}
	if p.Refusal != nil {
		return "", p.Refusal
	}
	if weave && !p.weir {
		return WeaveNames, nil
	}
	return p.dialect(), nil
}

// names reads the fields that are asked for.
func (p *parser) names(q *Query, m *form.Members, loc []string) {
	list := p.Take(m, "fields", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return
	}
	for i, v := range list.PacedElements(p.Meter.Bytes) {
		if i == maxFields {
			p.Refuse("fields has more than 200 names")
			return
		}
		if v.Kind() != jsontext.String {
			p.Issue("string_type", loc, "fields", strconv.Itoa(i))
			continue
		}
		if name := v.Text(); name == countAll {
			q.count = true
		} else {
			q.fields = append(q.fields, p.field(name))
		}
	}
	if q.count && len(q.fields) > 0 {
		p.Refuse(countAll + " cannot be combined with other fields")
	}
}

// order reads sort_by.
func (p *parser) order(q *Query, m *form.Members, loc []string) {
	for _, s := range p.SortBy(m, loc) {
		q.sort = append(q.sort, order{p.field(s.Field), s.Descending})
	}
}

// Query writes {"result": [...], "total_count": n} to w. The answer is one snapshot,
// however long w takes to accept it. Query ends early with the error of ctx.
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
		out := rowWriter{w: w, q: q, meter: pace.Of(ctx)}
		total, err := s.each(ctx, q, r, seen, true, func(rec *Record, n int) error {
			if n > 0 {
				out.buf = append(out.buf, ',')
			}
			return out.row(rec)
		})
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, `],"total_count":`+strconv.Itoa(total)+`}`)
		return err
	})
}

// rowWriter writes the records of an answer. It holds a part of a row, because a row can be
// as large as a payload times the number of fields.
type rowWriter struct {
	w     io.Writer
	q     *Query
	meter *pace.Meter
	buf   []byte
}

// rowPart is how much of a row is held before it is written.
const rowPart = 64 << 10

// row writes the columns of a record that the query asked for, after what is in buf.
func (o *rowWriter) row(rec *Record) error {
	if o.q.fields == nil {
		o.buf = rec.AppendJSON(o.buf, o.q.Dialect)
		return o.flush()
	}
	o.buf = append(o.buf, '{')
	for i := range o.q.fields {
		f := &o.q.fields[i]
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = append(jsontext.AppendString(o.buf, f.Name), ':')
		o.buf = appendField(o.buf, f, rec, o.meter)
		if len(o.buf) >= rowPart {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	o.buf = append(o.buf, '}')
	return o.flush()
}

// flush writes what is held.
func (o *rowWriter) flush() error {
	if err := o.meter.Spend(len(o.buf)); err != nil {
		return err
	}
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

func appendField(dst []byte, f *query.Field, rec *Record, m *pace.Meter) []byte {
	if f.Path == nil {
		return rec.appendColumn(dst, f.Column)
	}
	if v := rec.Value(f, m); v.Raw != nil {
		return append(dst, v.Raw...)
	}
	return append(dst, "null"...)
}

// total is how many records match.
func (s *Store) total(ctx context.Context, q *Query, r *store.Reader, seen uint64) (int, error) {
	return s.page(ctx, &Query{Project: q.Project, where: q.where}, r, seen, true, nil)
}

// each calls f with the records of the page, numbered from 0. With count it returns how
// many records match in all.
func (s *Store) each(ctx context.Context, q *Query, r *store.Reader, seen uint64, count bool, f func(rec *Record, n int) error) (total int, err error) {
	if !q.byTime() {
		return q.sorted(ctx, r, f)
	}
	return s.page(ctx, q, r, seen, count, f)
}

func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// byTime reports whether the order asked for is the one that indexes have: by created_at,
// then by id.
func (q *Query) byTime() bool {
	return len(q.sort) == 0 || q.sort[0].Column == colCreated && (len(q.sort) == 1 || q.sort[1].Column == colID)
}

// direction says whether an order by time is descending, and whether the ids of one
// millisecond are in the opposite order.
func (q *Query) direction() (reverse, reverseIDs bool) {
	if len(q.sort) > 0 {
		reverse = q.sort[0].descending
	}
	return reverse, reverse != (len(q.sort) > 1 && q.sort[1].descending)
}

// scan calls f with the records that match and were written since a time, by
// created_at and then id, until f returns false.
func (q *Query) scan(ctx context.Context, r *store.Reader, since int64, f func(rec *Record) bool) error {
	w, err := q.open(ctx, r, q.plan(), false)
	if err != nil {
		return err
	}
	defer w.close()
	return w.matches(since, true, func(_ *position, rec *Record) bool { return f(rec) })
}
