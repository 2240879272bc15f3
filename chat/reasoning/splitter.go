package reasoning

import "bytes"

// Blanks may precede the opening tag.
const (
	blanks    = " \t\r\n"
	maxBlanks = 16 // in bytes; after more of them, a tag is not the opening tag
)

// Splitter splits one output, which may come in any pieces. It holds back only bytes that
// may become a tag. The zero value, like New(Content), takes everything for content.
type Splitter struct {
	state  state
	either bool   // while opening: the output is content unless it begins with the tag
	held   []byte // a part of a tag, with the blanks before it
	joined []byte // held and the piece after it
}

type state uint8

const (
	answering state = iota
	opening         // nothing was returned yet, and the opening tag may come
	thinking
)

// New returns a Splitter for one output.
func New(start Start) Splitter {
	if start == Content {
		return Splitter{}
	}
	return Splitter{state: opening, either: start == Either}
}

// Split splits a whole output.
func Split(text []byte, start Start) (thought, content []byte) {
	s := New(start)
	return s.Next(text, true)
}

// Next takes the next piece of the output and returns the thought and content that are now
// certain; with last, that is all the rest. The results share memory with text or with the
// Splitter, and are valid until text changes or Next is called again.
func (s *Splitter) Next(text []byte, last bool) (thought, content []byte) {
	if s.state == answering {
		return nil, text
	}
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), text...)
		text, s.held = s.joined, s.held[:0]
	}
	if s.state == opening {
		rest := bytes.TrimLeft(text, blanks)
		near := len(text)-len(rest) <= maxBlanks
		switch {
		case near && bytes.HasPrefix(rest, []byte(Open)):
			text = rest[len(Open):]
		case near && !last && len(rest) < len(Open) && string(rest) == Open[:len(rest)]:
			s.held = append(s.held, text...)
			return nil, nil
		case s.either:
			s.state = answering
			return nil, text
		}
		s.state = thinking
	}
	if i := bytes.Index(text, []byte(Close)); i >= 0 {
		s.state = answering
		return text[:i], text[i+len(Close):]
	}
	end := len(text)
	if i := bytes.LastIndexByte(text, '<'); !last && i >= 0 && bytes.HasPrefix([]byte(Close), text[i:]) {
		end = i
		s.held = append(s.held, text[i:]...)
	}
	return text[:end], nil
}

// Answering reports that the rest of the output is content.
func (s *Splitter) Answering() bool { return s.state == answering }
