package bench

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	"weir/internal/jsontext"
)

// event is what the benchmark needs of one chunk of a stream. Its slices point into the
// chunk.
type event struct {
	choices            bool   // there is a choice, even an empty one
	output             bool   // the first choice carries something of the answer: text, a thought, a call of a tool
	text               []byte // JSON string of the first choice, with its quotes; nil: none
	usage              bool
	prompt, completion int    // tokens
	cached             int    // of the prompt's tokens
	failure            []byte // value of the field error; nil: none, or null
}

// parse reads a chunk, without looking at what it does not need: the generator may share
// the machine with the server and should take little of it. False means that what it did
// look at is not a JSON object.
func (e *event) parse(data []byte) bool {
	*e = event{}
	c := cursor{b: data}
	ok := c.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			e.choices, e.output, e.text = false, false, nil
			return c.choices(e)
		case "usage":
			e.usage, e.prompt, e.completion, e.cached = false, 0, 0, 0
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

// cursor is a position in a JSON text.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) && (c.b[c.i] == ' ' || c.b[c.i] == '\n' || c.b[c.i] == '\t' || c.b[c.i] == '\r') {
		c.i++
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
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

// object calls member for each key. member must move the cursor past the value.
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

// choices reads the first element of a list of choices.
func (c *cursor) choices(e *event) bool {
	if c.peek() != '[' {
		return c.value() != nil
	}
	c.i++
	if c.eat(']') {
		return true
	}
	e.choices = true
	if !c.choice(e) {
		return false
	}
	for c.eat(',') {
		if c.value() == nil {
			return false
		}
	}
	return c.eat(']')
}

// choice reads a choice: its text, or the content of its delta.
func (c *cursor) choice(e *event) bool {
	if c.peek() != '{' {
		return c.value() != nil
	}
	return c.object(func(key []byte) bool {
		switch {
		case string(key) == "text":
			return c.text(e)
		case string(key) == "delta" && c.peek() == '{':
			return c.object(func(key []byte) bool {
				return c.delta(string(key), e)
			})
		}
		return c.value() != nil
	})
}

// delta reads a member of a choice's delta.
func (c *cursor) delta(key string, e *event) bool {
	if key == "content" {
		return c.text(e)
	}
	v := c.value()
	switch key {
	case "reasoning", "reasoning_content", "tool_calls", "refusal":
		e.output = e.output || len(v) > len(`""`) && string(v) != "null"
	}
	return v != nil
}

func (c *cursor) text(e *event) bool {
	v := c.value()
	if v != nil && v[0] == '"' {
		e.text = v
		e.output = e.output || len(v) > len(`""`)
	}
	return v != nil
}

func (c *cursor) usage(e *event) bool {
	if c.peek() != '{' {
		return c.value() != nil
	}
	e.usage = true
	return c.object(func(key []byte) bool {
		if string(key) == "prompt_tokens_details" && c.peek() == '{' {
			return c.object(func(key []byte) bool {
				v := c.value()
				if string(key) == "cached_tokens" {
					e.cached = count(v)
				}
				return v != nil
			})
		}
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

// maxTokens bounds the number of tokens that a server may report.
const maxTokens = 1 << 30

func count(v []byte) int {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > maxTokens {
		return 0
	}
	return n
}

// value moves the cursor past a value and returns the value, or nil if there is none or
// it does not end. Brackets are counted but not matched with each other.
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
		if !c.bracketed() {
			return nil
		}
	default:
		for c.i < len(c.b) && !delimits(c.b[c.i]) {
			c.i++
		}
	}
	return c.b[start:c.i]
}

// bracketed moves the cursor past an object or a list; false means that it does not end.
func (c *cursor) bracketed() bool {
	for depth := 0; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			if !c.quoted() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.i++; depth == 0 {
			return true
		}
	}
	return false
}

func delimits(b byte) bool {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
		return true
	}
	return false
}

// quoted moves the cursor past a string; false means that it does not end.
func (c *cursor) quoted() bool {
	for c.i++; ; c.i++ {
		n := bytes.IndexByte(c.b[c.i:], '"')
		if n < 0 {
			return false
		}
		c.i += n
		back := c.i
		for c.b[back-1] == '\\' { // it ends at the opening quote at the latest
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
	if jsontext.Decode(quoted, &s) != nil {
		return dst
	}
	return append(dst, s...)
}

// explain makes one line of the body of a refusal, or of the value of an error event: its
// message, if it has one.
func explain(body []byte) string {
	var v any
	if jsontext.Decode(body, &v) == nil {
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

// maxReason is how many bytes of an error's text are kept.
const maxReason = 200

// clip makes a text from a server safe to print on a terminal: short, on one line, without
// control characters.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
