package kvtransfer

// buffers are memory for copies that is used in turn. Copies have one or two sizes, that of a block and that of a state.
type buffers struct {
	free [][]byte
	kept int64 // bytes of free
}

// mostFree is the most memory that is kept for later.
const mostFree = 64 << 20

// take returns n bytes.
func (b *buffers) take(n int) []byte {
	for i := len(b.free) - 1; i >= 0; i-- {
		if f := b.free[i]; cap(f) == n {
			b.free = append(b.free[:i], b.free[i+1:]...)
			b.kept -= int64(n)
			return f[:n]
		}
	}
	return make([]byte, n)
}

// give takes memory back.
func (b *buffers) give(data []byte) {
	if n := int64(cap(data)); n > 0 && b.kept+n <= mostFree {
		b.kept += n
		b.free = append(b.free, data)
	}
}

// item is a copy that is held for partners.
type item struct {
	data []byte // nil: it is awaited
	refs int    // leases that have it, and connections that send it
}
