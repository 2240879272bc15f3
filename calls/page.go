package calls

import (
	"context"
	"io"
	"slices"
	"strings"

	"weir/feedback"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Stream writes the calls of a query to w, each as a line of JSON. The answer is one
// snapshot, however long w takes to accept it. Stream ends early with the error of ctx.
func (s *Store) Stream(ctx context.Context, q *Query, w io.Writer, outside Outside) error {
	if err := q.begin(ctx, outside); err != nil {
		return err
	}
	out := &lines{ctx: ctx, w: w, q: q, meter: pace.Of(ctx)}
	err := s.db.View(func(r *store.Reader) error {
		out.r = r
		if !q.byTime() {
			return q.sorted(ctx, r, out.write)
		}
		return q.inTime(ctx, r, out.write)
	})
	if err != nil {
		return err
	}
	return out.flush()
}

// inTime calls f with the page of an order that an index has.
func (q *Query) inTime(ctx context.Context, r *store.Reader, f func(*Record) error) error {
	walk, err := q.open(ctx, r, len(q.sort) > 0 && q.sort[0].descending)
	if err != nil {
		return err
	}
	defer walk.close()
	n := 0
	return walk.each(false, func(rec *Record, at position) (bool, error) {
		if n++; n <= q.offset {
			return true, nil
		}
		if rec == nil {
			var err error
			if rec, err = walk.record(at); err != nil {
				return false, err
			}
			if rec == nil {
				n--
				return true, nil
			}
		}
		if n-q.offset > q.limit {
			return false, nil
		}
		return n-q.offset < q.limit, f(rec)
	})
}

// lines writes calls as lines of JSON.
type lines struct {
	ctx   context.Context
	w     io.Writer
	r     *store.Reader
	q     *Query
	meter *pace.Meter
	buf   []byte
}

// linesPart is how much is held before it is written.
const linesPart = 64 << 10

// always are the columns that every answer has, and empty those that Weave's clients read
// without asking whether they are there.
var (
	always = []string{"id", "trace_id", "project_id", "op_name", "started_at"}
	empty  = []string{"attributes", "inputs"}
)

func (o *lines) write(rec *Record) (err error) {
	sizes := NoSizes
	if o.q.Size {
		sizes.Call = rec.Size()
	}
	if o.q.TraceSize && !rec.Has(ParentID) {
		if sizes.Trace, err = traceSize(o.ctx, o.r, o.q.Project, rec.Text(TraceID)); err != nil {
			return err
		}
	}
	var about jsontext.Value
	if o.q.Feedback {
		if about = o.q.look.feedback(rec.Text(ID)); about == nil {
			about = jsontext.Value("[]")
		}
	}
	o.buf = o.append(o.buf, rec, sizes, about)
	if o.q.look.err != nil {
		return o.q.look.err
	}
	o.buf = append(o.buf, '\n')
	if len(o.buf) < linesPart {
		return nil
	}
	return o.flush()
}

// append appends the columns that the query asks for.
func (o *lines) append(dst []byte, rec *Record, sizes Sizes, about jsontext.Value) []byte {
	x := expander{&o.q.look, maxExpanded}
	first := byte('{')
	for _, name := range answerColumns {
		value := o.q.columns == nil || o.wanted(name)
		if !value && !slices.Contains(empty, name) {
			continue
		}
		dst = append(append(append(append(dst, first), '"'), name...), '"', ':')
		first = ','
		switch {
		case !value:
			dst = append(dst, "{}"...)
		case o.expands(name):
			dst = x.append(dst, rec.AppendColumn(nil, name), []string{name}, o.q.expand)
		default:
			dst = rec.AppendColumn(dst, name)
		}
		if value && name == "summary" && about != nil {
			dst = append(dst[:len(dst)-len("}}")], `,"feedback":`...)
			dst = append(append(dst, about...), "}}"...)
		}
	}
	if about != nil && o.q.columns != nil && !o.wanted("summary") {
		dst = append(append(append(dst, `,"summary":{"weave":{"feedback":`...), about...), "}}"...)
	}
	if o.q.Usernames {
		dst = rec.AppendColumn(append(dst, `,"wb_username":`...), "wb_user_id")
	}
	return append(rec.AppendExtra(dst, sizes), '}')
}

// expands reports whether references in a column are followed.
func (o *lines) expands(column string) bool {
	return !o.q.collapsed && slices.ContainsFunc(o.q.expand, func(e expansion) bool { return e[0] == column })
}

// wanted reports whether a column, or something in it, was asked for.
func (o *lines) wanted(name string) bool {
	if slices.Contains(always, name) {
		return true
	}
	return slices.ContainsFunc(o.q.columns, func(s string) bool {
		first, _, _ := strings.Cut(s, ".")
		return first == name || first == name+"_dump"
	})
}

func (o *lines) flush() error {
	if err := o.meter.Spend(len(o.buf)); err != nil {
		return err
	}
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// sortRow is a call to be sorted: its id, and the values that order it.
type sortRow struct {
	id   string
	keys []query.Value
}

// maxSortBytes bounds the memory of the calls that a query sorts.
const maxSortBytes = 128 << 20

// sortRows collects the matching calls that an order sorts, within the bounds of their number and
// their memory.
func (q *Query) sortRows(ctx context.Context, w *walk) ([]sortRow, error) {
	var list []sortRow
	bytes, taken := 0, 0
	err := w.each(true, func(rec *Record, _ position) (bool, error) {
		x := sortRow{id: strings.Clone(rec.Text(ID)), keys: make([]query.Value, len(q.sort))}
		bytes += 64 + len(x.id)
		for i := range q.sort {
			x.keys[i] = row{rec, q}.Value(&q.sort[i].Field, w.meter).Detached()
			bytes += 160 + len(x.keys[i].Text)
		}
		if q.look.err != nil {
			return false, q.look.err
		}
		if list = append(list, x); len(list) > maxSorted || bytes > maxSortBytes {
			return false, &feedback.Refusal{Status: 400, Reason: "Too many calls for this order; narrow the query or sort by started_at"}
		}
		if bytes > taken {
			n := bytes/2 + 64<<10
			if err := memory.Take(ctx, int64(bytes+n-taken)); err != nil {
				return false, err
			}
			taken = bytes + n
		}
		return true, nil
	})
	return list, err
}

// sorted calls f with the page of an order that no index has.
func (q *Query) sorted(ctx context.Context, r *store.Reader, f func(*Record) error) error {
	w, err := q.open(ctx, r, false)
	if err != nil {
		return err
	}
	defer w.close()
	list, err := q.sortRows(ctx, w)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b sortRow) int {
		if w.meter.Spend(pace.Compare) != nil {
			return 0
		}
		return q.compare(&a, &b)
	})
	for n, x := range list {
		if n < q.offset {
			continue
		}
		if n-q.offset >= q.limit {
			break
		}
		if err := w.meter.Spend(pace.Row); err != nil {
			return err
		}
		rec, err := get(r, q.Project, x.id)
		if err != nil {
			return err
		}
		if rec == nil {
			continue
		}
		if err := f(rec); err != nil {
			return err
		}
	}
	return w.meter.Err()
}

// compare orders two calls as the order that was asked for does, and equal ones by id: in the
// direction of started_at if that is the last field, otherwise backwards
// (docs/interface/weave.md, W-184).
func (q *Query) compare(a, b *sortRow) int {
	for i := range q.sort {
		if c := query.Order(&a.keys[i], &b.keys[i], q.sort[i].descending); c != 0 {
			return c
		}
	}
	if last := q.sort[len(q.sort)-1]; last.Column == fieldStarted && !last.descending {
		return strings.Compare(a.id, b.id)
	}
	return -strings.Compare(a.id, b.id)
}

// traceSize adds up the sizes of the calls of a trace.
func traceSize(ctx context.Context, r *store.Reader, project, trace string) (n int64, err error) {
	q := &Query{Project: project, limit: anyNumber}
	q.filter.in = map[Column]map[string]bool{TraceID: {trace: true}}
	w, err := q.open(ctx, r, false)
	if err != nil {
		return 0, err
	}
	defer w.close()
	err = w.each(true, func(rec *Record, _ position) (bool, error) {
		n += rec.Size()
		return true, nil
	})
	return n, err
}
