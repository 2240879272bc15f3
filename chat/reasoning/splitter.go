package reasoning

import "bytes"

// Blanks may precede the opening mark.
const (
	blanks    = " \t\r\n"
	maxBlanks = 16 // in bytes; after more of them, a mark is not the opening one
)

// Splitter splits one output, which may come in any pieces. It holds back only bytes that
// may become a mark. The zero value, like New(Content), takes everything for content.
type Splitter struct {
	marks   *Marks
	state   state
	either  bool     // while opening: the output is content unless it begins with the mark
	line    bool     // a line break that comes now belongs to the mark before it
	held    []byte   // a part of a mark, with the blanks before it
	joined  []byte   // held and the piece after it
	thought []byte   // of a piece that has several parts of it
	content []byte   // the same
	channel channels // of Harmony
	calls   bool     // calls of Harmony remain in the content
	calling bool     // the present message is one
	scratch []byte   // parts that the text does not have so
}

type state uint8

const (
	answering state = iota
	opening         // nothing was returned yet, and the opening mark may come
	thinking
	replying // after the thoughts: a mark that begins the answer may come
	marked   // in an answer that a mark may end
	heading  // in a header of Harmony
	telling  // in a message of Harmony that is content
)

// New returns a Splitter for one output that has the tags of Think.
func New(start Start) Splitter { return Think.New(start) }

// New returns a Splitter for one output.
func (m *Marks) New(start Start) Splitter {
	m = m.orThink()
	s := Splitter{marks: m, either: start == Either}
	switch {
	case m.channels && start == Thought:
		s.state = thinking
	case m.channels && start == Content: // a prompt that has the header of the answer
		s.state = telling
	case start != Content:
		s.state = opening
	case len(m.answer) > 0:
		s.state = replying
	}
	return s
}

// Split splits a whole output that has the tags of Think.
func Split(text []byte, start Start) (thought, content []byte) { return Think.Split(text, start) }

// Split splits a whole output.
func (m *Marks) Split(text []byte, start Start) (thought, content []byte) {
	s := m.New(start)
	return s.Next(text, true)
}

// Next takes the next piece of the output and returns the thought and content that are now
// certain; with last, that is all the rest. The results share memory with text or with the
// Splitter, and are valid until text changes or Next is called again.
func (s *Splitter) Next(text []byte, last bool) (thought, content []byte) {
	if s.state == answering {
		return nil, text
	}
	s.scratch = s.scratch[:0]
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), text...)
		text, s.held = s.joined, s.held[:0]
	}
	for {
		if s.line && len(text) > 0 {
			s.line = false
			if text[0] == '\n' {
				text = text[1:]
			}
		}
		now := s.state
		part, rest, more := s.part(text, last)
		if len(part) > 0 {
			whole := &content
			if now == thinking {
				whole = &thought
			}
			switch {
			case len(*whole) == 0:
				*whole = part
			case now == thinking:
				thought = s.join(&s.thought, thought, part)
			default:
				content = s.join(&s.content, content, part)
			}
		}
		if !more {
			break
		}
		text = rest
	}
	return thought, content
}

// join appends a part to those before it, in memory of the Splitter's.
func (s *Splitter) join(own *[]byte, before, part []byte) []byte {
	if len(*own) == 0 || &(*own)[0] != &before[0] {
		*own = append((*own)[:0], before...)
	}
	*own = append(*own, part...)
	return *own
}

// part takes what text has of the present state. more says that there is a rest, which is of
// another state.
func (s *Splitter) part(text []byte, last bool) (part, rest []byte, more bool) {
	switch s.state {
	case answering:
		return text, nil, false
	case opening:
		return s.open(text, last)
	case replying:
		return s.reply(text, last)
	case heading:
		return s.head(text, last)
	case telling:
		return s.until(bodyMarks, text, last)
	case marked:
		return s.until(s.marks.answered, text, last)
	}
	if s.marks.channels {
		return s.until(bodyMarks, text, last)
	}
	return s.until(s.marks.end, text, last)
}

