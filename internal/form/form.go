// Package form reads the members of requests whose errors have FastAPI's form. A [Decoder]
// finds everything that is wrong with a body ([Invalid], status 422); what is wrong with its
// meaning is a [Refusal].
package form

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// Invalid lists everything that is wrong with the form of a request (HTTP status 422).
type Invalid []Issue

// Issue is one entry of Invalid.
type Issue struct {
	Loc       []string // where: "body", then names and indexes
	Type, Msg string
}

func (e Invalid) Error() string {
	if len(e) == 0 {
		return "invalid request"
	}
	s := "invalid request: " + e[0].Type
	for _, l := range e[0].Loc {
		s += " " + l
	}
	return s
}

// AppendJSON appends the body of the answer. It is FastAPI's, except that indexes are
// text (docs/interface/feedback.md, F-40).
func (e Invalid) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"detail":[`...)
	for i, is := range e {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"loc":[`...)
		for j, l := range is.Loc {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, l)
		}
		dst = append(dst, `],"msg":`...)
		dst = jsontext.AppendString(dst, is.Msg)
		dst = append(dst, `,"type":`...)
		dst = append(jsontext.AppendString(dst, is.Type), '}')
	}
	return append(dst, `]}`...)
}

// messages are the texts of the types of issues. They are pydantic's.
var messages = map[string]string{
	"missing":               "Field required",
	"json_invalid":          "JSON decode error",
	"model_attributes_type": "Input should be a valid dictionary or object to extract fields from",
	"string_type":           "Input should be a valid string",
	"dict_type":             "Input should be a valid dictionary",
	"list_type":             "Input should be a valid list",
	"int_type":              "Input should be a valid integer",
	"bool_type":             "Input should be a valid boolean",
	"float_type":            "Input should be a valid number",
	"extra_forbidden":       "Extra inputs are not permitted",
	"uuid_parsing":          "Input should be a valid UUID",
	"string_too_short":      "String should have at least 1 character",
	"string_too_long":       "String is too long",
	"literal_error":         "Input should be one of the permitted values",
	"datetime_parsing":      "Input should be a valid datetime",
	"value_error":           "Input is not an expression",
}

// Refusal says why a request is refused although its form is right.
type Refusal struct {
	Status int // 400, 403, 404, 409 or 413
	Reason string
}

func (e *Refusal) Error() string { return "refused: " + strconv.Itoa(e.Status) + " " + e.Reason }

// AppendJSON appends the body of the answer.
func (e *Refusal) AppendJSON(dst []byte) []byte {
	return append(jsontext.AppendString(append(dst, `{"reason":`...), e.Reason), '}')
}

// Scan checks that a body is JSON and returns it without a byte order mark.
func (d *Decoder) Scan(body []byte, maxDepth int) (jsontext.Value, error) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, Invalid{NewIssue("missing", "body")}
	}
	if err := jsontext.PacedScan(body, maxDepth, d.Meter.Bytes); err != nil {
		var se *jsontext.SyntaxError
		if !errors.As(err, &se) {
			return nil, firstError(d.Meter.Err(), err)
		}
		if se.Offset < len(body) && body[se.Offset] >= utf8.RuneSelf && !utf8.Valid(body[se.Offset:min(len(body), se.Offset+utf8.UTFMax)]) && !utf8.Valid(body) {
			return nil, &Refusal{400, "The body is not valid UTF-8"}
		}
		return nil, Invalid{NewIssue("json_invalid", "body", strconv.Itoa(se.Offset))}
	}
	return jsontext.Trim(body), nil
}

// NewIssue is an issue of a type, with its text.
func NewIssue(typ string, loc ...string) Issue { return Issue{Loc: loc, Type: typ, Msg: messages[typ]} }

// Decoder collects everything that is wrong with a body. What it returns means nothing if
// the meter has an error afterwards.
type Decoder struct {
	Meter   *pace.Meter
	Issues  Invalid
	Refusal *Refusal // the first
}

// Refuse notes that the meaning of a body is wrong. The first reason counts.
func (d *Decoder) Refuse(status int, reason string) {
	if d.Refusal == nil {
		d.Refusal = &Refusal{status, reason}
	}
}

// End returns what is wrong with a body: the cause of a stopped meter, Invalid, or a *Refusal.
// With a *Refusal a decoder returns what it has read, too, because the right to the project
// is checked first.
func (d *Decoder) End() error {
	switch {
	case d.Meter.Err() != nil:
		return d.Meter.Err()
	case len(d.Issues) > 0:
		return d.Issues
	case d.Refusal != nil:
		return d.Refusal
	}
	return nil
}

