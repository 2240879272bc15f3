package jinja

import (
	"errors"
	"fmt"
)

// What a failed Compile, Render or FromJSON can be; test with errors.Is.
var (
	ErrSyntax = errors.New("jinja: template does not compile")
	ErrRaised = errors.New("jinja: template raised an exception") // raise_exception(...)
	ErrRender = errors.New("jinja: template failed while rendering")
	ErrLimit  = errors.New("jinja: template exceeded a limit")
	ErrJSON   = errors.New("jinja: invalid JSON")
)

// Error is what Compile and Render return. It wraps one of the sentinels.
type Error struct {
	// Class is the Python exception that the reference raises in this place:
	// TypeError, UndefinedError, TemplateSyntaxError, ...; TemplateError for
	// raise_exception; ResourceError for our own limits.
	Class string
	// Text is the exception's text alone, as a client sees it.
	Text string
	// Line is the template's line (from 1) that was being read or executed.
	Line int

	kind error
}

func (e *Error) Error() string {
	return fmt.Sprintf("jinja: line %d: %s: %s", e.Line, e.Class, e.Text)
}

func (e *Error) Unwrap() error { return e.kind }

// Errors travel as panics inside the package, because almost every operation
// of the language may raise one, and are turned back into values by catch at
// each entry point. No panic leaves the package.

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

// throwAssertion reports what the compiler of the reference finds, not its parser.
func throwAssertion(line int, format string, args ...any) {
	panic(&Error{Class: "TemplateAssertionError", Text: fmt.Sprintf(format, args...), Line: line, kind: ErrSyntax})
}

// throwPython reports what Python finds in the code that the reference compiles
// a template to.
func throwPython(line int, format string, args ...any) {
	panic(&Error{Class: "SyntaxError", Text: fmt.Sprintf(format, args...), Line: line, kind: ErrSyntax})
}

// catch ends a panic in *err. A panic that is not ours is a bug of this
// package; it becomes an error too, since a template must not be able to take
// the process down by finding one.
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
