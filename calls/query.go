package calls

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Query asks for calls of one project.
type Query struct {
	Project string
	// What an answer has beside the call.
	Feedback, Usernames, Size, TraceSize bool

	filter  filter
	where   *query.Expr // nil: all
	sort    []order     // nil: by started_at, then id
	limit   int
	offset  int
	columns []string // nil: all

	expand    []expansion // references that are followed
	collapsed bool        // they are followed to filter and to sort only
	look      lookup      // while the query runs
}

// order is an element of sort_by.
type order struct {
	query.Field
	descending bool
}

const (
	// maxSorted bounds the calls that are sorted in memory.
	maxSorted = 200_000
	// maxFilter bounds the values of one list of a filter.
	maxFilter = 10_000
	// maxColumns bounds the columns that an answer is asked to have.
	maxColumns = 200
	anyNumber  = 1 << 62
)

// The fields that are no columns of a record.
const (
	fieldStarted = int(columns) + iota
	fieldEnded
	fieldDeleted
	fieldStatus
	fieldLatency
	fieldTraceName
	fieldFeedback
)

// derived are the names of fields that are made of others.
var derived = map[string]int{
	"started_at": fieldStarted, "ended_at": fieldEnded, "deleted_at": fieldDeleted, "summary.weave.status": fieldStatus,
	"summary.weave.latency_ms": fieldLatency, "summary.weave.trace_name": fieldTraceName,
}

// DecodeQuery reads the body of a query or, with count, of a request for the number of calls.
// The error is that of DecodeRequest; a refusal comes with the query, because the right to
// its project is checked first.
func DecodeQuery(ctx context.Context, body []byte, count bool) (*Query, error) {
	loc := []string{"body"}
	p := &parser{}
	p.Meter, p.Names = pace.Of(ctx), p.field
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	q := &Query{limit: anyNumber}
	m := p.Object(v, loc)
	if s := p.Text(m, "project_id", true, loc); s != nil {
		q.Project = *s
	}
	q.expand = p.expansions(p.Texts(m, "expand_columns", false, maxExpand, loc))
	p.filter(q, m, loc)
	if q.where = p.Expression(m, false); q.where != nil && q.filter.ids == nil {
		q.filter.ids = named(q.where)
	}
	if n, ok := p.Integer(m, "limit", loc); ok && (n > 0 || !count) {
		q.limit = n
		if n == 0 {
			q.limit = anyNumber // as Weave's servers have it
		}
	} else if ok {
		p.Refuse("limit must be a positive number")
	}
	q.TraceSize = p.flag(m, "include_total_storage_size", loc)
	if v := p.Take(m, "return_expanded_column_values", false, jsontext.Bool, "bool_type", loc); v != nil {
		q.collapsed = v[0] == 'f'
	}
	if !count {
		q.offset, _ = p.Integer(m, "offset", loc)
		q.Feedback, q.Usernames, q.Size = p.flag(m, "include_feedback", loc), p.flag(m, "include_usernames", loc), p.flag(m, "include_storage_size", loc)
		p.sort(q, m, loc)
		if q.columns = p.Texts(m, "columns", false, maxColumns, loc); len(q.columns) == 0 {
			q.columns = nil // as Weave's servers have it
		}
	}
	// Other members, such as include_costs, ask for what there is not.
	if !q.byTime() && q.limit < anyNumber && q.offset+q.limit > maxSorted {
		p.Refuse("offset and limit are too large for this order")
	}
	return q, p.End()
}

// parser reads the names and expressions of one request.
type parser struct{ query.Parser }

// field is the field that a name stands for. inputs_dump is another name of inputs, and so
// with the other columns that are JSON.
func (p *parser) field(name string) query.Field {
	f := query.Field{Name: name}
	if c, ok := derived[name]; ok {
		f.Column, f.Time = c, c == fieldStarted || c == fieldEnded
		return f
	}
	if rest, ok := strings.CutPrefix(name, "feedback."); ok {
		f.Column, f.Path = fieldFeedback, p.feedbackField(rest)
		return f
	}
	first, path, deep := strings.Cut(name, ".")
	c, ok := ColumnOf(strings.TrimSuffix(first, "_dump"))
	if !ok || deep && !c.JSON() {
		p.Refuse("Unknown field: " + clip(name))
		return f
	}
	f.Column = int(c)
	if deep {
		f.Path = p.Path(path)
	}
	return f
}

