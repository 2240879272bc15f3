package grammar

import (
	"errors"
	"fmt"
	"slices"
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
	// ErrTooComplex means that a bound on states or work was passed, or, from
	// Fill, that the text has too many parses at once.
	ErrTooComplex = errors.New("grammar: too complex")
	// ErrPrefix means that no text which satisfies the constraint begins with Spec.Prefix.
	ErrPrefix = errors.New("grammar: not a beginning")
	// ErrAbandoned means that everybody who waited for the grammar has left. Compile
	// does not return it.
	ErrAbandoned = errors.New("grammar: abandoned")
	// ErrDeadline means that compiling took longer than Config.Deadline, although the
	// budget of work was not spent: the machine is too slow or too busy. The same
	// constraint may be compiled later. No *Error has this kind.
	ErrDeadline = errors.New("grammar: compiling takes too long")
	// ErrStuck is returned by Fill if no token of the vocabulary continues the text.
	ErrStuck = errors.New("grammar: no token is legal")
)

// Error is a refusal of a constraint. It unwraps to its Kind.
type Error struct {
	Kind error  // one of the kinds above
	Path string // JSON pointer to the keyword that is refused, such as /properties/a/not; "" is the whole constraint
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

// catch, when deferred, turns a refusal, or a lack of memory or time, into an error.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	case endError:
		*err = r.error
	default:
		panic(r)
	}
}

// Warning says that a part of a constraint is read otherwise than its author may expect: it
// is not enforced, or not in the way of the standard.
type Warning struct {
	Path string // JSON pointer to the keyword; "" is the whole constraint
	Msg  string // a sentence for the client, without the path
}

func (w Warning) String() string {
	if w.Path == "" {
		return w.Msg
	}
	return w.Msg + " (at " + w.Path + ")"
}

// maxWarnings bounds the warnings of one constraint.
const maxWarnings = 20

// warn notes a warning. The same one counts once, however often a schema is looked at.
func (b *builder) warn(path, format string, args ...any) {
	w := Warning{Path: path, Msg: fmt.Sprintf(format, args...)}
	if len(b.warnings) < maxWarnings && !slices.Contains(b.warnings, w) {
		b.warnings = append(b.warnings, w)
	}
}
