package toolcall

import (
	"bytes"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// verdict is what a beginning of a text says about what it is.
type verdict uint8

const (
	unclear verdict = iota // more of the text will tell
	not
	yes
)

const blanks = " \t\r\n"

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// cursor reads a text that may go on.
type cursor struct {
	b    []byte
	i    int
	last bool // the text does not go on

	name   string // of an argument, and whether an attribute said that it is a string
	isText bool
}

// over is the verdict where the text ends.
func (c *cursor) over() verdict {
	if c.last {
		return not
	}
	return unclear
}

// blank skips white space.
func (c *cursor) blank() {
	for c.i < len(c.b) && isBlank(c.b[c.i]) {
		c.i++
	}
}

// byte reads one byte after white space.
func (c *cursor) byte(b byte) verdict {
	c.blank()
	if c.i == len(c.b) {
		return c.over()
	}
	if c.b[c.i] != b {
		return not
	}
	c.i++
	return yes
}

// match reads a text. There may be white space before it, and where it has some, any or none
// may be.
func (c *cursor) match(text string) verdict {
	start := c.i
	for word := range strings.FieldsSeq(text) {
		c.blank()
		rest := c.b[c.i:]
		if len(rest) < len(word) && !c.last && strings.HasPrefix(word, string(rest)) {
			c.i = start
			return unclear
		}
		if len(rest) < len(word) || string(rest[:len(word)]) != word {
			c.i = start
			return not
		}
		c.i += len(word)
	}
	return yes
}

// prefix is match, but as soon as a word is there, the rest may be missing.
func (c *cursor) prefix(text string) verdict {
	some := text == ""
	for word := range strings.FieldsSeq(text) {
		switch c.match(word) {
		case unclear:
			return unclear
		case not:
			if some {
				return yes
			}
			return not
		}
		some = true
	}
	return yes
}

// value reads one JSON value by its brackets and quotes.
func (c *cursor) value() (v jsontext.Value, is verdict) {
	c.blank()
	start := c.i
	if start == len(c.b) {
		return nil, c.over()
	}
	switch c.b[start] {
	case '{', '[', '"':
		var n nesting
		size, end := n.read(c.b[start:])
		if c.i += size; !end {
			return nil, c.over()
		}
	default:
		for c.i < len(c.b) && (c.b[c.i] == '-' || c.b[c.i] == '+' || c.b[c.i] == '.' || '0' <= c.b[c.i] && c.b[c.i] <= '9' || 'a' <= c.b[c.i]|0x20 && c.b[c.i]|0x20 <= 'z') {
			c.i++
		}
		if c.i == len(c.b) {
			return nil, c.over()
		}
		if c.i == start {
			return nil, not
		}
	}
	return jsontext.Value(c.b[start:c.i]), yes
}

// text reads one JSON string.
func (c *cursor) text() (text string, is verdict) {
	c.blank()
	if c.i < len(c.b) && c.b[c.i] != '"' {
		return "", not
	}
	v, is := c.value()
	if is == yes && jsontext.Check(v, 1) != nil {
		return "", not
	}
	if is != yes {
		return "", is
	}
	return v.Text(), yes
}

// head is the beginning of a call.
type head struct {
	n         int // its length
	name      string
	inObject  bool   // there is an object around the arguments
	arguments []byte // the whole arguments, if they are in the head
}

// head reads the beginning of a call from the beginning of text. opening says that it is the
// first one: it has a mark.
func (f *Format) head(tools []Tool, text []byte, opening, last bool) (h head, is verdict) {
	c := &cursor{b: text, last: last}
	known := f.known
	switch {
	case f.known && c.match("<|python_tag|>") == yes: // Llama's, which it can do without
		known = false
	case opening && f.section != "":
		if is := c.match(f.section); is != yes {
			return h, is
		}
	case !opening:
		if is := c.match(f.between); is != yes {
			return h, is
		}
	}
	if is := c.match(f.before); is != yes {
		return h, is
	}
	switch {
	case f.object:
		is = h.object(f, c, known, tools)
	case f.python != nil:
		is = h.called(f, c, known, tools)
	default:
		is = h.named(f, c)
	}
	h.n = c.i
	return h, is
}

// isTool reports whether there is a tool of this name.
func isTool(tools []Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name })
}

// named reads a name that is followed by its arguments.
func (h *head) named(f *Format, c *cursor) verdict {
	c.blank()
	rest := c.b[c.i:]
	colon := strings.TrimSpace(f.colon)
	at := bytes.Index(rest, []byte(colon))
	if colon == "" {
		at = bytes.IndexAny(rest, f.nameEnds)
	}
	if at < 0 {
		if !properName(rest[:len(rest)-unfinished([]string{colon, "[CALL_ID]"}, rest)], f) {
			return not
		}
		return c.over()
	}
	if !properName(rest[:at], f) {
		return not
	}
	if h.name = strings.TrimSpace(string(rest[:at])); f.cleanName != nil {
		h.name = f.cleanName(h.name)
	}
	if h.name == "" {
		return not
	}
	c.i += at + len(colon)
	if f.xml == nil {
		return startOfObject(c)
	}
	after := *c // an argument, or the end of the call
	is := after.match(f.xml.key)
	if is == not {
		after = *c
		is = after.prefix(f.after)
	}
	return is
}

// longestName is how many bytes a name has at most where nothing but its end tells that it is
// one.
const longestName = 256

