package toolcall

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// Some families write a call as one in Python, with keyword arguments whose values are literals.
// A pythonReader makes JSON of them byte by byte, so it does not matter in which pieces they come.
// Nothing that stands there can be refused any more, so everything becomes some JSON:
//
//	Python                                  JSON
//	city='Köln', n=1_000, deep={"a": None}  "city": "Köln", "n": 1000, "deep": {"a": null}
//	"Köln", 2                               the first two properties of the tool's schema
//	(1, 2)                                  [1, 2]
//	day=date(2026, 1, 1)                    "day": "date(2026, 1, 1)"
//
// Gemma 4's calls differ in that their arguments are as in a dict, and that a token is around strings,
// in which nothing is escaped:
//
//	city:<|"|>Köln<|"|>,deep:{a:null}       "city": "Köln", "deep": {"a": null}

// pythonStyle is how the arguments of such calls are written.
type pythonStyle struct {
	grammar string // what package grammar calls it
	open    byte   // '(' if the arguments are those of a call, '{' if they are as in a dict
	end     string // what follows the arguments
	quote   string // what is around strings without escapes; "": only quotes are
	sorted  bool   // arguments, and the keys of dicts, are in alphabetical order
}

var (
	inPython = pythonStyle{grammar: "python", open: '(', end: ")"}
	inGemma  = pythonStyle{grammar: "gemma", open: '{', end: "}", quote: `<|"|>`, sorted: true}
)

// pythonReader is the state within the arguments of such a call.
type pythonReader struct {
	style  *pythonStyle
	tool   []byte // the schema of the arguments, if it is known
	unkeyd int    // how many arguments without a keyword there were
	open   []bracket
	place  place
	mode   pythonMode
	out    []byte // JSON that is returned

	word  []byte // what stands there without quotes, as far as it has come
	depth int    // of the brackets in it
	inner byte   // the quote of a string in these

	quote  byte // that the string ends with
	triple bool // three of them
	raw    bool // backslashes are themselves
	quotes int  // of those that may be the end of a string with three, or bytes of pythonStyle.quote
	escape []byte
}

// bracket is one that is open.
type bracket struct {
	kind byte // '(' of the call, '[' of a list or a tuple, '{' of a dict
	some bool // there is something in it
}

// place is what may come next within a bracket.
type place uint8

const (
	atItem     place = iota // a key or an element
	inKey                   // within the key of a dict
	afterKey                // a colon
	atValue                 // or within one
	afterValue              // a comma, or the end
)

type pythonMode uint8

const (
	between  pythonMode = iota // tokens
	inWord                     // a name, a number or anything else without quotes
	opened                     // after the quote that begins a string
	twice                      // after two: the string is empty, or begins with three
	inString                   // in a string
	ended                      // after a string, which another one may continue
	inMark                     // in what may be the beginning of pythonStyle.quote
	marked                     // in a string after that
)

// readPython begins to read the arguments of a call.
func (p *Parser) readPython(name string) {
	r := &p.python
	r.style = p.use.python
	r.tool, r.unkeyd, r.place, r.mode = nil, 0, atItem, between
	r.open = append(r.open[:0], bracket{kind: r.style.open})
	if i := slices.IndexFunc(p.tools, func(t Tool) bool { return t.Name == name }); i >= 0 {
		r.tool = p.tools[i].Parameters
	}
}

// pythonArguments takes a part of the arguments.
func (p *Parser) pythonArguments(text []byte, last bool) (rest []byte, more bool) {
	r := &p.python
	r.out = r.out[:0]
	for i := 0; i < len(text); i++ {
		if r.next(text[i]); len(r.open) == 0 {
			p.argument(p.keep(r.out), true)
			p.state = inEnd
			return text[i+1:], true
		}
	}
	if last {
		r.cut()
	}
	if len(r.out) > 0 {
		p.argument(p.keep(r.out), false)
	}
	return nil, false
}

func (r *pythonReader) top() *bracket { return &r.open[len(r.open)-1] }

