package queues

import (
	"context"
	"slices"
	"strconv"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
)

// The bounds of requests.
const (
	maxDepth       = 64
	maxProject     = 256
	maxID          = 256   // bytes of the id of a queue, an item or a call
	maxName        = 1024  // bytes of a queue's name
	maxDescription = 16384 // bytes
	maxScorers     = 200   // of a queue
	maxRef         = 2048  // bytes of a reference to a scorer
	maxExtra       = 64 << 10
	maxAdd         = 10_000 // calls that are added at once
	maxFields      = 100    // of an item
	maxField       = 1024   // bytes
	maxAddBytes    = 8 << 20
	maxStats       = 1000 // queues whose statistics are asked for at once
	maxOffset      = 1 << 40
)

// Request is a request about a queue. Its form is right.
type Request struct {
	Project string
	// What creates or changes a queue. nil: it is not changed.
	name, description *string
	scorers           []string
	hasScorers        bool
	extra             jsontext.Value // an object; nil: there are no other members
	// What is added.
	calls, fields []string
	state         State    // of progress
	ids           []string // of queues, for their statistics
}

// Calls are the ids of the calls that are to be added.
func (r *Request) Calls() []string { return r.calls }

// Query selects queues or items.
type Query struct {
	Project string
	Queue   string // of items
	// Position asks for the place of each item in the order.
	Position bool

	name   string // part of the name of a queue, in lower case
	filter itemFilter
	sort   []form.Sort
	limit  int // -1: all
	offset int
}

// itemFilter selects items; a nil member selects all.
type itemFilter struct {
	id, call, op, trace, by *string
	states                  map[State]bool
}

type decoder struct {
	form.Decoder
}

// begin reads the members of a body and its project.
func begin(ctx context.Context, body []byte) (*decoder, *form.Members, string, error) {
	d := &decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, nil, "", err
	}
	m := d.Object(v, root)
	project := d.text(m, "project_id", true, maxProject)
	if project == nil {
		return d, m, "", nil
	}
	return d, m, *project, nil
}

var root = []string{"body"}

// text takes a string of a bounded length.
func (d *decoder) text(m *form.Members, name string, required bool, most int) *string {
	s := d.Text(m, name, required, root)
	if s != nil && len(*s) > most {
		d.Issue("string_too_long", root, name)
	}
	return s
}

// texts takes a list of strings of a bounded length.
func (d *decoder) texts(m *form.Members, name string, required bool, most, bytes int) (list []string, ok bool) {
	list = d.Texts(m, name, required, most, root)
	for i, s := range list {
		if len(s) > bytes {
			d.Issue("string_too_long", root, name, strconv.Itoa(i))
		}
	}
	return list, list != nil
}

// number takes a whole number that is not negative; -1: there is none.
func (d *decoder) number(m *form.Members, name string) int {
	v := d.Take(m, name, false, jsontext.Number, "int_type", root)
	if v == nil {
		return -1
	}
	x, ok := v.Float()
	switch {
	case !ok || x != float64(int64(x)) || x > maxOffset:
		d.Issue("int_type", root, name)
		return -1
	case x < 0:
		d.Refuse(400, name+" must not be negative")
		return -1
	}
	return int(x)
}

