package api

import (
	"fmt"
	"strconv"
	"strings"
)

// clip quotes a value of the client in a message, cut to a length that no log
// or client minds.
func clip(v []byte) string {
	const most = 64
	s := strings.ToValidUTF8(string(v[:min(len(v), most)]), "")
	if len(v) > most {
		s += "…"
	}
	return s
}

// A fault is a violation found while decoding, with the path to it inside the
// body. It becomes an Error at the top.
type fault struct {
	path, text string
	cause      cause // causeSchema unless somebody says otherwise
}

func faultf(format string, args ...any) *fault { return &fault{text: fmt.Sprintf(format, args...)} }

func wrongType(want string, v Raw) *fault { return faultf("must be %s, not %s", want, v.Kind()) }

// in puts a property name in front of the path.
func (f *fault) in(name string) *fault {
	if f == nil {
		return nil
	}
	switch {
	case f.path == "" || f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// index puts an array index in front of the path.
func (f *fault) index(i int) *fault { return f.in("[" + strconv.Itoa(i) + "]") }

// error makes the answer of a fault. The texts of the special causes are fixed
// by the spec and name their field themselves.
func (f *fault) error() *Error {
	if f.cause == causeSchema || f.cause == causeMessages {
		return newError(f.cause, f.path+": "+f.text, nil)
	}
	return newError(f.cause, f.text, nil)
}