// next takes one byte.
func (r *pythonReader) next(b byte) {
	switch r.mode {
	case between:
		r.token(b)
	case inWord:
		r.inWord(b)
	case opened:
		if r.mode = inString; b == r.quote {
			r.mode = twice
			return
		}
		r.inString(b)
	case twice:
		if b == r.quote {
			r.mode, r.triple = inString, true
			return
		}
		r.mode = ended
		r.next(b)
	case inString:
		r.inString(b)
	case inMark:
		r.inMark(b)
	case marked:
		r.inMarked(b)
	case ended:
		switch {
		case isBlank(b):
		case b == '"' || b == '\'':
			r.openString(b, "")
		default:
			r.out = append(r.out, '"')
			r.finished()
			r.token(b)
		}
	}
}

// token takes a byte between tokens.
func (r *pythonReader) token(b byte) {
	switch b {
	case ' ', '\t', '\r', '\n':
	case '"', '\'':
		r.begin(true)
		r.out = append(r.out, '"')
		r.openString(b, "")
	case '[', '(':
		r.begin(false)
		r.out = append(r.out, '[')
		r.open, r.place = append(r.open, bracket{kind: '['}), atItem
	case '{':
		r.begin(false)
		r.out = append(r.out, '{')
		r.open, r.place = append(r.open, bracket{kind: '{'}), atItem
	case ']', ')', '}':
		r.missing()
		if b = '}'; r.top().kind == '[' {
			b = ']'
		}
		r.out = append(r.out, b)
		r.open, r.place = r.open[:len(r.open)-1], afterValue
	case ',':
		r.missing()
		r.place = atItem
	case ':':
		if r.place == afterKey {
			r.out = append(r.out, ": "...)
			r.place = atValue
		}
	default:
		r.word, r.depth, r.inner, r.mode = r.word[:0], 0, 0, inWord
		if r.style.quote != "" && b == r.style.quote[0] {
			r.word, r.mode = append(r.word, b), inMark
			return
		}
		r.inWord(b)
	}
}

// inMark takes a byte after the beginning of the quote of the style, which is in r.word.
func (r *pythonReader) inMark(b byte) {
	if b != r.style.quote[len(r.word)] {
		r.mode = inWord
		r.inWord(b)
		return
	}
	if r.word = append(r.word, b); len(r.word) == len(r.style.quote) {
		r.begin(true)
		r.out = append(r.out, '"')
		r.mode, r.quotes = marked, 0
	}
}

// inMarked takes a byte of a string between two of the quotes of the style. Only the first byte
// of these is like it, so a part of one that is none cannot have the beginning of another in it.
func (r *pythonReader) inMarked(b byte) {
	quote := r.style.quote
	if b != quote[r.quotes] {
		r.out = appendEscaped(r.out, []byte(quote[:r.quotes]))
		if r.quotes = 0; b != quote[0] {
			r.text(b)
			return
		}
	}
	if r.quotes++; r.quotes == len(quote) {
		r.out = append(r.out, '"')
		r.finished()
	}
}

// begin writes what precedes a value, or, if it is a text, a key.
func (r *pythonReader) begin(text bool) {
	switch r.place {
	case afterKey:
		r.out = append(r.out, ": "...)
	case atItem, afterValue:
		r.item()
		switch {
		case r.top().kind == '(':
			r.key(r.positional())
		case r.top().kind == '{' && text:
			r.place = inKey
			return
		case r.top().kind == '{':
			r.key("")
		}
	}
	r.place = atValue
}

// item writes what precedes a key or an element.
func (r *pythonReader) item() {
	if r.top().some {
		r.out = append(r.out, ", "...)
	}
	r.top().some = true
}

func (r *pythonReader) key(name string) {
	r.out = append(append(append(append(r.out, '"'), appendEscaped(nil, []byte(name))...), '"'), ": "...)
}

// finished goes on after a value or a key.
func (r *pythonReader) finished() {
	if r.mode = between; r.place == inKey {
		r.place = afterKey
	} else {
		r.place = afterValue
	}
}

// missing writes null where a value should have been.
func (r *pythonReader) missing() {
	switch r.place {
	case afterKey:
		r.out = append(r.out, ": null"...)
	case atValue:
		r.out = append(r.out, "null"...)
	}
}

