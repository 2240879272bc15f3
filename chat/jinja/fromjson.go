package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxJSONDepth bounds the nesting that FromJSON accepts. It stays below
	// maxNesting so that what was read can be printed.
	maxJSONDepth = 500
	// maxJSONValues bounds how many values one text may hold: the shortest
	// take three bytes of text and some forty of memory.
	maxJSONValues = 1 << 20
)

// FromJSON decodes a JSON text into the values that Python's json.loads gives:
// objects keep the order of their keys (a repeated key keeps its first place
// and its last value), 1 is an int of any size, 1.0 and 1e3 are floats. A lone
// surrogate escape becomes U+FFFD. It refuses what is no JSON (NaN too),
// invalid UTF-8, nesting deeper than 500 and more than 2^20 values, always with
// an error that wraps ErrJSON; the text follows Python's where Python refuses
// the same.
func FromJSON(text []byte) (Value, error) {
	d := jsonDecoder{s: string(text)}
	if !utf8.ValidString(d.s) {
		return nil, fmt.Errorf("%w: not valid UTF-8", ErrJSON)
	}
	d.space()
	v := d.value(0)
	d.space()
	if d.err == nil && d.pos < len(d.s) {
		d.fail("Extra data", d.pos)
	}
	if d.err != nil {
		return nil, d.err
	}
	return v, nil
}

type jsonDecoder struct {
	s      string
	pos    int
	values int
	err    error
}

// JSONError is a syntax error of FromJSON. It wraps ErrJSON.
type JSONError struct {
	Text string // as Python's json module words it
}

func (e *JSONError) Error() string { return ErrJSON.Error() + ": " + e.Text }
func (e *JSONError) Unwrap() error { return ErrJSON }

// fail keeps the first error; the decoder then runs out quickly, as pos moves
// to the end.
func (d *jsonDecoder) fail(what string, at int) Value {
	if d.err == nil {
		before := d.s[:at]
		line := strings.Count(before, "\n") + 1
		column := runeLen(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		d.err = &JSONError{fmt.Sprintf("%s: line %d column %d (char %d)", what, line, column, runeLen(before))}
	}
	d.pos = len(d.s)
	return nil
}

func (d *jsonDecoder) space() {
	for d.pos < len(d.s) {
		switch d.s[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *jsonDecoder) peek() byte {
	if d.pos < len(d.s) {
		return d.s[d.pos]
	}
	return 0
}

func (d *jsonDecoder) value(depth int) Value {
	if d.values++; d.values > maxJSONValues {
		return d.fail("too many values", d.pos)
	}
	if depth > maxJSONDepth {
		return d.fail("nested too deeply", d.pos)
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		s, _ := d.text()
		return s
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for _, w := range []struct {
		word  string
		value Value
	}{{"true", true}, {"false", false}, {"null", nil}} {
		if strings.HasPrefix(d.s[d.pos:], w.word) {
			d.pos += len(w.word)
			return w.value
		}
	}
	return d.fail("Expecting value", d.pos)
}

func (d *jsonDecoder) object(depth int) Value {
	d.pos++
	o := &Dict{}
	d.space()
	if d.peek() == '}' {
		d.pos++
		return o
	}
	for d.err == nil {
		if d.peek() != '"' {
			return d.fail("Expecting property name enclosed in double quotes", d.pos)
		}
		key, ok := d.text()
		if !ok {
			break
		}
		d.space()
		if d.peek() != ':' {
			return d.fail("Expecting ':' delimiter", d.pos)
		}
		d.pos++
		d.space()
		o.Set(key, d.value(depth+1))
		d.space()
		switch d.peek() {
		case '}':
			d.pos++
			return o
		case ',':
			d.pos++
			d.space()
		default:
			return d.fail("Expecting ',' delimiter", d.pos)
		}
	}
	return o
}

func (d *jsonDecoder) array(depth int) Value {
	d.pos++
	l := &List{}
	d.space()
	if d.peek() == ']' {
		d.pos++
		return l
	}
	for d.err == nil {
		l.items = append(l.items, d.value(depth+1))
		d.space()
		switch d.peek() {
		case ']':
			d.pos++
			return l
		case ',':
			d.pos++
			d.space()
		default:
			return d.fail("Expecting ',' delimiter", d.pos)
		}
	}
	return l
}

func (d *jsonDecoder) number() Value {
	start := d.pos
	digits := func() int {
		from := d.pos
		for d.pos < len(d.s) && isDigitByte(d.s[d.pos]) {
			d.pos++
		}
		return d.pos - from
	}
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if digits() == 0 {
		return d.fail("Expecting value", start)
	}
	end, isFloat := d.pos, false
	if d.peek() == '.' {
		d.pos++
		if digits() > 0 {
			end, isFloat = d.pos, true
		}
		d.pos = end
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if digits() > 0 {
			end, isFloat = d.pos, true
		}
		d.pos = end
	}
	text := d.s[start:end]
	if isFloat {
		f, _ := strconv.ParseFloat(text, 64) // beyond the range: ±Inf, as in Python
		return f
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if len(text) > maxDigits {
		return d.fail(fmt.Sprintf("Exceeds the limit (%d digits) for integer string conversion", maxDigits), start)
	}
	b, _ := new(big.Int).SetString(text, 10)
	return normalize(b)
}

// text decodes the string that starts at pos.
func (d *jsonDecoder) text() (string, bool) {
	start := d.pos
	d.pos++
	i := d.pos
	for i < len(d.s) && d.s[i] != '"' && d.s[i] != '\\' && d.s[i] >= 0x20 {
		i++
	}
	if i < len(d.s) && d.s[i] == '"' { // nothing to decode: share the text
		s := d.s[d.pos:i]
		d.pos = i + 1
		return s, true
	}
	var b strings.Builder
	for i < len(d.s) {
		switch c := d.s[i]; {
		case c == '"':
			b.WriteString(d.s[d.pos:i])
			d.pos = i + 1
			return b.String(), true
		case c < 0x20:
			d.fail("Invalid control character at", i)
			return "", false
		case c != '\\':
			i++
		default:
			b.WriteString(d.s[d.pos:i])
			n, ok := d.escape(&b, i)
			if !ok {
				return "", false
			}
			i += n
			d.pos = i
		}
	}
	d.fail("Unterminated string starting at", start)
	return "", false
}

// escape decodes the escape at i and returns its length.
func (d *jsonDecoder) escape(b *strings.Builder, i int) (int, bool) {
	if i+1 >= len(d.s) {
		d.fail("Unterminated string starting at", d.pos)
		return 0, false
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if j := strings.IndexByte(from, d.s[i+1]); j >= 0 {
		b.WriteByte(to[j])
		return 2, true
	}
	if d.s[i+1] != 'u' {
		d.fail(`Invalid \escape`, i)
		return 0, false
	}
	r, ok := d.hex(i + 2)
	if !ok {
		d.fail(`Invalid \uXXXX escape`, i+1)
		return 0, false
	}
	if utf16.IsSurrogate(r) {
		if strings.HasPrefix(d.s[i+6:], `\u`) {
			if low, ok := d.hex(i + 8); ok {
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					b.WriteRune(full)
					return 12, true
				}
			}
		}
		r = utf8.RuneError
	}
	b.WriteRune(r)
	return 6, true
}

func (d *jsonDecoder) hex(i int) (rune, bool) {
	if i+4 > len(d.s) {
		return 0, false
	}
	n := rune(0)
	for _, c := range []byte(d.s[i : i+4]) {
		v := digitValue(c)
		if v > 15 {
			return 0, false
		}
		n = n<<4 | rune(v)
	}
	return n, true
}