// clip cuts a text that an error repeats.
func clip(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

func (p *parser) flag(m *form.Members, name string, loc []string) bool {
	v := p.Take(m, name, false, jsontext.Bool, "bool_type", loc)
	return v != nil && v[0] == 't'
}

// filter reads a filter. Empty lists ask for nothing.
func (p *parser) filter(q *Query, m *form.Members, loc []string) {
	v := p.Take(m, "filter", false, jsontext.Object, "model_attributes_type", loc)
	if v == nil {
		return
	}
	loc = append(slices.Clip(loc), "filter")
	f := p.Object(v, loc)
	q.filter.ops = newPatterns(p.Texts(f, "op_names", false, maxFilter, loc))
	q.filter.inputRefs = newPatterns(p.Texts(f, "input_refs", false, maxFilter, loc))
	q.filter.outputRefs = newPatterns(p.Texts(f, "output_refs", false, maxFilter, loc))
	q.filter.in = map[Column]map[string]bool{}
	for _, x := range filterColumns {
		if list := p.Texts(f, x.name, false, maxFilter, loc); len(list) > 0 {
			values := make(map[string]bool, len(list))
			for _, s := range list {
				values[s] = true
			}
			q.filter.in[x.column] = values
		}
	}
	if list := p.Texts(f, "call_ids", false, maxFilter, loc); len(list) > 0 {
		slices.Sort(list)
		q.filter.ids = slices.Compact(list)
	}
	q.filter.rootsOnly = p.flag(f, "trace_roots_only", loc)
}

// named are the ids that an expression demands; nil if it leaves them open.
func named(n *query.Expr) (ids []string) {
	isID := func(f, lit *query.Expr) bool {
		return f.Op == "$getField" && f.Field.Column == int(ID) && lit.Op == "$literal" && lit.Value.Kind == query.Text
	}
	switch n.Op {
	case "$and":
		for _, a := range n.Args {
			if ids := named(a); ids != nil {
				return ids
			}
		}
	case "$eq":
		if f, lit, _, ok := n.Sides(); ok && isID(f, lit) {
			return []string{lit.Value.Text}
		}
	case "$in":
		ids = []string{}
		for _, lit := range n.Args[1:] {
			if !isID(n.Args[0], lit) {
				return nil
			}
			ids = append(ids, lit.Value.Text)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	return nil
}

// filterColumns are the lists of a filter that name values of a column.
var filterColumns = []struct {
	name   string
	column Column
}{
	{"parent_ids", ParentID}, {"trace_ids", TraceID}, {"thread_ids", ThreadID}, {"turn_ids", TurnID}, {"wb_user_ids", User}, {"wb_run_ids", RunID},
}

// sort reads sort_by.
func (p *parser) sort(q *Query, m *form.Members, loc []string) {
	for _, s := range p.SortBy(m, loc) {
		q.sort = append(q.sort, order{p.field(s.Field), s.Descending})
	}
}

// byTime reports whether the order asked for is the one that indexes have: by started_at, then
// by id in the same direction.
func (q *Query) byTime() bool {
	return len(q.sort) == 0 || q.sort[0].Column == fieldStarted && (len(q.sort) == 1 || q.sort[1].Column == int(ID) && q.sort[1].descending == q.sort[0].descending)
}

// row is a record as expressions see it.
type row struct {
	*Record
	q *Query
}

// Value is the value of a field of a call.
func (r row) Value(f *query.Field, m *pace.Meter) query.Value {
	switch f.Column {
	case fieldStarted:
		return timeValue(r.Started)
	case fieldEnded:
		if r.Ended == NotEnded {
			return query.Value{Kind: query.Null}
		}
		return timeValue(r.Ended)
	case fieldDeleted:
		return query.Value{Kind: query.Null}
	case fieldFeedback:
		return r.q.look.newest(r.Text(ID), f.Path, m)
	case fieldStatus:
		return query.Value{Kind: query.Text, Text: r.Status.String()}
	case fieldLatency:
		ms, ok := r.Latency()
		if !ok {
			return query.Value{}
		}
		return query.Value{Kind: query.Num, Num: query.Number{Float: float64(ms), Small: ms, Exact: true}, Text: strconv.FormatInt(ms, 10)}
	case fieldTraceName:
		return query.Value{Kind: query.Text, Text: r.TraceName()}
	case int(DisplayName):
		if name := r.DisplayName(); name != nil {
			return query.Value{Kind: query.Text, Text: string(name)}
		}
		return query.Value{Kind: query.Null}
	}
	c := Column(f.Column)
	switch {
	case !r.Has(c) && f.Path == nil:
		return query.Value{Kind: query.Null}
	case !r.Has(c):
		return query.Value{}
	case c.JSON() && len(r.q.expand) > 0 && f.Path != nil:
		return r.q.look.at(r.Record.Value(c), c.Name(), f.Path, r.q.expand, m)
	case c.JSON():
		return query.At(r.Record.Value(c), f.Path, m)
	}
	return query.Value{Kind: query.Text, Text: r.Text(c)}
}

// timeValue is a point in time as expressions compare it: a number of seconds.
func timeValue(us int64) query.Value {
	return query.Value{Kind: query.Num, Num: query.Number{Float: float64(us) / 1e6}, Text: string(AppendTime(nil, us))}
}

// matches decides what the indexes have not. The error is that of the meter or of a lookup.
func (q *Query) matches(r *Record, m *pace.Meter) (ok bool, err error) {
	ok = q.filter.match(r, m) && (q.where == nil || q.where.Truth(row{r, q}, m))
	return ok, cmp.Or(q.look.err, m.Err())
}

// begin prepares a query to run.
func (q *Query) begin(ctx context.Context, out Outside) error {
	q.look = lookup{out: out}
	if len(q.expand) == 0 {
		return nil
	}
	return memory.Take(ctx, rememberedBytes+2*maxExpanded)
}

// Count answers a request for the number of calls.
func (s *Store) Count(ctx context.Context, q *Query, out Outside) ([]byte, error) {
	n, bytes := 0, int64(0)
	if err := q.begin(ctx, out); err != nil {
		return nil, err
	}
	err := s.db.View(func(r *store.Reader) error {
		w, err := q.open(ctx, r, false)
		if err != nil {
			return err
		}
		defer w.close()
		return w.each(q.TraceSize, func(rec *Record, _ position) (bool, error) {
			if n++; rec != nil && q.TraceSize {
				bytes += rec.Size()
			}
			return n < q.limit, nil
		})
	})
	if err != nil {
		return nil, err
	}
	answer := strconv.AppendInt([]byte(`{"count":`), int64(n), 10)
	answer = strconv.AppendBool(append(answer, `,"has_more":`...), n >= q.limit)
	answer = append(answer, `,"total_storage_size_bytes":`...)
	if !q.TraceSize {
		return append(answer, "null}"...), nil
	}
	return append(strconv.AppendInt(answer, bytes, 10), '}'), nil
}
