package jinja

import (
	"errors"
	"fmt"
)

// The kinds of errors of Compile, Render and FromJSON, for errors.Is.
var (
	ErrSyntax = errors.New("jinja: template does not compile")
	ErrRaised = errors.New("jinja: template raised an exception") // raise_exception(...)
	ErrRender = errors.New("jinja: template failed while rendering")
	ErrLimit  = errors.New("jinja: template exceeded a limit")
	// ErrStopped is the kind of the error of a render whose Options.Done was closed.
	ErrStopped = errors.New("jinja: nobody waits for the text any more")
	ErrJSON    = errors.New("jinja: invalid JSON")
)

// Error is the type of all errors of Compile and Render. It wraps ErrSyntax, ErrRaised,
// ErrRender, ErrLimit or ErrStopped.
type Error struct {
	// Class is the Python exception that Jinja2 raises in this place: TypeError,
	// UndefinedError, TemplateSyntaxError, ...; TemplateError for raise_exception. Limits
	// that Jinja2 does not have are reported as ResourceError.
	Class string
	// Text is the text of the exception, as a client sees it.
	Text string
	// Line is the line of the template, counted from 1, that was being read or executed.
	Line int

	kind error
}

func (e *Error) Error() string {
	return fmt.Sprintf("jinja: line %d: %s: %s", e.Line, e.Class, e.Text)
}

func (e *Error) Unwrap() error { return e.kind }

// Inside the package errors are panics, because almost every operation of the language may
// raise one. At each entry point, catch turns them into values. No panic leaves the
// package.

func throw(class, format string, args ...any) {
	panic(&Error{Class: class, Text: fmt.Sprintf(format, args...), kind: ErrRender})
}

func throwType(format string, args ...any)  { throw("TypeError", format, args...) }
func throwValue(format string, args ...any) { throw("ValueError", format, args...) }

func throwLimit(what string) {
	panic(&Error{Class: "ResourceError", Text: "chat template exceeded its limit of " + what, kind: ErrLimit})
}

func throwRecursion() {
	panic(&Error{Class: "RecursionError", Text: "maximum recursion depth exceeded", kind: ErrLimit})
}

func throwSyntax(line int, format string, args ...any) {
	panic(&Error{Class: "TemplateSyntaxError", Text: fmt.Sprintf(format, args...), Line: line, kind: ErrSyntax})
}

// throwAssertion reports an error that Jinja2's compiler finds, not its parser.
func throwAssertion(line int, format string, args ...any) {
	panic(&Error{Class: "TemplateAssertionError", Text: fmt.Sprintf(format, args...), Line: line, kind: ErrSyntax})
}

// throwPython reports an error that Python finds in the code that Jinja2 compiles a
// template to.
func throwPython(line int, format string, args ...any) {
	panic(&Error{Class: "SyntaxError", Text: fmt.Sprintf(format, args...), Line: line, kind: ErrSyntax})
}

// catch recovers a panic and sets *err. A panic that is not an *Error is a bug of this
// package. It becomes an error too, because a template that finds such a bug must not end
// the process.
func catch(err *error, kind error, line func() int) {
	r := recover()
	if r == nil {
		return
	}
	e, ok := r.(*Error)
	if !ok {
		e = &Error{Class: internalError, Text: fmt.Sprint(r), kind: kind}
	}
	if e.Line == 0 {
		e.Line = line()
	}
	*err = e
}

const internalError = "InternalError"
