package archive

import (
	"crypto/sha256"

	"weir/internal/memory"
	"weir/trajectory"
)

// What an upload holds besides the texts that it is given is reserved with its context (package
// memory) before it is held, and given back by whoever made that context.

// stagedCopies is how often the blocks that are ready may be there at a time: while they
// wait, and twice more while those before them are written.
const stagedCopies = 4

// keyBytes is about what a block takes beside its bytes.
const keyBytes = 160

// grow reserves what is missing of n bytes, of which held are reserved.
func (u *Upload) grow(held *int64, n int64) error {
	if n <= *held {
		return nil
	}
	if err := memory.Take(u.ctx, n-*held); err != nil {
		return err
	}
	*held = n
	return nil
}

// room makes room for n more bytes, at most a whole block, in the block that is being filled.
func (u *Upload) room(s stream, n int) error {
	old := u.buf[s]
	size := len(old) + n
	if size <= cap(old) {
		return nil
	}
	size = min(max(size, 2*cap(old), 1<<10), blockSize)
	if err := u.grow(&u.held.buf[s], int64(size+cap(old))); err != nil {
		return err
	}
	u.buf[s] = append(make([]byte, 0, size), old...)
	return nil
}

// recordRoom makes room for a record of at most n bytes.
func (u *Upload) recordRoom(n int) error {
	if n > cap(u.record) {
		n = max(n, 2*cap(u.record))
		if err := u.grow(&u.held.record, int64(n+cap(u.record))); err != nil {
			return err
		}
		u.record = make([]byte, 0, n)
	}
	u.record = u.record[:0]
	return nil
}

// addReward adds the reward of a trajectory to those of its group.
func (u *Upload) addReward(x float64) error {
	if n := len(u.rewards); n == cap(u.rewards) {
		size := max(2*n, 64)
		if err := u.grow(&u.held.rewards, 8*int64(size+n)); err != nil {
			return err
		}
		u.rewards = append(make([]float64, 0, size), u.rewards...)
	}
	u.rewards = append(u.rewards, x)
	return nil
}

// Bytes that a record has at most, besides texts: a varint, and all fields of a row or of a
// group row that have a fixed number.
const (
	varintBytes = 10
	fixedBytes  = 16 * varintBytes
)

// recordSize returns at least as many bytes as the record of a row has.
func (r *Row) recordSize() int {
	n := fixedBytes + scoresSize(r.Metrics)
	for _, f := range r.Finish {
		n += varintBytes + len(f)
	}
	for _, l := range r.Metadata {
		n += 2*varintBytes + len(l.Name) + min(len(l.Value), longLabel)
	}
	return n
}

func scoresSize(list []trajectory.Score) (n int) {
	for _, m := range list {
		n += varintBytes + len(m.Name) + 8
	}
	return n
}

// textSum is the hash of a text, of which no copy is made as a whole.
func textSum(s string) (sum [sha256.Size]byte) {
	const piece = 64 << 10
	h := sha256.New()
	for ; len(s) > piece; s = s[piece:] {
		h.Write([]byte(s[:piece]))
	}
	h.Write([]byte(s))
	h.Sum(sum[:0])
	return sum
}
