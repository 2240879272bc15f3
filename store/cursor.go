package store

import badger "github.com/dgraph-io/badger/v4"

// A Cursor goes over the keys that begin with a prefix, in one direction, and can jump. It
// reads no values. A View can have several.
type Cursor struct {
	r       *Reader
	it      *badger.Iterator
	prefix  []byte
	reverse bool
}

// Keys opens a cursor. It has no position before its first Seek.
func (r *Reader) Keys(prefix []byte, reverse bool) *Cursor {
	c := &Cursor{r: r, prefix: prefix, reverse: reverse}
	c.guarded(func() {
		c.it = r.txn.NewIterator(badger.IteratorOptions{Prefix: prefix, Reverse: reverse})
	})
	return c
}

// guarded runs f, which calls badger, so that View can tell where a panic comes from.
func (c *Cursor) guarded(f func()) {
	outside := c.r.inside
	c.r.inside = true
	f()
	c.r.inside = outside // not deferred, because View looks at it after a panic
}

// Seek goes to the first key that is not before key in the cursor's direction, and returns
// it, or nil if there is none. The result is valid until the cursor moves.
func (c *Cursor) Seek(key []byte) []byte {
	c.guarded(func() { c.it.Seek(key) })
	return c.key()
}

// Next goes to the next key and returns it, as Seek does.
func (c *Cursor) Next() []byte {
	outside := c.r.inside
	c.r.inside = true
	c.it.Next()
	c.r.inside = outside
	return c.key()
}

func (c *Cursor) key() []byte {
	if !c.it.Valid() { // it compares the prefix
		return nil
	}
	return c.it.Item().Key()
}

// Close must be called before the View ends, also after a panic.
func (c *Cursor) Close() {
	if c.it != nil {
		c.it.Close()
	}
}
