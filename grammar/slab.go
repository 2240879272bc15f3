package grammar

// slab hands out short slices of a large one. A compilation makes a hundred thousand slices of
// one or two elements, and to allocate each of them costs more than to fill it.
type slab[T any] struct {
	free []T
	last int // elements of the newest large slice
}

// take returns an empty slice with room for n elements.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) {
		s.last = min(max(64, 2*s.last), 8192)
		if n > s.last/4 {
			return make([]T, 0, n)
		}
		s.free = make([]T, s.last)
	}
	res := s.free[:0:n]
	s.free = s.free[n:]
	return res
}