// until takes text up to the first of some marks.
func (s *Splitter) until(marks []string, text []byte, last bool) (part, rest []byte, more bool) {
	at, size := first(marks, text)
	if at < 0 {
		end := len(text)
		if !last {
			end -= unfinished(marks, text)
			s.held = append(s.held, text[end:]...)
		}
		return text[:end], nil, false
	}
	mark := text[at : at+size]
	part = text[:at]
	if s.calling {
		s.calling = false
		from := len(s.scratch)
		s.scratch = append(append(s.scratch, part...), callEnd...)
		part = s.scratch[from:len(s.scratch):len(s.scratch)]
	}
	switch {
	case s.marks.channels:
		s.state, s.channel.n = heading, 0
		s.channel.keep(mark)
	case s.state == marked:
		s.line = s.marks.line
	case len(s.marks.answer) > 0:
		s.state = replying
	default:
		s.state = answering
	}
	return part, text[at+size:], true
}

// open takes the beginning of an output.
func (s *Splitter) open(text []byte, last bool) (part, rest []byte, more bool) {
	marks := s.marks.open
	if s.marks.channels {
		marks = beginnings
	}
	rest, size, hold := leading(marks, text, last)
	switch {
	case hold:
		s.held = append(s.held, text...)
		return nil, nil, false
	case s.marks.channels && size > 0:
		s.state, s.channel.n = heading, 0
		return nil, rest, true // with the beginning of the header
	case size > 0:
		s.state, s.line = thinking, s.marks.line
		return nil, rest[size:], true
	case s.either && len(s.marks.answer) > 0:
		s.state = replying
	case s.either:
		s.state = answering
	default:
		s.state = thinking
	}
	return nil, text, true
}

// reply takes the beginning of an answer.
func (s *Splitter) reply(text []byte, last bool) (part, rest []byte, more bool) {
	rest, size, hold := leading(s.marks.answer, text, last)
	if hold {
		s.held = append(s.held, text...)
		return nil, nil, false
	}
	if size == 0 {
		s.state = answering
		return nil, text, true
	}
	s.state, s.line = marked, s.marks.line
	return nil, rest[size:], true
}

// head drops a header.
func (s *Splitter) head(text []byte, last bool) (part, rest []byte, more bool) {
	at, size := first(headerMarks, text)
	if at < 0 {
		end := len(text)
		if !last {
			end -= unfinished(headerMarks, text)
			s.held = append(s.held, text[end:]...)
		}
		s.channel.keep(text[:end])
		return nil, nil, false
	}
	s.channel.keep(text[:at])
	s.state = telling
	if to := s.channel.recipient(); s.calls && to != nil {
		s.calling = true
		from := len(s.scratch)
		s.scratch = append(append(append(s.scratch, callHeader...), to...), callChannel...)
		part = s.scratch[from:len(s.scratch):len(s.scratch)]
	} else if s.channel.thinks() {
		s.state = thinking
	}
	return part, text[at+size:], true
}

// first returns where the first of some marks is in a text, and its length; -1: none is.
func first(marks []string, text []byte) (at, size int) {
	for from := 0; from < len(text); from++ {
		for _, m := range marks {
			if text[from] == m[0] && len(text)-from >= len(m) && string(text[from:from+len(m)]) == m {
				return from, len(m)
			}
		}
	}
	return -1, 0
}

// unfinished returns how many bytes at the end of a text may become a mark.
func unfinished(marks []string, text []byte) (n int) {
	for _, m := range marks {
		for k := min(len(m)-1, len(text)); k > n; k-- {
			if string(text[len(text)-k:]) == m[:k] {
				n = k
			}
		}
	}
	return n
}

// leading looks for a mark at the beginning of a text, after blanks. size is its length in
// rest, 0 if there is none, and hold says that it may still come.
func leading(marks []string, text []byte, last bool) (rest []byte, size int, hold bool) {
	rest = bytes.TrimLeft(text, blanks)
	if len(text)-len(rest) > maxBlanks {
		return rest, 0, false
	}
	for _, m := range marks {
		if len(rest) >= len(m) && string(rest[:len(m)]) == m {
			return rest, len(m), false
		}
		hold = hold || !last && len(rest) < len(m) && m[:len(rest)] == string(rest)
	}
	return rest, 0, hold
}

// Answering reports that the rest of the output is content, byte for byte.
func (s *Splitter) Answering() bool { return s.state == answering }

// thinks reports that the next byte is thought, unless a mark comes.
func (s *Splitter) thinks() bool { return s.state == thinking || s.state == opening && !s.either }
