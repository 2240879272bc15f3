package grammar

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// object is a JSON object in the order of its text.
type object struct {
	keys []string
	m    map[string]any
}

// maxDepth bounds the nesting of schemas and tags.
const maxDepth = 256

// numeral is a number as it is written in the schema.
type numeral string

// parseJSON reads one JSON text into *object, []any, string, numeral, bool and nil. Of
// equal keys the last counts, in the place of the first.
func parseJSON(text []byte, work *meter) (v any, err error) {
	defer catch(&err)
	work.spend(len(text) / 64)
	if e := jsontext.Check(text, maxDepth); e != nil {
		switch e.Kind {
		case jsontext.TooDeep:
			fail(ErrTooComplex, "", "JSON is nested too deeply")
		case jsontext.WantEnd:
			fail(ErrInvalid, "", "there is more than one JSON value")
		}
		fail(ErrInvalid, "", "not JSON: %v", e)
	}
	return valueOf(jsontext.NewCursor(text), work), nil
}

func valueOf(c *jsontext.Cursor, work *meter) any {
	work.spend(1)
	switch c.Kind() {
	case jsontext.Object:
		o := &object{m: make(map[string]any)}
		c.Object(func(name jsontext.Value) {
			k := name.Text()
			if _, ok := o.m[k]; !ok {
				o.keys = append(o.keys, k)
			}
			o.m[k] = valueOf(c, work)
		})
		return o
	case jsontext.Array:
		list := []any{}
		c.Array(func(int) { list = append(list, valueOf(c, work)) })
		return list
	case jsontext.String:
		return c.Take().Text()
	case jsontext.Bool:
		return c.Take()[0] == 't'
	case jsontext.Null:
		c.Take()
		return nil
	}
	return numeral(c.Take())
}

// canonicalJSON is a text that is the same for two values if and only if they are equal
// in the sense of JSON Schema: 1 and 1.0 are equal, and the order of properties does not
// count. A number with more digits than parseNumber takes is equal only to one that is
// written in the same way.
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
	case numeral:
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
	case numeral:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}

// quoteJSON is the only spelling that generated property names and constants have. It
// escapes only what JSON requires to be escaped.
func quoteJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		b.WriteString(escapeByte(s[i]))
	}
	b.WriteByte('"')
	return b.String()
}

// escapeByte is c as quoteJSON writes it.
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
