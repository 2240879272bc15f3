package calls

import (
	"context"
	"strconv"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// Single is a request about calls by their ids: to read, rename or delete them.
type Single struct {
	Project string
	IDs     []string // one, except for a deletion
	Name    string   // the display name of an update
	// Size and TraceSize ask for the bytes of a call and of its trace.
	Size, TraceSize bool
}

// maxDelete bounds the ids of a deletion.
const maxDelete = 10_000

// DecodeRead reads {"project_id", "id", …}. The error is that of DecodeRequest.
func DecodeRead(ctx context.Context, body []byte) (*Single, error) {
	return decodeSingle(ctx, body, func(d *decoder, v jsontext.Value, s *Single) {
		s.IDs = []string{d.single(v, "id")}
		s.Size, s.TraceSize = d.flag(v, "include_storage_size"), d.flag(v, "include_total_storage_size")
		d.flag(v, "include_costs") // costs are left out
	})
}

// DecodeUpdate reads {"project_id", "call_id", "display_name"}. The error is that of
// DecodeRequest.
func DecodeUpdate(ctx context.Context, body []byte) (*Single, error) {
	return decodeSingle(ctx, body, func(d *decoder, v jsontext.Value, s *Single) {
		s.IDs = []string{d.single(v, "call_id")}
		name := v.Member("display_name")
		switch {
		case !name.Given():
			d.Refuse(400, "One of [display_name] is required for call update")
		case name.Kind() != jsontext.String:
			d.Issue("string_type", []string{"body"}, "display_name")
		default:
			s.Name = name.Text()
		}
		if len(s.Name) > MaxName {
			d.Issue("string_too_long", []string{"body"}, "display_name")
		}
	})
}

// DecodeDelete reads {"project_id", "call_ids"}. The error is that of DecodeRequest.
func DecodeDelete(ctx context.Context, body []byte) (*Single, error) {
	return decodeSingle(ctx, body, func(d *decoder, v jsontext.Value, s *Single) {
		list, loc := v.Member("call_ids"), []string{"body", "call_ids"}
		switch {
		case list == nil:
			d.Issue("missing", loc)
			return
		case list.Kind() != jsontext.Array:
			d.Issue("list_type", loc)
			return
		}
		for i, e := range list.PacedElements(d.Meter.Bytes) {
			switch {
			case i == maxDelete:
				d.Refuse(413, "A request may delete at most "+strconv.Itoa(maxDelete)+" calls, and the calls below them")
				return
			case e.Kind() != jsontext.String:
				d.Issue("string_type", loc, strconv.Itoa(i))
			default:
				s.IDs = append(s.IDs, e.Text())
			}
		}
	})
}

func decodeSingle(ctx context.Context, body []byte, f func(d *decoder, v jsontext.Value, s *Single)) (*Single, error) {
	d := decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	if v.Kind() != jsontext.Object {
		return nil, form.Invalid{form.NewIssue("model_attributes_type", "body")}
	}
	s := &Single{Project: d.single(v, "project_id")}
	if len(s.Project) > maxProject {
		d.Issue("string_too_long", []string{"body"}, "project_id")
	}
	f(&d, v, s)
	return s, d.End()
}

// single is a member that has to be there, and a string with something in it.
func (d *decoder) single(v jsontext.Value, name string) string {
	m := v.Member(name)
	switch {
	case m == nil:
		d.Issue("missing", []string{"body"}, name)
	case m.Kind() != jsontext.String:
		d.Issue("string_type", []string{"body"}, name)
	case len(m) == 2:
		d.Issue("string_too_short", []string{"body"}, name)
	default:
		return m.Text()
	}
	return ""
}

// flag is a member that may be there, and true or false.
func (d *decoder) flag(v jsontext.Value, name string) bool {
	m := v.Member(name)
	if !m.Given() {
		return false
	}
	if m.Kind() != jsontext.Bool {
		d.Issue("bool_type", []string{"body"}, name)
	}
	return m[0] == 't'
}

// Read answers a request for one call: {"call": …}, with null if it is not there.
func (s *Store) Read(ctx context.Context, q *Single) ([]byte, error) {
	rec, err := s.Get(q.Project, q.IDs[0])
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return []byte(`{"call":null}`), nil
	}
	sizes := NoSizes
	if q.Size {
		sizes.Call = rec.Size()
	}
	if q.TraceSize {
		if sizes.Trace, err = s.TraceSize(ctx, q.Project, rec.Text(TraceID)); err != nil {
			return nil, err
		}
	}
	out := append(make([]byte, 0, rec.MaxJSON()), `{"call":`...)
	return append(rec.AppendJSON(out, sizes), '}'), nil
}

// TraceSize is how many bytes the values of all calls of a trace take.
func (s *Store) TraceSize(ctx context.Context, project, trace string) (n int64, err error) {
	m := pace.Of(ctx)
	err = s.db.View(func(r *store.Reader) error {
		prefix := IndexPrefix(TagTrace, project, trace)
		c := r.Keys(prefix, false)
		defer c.Close()
		for key := c.Seek(prefix); key != nil; key = c.Next() {
			_, id, err := CutPosition(key[len(prefix):])
			if err != nil {
				return err
			}
			rec, err := get(r, project, id)
			if err != nil {
				return err
			}
			if rec != nil {
				n += rec.Size()
			}
			if err := m.Spend(pace.Key + pace.Row); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
