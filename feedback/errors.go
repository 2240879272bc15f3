package feedback

import (
	"strconv"

	"weir/internal/jsontext"
)

// Invalid says that a request is not of the right form (422): all that is wrong
// with it.
type Invalid []Issue

// Issue is one entry of Invalid.
type Issue struct {
	Loc       []string // "body", then names and indexes
	Type, Msg string
}

func (e Invalid) Error() string {
	if len(e) == 0 {
		return "feedback: invalid request"
	}
	s := "feedback: " + e[0].Type
	for _, l := range e[0].Loc {
		s += " " + l
	}
	return s
}

// AppendJSON appends the body of the answer, as FastAPI spells it but for the
// indexes, which are text (spec F-40).
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

// messages are the texts of the types of issues, pydantic's.
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
	"literal_error":         "Input should be one of the permitted values",
	"datetime_parsing":      "Input should be a valid datetime",
	"value_error":           "Input is not an expression",
}

// Refusal says why a request of the right form is refused.
type Refusal struct {
	Status int // 400, 403, 404, 409 or 413
	Reason string
}

func (e *Refusal) Error() string { return "feedback: " + strconv.Itoa(e.Status) + " " + e.Reason }

// AppendJSON appends the body of the answer.
func (e *Refusal) AppendJSON(dst []byte) []byte {
	return append(jsontext.AppendString(append(dst, `{"reason":`...), e.Reason), '}')
}

func refuse(reason string) *Refusal { return &Refusal{400, reason} }

// The refusals that are not about what a request says.
var (
	Forbidden   = &Refusal{403, "Forbidden"}
	errConflict = &Refusal{409, "Feedback id already exists"}
	errReused   = &Refusal{409, "Idempotency key was used with another request"}
)
