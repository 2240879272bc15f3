package reasoning

// Counter counts which pieces of one output are thought, such as its tokens. A tag is
// neither thought nor content, so that pieces which have nothing but a tag do not count; one
// with a part of a tag and something of the thought does. The zero value, like
// NewCounter(Content), counts nothing.
type Counter struct {
	state  state
	either bool // while opening: the output is content unless it begins with the tag
	blanks int  // while opening: bytes of white space so far
	tag    int  // bytes of the tag that may come now, or of the one that is expected
	tagged int  // pieces that have nothing but these
	pieces int  // of thought, the tagged ones included

	other *otherCounter // of marks that are not think tags; nil: they are
}

// NewCounter returns a Counter for one output that has the tags of Think.
func NewCounter(start Start) Counter {
	return Think.NewCounter(start)
}

// NewCounter returns a Counter for one output.
func (m *Marks) NewCounter(start Start) Counter {
	if m = m.orThink(); m != Think {
		return Counter{other: &otherCounter{split: m.New(start)}}
	}
	if start == Content {
		return Counter{}
	}
	return Counter{state: opening, either: start == Either}
}

// Next takes the next piece. It allocates nothing.
func (c *Counter) Next(piece []byte) {
	if c.other != nil {
		c.other.next(piece)
		return
	}
	switch c.state {
	case opening:
		c.open(piece)
	case thinking:
		c.think(piece, true)
	}
}

// open takes a piece as long as the opening tag may come.
func (c *Counter) open(piece []byte) {
	whole := c.tag > 0 // the piece has nothing but bytes of the tag
	for i, b := range piece {
		switch {
		case c.tag == 0 && isBlank(b) && c.blanks < maxBlanks:
			c.blanks++
		case b == Open[c.tag]:
			if c.tag == 0 {
				whole = i == 0
			}
			if c.tag++; c.tag < len(Open) {
				continue
			}
			*c = Counter{state: thinking}
			if rest := piece[i+1:]; len(rest) > 0 {
				c.think(rest, false)
			}
			return
		case c.either:
			*c = Counter{}
			return
		default: // thought without a tag; both tags begin with the same byte
			c.state = thinking
			switch {
			case c.tag != 1:
				c.tag, c.tagged = 0, 0
			case i > 0: // the byte before is of this piece, and think takes it again
				i, c.tag = i-1, 0
			}
			c.think(piece[i:], i == 0)
			return
		}
	}
	c.pieces++
	if c.tag > 0 && whole {
		c.tagged++
	}
}

// think takes a piece of thought; whole says that it is not only the rest of one.
func (c *Counter) think(piece []byte, whole bool) {
	c.pieces++
	own := whole && c.tag > 0 // the piece has nothing but bytes of the tag
	for i, b := range piece {
		switch {
		case b == Close[c.tag]:
			if c.tag == 0 {
				own, c.tagged = whole && i == 0, 0
			}
			if c.tag++; c.tag == len(Close) {
				if own {
					c.tagged++
				}
				*c = Counter{pieces: c.pieces - c.tagged}
				return
			}
		case b == Close[0]:
			own, c.tag, c.tagged = whole && i == 0, 1, 0
		default:
			own, c.tag, c.tagged = false, 0, 0
		}
	}
	if own && c.tag > 0 {
		c.tagged++
	}
}

// Count returns how many pieces so far are thought, if the output ended here.
func (c *Counter) Count() int {
	if c.other != nil {
		return c.other.count()
	}
	if c.state == opening && c.either {
		return 0
	}
	return c.pieces
}

// Thinking reports that the next piece is thought, unless a tag comes.
func (c *Counter) Thinking() bool {
	if c.other != nil {
		return c.other.split.thinks()
	}
	return c.state == thinking || c.state == opening && !c.either
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }
