package responsesapi

import (
	"weir/internal/jsontext"
)

// maxDepth bounds the nesting of what a model has written.
const maxDepth = 200

// unwrapInput returns the input of a custom tool that is in the arguments of a function, or,
// if they do not have the form {"input": "…"}, the arguments themselves.
func unwrapInput(arguments []byte) []byte {
	var t inputText
	out := append([]byte(nil), t.next(arguments)...)
	return append(out, t.rest()...)
}

// inputText reads the input of a custom tool out of the arguments of a function, which are
// {"input": "…"}, piece by piece. If they begin otherwise, it holds them back, and the input is
// the text of the arguments.
type inputText struct {
	held  []byte // what has come and may still be something else
	state inputState
	out   []byte
}

type inputState uint8

const (
	before inputState = iota // of the string
	inside
	after
)

// opening is what the arguments begin with, without white space.
const opening = `{"` + inputName + `":"`

// next returns the part of the input that a piece of the arguments adds. It is valid until the
// next call.
func (t *inputText) next(piece []byte) []byte {
	t.out = t.out[:0]
	if t.state == after {
		return nil
	}
	t.held = append(t.held, piece...)
	if t.state == before {
		n, ok := opens(t.held)
		if !ok {
			return nil
		}
		t.held = t.held[:copy(t.held, t.held[n:])]
		t.state = inside
	}
	t.string()
	return t.out
}

// opens returns the length of the opening in front of the string, with any white space, and
// whether it is there as a whole.
func opens(b []byte) (n int, ok bool) {
	at := 0
	for i, c := range b {
		switch {
		case at < len(opening) && c == opening[at]:
			if at++; at == len(opening) {
				return i + 1, true
			}
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			if at > 1 && at < len(opening)-2 { // inside the name
				return 0, false
			}
		default:
			return 0, false
		}
	}
	return 0, false
}

// string takes as much of the string as is complete.
func (t *inputText) string() {
	i := 0
	for i < len(t.held) {
		c := t.held[i]
		if c == '"' {
			t.state, t.held = after, nil
			return
		}
		n := 1
		if c == '\\' {
			if n = escape(t.held[i:]); n == 0 { // the rest of it comes with the next piece
				break
			}
			quoted := append(append([]byte{'"'}, t.held[i:i+n]...), '"')
			if jsontext.Check(quoted, 1) == nil {
				t.out, _ = jsontext.Value(quoted).AppendText(t.out)
			}
		} else {
			t.out = append(t.out, c)
		}
		i += n
	}
	t.held = t.held[:copy(t.held, t.held[i:])]
}

// escape returns the length of the escape that b begins with; 0: it is not complete. A pair of
// surrogates is one.
func escape(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[1] != 'u':
		return 2
	case len(b) < 6:
		return 0
	case !isHigh(b):
		return 6
	case len(b) > 6 && b[6] != '\\' || len(b) > 7 && b[7] != 'u':
		return 6
	case len(b) < 12:
		return 0
	}
	return 12
}

// isHigh reports whether an escape is the first half of a pair.
func isHigh(b []byte) bool {
	return (b[2] == 'd' || b[2] == 'D') && (b[3] >= '8' && b[3] <= '9' || b[3] >= 'a' && b[3] <= 'b' || b[3] >= 'A' && b[3] <= 'B')
}

// rest returns what is to be added when the arguments are complete.
func (t *inputText) rest() []byte {
	if t.state != before {
		return nil
	}
	held := t.held
	t.held = nil
	return t.whole(held)
}

// whole returns the input of arguments that do not begin with it: they may have other members
// in front, or be no object at all.
func (t *inputText) whole(arguments []byte) []byte {
	if jsontext.Check(arguments, maxDepth) == nil {
		if v := jsontext.Trim(arguments).Member(inputName); v != nil && v.Kind() == jsontext.String {
			return []byte(v.Text())
		}
	}
	return arguments
}