// positional is the name of the next argument without a keyword.
func (r *pythonReader) positional() string {
	n := r.unkeyd
	r.unkeyd++
	if root := jsontext.Trim(r.tool); (schema{v: root}).object() {
		i := 0
		for name := range root.Member("properties").Members() {
			if i++; i > n {
				return string(name)
			}
		}
	}
	return "argument_" + strconv.Itoa(n+1)
}

// inWord takes a byte of a word, or what follows it.
func (r *pythonReader) inWord(b byte) {
	switch {
	case r.inner != 0:
		if b == r.inner {
			r.inner = 0
		}
	case b == '(' || b == '[' || b == '{':
		r.depth++
	case r.depth > 0 && (b == ')' || b == ']' || b == '}'):
		r.depth--
	case r.depth > 0:
		if b == '"' || b == '\'' {
			r.inner = b
		}
	case b == '"' || b == '\'':
		if prefix := strings.ToLower(string(r.word)); slices.Contains(stringPrefixes, prefix) {
			r.begin(true)
			r.out = append(r.out, '"')
			r.openString(b, prefix)
			return
		}
	case b == ',' || b == ')' || b == ']' || b == '}', b == r.ends():
		r.wordEnded(b)
		return
	}
	r.word = append(r.word, b)
}

var stringPrefixes = []string{"r", "b", "u", "f", "br", "rb", "fr", "rf"}

// ends is what ends a word that is a key; 0: it is none.
func (r *pythonReader) ends() byte {
	switch {
	case r.place != atItem && r.place != afterValue:
		return 0
	case r.top().kind == '(':
		return '='
	case r.top().kind == '{':
		return ':'
	}
	return 0
}

// wordEnded writes a word, after which b follows.
func (r *pythonReader) wordEnded(b byte) {
	word := bytes.TrimRight(r.word, blanks)
	if b == '=' {
		r.item()
		r.key(string(word))
		r.mode, r.place = between, atValue
		return
	}
	if r.begin(true); r.place == inKey {
		r.out = append(appendEscaped(append(r.out, '"'), word), '"')
	} else {
		r.out = appendWord(r.out, word)
	}
	r.finished()
	r.token(b)
}

// appendWord appends what a word is in JSON: a constant, a number, or, if it is neither, a string.
func appendWord(dst, word []byte) []byte {
	if v, ok := asJSON(word); ok {
		return append(dst, v...)
	}
	text := strings.TrimPrefix(strings.ReplaceAll(string(word), "_", ""), "+")
	if digit := strings.TrimLeft(text, "-."); digit != "" && '0' <= digit[0] && digit[0] <= '9' {
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			return strconv.AppendInt(dst, n, 10)
		}
		if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(x, 0) {
			return strconv.AppendFloat(dst, x, 'g', -1, 64)
		}
	}
	return append(appendEscaped(append(dst, '"'), word), '"')
}

// openString begins a string, with what precedes its quote, or continues one.
func (r *pythonReader) openString(quote byte, prefix string) {
	r.mode, r.quote, r.triple, r.quotes, r.escape = opened, quote, false, 0, r.escape[:0]
	r.raw = strings.Contains(prefix, "r")
}

// inString takes a byte of a string.
func (r *pythonReader) inString(b byte) {
	if len(r.escape) > 0 {
		r.escaped(b)
		return
	}
	if b == r.quote {
		if r.quotes++; r.quotes == 3 || !r.triple {
			r.mode = ended
		}
		return
	}
	r.unquote()
	if b == '\\' {
		r.escape = append(r.escape, b)
		return
	}
	r.text(b)
}

// unquote writes the quotes that did not end the string.
func (r *pythonReader) unquote() {
	for ; r.quotes > 0; r.quotes-- {
		r.text(r.quote)
	}
}

func (r *pythonReader) text(b ...byte) { r.out = appendEscaped(r.out, b) }

