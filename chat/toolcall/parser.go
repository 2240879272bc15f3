package toolcall

import "bytes"

// Delta is a piece of an answer: either content, or a piece of a call.
type Delta struct {
	Text      []byte // content
	Call      int    // the number of the call, from 0 on
	Name      string // of the tool, with the first delta of a call
	Arguments []byte // a piece of the JSON text of the arguments
	End       bool   // the arguments are complete
}

// Call is a whole call.
type Call struct {
	Name      string
	Arguments []byte // JSON
	Complete  bool   // the output did not end within the call
}

// Parser reads the calls in one output, which may come in any pieces. It is made by
// [Format.NewParser].
type Parser struct {
	f     *Format
	tools []Tool
	state state

	held   []byte // of the text: what may become a call, with the white space before it
	joined []byte // held and the piece after it
	deltas []Delta
	made   []byte // of the deltas: what is not a part of the text

	calls   int  // that have begun
	wrote   bool // there has been content
	after   bool // there was a call, and no content since
	pending int  // while a long head waits: how long the text must be to be looked at again

	use      *Format // that the present call has: f, or one of those that it reads as well
	nesting  nesting // of the arguments
	inObject bool    // the object around the arguments has not ended
	xml      xmlReader
	python   pythonReader
}

type state uint8

const (
	inText       state = iota
	inArguments        // JSON, which is passed on as it is
	inEnd              // after the arguments
	inSection          // after a call in a section, where another one may follow
	inParameters       // in the arguments of xmlStyle, between them
	inValue            // in one of these
	inCall             // in arguments of a call in Python
)

// NewParser returns a Parser for one output in which these tools may be called.
func (f *Format) NewParser(tools []Tool) *Parser { return &Parser{f: f, tools: tools} }

// Split reads a whole output. Its results are what the deltas of a Parser add up to.
func (f *Format) Split(text []byte, tools []Tool) (content []byte, calls []Call) {
	for _, d := range f.NewParser(tools).Next(text, true) {
		if d.Text != nil {
			content = append(content, d.Text...)
			continue
		}
		if d.Name != "" {
			calls = append(calls, Call{Name: d.Name})
		}
		c := &calls[d.Call]
		c.Arguments = append(c.Arguments, d.Arguments...)
		c.Complete = c.Complete || d.End
	}
	return content, calls
}

// Next takes the next piece of the output and returns what is certain now; with last, that is
// all the rest. The result is valid until text changes or Next is called again.
func (p *Parser) Next(text []byte, last bool) []Delta {
	p.deltas, p.made = p.deltas[:0], p.made[:0]
	if len(p.held) > 0 {
		p.joined = append(append(p.joined[:0], p.held...), text...)
		text, p.held = p.joined, p.held[:0]
	}
	if p.pending > len(text) && !last {
		p.held = append(p.held, text...)
		return nil
	}
	p.pending = 0
	for more := true; more; {
		switch p.state {
		case inText:
			text, more = p.text(text, last)
		case inArguments:
			text, more = p.arguments(text)
		case inEnd:
			text, more = p.end(text, last)
		case inSection:
			text, more = p.section(text, last)
		case inParameters:
			text, more = p.parameters(text, last)
		case inValue:
			text, more = p.value(text, last)
		case inCall:
			text, more = p.pythonArguments(text, last)
		}
	}
	p.held = append(p.held, text...)
	return p.deltas
}

// text takes content up to a call. What it returns is the rest, which is held back unless more
// says that it is to be looked at again.
func (p *Parser) text(text []byte, last bool) (rest []byte, more bool) {
	at, size := first(p.f.marks, text)
	if at < 0 {
		end := len(text)
		if !last {
			end = len(bytes.TrimRight(text[:end-unfinished(p.f.marks, text)], blanks))
		}
		p.content(text[:end])
		return text[end:], false
	}
	h, is := p.open(text[at:], last)
	before := len(bytes.TrimRight(text[:at], blanks))
	switch is {
	case unclear:
		p.content(text[:before])
		p.wait(text[before:])
		return text[before:], false
	case not:
		p.content(text[:at+size])
		return text[at+size:], true
	}
	p.content(text[:before])
	return p.begin(h, text[at:]), true
}

