package jsontext

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pacedWork reads a large array or object in each way that has a pace.
var pacedWork = map[string]func(Value, Pace) any{
	"scan": func(v Value, p Pace) any { return PacedScan(v, 10, p) },
	"members": func(v Value, p Pace) any {
		var list []string
		for name, val := range v.PacedMembers(p) {
			list = append(list, string(name), strconv.Itoa(len(val)))
		}
		return list
	},
	"elements": func(v Value, p Pace) any {
		var list []int
		for n, val := range v.PacedElements(p) {
			list = append(list, n, len(val))
		}
		return list
	},
	"member": func(v Value, p Pace) any { return len(v.PacedMember("b", p)) },
	"text": func(v Value, p Pace) any {
		if v.Kind() != String {
			return nil
		}
		return v.PacedText(p)
	},
}

// TestPaced: what is read at a pace is what is read without one; the pace is told of about
// all bytes, piece by piece; and if it says no, nothing more is read.
func TestPaced(t *testing.T) {
	const size = 40 * pacedPiece
	numbers := strings.Repeat("[1,2.5],", size/8)
	for name, text := range map[string]string{
		"array": "[" + numbers + "7]", "object": `{"a":1,"b\n":{"c":[` + numbers + `7]},"b":[` + numbers + `"]"]}`,
		"string": `"` + strings.Repeat(`\n`, size/2) + `"`,
	} {
		v := Value(text)
		for work, f := range pacedWork {
			want := f(v, nil)
			told, asked := 0, 0
			if got := f(v, func(n int) bool { told += n; asked++; return true }); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: a pace changes what is read", name, work)
			}
			if asked > 0 && (told < len(v)*3/4 || told > len(v)) {
				t.Errorf("%s, %s: told of %d bytes of %d", name, work, told, len(v))
			}
			if asked < 10 && slices.Contains([]string{"array scan", "array elements", "object scan", "object members", "object member", "string scan", "string text"}, name+" "+work) {
				t.Errorf("%s, %s: asked only %d times", name, work, asked)
			}
			checkStops(t, name+", "+work, v, f)
		}
	}
}

// checkStops stops the work at the third question.
func checkStops(t *testing.T, what string, v Value, f func(Value, Pace) any) {
	t.Helper()
	told, asked := 0, 0
	got := f(v, func(n int) bool { told += n; asked++; return asked < 3 })
	if asked > 3 {
		t.Errorf("%s: asked %d times, although the third answer was no", what, asked)
	}
	if err, ok := got.(error); ok && asked == 3 && (!errors.Is(err, ErrStopped) || told > 4*pacedPiece) {
		t.Errorf("%s: %v after %d bytes", what, err, told)
	}
}
