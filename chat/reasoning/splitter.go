package reasoning

import "bytes"

// blanks may stand in front of the opening tag.
const (
	blanks    = " \t\r\n"
	maxBlanks = 16 // bytes; with more of them no tag is expected any more
)

// Splitter splits one output as it comes, cut anywhere. It holds back only what
// may still become a tag. The zero value, like New(Content), takes everything
// for content.
type Splitter struct {
	state  state
	either bool   // opening: content unless the tag comes
	held   []byte // a part of a tag, with the blanks in front of it
	joined []byte // held and what came behind it
}

type state uint8

const (
	answering state = iota
	opening         // nothing was given out: the opening tag may come
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

// Next takes the next piece of the output and returns what is settled with it;
// with last, that is everything. The results share memory with text or with the
// Splitter and are valid until text changes or Next is called again.
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

// Answering reports that all that comes is content.
func (s *Splitter) Answering() bool { return s.state == answering }

// Undecided reports that nothing has shown yet what the output begins with.
func (s *Splitter) Undecided() bool { return s.state == opening && s.either }