// open reads the head of a call from the beginning of text, in any of the ways that the format
// knows.
func (p *Parser) open(text []byte, last bool) (h head, is verdict) {
	p.use = p.f
	if h, is = p.f.head(p.tools, text, true, last); is == yes {
		return h, yes
	}
	for _, f := range p.f.also {
		other, also := f.head(p.tools, text, true, last)
		switch {
		case also == yes:
			p.use = f
			return other, yes
		case also == unclear:
			is = unclear
		}
	}
	return h, is
}

// wait makes a long text wait for a part of its length more, so that reading it again and again
// takes no more than a time in proportion to its length.
func (p *Parser) wait(text []byte) {
	if len(text) > longHead {
		p.pending = len(text) + len(text)/8
	}
}

// longHead is the length of heads from which on they are not looked at with every piece.
const longHead = 4 << 10

// content returns text.
func (p *Parser) content(text []byte) {
	if p.after {
		trimmed := bytes.TrimLeft(text, blanks)
		if len(trimmed) == 0 {
			return
		}
		if !p.wrote {
			text = trimmed
		}
	}
	if len(text) == 0 {
		return
	}
	p.after, p.wrote = false, true
	p.deltas = append(p.deltas, Delta{Text: text})
}

// begin begins a call whose head text begins with, and returns the rest.
func (p *Parser) begin(h head, text []byte) (rest []byte) {
	p.calls++
	p.after, p.inObject = true, h.inObject
	d := Delta{Call: p.calls - 1, Name: h.name}
	switch {
	case h.arguments != nil:
		d.Arguments, d.End = h.arguments, true
		p.state = inEnd
	case p.use.xml != nil:
		d.Arguments = []byte("{")
		p.state = inParameters
		p.readXML(h.name)
	case p.use.python != nil:
		d.Arguments = []byte("{")
		p.state = inCall
		p.readPython(h.name)
	default:
		p.state, p.nesting = inArguments, nesting{}
	}
	p.deltas = append(p.deltas, d)
	return text[h.n:]
}

// keep copies bytes that are valid until Next is called again.
func (p *Parser) keep(b []byte) []byte {
	n := len(p.made)
	p.made = append(p.made, b...)
	return p.made[n:len(p.made):len(p.made)]
}

// argument returns a piece of the arguments.
func (p *Parser) argument(piece []byte, end bool) {
	if last := &p.deltas; len(*last) > 0 {
		if d := &(*last)[len(*last)-1]; d.Text == nil && d.Call == p.calls-1 && d.Arguments == nil && !d.End {
			d.Arguments, d.End = piece, end
			return
		}
	}
	p.deltas = append(p.deltas, Delta{Call: p.calls - 1, Arguments: piece, End: end})
}

// arguments passes on the JSON of arguments.
func (p *Parser) arguments(text []byte) (rest []byte, more bool) {
	if len(text) == 0 {
		return nil, false
	}
	n, end := p.nesting.read(text)
	p.argument(text[:n], end)
	if end {
		p.state = inEnd
	}
	return text[n:], end
}

// end takes what follows the arguments of a call.
func (p *Parser) end(text []byte, last bool) (rest []byte, more bool) {
	n, is := p.tail(text, last)
	if is == unclear {
		p.wait(text)
		return text, false
	}
	return p.ended(text[n:]), true
}

// ended goes on after a call.
func (p *Parser) ended(text []byte) []byte {
	p.state = inText
	if p.use.section != "" || p.use.chained {
		p.state = inSection
	}
	return text
}

// section takes what follows a call in a section: another call, or the end of the section.
func (p *Parser) section(text []byte, last bool) (rest []byte, more bool) {
	if !p.use.chained {
		c := &cursor{b: text, last: last}
		match := c.match
		if p.use.python != nil { // models leave out the token after the bracket
			match = c.prefix
		}
		if is := match(p.use.sectionEnd); is == unclear {
			return text, false
		} else if is == yes {
			p.state = inText
			return text[c.i:], true
		}
	}
	h, is := p.use.head(p.tools, text, false, last)
	switch is {
	case unclear:
		p.wait(text)
		return text, false
	case yes:
		return p.begin(h, text), true
	}
	p.state = inText
	return text, true
}
