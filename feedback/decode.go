package feedback

import (
	"context"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
)

// Request creates or replaces a record. Its form is right; Config.Check applies the rules
// of meaning.
type Request struct {
	Dialect Dialect
	Project string
	Type    string
	Payload jsontext.Value // as sent; Check adds the server's keys
	// Replaces is feedback_id: the id of the record to replace.
	Replaces string
	ID       string // lower case; "": the server makes one
	// Unknown are members that this version does not know. They are kept.
	Unknown []string

	traceRef string
	creator  *string
	refs     refs
	queue    *string
	weave    jsontext.Value // as Record.Weave
}

// maxDepth bounds how deeply a body may be nested.
const maxDepth = 200

// Operation is what a request does.
type Operation int

const (
	Create  Operation = iota // write a new record
	Replace                  // write a record in place of another one
)

// DecodeRequest reads the body of a request. Its error is Invalid, a *Refusal, or the cause
// of ctx, which ends the reading of a large body.
func DecodeRequest(ctx context.Context, body []byte, op Operation) (*Request, error) {
	d := decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	r := d.request(v, op, []string{"body"})
	if err := d.Meter.Err(); err != nil {
		return nil, err
	}
	if len(d.Issues) > 0 {
		return nil, d.Issues
	}
	return r, nil
}

// MaxBatch bounds the items of a batch.
const MaxBatch = 10_000

// DecodeBatch reads the body of a batch of creations. Its error is that of DecodeRequest.
func DecodeBatch(ctx context.Context, body []byte) ([]*Request, error) {
	d := decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	m := d.Object(v, []string{"body"})
	list := d.Take(m, "batch", true, jsontext.Array, "list_type", []string{"body"})
	d.Extras(m, []string{"body"})
	var out []*Request
	if list != nil {
		for i, item := range list.PacedElements(d.Meter.Bytes) {
			if i == MaxBatch {
				return nil, &Refusal{Status: 413, Reason: "Request too large"}
			}
			out = append(out, d.request(item, Create, []string{"body", "batch", strconv.Itoa(i)}))
		}
	}
	if err := d.Meter.Err(); err != nil {
		return nil, err
	}
	if len(d.Issues) > 0 {
		return nil, d.Issues
	}
	for _, r := range out {
		if r.Dialect != out[0].Dialect {
			return nil, Invalid{form.NewIssue("extra_forbidden", "body", "batch", WeaveNames.traceRefName())}
		}
	}
	return out, nil
}

// decoder reads requests.
type decoder struct{ form.Decoder }

// dialectOf is the dialect that a request is written in. If it has names of both, it counts
// as weir's, and extras reports those of Weave.
func dialectOf(m *form.Members) Dialect {
	weir := m.Has(WeirNames.traceRefName()) || m.Has(WeirNames.userName())
	if !weir && (m.Has(WeaveNames.traceRefName()) || m.Has(WeaveNames.userName())) {
		return WeaveNames
	}
	return WeirNames
}

func (d *decoder) request(v jsontext.Value, op Operation, loc []string) *Request {
	m := d.Object(v, loc)
	if m == nil {
		return nil
	}
	r := &Request{Dialect: dialectOf(m)}
	value := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	optional := func(name string) *string { // "" counts as absent (docs/interface/feedback.md, F-13)
		if s := d.Text(m, name, false, loc); value(s) != "" {
			return s
		}
		return nil
	}
	r.Project = value(d.Text(m, "project_id", true, loc))
	r.traceRef = value(d.Text(m, r.Dialect.traceRefName(), true, loc))
	r.Type = value(d.Text(m, "feedback_type", true, loc))
	if p := d.Take(m, "payload", true, jsontext.Object, "dict_type", loc); p != nil {
		r.Payload = jsontext.AppendCompact(nil, p)
	}
	if op == Replace {
		r.Replaces = value(d.Text(m, "feedback_id", true, loc))
	}
	if id := d.Text(m, "id", false, loc); id != nil {
		if _, ok := parseUUID(*id); !ok {
			d.Issue("uuid_parsing", loc, "id")
		}
		r.ID = strings.ToLower(*id)
	}
	r.creator = d.Text(m, "creator", false, loc)
	r.refs.Annotation, r.refs.Runnable = optional("annotation_ref"), optional("runnable_ref")
	r.refs.Call, r.refs.Trigger = optional("call_ref"), optional("trigger_ref")
	r.queue = optional("queue_id")
	d.Text(m, r.Dialect.userName(), false, loc) // ignored (docs/interface/feedback.md, F-14)
	if r.Dialect == WeaveNames {
		r.weave = d.weaveColumns(m, loc, r)
	}
	d.Extras(m, loc)
	return r
}
