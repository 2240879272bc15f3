package trajectory

import (
	"strconv"
	"strings"
)

// Detail is one entry of a 422 answer (docs/interface/trajectories.md, section 3). It never holds
// what the client sent, except names of members, because logs hold prompts.
type Detail struct {
	Loc  []string // "body", then names and indexes, as decimal text
	Msg  string
	Type string
}

// MaxDetails is how many violations are reported; the rest of the body is not
// looked at then.
const MaxDetails = 100

// Invalid is the error of a body that is not a log request. There is at least
// one detail.
type Invalid struct{ Details []Detail }

func (e *Invalid) Error() string {
	d := e.Details[0]
	more := ""
	if n := len(e.Details) - 1; n > 0 {
		more = " (and " + strconv.Itoa(n) + " more)"
	}
	return "trajectory: " + strings.Join(d.Loc, ".") + ": " + d.Type + more
}

// violation is a cause of the table in docs/interface/trajectories.md, section 3.
type violation struct{ code, msg string }

var (
	missing         = violation{"missing", "Field required"}
	notJSON         = violation{"json_invalid", "JSON decode error"}
	notModel        = violation{"model_attributes_type", "Input should be a valid dictionary or object to extract fields from"}
	notText         = violation{"string_type", "Input should be a valid string"}
	tooShort        = violation{"string_too_short", "String should have at least 1 character"}
	tooLong         = violation{"string_too_long", "String should have at most 128 characters"}
	badText         = violation{"value_error", "Value error, control characters and unpaired surrogates are not allowed"}
	repeated        = violation{"value_error", "Value error, the member is there twice"}
	notList         = violation{"list_type", "Input should be a valid list"}
	notObject       = violation{"dict_type", "Input should be a valid dictionary"}
	notFloat        = violation{"float_type", "Input should be a valid number"}
	notInt          = violation{"int_type", "Input should be a valid integer"}
	fractional      = violation{"int_from_float", "Input should be a valid integer, got a number with a fractional part"}
	negative        = violation{"greater_than_equal", "Input should be greater than or equal to 0"}
	notDatetime     = violation{"datetime_parsing", "Input should be a valid datetime"}
	notDatetimeText = violation{"datetime_type", "Input should be a valid datetime"}
)

// details gathers violations with the path that leads to them.
type details struct {
	room
	path []string
	list []Detail
}

// add reports a violation at the path and what follows it, and whether more may come.
func (d *details) add(v violation, tail ...string) bool {
	if len(d.list) < MaxDetails {
		loc := make([]string, 0, len(d.path)+len(tail))
		d.list = append(d.list, Detail{Loc: append(append(loc, d.path...), tail...), Msg: v.msg, Type: v.code})
	}
	return len(d.list) < MaxDetails
}

func (d *details) push(name string) { d.path = append(d.path, name) }
func (d *details) pop()             { d.path = d.path[:len(d.path)-1] }

func (d *details) full() bool { return len(d.list) == MaxDetails }
