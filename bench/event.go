package bench

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// event is what counts of one chunk of a stream. Its slices point into the
// chunk.
type event struct {
	choices            bool   // there is one, even if it says nothing
	text               []byte // of the first: JSON, quotes included; nil: none
	usage              bool
	prompt, completion int    // tokens
	failure            []byte // the value of error, unless null; nil: none
}

// parse reads a chunk. It looks at nothing that it does not need, so that the
// generator takes as little as possible of a machine that it may share with the
// server; false means that data is no JSON object as far as was looked.
func (e *event) parse(data []byte) bool {
	*e = event{}
	c := cursor{b: data}
	ok := c.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			e.choices, e.text = false, nil
			return c.choices(e)
		case "usage":
			e.usage, e.prompt, e.completion = false, 0, 0
			return c.usage(e)
		case "error":
			v := c.value()
			if e.failure = v; string(v) == "null" {
				e.failure = nil
			}
			return v != nil
		}
		return c.value() != nil
	})
	c.space()
	return ok && c.i == len(data)
}

// cursor walks over JSON.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) && (c.b[c.i] == ' ' || c.b[c.i] == '\n' || c.b[c.i] == '\t' || c.b[c.i] == '\r') {
		c.i++
	}
}

// peek is the next byte that is not space, or 0.
func (c *cursor) peek() byte {
	if c.space(); c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

func (c *cursor) eat(b byte) bool {
	if c.peek() != b || c.i == len(c.b) {
		return false
	}
	c.i++
	return true
}

// object calls member for each key, which must walk over the value.
func (c *cursor) object(member func(key []byte) bool) bool {
	if !c.eat('{') {
		return false
	}
	if c.eat('}') {
		return true
	}
	for {
		if c.peek() != '"' {
			return false
		}
		key := c.value()
		if key == nil || !c.eat(':') || !member(key[1:len(key)-1]) {
			return false
		}
		if c.eat('}') {
			return true
		}
		if !c.eat(',') {
			return false
		}
	}
}

// choices looks into the first element of a list of choices.
func (c *cursor) choices(e *event) bool {
	if c.peek() != '[' {
		return c.value() != nil
	}
	c.i++
	if c.eat(']') {
		return true
	}
	e.choices = true
	if c.peek() != '{' {
		if c.value() == nil {
			return false
		}
	} else if !c.object(func(key []byte) bool {
		switch string(key) {
		case "text":
			return c.text(e)
		case "delta":
			if c.peek() == '{' {
				return c.object(func(key []byte) bool {
					if string(key) == "content" {
						return c.text(e)
					}
					return c.value() != nil
				})
			}
		}
		return c.value() != nil
	}) {
		return false
	}
	for c.eat(',') {
		if c.value() == nil {
			return false
		}
	}
	return c.eat(']')
}

func (c *cursor) text(e *event) bool {
	v := c.value()
	if v != nil && v[0] == '"' {
		e.text = v
	}
	return v != nil
}

func (c *cursor) usage(e *event) bool {
	if c.peek() != '{' {
		return c.value() != nil
	}
	e.usage = true
	return c.object(func(key []byte) bool {
		v := c.value()
		switch string(key) {
		case "prompt_tokens":
			e.prompt = count(v)
		case "completion_tokens":
			e.completion = count(v)
		}
		return v != nil
	})
}

// maxTokens bounds the length that an answer may claim.
const maxTokens = 1 << 30

func count(v []byte) int {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > maxTokens {
		return 0
	}
	return n
}

// value walks over a value and returns it; nil: there is none that ends.
// Brackets are counted, not matched.
func (c *cursor) value() []byte {
	first := c.peek()
	start := c.i
	switch first {
	case 0, ',', ':', ']', '}':
		return nil
	case '"':
		if !c.quoted() {
			return nil
		}
	case '{', '[':
		for depth := 0; ; {
			if c.i == len(c.b) {
				return nil
			}
			switch c.b[c.i] {
			case '"':
				if !c.quoted() {
					return nil
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if c.i++; depth == 0 {
				return c.b[start:c.i]
			}
		}
	default:
		for c.i < len(c.b) && !delimits(c.b[c.i]) {
			c.i++
		}
	}
	return c.b[start:c.i]
}

func delimits(b byte) bool {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
		return true
	}
	return false
}

// quoted walks over a string.
func (c *cursor) quoted() bool {
	for c.i++; ; c.i++ {
		n := bytes.IndexByte(c.b[c.i:], '"')
		if n < 0 {
			return false
		}
		c.i += n
		back := c.i
		for c.b[back-1] == '\\' { // ends at the opening quote at the latest
			back--
		}
		if (c.i-back)%2 == 0 {
			c.i++
			return true
		}
	}
}

// unquoted appends the text of a JSON string.
func unquoted(dst, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return append(dst, quoted[1:len(quoted)-1]...)
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return dst
	}
	return append(dst, s...)
}

// explain makes one line of the body of an answer that is no stream, or of the
// value of an event's error: its message if it has one.
func explain(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) == nil {
		for _, key := range []string{"error", "detail", "message"} {
			if m, ok := v.(map[string]any); ok && m[key] != nil {
				v = m[key]
			}
		}
		if s, ok := v.(string); ok {
			body = []byte(s)
		}
	}
	return clip(string(body))
}

// maxReason is how much of an error's text is kept.
const maxReason = 200

// clip makes a text that a server sent fit for a terminal: short, on one line,
// without control characters.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
