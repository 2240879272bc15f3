package api

import (
	"strconv"

	"weir/internal/jsontext"
)

// nulls says what JSON null means for a field.
type nulls uint8

const (
	nullable nulls = iota // the same as absent
	notNull               // an error, although the field may be absent
	required
)

// field is one field of a request of type R.
type field[R any] struct {
	name   string
	null   nulls
	decode func(r R, v Raw, lim *Limits) *fault
}

// lift makes fields of a part of R fields of R.
func lift[R, P any](of []field[P], part func(R) P) []field[R] {
	out := make([]field[R], len(of))
	for i, f := range of {
		out[i] = field[R]{f.name, f.null, func(r R, v Raw, lim *Limits) *fault { return f.decode(part(r), v, lim) }}
	}
	return out
}

func index[R any](fields []field[R]) map[string]int {
	m := make(map[string]int, len(fields))
	for i := range fields {
		m[fields[i].name] = i
	}
	return m
}

// decode reads the fields of a body into r. It makes the checks 3 and 5 of
// docs/interface/chat-completions.md, section 1.2, except those between fields: for them it
// returns the values as they were sent, in the order of fields and nil where absent.
func decode[R any](body []byte, r R, fields []field[R], index map[string]int, lim *Limits) ([]Raw, *Error) {
	return decodeAll(body, r, fields, index, lim, func([]byte, Raw) *fault { return nil })
}

// decodeAll is decode, and gives members that are no fields to stranger.
func decodeAll[R any](body []byte, r R, fields []field[R], index map[string]int, lim *Limits, stranger func(key []byte, v Raw) *fault) ([]Raw, *Error) {
	if err := jsontext.Check(body, lim.Depth); err != nil {
		return nil, syntaxError(body, err)
	}
	top := jsontext.Trim(body)
	if top.Kind() != jsontext.Object {
		return nil, faultf("must be an object, not %s", top.Kind()).in("body").error()
	}
	values := make([]Raw, len(fields))
	var strange *fault
	for key, v := range top.Members() {
		if i, ok := index[string(key)]; ok {
			values[i] = v
		} else if f := stranger(key, v); f != nil && strange == nil {
			strange = f
		}
	}
	if strange != nil {
		return nil, strange.error()
	}
	for i := range fields {
		f, v := &fields[i], values[i]
		switch {
		case v == nil && f.null == required:
			return nil, faultf("field required").in(f.name).error()
		case v == nil || v.Kind() == jsontext.Null && f.null == nullable:
		case v.Kind() == jsontext.Null:
			return nil, faultf("must not be null").in(f.name).error()
		default:
			if fault := f.decode(r, v, lim); fault != nil {
				return nil, fault.in(f.name).error()
			}
		}
	}
	return values, nil
}

// syntaxError says where in the terms of an editor, and as an offset.
func syntaxError(body []byte, err *jsontext.SyntaxError) *Error {
	line, column := 1, 1
	for _, c := range body[:err.Offset] {
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return newError(causeSyntax, "JSON decode error: "+err.Reason+": line "+strconv.Itoa(line)+
		" column "+strconv.Itoa(column)+" (byte "+strconv.Itoa(err.Offset)+")", nil)
}
