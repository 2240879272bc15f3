// Package longcopy copies long memory in such a way that it holds up nobody else.
//
// The runtime cannot interrupt a copy, nor what append and the conversion of bytes to a string
// do inside. A garbage collection that is to begin or to end waits for it with the whole
// process, and while one is running, every goroutine that allocates may have to wait for it.
// Twelve megabytes take one millisecond if both sides are in use already. If the system has to
// find the memory first, they take 10 to 80 on a virtual machine.
//
// A copy in pieces is not enough: a loop that does nothing but copy is inside a copy whenever
// the runtime tries to interrupt it. The functions here look after each [Piece] whether they
// are to be interrupted.
package longcopy

import "unsafe"

// Piece is the number of bytes that are copied at a time.
const Piece = 64 << 10

// Copy copies as the builtin copy does.
func Copy[T any](dst, src []T) int {
	n := min(len(dst), len(src))
	size := max(1, int(Piece/max(1, unsafe.Sizeof(*new(T)))))
	for at := 0; at < n; at += size {
		end := min(at+size, n)
		piece(dst[at:end], src[at:end])
	}
	return n
}

// piece is not inlined, because it is where a function begins that the runtime can interrupt
// it for certain.
//
//go:noinline
func piece[T any](dst, src []T) { copy(dst, src) }

// String returns string(b).
func String(b []byte) string {
	if len(b) <= Piece {
		return string(b)
	}
	text := make([]byte, len(b)) // the runtime clears the memory of make piece by piece
	Copy(text, b)
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// Clone returns a copy of s, as strings.Clone does.
func Clone(s string) string { return String(unsafe.Slice(unsafe.StringData(s), len(s))) }

// Append appends src to dst as the builtin append does.
func Append(dst, src []byte) []byte {
	if len(src) <= Piece && cap(dst)-len(dst) >= len(src) {
		return append(dst, src...)
	}
	dst = Grow(dst, len(src))
	n := len(dst)
	dst = dst[:n+len(src)]
	Copy(dst[n:], src)
	return dst
}

// AppendString appends s to dst as the builtin append does.
func AppendString(dst []byte, s string) []byte {
	return Append(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Grow returns s with room for at least n more elements, as slices.Grow does.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	grown := make([]T, len(s), max(len(s)+n, cap(s)+cap(s)/4))
	Copy(grown, s)
	return grown
}