// escaped takes a byte after a backslash.
func (r *pythonReader) escaped(b byte) {
	if len(r.escape) > 1 {
		r.digit(b)
		return
	}
	if r.raw {
		r.escape = r.escape[:0]
		r.text('\\', b)
		return
	}
	switch b {
	case 'x', 'u', 'U', '0', '1', '2', '3', '4', '5', '6', '7':
		r.escape = append(r.escape, b)
		return
	case 'n', 't', 'r', 'b', 'f', '\\', '"':
		r.out = append(r.out, '\\', b)
	case 'a':
		r.text(7)
	case 'v':
		r.text(11)
	case '\'', '/': // the latter is JSON's, which the grammar allows
		r.text(b)
	case '\n': // the string goes on in the next line
	default:
		r.text('\\', b)
	}
	r.escape = r.escape[:0]
}

// digit takes a byte that may be a digit of an escape.
func (r *pythonReader) digit(b byte) {
	kind, digits := r.escape[1], r.escape[2:]
	base, most := 16, map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
	if most == 0 {
		base, most, digits = 8, 3, r.escape[1:]
	}
	fits := strings.IndexByte("01234567", b) >= 0 || base == 16 && strings.IndexByte("89abcdefABCDEF", b) >= 0
	if fits {
		r.escape = append(r.escape, b)
		if digits = r.escape[len(r.escape)-len(digits)-1:]; len(digits) < most {
			return
		}
	}
	n, _ := strconv.ParseUint(string(digits), base, 32)
	switch {
	case len(digits) < most && base == 16: // no escape
		r.text(r.escape...)
	case kind == 'U':
		r.text([]byte(string(rune(min(n, math.MaxInt32))))...)
	default:
		r.out = append(r.out, `\u`...)
		r.out = append(r.out, strconv.FormatUint(n+0x10000, 16)[1:]...)
	}
	if r.escape = r.escape[:0]; !fits {
		r.inString(b)
	}
}

// cut writes what there is where the output ends within the arguments.
func (r *pythonReader) cut() {
	switch r.mode {
	case marked:
		r.out = appendEscaped(r.out, []byte(r.style.quote[:r.quotes]))
	case inWord, inMark:
		if r.ends() != 0 && r.top().kind == '(' { // most likely a key
			r.item()
			r.out = append(r.out, '"')
		} else if r.begin(true); r.place == inKey {
			r.out = append(r.out, '"')
		}
		r.out = appendEscaped(r.out, r.word)
	case twice, ended:
		r.out = append(r.out, '"')
	}
}

// called reads the name of a tool and the parenthesis after it. known says that only those of
// tools are calls.
func (h *head) called(f *Format, c *cursor, known bool, tools []Tool) verdict {
	c.blank()
	rest := c.b[c.i:]
	n := 0
	for n < len(rest) && nameByte(rest[n]) {
		n++
	}
	name := string(rest[:n])
	switch {
	case n > longestName:
		return not
	case n == len(rest):
		if known && !slices.ContainsFunc(tools, func(t Tool) bool { return strings.HasPrefix(t.Name, name) }) {
			return not
		}
		return c.over()
	case n == 0 || known && !isTool(tools, name):
		return not
	}
	h.name = name
	c.i += n
	return c.byte(f.colon[0])
}

// nameByte reports whether a name in front of a parenthesis can have b in it.
func nameByte(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '_' || b == '-' || b == '.'
}

// calledName reports whether called reads this name.
func calledName(name string) bool {
	return name != "" && len(name) <= longestName && !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 || !nameByte(byte(r)) })
}

// pythonLiteral makes JSON of a list or a dict as Python prints it, which some templates make of
// arguments.
func pythonLiteral(text []byte) (v jsontext.Value, ok bool) {
	text = bytes.Trim(text, blanks)
	if len(text) < 2 || text[0] != '[' && text[0] != '{' {
		return nil, false
	}
	r := pythonReader{style: &inPython, open: []bracket{{kind: '('}}}
	const name = "v="
	for _, part := range [][]byte{[]byte(name), text, []byte(")")} {
		for _, b := range part {
			if len(r.open) == 0 {
				return nil, false
			}
			r.next(b)
		}
	}
	out, found := bytes.CutPrefix(r.out, []byte(`"v": `))
	out, ended := bytes.CutSuffix(out, []byte("}"))
	if !found || !ended || len(r.open) > 0 || jsontext.Check(out, 256) != nil {
		return nil, false
	}
	return jsontext.Value(out), true
}
