package feedback

import (
	"errors"
	"strconv"

	"weir/internal/jsontext"
	"weir/store"
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
		return "feedback: invalid request"
	}
	s := "feedback: " + e[0].Type
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
	"literal_error":         "Input should be one of the permitted values",
	"datetime_parsing":      "Input should be a valid datetime",
	"value_error":           "Input is not an expression",
}

// Damaged says which record cannot be read. It is store.ErrCorrupt.
type Damaged struct {
	ID  string
	Err error
}

func (e *Damaged) Error() string { return "feedback: record " + e.ID + ": " + e.Err.Error() }

// Unwrap lets errors.Is find store.ErrCorrupt.
func (e *Damaged) Unwrap() error { return e.Err }

// damagedRecord says of an error that it is about damage to a record; other errors stay as
// they are.
func damagedRecord(id [16]byte, err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		return &Damaged{uuidText(id), err}
	}
	return err
}

// Refusal says why a request is refused although its form is right.
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

// Refusals that do not depend on the text of a request.
var (
	Forbidden    = &Refusal{403, "Forbidden"}
	errConflict  = &Refusal{409, "Feedback id already exists"}
	errKeyReused = &Refusal{409, "Idempotency key was used with another request"}
)