// properName reports whether text can be a name: it has no line break and nothing else that
// would be strange in one.
func properName(text []byte, f *Format) bool {
	if f.cleanName != nil { // marks that it takes away
		text = bytes.Replace(text, []byte("[CALL_ID]"), nil, 1)
	}
	text = bytes.Trim(text, blanks)
	return len(text) <= longestName && !bytes.ContainsAny(text, "\r\n\t<>{}[]()\"'`")
}

// startOfObject reads up to an object.
func startOfObject(c *cursor) verdict {
	c.blank()
	if c.i == len(c.b) {
		return c.over()
	}
	if c.b[c.i] != '{' {
		return not
	}
	return yes
}

// object reads a JSON object up to its arguments, or, where the name comes after them or there
// are none, the whole of it.
// known says that it is the beginning of a call only if its first member is of one, and the name
// is that of a tool.
func (h *head) object(f *Format, c *cursor, known bool, tools []Tool) verdict {
	if is := c.byte('{'); is != yes {
		return is
	}
	for first := true; ; first = false {
		switch c.byte('}') {
		case unclear:
			return unclear
		case yes:
			return h.ended()
		}
		if !first {
			if is := c.byte(','); is != yes {
				return is
			}
		}
		key, is := c.text()
		if is != yes {
			return is
		}
		if is := c.byte(':'); is != yes {
			return is
		}
		if is := h.member(f, c, key, known, tools); is != yes || h.inObject {
			return is
		}
	}
}

// ended says what an object is that has ended before its arguments began.
func (h *head) ended() verdict {
	if h.name == "" {
		return not
	}
	if h.arguments == nil {
		h.arguments = []byte("{}")
	}
	return yes
}

// member reads the value of a member of the object of a call. It sets inObject where the arguments
// begin behind the name.
func (h *head) member(f *Format, c *cursor, key string, known bool, tools []Tool) (is verdict) {
	switch {
	case key == f.nameKey:
		if h.name, is = c.text(); is == yes && (h.name == "" || known && !isTool(tools, h.name)) {
			return not
		}
	case known && h.name == "":
		if is = c.match(`"function"`); key != "type" {
			return not
		}
	case (key == f.argumentsKey || key == "parameters" || key == "arguments") && h.arguments == nil:
		if is = startOfObject(c); is == yes && h.name != "" {
			h.inObject = true
			return yes
		}
		if is != unclear {
			is = h.given(c)
		}
	default:
		_, is = c.value()
	}
	return is
}

// given reads whole arguments: an object, null, or a string with an object in it.
func (h *head) given(c *cursor) verdict {
	v, is := c.value()
	if is != yes {
		return is
	}
	switch v[0] {
	case '{':
		h.arguments = v
	case 'n':
		h.arguments = []byte("{}")
	case '"':
		if jsontext.Check(v, 1) != nil {
			return not
		}
		h.arguments = []byte(strings.TrimSpace(v.Text()))
	}
	if len(h.arguments) == 0 || h.arguments[0] != '{' {
		return not
	}
	return yes
}

// tail reads what follows the arguments of a call, and returns its length.
func (p *Parser) tail(text []byte, last bool) (n int, is verdict) {
	c := &cursor{b: text, last: last}
	if p.inObject {
		if is = c.restOfObject(); is == unclear {
			return 0, unclear
		}
	}
	if is = c.prefix(p.use.after); is == unclear {
		return 0, unclear
	}
	return c.i, yes
}

// restOfObject reads the rest of an object after one of its members. Where it goes on in
// another way, the cursor stays.
func (c *cursor) restOfObject() verdict {
	start := c.i
	for {
		is := c.byte('}')
		if is == not {
			if is = c.byte(','); is == yes {
				if _, is = c.text(); is == yes {
					if is = c.byte(':'); is == yes {
						if _, is = c.value(); is == yes {
							continue
						}
					}
				}
			}
		}
		if is == not {
			c.i = start
		}
		return is
	}
}

// nesting finds the end of a JSON value by its brackets and quotes.
type nesting struct {
	depth  int
	quoted bool // inside of a string
	escape bool // after a backslash
}

// read reads text, as far as it belongs to the value, which begins with a bracket or a quote.
func (n *nesting) read(text []byte) (size int, end bool) {
	for i, b := range text {
		switch {
		case n.escape:
			n.escape = false
		case n.quoted:
			n.escape = b == '\\'
			n.quoted = b != '"'
		case b == '"':
			n.quoted = true
		case b == '{' || b == '[':
			n.depth++
		case b == '}' || b == ']':
			n.depth--
		}
		if n.depth <= 0 && !n.quoted {
			return i + 1, true
		}
	}
	return len(text), false
}

// first returns where the first of some marks is in a text, and its length; of those in the same
// place the longest. -1: none is.
func first(marks []string, text []byte) (at, size int) {
	at = -1
	for _, m := range marks {
		within := text
		if at >= 0 {
			within = text[:min(len(text), at+len(m))]
		}
		if i := bytes.Index(within, []byte(m)); i >= 0 && (at < 0 || i < at || i == at && len(m) > size) {
			at, size = i, len(m)
		}
	}
	return at, size
}

// unfinished returns how many bytes at the end of a text may become one of some marks.
func unfinished(marks []string, text []byte) int {
	most := 0
	for _, m := range marks {
		for n := min(len(m)-1, len(text)); n > most; n-- {
			if string(text[len(text)-n:]) == m[:n] {
				most = n
			}
		}
	}
	return most
}