// rest returns the members that have not been taken, as an object; nil if there are none.
func (d *decoder) rest(m *form.Members) jsontext.Value {
	var out []byte
	for _, name := range m.Names {
		v, ok := m.Values[name]
		if !ok || ours[name] {
			continue
		}
		out = append(out, ",{"[b2i(out == nil)])
		out = append(jsontext.AppendString(out, name), ':')
		out = jsontext.AppendCompact(out, v)
		delete(m.Values, name)
		if len(out) > maxExtra {
			d.Refuse(413, "The members of the request that are not known here take more than 64 KiB")
			return nil
		}
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ours are members that only the server sets.
var ours = map[string]bool{"id": true, "queue_id": true, "wb_user_id": true, "created_at": true, "created_by": true, "updated_at": true, "deleted_at": true}

// DecodeCreate reads the body of a creation. The error is an Invalid, a *Refusal, or the cause
// of ctx. With a *Refusal the request has the project, because rights are checked first; so
// it is with all functions here.
func DecodeCreate(ctx context.Context, body []byte) (*Request, error) {
	return decodeQueueBody(ctx, body, true)
}

// DecodeUpdate reads the body of a change of a queue.
func DecodeUpdate(ctx context.Context, body []byte) (*Request, error) {
	return decodeQueueBody(ctx, body, false)
}

func decodeQueueBody(ctx context.Context, body []byte, create bool) (*Request, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	r := &Request{Project: project}
	r.name = d.text(m, "name", create, maxName)
	r.description = d.text(m, "description", false, maxDescription)
	r.scorers, r.hasScorers = d.texts(m, "scorer_refs", create, maxScorers, maxRef)
	if m != nil {
		r.extra = d.rest(m)
	}
	return r, d.End()
}

// DecodeAdd reads the body that adds calls to a queue.
func DecodeAdd(ctx context.Context, body []byte) (*Request, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	r := &Request{Project: project}
	r.calls, _ = d.texts(m, "call_ids", true, maxAdd, maxID)
	r.fields, _ = d.texts(m, "display_fields", true, maxFields, maxField)
	size := 0
	for _, f := range r.fields {
		size += len(f)
	}
	if size*len(r.calls) > maxAddBytes {
		d.Refuse(413, "The display fields of so many calls take more than 8 MiB; add fewer calls at once")
	}
	return r, d.End()
}

// DecodeProgress reads the body that sets the state of an item.
func DecodeProgress(ctx context.Context, body []byte) (*Request, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	r := &Request{Project: project}
	if s := d.Text(m, "annotation_state", true, root); s != nil {
		switch r.state = State(*s); r.state {
		case InProgress, Completed, Skipped:
		default:
			d.Refuse(400, "annotation_state must be one of completed, in_progress, skipped")
		}
	}
	return r, d.End()
}

// DecodeStats reads the body that asks for the statistics of queues.
func DecodeStats(ctx context.Context, body []byte) (*Request, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	r := &Request{Project: project}
	r.ids, _ = d.texts(m, "queue_ids", true, maxStats, maxID)
	return r, d.End()
}

// DecodeQuery reads a query for queues.
func DecodeQuery(ctx context.Context, body []byte) (*Query, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	q := &Query{Project: project}
	if s := d.text(m, "name", false, maxName); s != nil {
		q.name = lower(*s)
	}
	d.page(m, q, "id", "name", "created_at", "updated_at")
	return q, d.End()
}

// DecodeItemQuery reads a query for the items of a queue.
func DecodeItemQuery(ctx context.Context, body []byte, queue string) (*Query, error) {
	d, m, project, err := begin(ctx, body)
	if err != nil {
		return nil, err
	}
	q := &Query{Project: project, Queue: queue}
	d.page(m, q, "call_started_at", "call_op_name", "created_at", "updated_at")
	if v := d.Take(m, "include_position", false, jsontext.Bool, "bool_type", root); v != nil {
		q.Position = v[0] == 't'
	}
	if v := d.Take(m, "filter", false, jsontext.Object, "dict_type", root); v != nil {
		d.filter(v, &q.filter)
	}
	return q, d.End()
}

func (d *decoder) filter(v jsontext.Value, f *itemFilter) {
	loc := []string{"body", "filter"}
	m := d.Object(v, loc)
	for name, to := range map[string]**string{"id": &f.id, "call_id": &f.call, "call_op_name": &f.op, "call_trace_id": &f.trace, "added_by": &f.by} {
		*to = d.Text(m, name, false, loc)
	}
	list := d.Take(m, "annotation_states", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return
	}
	for i, e := range list.PacedElements(d.Meter.Bytes) {
		s := State("")
		if e.Kind() == jsontext.String {
			s = State(e.Text())
		}
		switch s {
		case Unstarted, InProgress, Completed, Skipped:
			if f.states == nil {
				f.states = map[State]bool{}
			}
			f.states[s] = true
		default:
			d.Issue("literal_error", loc, "annotation_states", strconv.Itoa(i))
		}
	}
}

// page takes what says which part of the answer is wanted, and in which order. Fields that
// the order cannot have are passed over, as Weave's server does.
func (d *decoder) page(m *form.Members, q *Query, fields ...string) {
	q.limit, q.offset = d.number(m, "limit"), max(d.number(m, "offset"), 0)
	for _, s := range d.SortBy(m, root) {
		if slices.Contains(fields, s.Field) {
			q.sort = append(q.sort, s)
		}
	}
}