// maxIssues bounds an answer that lists them.
const maxIssues = 100

// Issue notes something that is wrong.
func (d *Decoder) Issue(typ string, loc []string, more ...string) {
	if len(d.Issues) < maxIssues {
		d.Issues = append(d.Issues, NewIssue(typ, append(append([]string(nil), loc...), more...)...))
	}
}

// Members are the properties of an object that have not been taken yet, in order.
type Members struct {
	Names  []string
	Values map[string]jsontext.Value
}

// Object reads the properties of v. If a name occurs twice, the last value counts.
func (d *Decoder) Object(v jsontext.Value, loc []string) *Members {
	if v.Kind() != jsontext.Object {
		d.Issue("model_attributes_type", loc)
		return nil
	}
	m := &Members{Values: map[string]jsontext.Value{}}
	for key, val := range v.PacedMembers(d.Meter.Bytes) {
		name := string(key)
		if _, again := m.Values[name]; !again {
			m.Names = append(m.Names, name)
		}
		m.Values[name] = val
	}
	return m
}

// Has reports whether a property has not been taken.
func (m *Members) Has(name string) bool {
	if m == nil {
		return false
	}
	_, ok := m.Values[name]
	return ok
}

// Take removes a property and returns its value. It returns nil if there is none, if it is
// optional and null, or if it is not of the type typ, which is reported as wrong.
func (d *Decoder) Take(m *Members, name string, required bool, typ jsontext.Kind, wrong string, loc []string) jsontext.Value {
	if m == nil {
		return nil
	}
	v, ok := m.Values[name]
	delete(m.Values, name)
	switch {
	case !ok && required:
		d.Issue("missing", loc, name)
	case !ok || v.Kind() == jsontext.Null && !required:
	case v.Kind() != typ:
		d.Issue(wrong, loc, name)
	default:
		return v
	}
	return nil
}

// Text takes a string. It returns nil if there is none.
func (d *Decoder) Text(m *Members, name string, required bool, loc []string) *string {
	v := d.Take(m, name, required, jsontext.String, "string_type", loc)
	if v == nil {
		return nil
	}
	s := v.Text()
	if required && s == "" {
		d.Issue("string_too_short", loc, name)
		return nil
	}
	return &s
}

// Texts takes a list of strings. It returns nil if there is none. A list of more than most
// elements is refused.
func (d *Decoder) Texts(m *Members, name string, required bool, most int, loc []string) []string {
	list := d.Take(m, name, required, jsontext.Array, "list_type", loc)
	if list == nil {
		return nil
	}
	out := []string{}
	for i, v := range list.PacedElements(d.Meter.Bytes) {
		switch {
		case i == most:
			d.Refuse(400, name+" has more than "+strconv.Itoa(most)+" elements")
			return out
		case v.Kind() != jsontext.String:
			d.Issue("string_type", loc, name, strconv.Itoa(i))
		default:
			out = append(out, v.Text())
		}
	}
	return out
}

// Sort is one field of an order.
type Sort struct {
	Field      string
	Descending bool
}

// maxSortBy bounds the fields of an order.
const maxSortBy = 8

// SortBy takes the member sort_by, which lists the fields of an order. More than 8 of them are
// refused.
func (d *Decoder) SortBy(m *Members, loc []string) (out []Sort) {
	list := d.Take(m, "sort_by", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return nil
	}
	for i, v := range list.PacedElements(d.Meter.Bytes) {
		if i == maxSortBy {
			d.Refuse(400, "sort_by has more than 8 fields")
			return out
		}
		loc := append(slices.Clip(loc), "sort_by", strconv.Itoa(i))
		o := d.Object(v, loc)
		name, direction := d.Text(o, "field", true, loc), d.Text(o, "direction", true, loc)
		d.Extras(o, loc)
		if name == nil || direction == nil {
			continue
		}
		if *direction != "asc" && *direction != "desc" {
			d.Issue("literal_error", loc, "direction")
			continue
		}
		out = append(out, Sort{*name, *direction == "desc"})
	}
	return out
}

// Extras reports the properties that have not been taken.
func (d *Decoder) Extras(m *Members, loc []string) {
	if m == nil {
		return
	}
	for _, name := range m.Names {
		if _, left := m.Values[name]; left {
			d.Issue("extra_forbidden", loc, name)
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
