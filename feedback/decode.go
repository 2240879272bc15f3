package feedback

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

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
	d := decoder{meter: pace.Of(ctx)}
	v, err := d.scan(body)
	if err != nil {
		return nil, err
	}
	r := d.request(v, op, []string{"body"})
	if err := d.meter.Err(); err != nil {
		return nil, err
	}
	if len(d.issues) > 0 {
		return nil, d.issues
	}
	return r, nil
}

// MaxBatch bounds the items of a batch.
const MaxBatch = 10_000

// DecodeBatch reads the body of a batch of creations. Its error is that of DecodeRequest.
func DecodeBatch(ctx context.Context, body []byte) ([]*Request, error) {
	d := decoder{meter: pace.Of(ctx)}
	v, err := d.scan(body)
	if err != nil {
		return nil, err
	}
	m := d.object(v, []string{"body"})
	list := d.take(m, "batch", true, jsontext.Array, "list_type", []string{"body"})
	d.extras(m, []string{"body"})
	var out []*Request
	if list != nil {
		for i, item := range list.PacedElements(d.meter.Bytes) {
			if i == MaxBatch {
				return nil, &Refusal{413, "Request too large"}
			}
			out = append(out, d.request(item, Create, []string{"body", "batch", strconv.Itoa(i)}))
		}
	}
	if err := d.meter.Err(); err != nil {
		return nil, err
	}
	if len(d.issues) > 0 {
		return nil, d.issues
	}
	for _, r := range out {
		if r.Dialect != out[0].Dialect {
			return nil, Invalid{issue("extra_forbidden", "body", "batch", WeaveNames.traceRefName())}
		}
	}
	return out, nil
}

// scan checks that a body is JSON and returns it without a byte order mark.
func (d *decoder) scan(body []byte) (jsontext.Value, error) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, Invalid{issue("missing", "body")}
	}
	if err := jsontext.PacedScan(body, maxDepth, d.meter.Bytes); err != nil {
		var se *jsontext.SyntaxError
		if !errors.As(err, &se) {
			return nil, firstError(d.meter.Err(), err)
		}
		if se.Offset < len(body) && body[se.Offset] >= utf8.RuneSelf && !utf8.Valid(body[se.Offset:min(len(body), se.Offset+utf8.UTFMax)]) && !utf8.Valid(body) {
			return nil, refuse("The body is not valid UTF-8")
		}
		return nil, Invalid{issue("json_invalid", "body", strconv.Itoa(se.Offset))}
	}
	return jsontext.Trim(body), nil
}

func issue(typ string, loc ...string) Issue { return Issue{Loc: loc, Type: typ, Msg: messages[typ]} }

// decoder collects everything that is wrong with a body. What it returns means nothing if
// the meter has an error afterwards.
type decoder struct {
	meter  *pace.Meter
	issues Invalid
}

// maxIssues bounds an answer that lists them.
const maxIssues = 100

func (d *decoder) issue(typ string, loc []string, more ...string) {
	if len(d.issues) < maxIssues {
		d.issues = append(d.issues, issue(typ, append(append([]string(nil), loc...), more...)...))
	}
}

// members are the properties of an object that have not been taken yet, in order.
type members struct {
	names  []string
	values map[string]jsontext.Value
}

// object reads the properties of v. If a name occurs twice, the last value counts.
func (d *decoder) object(v jsontext.Value, loc []string) *members {
	if v.Kind() != jsontext.Object {
		d.issue("model_attributes_type", loc)
		return nil
	}
	m := &members{values: map[string]jsontext.Value{}}
	for key, val := range v.PacedMembers(d.meter.Bytes) {
		name := string(key)
		if _, again := m.values[name]; !again {
			m.names = append(m.names, name)
		}
		m.values[name] = val
	}
	return m
}

func (m *members) has(name string) bool {
	if m == nil {
		return false
	}
	_, ok := m.values[name]
	return ok
}

// take removes a property and returns its value. It returns nil if there is none, if it is
// optional and null, or if it is not of the type typ, which is reported as wrong.
func (d *decoder) take(m *members, name string, required bool, typ jsontext.Kind, wrong string, loc []string) jsontext.Value {
	if m == nil {
		return nil
	}
	v, ok := m.values[name]
	delete(m.values, name)
	switch {
	case !ok && required:
		d.issue("missing", loc, name)
	case !ok || v.Kind() == jsontext.Null && !required:
	case v.Kind() != typ:
		d.issue(wrong, loc, name)
	default:
		return v
	}
	return nil
}

// text takes a string. It returns nil if there is none.
func (d *decoder) text(m *members, name string, required bool, loc []string) *string {
	v := d.take(m, name, required, jsontext.String, "string_type", loc)
	if v == nil {
		return nil
	}
	s := v.Text()
	if required && s == "" {
		d.issue("string_too_short", loc, name)
		return nil
	}
	return &s
}

// extras reports the properties that have not been taken.
func (d *decoder) extras(m *members, loc []string) {
	if m == nil {
		return
	}
	for _, name := range m.names {
		if _, left := m.values[name]; left {
			d.issue("extra_forbidden", loc, name)
		}
	}
}

// dialect is the dialect that a request is written in. If it has names of both, it counts
// as weir's, and extras reports those of Weave.
func (m *members) dialect() Dialect {
	weir := m.has(WeirNames.traceRefName()) || m.has(WeirNames.userName())
	if !weir && (m.has(WeaveNames.traceRefName()) || m.has(WeaveNames.userName())) {
		return WeaveNames
	}
	return WeirNames
}

func (d *decoder) request(v jsontext.Value, op Operation, loc []string) *Request {
	m := d.object(v, loc)
	if m == nil {
		return nil
	}
	r := &Request{Dialect: m.dialect()}
	value := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	optional := func(name string) *string { // "" counts as absent (docs/interface/feedback.md, F-13)
		if s := d.text(m, name, false, loc); value(s) != "" {
			return s
		}
		return nil
	}
	r.Project = value(d.text(m, "project_id", true, loc))
	r.traceRef = value(d.text(m, r.Dialect.traceRefName(), true, loc))
	r.Type = value(d.text(m, "feedback_type", true, loc))
	if p := d.take(m, "payload", true, jsontext.Object, "dict_type", loc); p != nil {
		r.Payload = jsontext.AppendCompact(nil, p)
	}
	if op == Replace {
		r.Replaces = value(d.text(m, "feedback_id", true, loc))
	}
	if id := d.text(m, "id", false, loc); id != nil {
		if _, ok := parseUUID(*id); !ok {
			d.issue("uuid_parsing", loc, "id")
		}
		r.ID = strings.ToLower(*id)
	}
	r.creator = d.text(m, "creator", false, loc)
	r.refs.Annotation, r.refs.Runnable = optional("annotation_ref"), optional("runnable_ref")
	r.refs.Call, r.refs.Trigger = optional("call_ref"), optional("trigger_ref")
	r.queue = optional("queue_id")
	if r.Dialect == WeaveNames {
		r.weave = d.weaveColumns(m, loc)
	}
	d.text(m, r.Dialect.userName(), false, loc) // ignored (docs/interface/feedback.md, F-14)
	d.extras(m, loc)
	return r
}
