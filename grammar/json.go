package grammar

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object in the order of its text.
type object struct {
	keys []string
	m    map[string]any
}

// maxDepth bounds the nesting of schemas and tags.
const maxDepth = 256

// parseJSON reads one JSON text into *object, []any, string, json.Number, bool
// and nil. Of equal keys the last counts, in the place of the first.
func parseJSON(text []byte) (v any, err error) {
	defer catch(&err)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v = parseValue(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail(ErrInvalid, "", "there is more than one JSON value")
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) any {
	if depth > maxDepth {
		fail(ErrTooComplex, "", "JSON is nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		fail(ErrInvalid, "", "not JSON: %v", err)
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			list = append(list, parseValue(d, depth+1))
		}
		if _, err := d.Token(); err != nil {
			fail(ErrInvalid, "", "not JSON: %v", err)
		}
		return list
	}
	o := &object{m: make(map[string]any)}
	for d.More() {
		k, _ := parseValue(d, depth+1).(string)
		v := parseValue(d, depth+1)
		if _, ok := o.m[k]; !ok {
			o.keys = append(o.keys, k)
		}
		o.m[k] = v
	}
	if _, err := d.Token(); err != nil {
		fail(ErrInvalid, "", "not JSON: %v", err)
	}
	return o
}

// canonicalJSON is a text that two values have in common exactly when they are
// equal as JSON Schema has it: 1 and 1.0 are equal, and the order of properties does
// not count. A number with more digits than parseNumber takes equals only one that
// is spelled alike.
func canonicalJSON(v any) string { return string(appendCanonical(nil, v)) }

func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		dst = append(dst, '{')
		for _, k := range slices.Sorted(slices.Values(v.keys)) {
			dst = append(append(dst, quoteJSON(k)...), ':')
			dst = append(appendCanonical(dst, v.m[k]), ',')
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for _, e := range v {
			dst = append(appendCanonical(dst, e), ',')
		}
		return append(dst, ']')
	case json.Number:
		if r, ok := parseNumber(string(v)); ok {
			return append(dst, r.RatString()...)
		}
		return append(append(dst, '='), v...)
	}
	return append(dst, dumpJSON(v)...)
}

// dumpJSON writes v with ", " and ": ", as Python does.
func dumpJSON(v any) string {
	var parts []string
	switch v := v.(type) {
	case *object:
		for _, k := range v.keys {
			parts = append(parts, quoteJSON(k)+": "+dumpJSON(v.m[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, e := range v {
			parts = append(parts, dumpJSON(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return quoteJSON(v)
	case json.Number:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}

// quoteJSON is the one spelling that generated property names and constants have:
// escapes only where JSON demands them.
func quoteJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		b.WriteString(escapeByte(s[i]))
	}
	b.WriteByte('"')
	return b.String()
}

func escapeByte(c byte) string {
	switch c {
	case '"', '\\':
		return `\` + string(c)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if c < 0x20 {
		const hex = "0123456789abcdef"
		return `\u00` + string(hex[c>>4]) + string(hex[c&15])
	}
	return string([]byte{c})
}
