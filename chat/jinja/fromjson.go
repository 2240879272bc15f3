package jinja

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/jsontext"
)

const (
	// maxJSONDepth bounds the nesting that FromJSON accepts. It is less than maxNesting, so
	// that every value that was read can be printed.
	maxJSONDepth = 501
	// maxJSONValues bounds how many values a text may have. The shortest take two bytes of
	// text and some forty bytes of memory.
	maxJSONValues = 1 << 20
)

// FromJSON decodes a JSON text into the values that Python's json.loads returns: objects
// keep the order of their keys (a repeated key keeps its first place and has its last
// value), 1 is an int of any size, 1.0 and 1e3 are floats. A lone surrogate escape becomes
// U+FFFD. Texts that are not JSON (NaN is not), invalid UTF-8, nesting deeper than 501 and
// more than 2^20 values are errors, which wrap ErrJSON. Their text is Python's, if Python
// refuses the same.
func FromJSON(text []byte) (Value, error) {
	if err := jsontext.Check(text, maxJSONDepth); err != nil {
		if !utf8.Valid(text) {
			return nil, fmt.Errorf("%w: not valid UTF-8", ErrJSON)
		}
		return nil, inPythonsWords(text, err)
	}
	text = bytes.Clone(text) // the values share it
	d := jsonDecoder{Cursor: jsontext.NewCursor(text), text: text}
	v := d.value()
	if d.err != nil {
		return nil, d.err
	}
	return v, nil
}

// JSONError is a syntax error of FromJSON. It wraps ErrJSON.
type JSONError struct {
	Text string // as Python's json module words it
}

func (e *JSONError) Error() string { return ErrJSON.Error() + ": " + e.Text }
func (e *JSONError) Unwrap() error { return ErrJSON }

// jsonError is an error at a byte of the text.
func jsonError(text []byte, what string, at int) error {
	before := text[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return &JSONError{fmt.Sprintf("%s: line %d column %d (char %d)", what, line, column, utf8.RuneCount(before))}
}

// inPythonsWords words a syntax error as Python's json module does. Python reports some of
// them at the beginning of the token, and reads a number as far as it goes: the point of
// "1." is what should not be there.
func inPythonsWords(text []byte, e *jsontext.SyntaxError) error {
	switch e.Kind {
	case jsontext.WantName:
		return jsonError(text, "Expecting property name enclosed in double quotes", e.Offset)
	case jsontext.WantColon:
		return jsonError(text, "Expecting ':' delimiter", e.Offset)
	case jsontext.WantSeparator:
		return jsonError(text, "Expecting ',' delimiter", e.Offset)
	case jsontext.WantEnd:
		return jsonError(text, "Extra data", e.Offset)
	case jsontext.TooDeep:
		return jsonError(text, "nested too deeply", e.Offset)
	case jsontext.BadNumber:
		end := e.Token + wholeNumber(text[e.Token:e.Offset])
		switch {
		case end == e.Token:
			return jsonError(text, "Expecting value", end)
		case e.Depth == 0:
			return jsonError(text, "Extra data", end)
		}
		return jsonError(text, "Expecting ',' delimiter", end)
	case jsontext.BadLiteral:
		return jsonError(text, "Expecting value", e.Token)
	case jsontext.UnclosedString:
		return jsonError(text, "Unterminated string starting at", e.Token)
	case jsontext.ControlInString:
		return jsonError(text, "Invalid control character at", e.Offset)
	case jsontext.BadEscape:
		return badEscape(text, e)
	}
	return jsonError(text, "Expecting value", e.Offset)
}

// wholeNumber is the length of the number that b begins with, without the point or the
// exponent at its end that lacks its digits.
func wholeNumber(b []byte) int {
	for n := len(b); n > 0; n-- {
		if jsontext.Check(b[:n], 0) == nil {
			return n
		}
	}
	return 0
}

func badEscape(text []byte, e *jsontext.SyntaxError) error {
	switch {
	case e.Offset+1 == len(text):
		return jsonError(text, "Unterminated string starting at", e.Token)
	case text[e.Offset+1] == 'u':
		return jsonError(text, `Invalid \uXXXX escape`, e.Offset+1)
	}
	return jsonError(text, `Invalid \escape`, e.Offset)
}

// jsonDecoder makes the values of a text that has been checked.
type jsonDecoder struct {
	*jsontext.Cursor
	text   []byte
	values int
	err    error
}

// fail keeps the first error.
func (d *jsonDecoder) fail(what string, at int) Value {
	if d.err == nil {
		d.err = jsonError(d.text, what, at)
	}
	return nil
}

// value makes the next value. After an error it skips the value, so that a text with too
// many of them takes no memory.
func (d *jsonDecoder) value() Value {
	if d.err != nil {
		d.Take()
		return nil
	}
	if d.values++; d.values > maxJSONValues {
		at := d.Offset()
		d.Take()
		return d.fail("too many values", at)
	}
	switch d.Kind() {
	case jsontext.Object:
		o := &Dict{}
		d.Object(func(name jsontext.Value) {
			if v := d.value(); d.err == nil {
				o.Set(name.SharedText(), v)
			}
		})
		return o
	case jsontext.Array:
		l := &List{}
		d.Array(func(int) {
			if v := d.value(); d.err == nil {
				l.items = append(l.items, v)
			}
		})
		return l
	case jsontext.String:
		return d.Take().SharedText()
	case jsontext.Bool:
		return d.Take()[0] == 't'
	case jsontext.Null:
		d.Take()
		return nil
	}
	return d.number()
}

func (d *jsonDecoder) number() Value {
	at := d.Offset()
	text := d.Take().SharedText()
	if strings.ContainsAny(text, ".eE") {
		f, _ := strconv.ParseFloat(text, 64) // beyond the range: ±Inf, as in Python
		return f
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if len(text) > maxDigits {
		return d.fail(fmt.Sprintf("Exceeds the limit (%d digits) for integer string conversion", maxDigits), at)
	}
	b, _ := new(big.Int).SetString(text, 10)
	return normalize(b)
}
