package grammar

import (
	"errors"
	"fmt"
)

// The kinds of failure. The first four are refusals of a constraint.
var (
	// ErrInvalid means that the constraint is not a schema, regular expression,
	// grammar or tag.
	ErrInvalid = errors.New("grammar: invalid")
	// ErrUnsupported means that the constraint asks for something that masks cannot
	// enforce exactly.
	ErrUnsupported = errors.New("grammar: unsupported")
	// ErrUnsatisfiable means that no text satisfies the constraint.
	ErrUnsatisfiable = errors.New("grammar: unsatisfiable")
	// ErrTooComplex means that a bound on states, work or time was passed, or, from
	// Fill, that the text has too many parses at once.
	ErrTooComplex = errors.New("grammar: too complex")
	// ErrAbandoned means that everybody who waited for the grammar has left. Compile
	// does not return it.
	ErrAbandoned = errors.New("grammar: abandoned")
	// ErrStuck is returned by Fill if no token of the vocabulary continues the text.
	ErrStuck = errors.New("grammar: no token is legal")
)

// Error is a refusal of a constraint. It unwraps to its Kind.
type Error struct {
	Kind error  // one of the kinds above
	Path string // JSON path of the keyword that is refused, such as $.properties.a.not; "" if there is none
	Msg  string // a sentence for the client, without the path
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return e.Msg + " (at " + e.Path + ")"
}

func (e *Error) Unwrap() error { return e.Kind }

// fail refuses the constraint that is being compiled. It does not return.
func fail(kind error, path, format string, args ...any) {
	panic(&Error{Kind: kind, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// catch, when deferred, turns a refusal or a lack of memory into an error.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	case memoryError:
		*err = r.error
	default:
		panic(r)
	}
}
