// Package jsonfields reads the bodies of interfaces whose requests become chats elsewhere: fields by
// their names, values by their types, with errors that name the place as messages.0.content does.
package jsonfields

import (
	"fmt"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
)

// MaxDepth bounds how deep a body may be nested, as api.DefaultLimits does for a chat.
const MaxDepth = 200

// Bad is the error about a field. Fields of elements are named with dots: messages.0.content.
func Bad(path, format string, args ...any) *api.Error {
	return failure.BadRequest("", "%s", path+": "+fmt.Sprintf(format, args...))
}

// WrongType is the error about a value of another type.
func WrongType(path, want string, v api.Raw) *api.Error {
	return Bad(path, "must be %s, not %s", want, Kind(v))
}

// At is the path of an element.
func At(path string, i int) string { return path + "." + strconv.Itoa(i) }

// Read checks the syntax of a body and returns its members that are not null. Of members with
// one name the last one counts.
func Read(body []byte) (map[string]api.Raw, error) {
	if err := jsontext.Scan(body, MaxDepth); err != nil {
		return nil, failure.BadRequest("", "The body is not valid JSON: %v.", err)
	}
	top := jsontext.Trim(body)
	if Kind(top) != jsontext.Object {
		return nil, failure.BadRequest("", "The body must be an object, not %s.", Kind(top))
	}
	fields := make(map[string]api.Raw, 16)
	for key, v := range top.Members() {
		if v.Given() {
			fields[string(key)] = v
		} else {
			delete(fields, string(key))
		}
	}
	return fields, nil
}

// Names are what of a request has no effect, each once.
type Names []string

// Add adds a name.
func (n *Names) Add(name string) {
	for _, have := range *n {
		if have == name {
			return
		}
	}
	if len(*n) < 64 { // the header has room for fewer
		*n = append(*n, name)
	}
}

// Text reads a text that has to be there.
func Text(path string, v api.Raw) (string, error) {
	if !v.Given() {
		return "", Bad(path, "Field required")
	}
	if Kind(v) != jsontext.String {
		return "", WrongType(path, "a string", v)
	}
	return v.Text(), nil
}

// Bool reads true or false.
func Bool(path string, v api.Raw) (bool, error) {
	if Kind(v) != jsontext.Bool {
		return false, WrongType(path, "a boolean", v)
	}
	return v[0] == 't', nil
}

// Kind is the kind of a value, which may be absent.
func Kind(v api.Raw) jsontext.Kind {
	if v == nil {
		return jsontext.Null
	}
	return v.Kind()
}

// Int reads a whole number that is at least the given one. One beyond a billion counts as that.
func Int(path string, v api.Raw, least int) (int, error) {
	x, ok := 0.0, false
	if Kind(v) == jsontext.Number {
		x, ok = v.Float()
	}
	switch {
	case !ok:
		return 0, WrongType(path, "an integer", v)
	case x != float64(int64(min(max(x, -1e9), 1e9))) && x > -1e9 && x < 1e9:
		return 0, Bad(path, "must be an integer, got %s", Clip(string(v)))
	case x < float64(least):
		return 0, Bad(path, "must be at least %d, got %s", least, Clip(string(v)))
	}
	return int(min(x, 1e9)), nil
}

// Clip is a text of a client in a message, cut to a length that nobody minds.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return strings.ToValidUTF8(s, "")
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Header lists the names, at most 32 of them in at most 1 KiB.
func (n Names) Header() string {
	var b strings.Builder
	for i, name := range n {
		name = strings.Map(func(r rune) rune {
			if r <= ' ' || r > '~' || r == ',' {
				return '_'
			}
			return r
		}, name)
		if i == 32 || b.Len()+2+len(name) > 1024 {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}
