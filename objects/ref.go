package objects

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// ref is a reference to an object, or to something in it.
type ref struct {
	project, object, digest string
	edges                   []edge
	table                   bool // to a table, whose digest it has
}

// edge is a step into a value: attr, key, index or id, and its argument.
type edge struct{ kind, arg string }

// maxRefs bounds the references of a request, and maxSteps how many references that stand in
// values one of them leads through.
const (
	maxRefs  = 1_000
	maxSteps = 32
)

// parseRef reads a reference such as weave:///entity/project/object/name:digest/attr/rows.
func parseRef(s string) (r ref, ok bool) {
	_, rest, ok := strings.Cut(s, ":///")
	if !ok {
		return r, false
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if len(parts) < 4 {
		return r, false
	}
	for i := range parts[:2] {
		if parts[i], ok = unescape(parts[i]); !ok || parts[i] == "" {
			return r, false
		}
	}
	r.project = parts[0] + "/" + parts[1]
	switch parts[2] {
	case "table":
		r.table, r.digest = true, parts[3]
		return r, len(parts) == 4
	case "object", "op":
	default:
		return r, false
	}
	if r.object, r.digest, ok = strings.Cut(parts[3], ":"); !ok || len(parts)%2 != 0 {
		return r, false
	}
	if r.object, ok = unescape(r.object); !ok {
		return r, false
	}
	for i := 4; i < len(parts); i += 2 {
		arg, ok := unescape(parts[i+1])
		if !ok || !slices.Contains([]string{"attr", "key", "index", "id"}, parts[i]) {
			return r, false
		}
		r.edges = append(r.edges, edge{parts[i], arg})
	}
	return r, true
}

func unescape(s string) (string, bool) {
	s, err := url.PathUnescape(s)
	return s, err == nil
}

func validProject(s string) bool {
	entity, name, ok := strings.Cut(s, "/")
	return ok && entity != "" && name != "" && !strings.Contains(name, "/") && len(s) <= maxProject
}

// Refs are references to be read.
type Refs struct {
	list []ref
	text []string
}

// DecodeRefs reads the body of a request for what references lead to.
func DecodeRefs(ctx context.Context, body []byte) (*Refs, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &Refs{text: d.list(m, "refs", true, loc)}
	if len(q.text) > maxRefs {
		d.Refuse(400, "Too many refs; at most 1000 are read at once")
	}
	if d.Refusal == nil {
		for _, s := range q.text {
			r, ok := parseRef(s)
			switch {
			case !ok:
				d.Refuse(400, "Invalid ref: "+clip(s))
			case r.table:
				d.Refuse(400, "Table refs not supported")
			}
			q.list = append(q.list, r)
		}
	}
	return q, d.End()
}

// ReadRefs writes {"vals": […]}: what the references lead to, null where it was deleted. may
// says whether the caller may read in a project.
func (s *Store) ReadRefs(ctx context.Context, q *Refs, may func(project string) bool) (answer []byte, err error) {
	m := pace.Of(ctx)
	err = s.db.View(func(r *store.Reader) error {
		answer = []byte(`{"vals":[`)
		w := follower{r: r, meter: m, may: may, lists: map[string][]*version{}}
		for i := range q.list {
			w.steps = 0
			v, err := w.read(&q.list[i])
			if err != nil {
				return err
			}
			if i > 0 {
				answer = append(answer, ',')
			}
			answer = append(answer, v...)
			if len(answer) > maxRefsAnswer {
				return refuse(400, "The values are too large for one answer; ask for fewer")
			}
		}
		answer = append(answer, "]}"...)
		return m.Err()
	})
	return answer, err
}

// Value returns what one reference leads to, a copy; nil: it is no reference to an object, leads
// nowhere, or where the caller may not read. may says where that is.
func (s *Store) Value(ctx context.Context, text string, may func(project string) bool) (v jsontext.Value, err error) {
	f, ok := parseRef(text)
	if !ok || f.table {
		return nil, nil
	}
	err = s.db.View(func(r *store.Reader) error {
		w := follower{r: r, meter: pace.Of(ctx), may: may, lists: map[string][]*version{}}
		found, err := w.read(&f)
		v = bytes.Clone(found)
		return err
	})
	var refusal *form.Refusal
	if errors.As(err, &refusal) {
		return nil, nil
	}
	return v, err
}

// maxRefsAnswer bounds an answer with the values of references.
const maxRefsAnswer = 64 << 20

// follower follows references.
type follower struct {
	r     *store.Reader
	meter *pace.Meter
	may   func(project string) bool
	lists map[string][]*version // of objects that were read
	steps int
}

var null = jsontext.Value("null")

// read is the value that a reference leads to.
func (w *follower) read(f *ref) (jsontext.Value, error) {
	if w.steps++; w.steps > maxSteps {
		return nil, refuse(400, "A ref leads through too many other refs")
	}
	if !w.may(f.project) {
		return nil, &form.Refusal{Status: 403, Reason: "Forbidden"}
	}
	name := f.project + "\x00" + f.object
	list, ok := w.lists[name]
	if !ok {
		var err error
		if list, err = versions(w.r, w.meter, f.project, f.object); err != nil {
			return nil, err
		}
		w.lists[name] = list
	}
	v := find(list, f.digest)
	if v == nil {
		return nil, refuse(404, "Obj "+f.object+":"+f.digest+" not found")
	}
	if v.Deleted != 0 {
		return null, nil
	}
	value, err := v.value(w.r, f.project)
	if err := errors.Join(err, w.meter.Spend(pace.Row+len(value))); err != nil {
		return nil, err
	}
	for _, e := range f.edges {
		if value, err = w.step(value, e); err != nil {
			return nil, err
		}
		if value == nil {
			return nil, refuse(404, "Obj "+f.object+":"+f.digest+" has no "+e.kind+" "+clip(e.arg))
		}
	}
	return value, nil
}

// step goes one step into a value. A value that is itself a reference is followed first.
func (w *follower) step(v jsontext.Value, e edge) (jsontext.Value, error) {
	for v.Kind() == jsontext.String {
		f, ok := parseRef(v.Text())
		switch {
		case !ok:
			return nil, nil
		case f.table && e.kind == "id":
			if !w.may(f.project) {
				return nil, &form.Refusal{Status: 403, Reason: "Forbidden"}
			}
			return rowOf(w.r, f.project, e.arg)
		case f.table:
			return w.row(&f, e)
		}
		var err error
		if v, err = w.read(&f); err != nil {
			return nil, err
		}
	}
	if err := w.meter.Spend(len(v)); err != nil {
		return nil, err
	}
	switch {
	case v.Kind() == jsontext.Object && (e.kind == "attr" || e.kind == "key"):
		return v.Member(e.arg), nil
	case v.Kind() == jsontext.Array && e.kind == "index":
		n, err := strconv.Atoi(e.arg)
		if err != nil {
			return nil, nil
		}
		for i, x := range v.Elements() {
			if i == n {
				return x, nil
			}
		}
	}
	return nil, nil
}

// row is the row of a table at an index.
func (w *follower) row(f *ref, e edge) (jsontext.Value, error) {
	n, err := strconv.Atoi(e.arg)
	if e.kind != "index" || err != nil {
		return nil, nil
	}
	if !w.may(f.project) {
		return nil, &form.Refusal{Status: 403, Reason: "Forbidden"}
	}
	rows, err := rowsOf(w.r, f.project, f.digest)
	if err != nil || n < 0 || n >= len(rows) {
		return nil, err
	}
	return rowOf(w.r, f.project, rows[n])
}
