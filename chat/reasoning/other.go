package reasoning

// otherCounter counts the pieces of an output whose marks are not think tags. It passes the
// output to a Splitter byte by byte, and knows of which pieces the bytes are that the
// Splitter holds back.
type otherCounter struct {
	split   Splitter
	owners  [heldBytes]uint32 // the pieces of the bytes that are held back, oldest first
	n       int
	piece   uint32 // the present one, from 1 on
	last    uint32 // the last one that was counted
	counted int
}

// heldBytes is more than a Splitter holds back: a mark, and blanks before it.
const heldBytes = 96

func (c *otherCounter) next(piece []byte) {
	c.piece++
	for i := range piece {
		c.owners[c.n] = c.piece
		c.n++
		thought, _ := c.split.Next(piece[i:i+1], false)
		for _, owner := range c.owners[:len(thought)] {
			if owner != c.last {
				c.last, c.counted = owner, c.counted+1
			}
		}
		// What comes out comes out in front, so that the last bytes are those still held.
		held := len(c.split.held)
		copy(c.owners[:], c.owners[c.n-held:c.n])
		c.n = held
	}
}

// count is the number of pieces of thought, if the output ended here.
func (c *otherCounter) count() int {
	n, last := c.counted, c.last
	if c.split.thinks() {
		for _, owner := range c.owners[:c.n] {
			if owner != last {
				last, n = owner, n+1
			}
		}
	}
	return n
}
