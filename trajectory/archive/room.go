package archive

import "weir/internal/memory"

// Reserve reserves n more bytes of memory that whoever reads the view is about to hold (package
// memory). It may wait; if it returns an error, the work has to end with it. Small amounts are
// reserved together. Everything is given back when the call ends that the view is read for.
func (v *View) Reserve(n int64) error {
	if v.ctx == nil {
		return nil
	}
	if v.spare < n {
		const together = 64 << 10
		if err := memory.Take(v.ctx, n-v.spare+together); err != nil {
			return err
		}
		v.spare += n - v.spare + together
	}
	v.spare -= n
	return nil
}

// Room is the memory of something that is used again and again, such as a buffer: it needs as
// much as at the time when it needed most.
type Room struct {
	v    *View
	most int64
}

// Room returns the memory of something that reads the view.
func (v *View) Room() *Room { return &Room{v: v} }

// Need reserves what is missing of n bytes.
func (r *Room) Need(n int64) error {
	if n <= r.most {
		return nil
	}
	if err := r.v.Reserve(n - r.most); err != nil {
		return err
	}
	r.most = n
	return nil
}

// facts returns what reserves the memory of the facts of one text, in place of those of the
// text before.
func (v *View) facts() func(n int64) error {
	now := int64(0)
	return func(n int64) error {
		now += n
		return v.described.Need(now)
	}
}

// BatchBytes is about what a batch takes that is kept in a list.
const BatchBytes = 1 << 10

// blockBytes is what the blocks take that the contents of a batch read, one of each stream, and
// once more as they are stored.
const blockBytes = int64(streams) * 2 * blockSize
