package jsontext

// A Cursor walks over a Value and looks at every byte once, however deeply its user looks
// into it: who goes into an array or object takes it on the way. (Members and Elements
// find the end of each value before they yield it, and again inside of it.)
type Cursor struct {
	v Value
	i int
}

// NewCursor returns a Cursor at the value of a text, which may have white space around it.
func NewCursor(text []byte) *Cursor { return &Cursor{v: text, i: skipSpace(text, 0)} }

// Offset is where the value at the cursor begins in the text.
func (c *Cursor) Offset() int { return c.i }

// Kind is the type of the value at the cursor.
func (c *Cursor) Kind() Kind { return c.v[c.i:].Kind() }

// Object goes over the object at the cursor. member is called at the value of each member,
// with the name as the JSON string that it is written as, and has to take the value.
func (c *Cursor) Object(member func(name Value)) {
	for c.skip(); c.v[c.i] != '}'; {
		from := c.i
		c.i = skipString(c.v, c.i)
		name := c.v[from:c.i:c.i]
		c.space()
		c.skip() // ':'
		member(name)
		c.comma()
	}
	c.i++
}

// Array goes over the array at the cursor. element is called at each element, with its
// index, and has to take it.
func (c *Cursor) Array(element func(n int)) {
	c.skip()
	for n := 0; c.v[c.i] != ']'; n++ {
		element(n)
		c.comma()
	}
	c.i++
}

// Take takes the value at the cursor.
func (c *Cursor) Take() Value {
	from := c.i
	c.i = skipValue(c.v, c.i)
	return c.v[from:c.i:c.i]
}

// Count takes the array at the cursor and counts its elements.
func (c *Cursor) Count() (n int) {
	c.skip()
	for ; c.v[c.i] != ']'; n++ {
		c.i = skipValue(c.v, c.i)
		c.comma()
	}
	c.i++
	return n
}

// skip takes one byte and the white space after it.
func (c *Cursor) skip() {
	c.i++
	c.space()
}

func (c *Cursor) space() {
	if c.v[c.i] <= ' ' {
		c.i = skipSpace(c.v, c.i)
	}
}

// comma takes the comma after a member or an element, if there is one.
func (c *Cursor) comma() {
	c.space()
	if c.v[c.i] == ',' {
		c.skip()
	}
}
