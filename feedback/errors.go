package feedback

import (
	"errors"

	"weir/internal/form"
	"weir/store"
)

// What is wrong with a request: with its form, and with its meaning.
type (
	Invalid = form.Invalid
	Issue   = form.Issue
	Refusal = form.Refusal
)

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

func refuse(reason string) *Refusal { return &Refusal{Status: 400, Reason: reason} }

// Refusals that do not depend on the text of a request.
var (
	Forbidden    = &Refusal{Status: 403, Reason: "Forbidden"}
	errConflict  = &Refusal{Status: 409, Reason: "Feedback id already exists"}
	errKeyReused = &Refusal{Status: 409, Reason: "Idempotency key was used with another request"}
)
