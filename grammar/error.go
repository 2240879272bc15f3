package grammar

import (
	"errors"
	"fmt"
)

// The kinds of failure. All but ErrStuck come from compiling and are the fault
// of the request.
var (
	// ErrInvalid: the text is not a schema, regular expression, grammar or tag.
	ErrInvalid = errors.New("grammar: invalid")
	// ErrUnsupported: it asks for something that masks cannot keep exactly.
	ErrUnsupported = errors.New("grammar: unsupported")
	// ErrUnsatisfiable: no text satisfies it.
	ErrUnsatisfiable = errors.New("grammar: unsatisfiable")
	// ErrTooComplex: it passes a bound on states, time or ambiguity.
	ErrTooComplex = errors.New("grammar: too complex")
	// ErrAbandoned: everybody who waited for the grammar has left.
	ErrAbandoned = errors.New("grammar: abandoned")
	// ErrStuck: no token of the vocabulary continues the text.
	ErrStuck = errors.New("grammar: no token is legal")
)

// Error is a refusal. It unwraps to one of the kinds above.
type Error struct {
	Kind error
	Path string // JSON path of what is refused, such as $.properties.a.not; "" where there is none
	Msg  string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return e.Msg + " (at " + e.Path + ")"
}

func (e *Error) Unwrap() error { return e.Kind }

func fail(kind error, path, format string, args ...any) {
	panic(&Error{Kind: kind, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// catch turns a refusal on its way up into an error.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}
