package longcopy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lengths are those around the borders of pieces.
var lengths = []int{0, 1, 7, Piece - 1, Piece, Piece + 1, 2 * Piece, 3*Piece + 5}

// pattern is bytes of which no piece is like another.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>16 + 1)
	}
	return b
}

func TestCopy(t *testing.T) {
	for _, from := range lengths {
		for _, to := range lengths {
			src := pattern(from)
			got, want := bytes.Repeat([]byte("x"), to), bytes.Repeat([]byte("x"), to)
			if n, m := Copy(got, src), copy(want, src); n != m || !bytes.Equal(got, want) {
				t.Errorf("%d bytes into %d: %d copied, want %d, equal: %v", from, to, n, m, bytes.Equal(got, want))
			}
		}
	}
}

// TestCopyElements copies elements that are larger than a byte, one of them than a piece.
func TestCopyElements(t *testing.T) {
	numbers := make([]int32, Piece)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	got := make([]int32, len(numbers))
	if n := Copy(got, numbers); n != len(numbers) || !slices.Equal(got, numbers) {
		t.Errorf("%d numbers copied, of %d", n, len(numbers))
	}
	large := [][2 * Piece]byte{{1}, {2}, {3}}
	same := make([][2 * Piece]byte, 3)
	if n := Copy(same, large); n != 3 || !slices.Equal(same, large) {
		t.Errorf("%d large elements copied, of 3", n)
	}
	if n := Copy(make([]struct{}, 5), make([]struct{}, 9)); n != 5 {
		t.Errorf("%d elements without a size copied, of 5", n)
	}
}

func TestString(t *testing.T) {
	for _, n := range lengths {
		b := pattern(n)
		s := String(b)
		if s != string(b) {
			t.Errorf("%d bytes became another string", n)
		}
		clear(b)
		if n > 0 && s == string(b) {
			t.Errorf("the string of %d bytes shares their memory", n)
		}
	}
}

func TestAppend(t *testing.T) {
	for _, before := range lengths {
		for _, n := range lengths {
			for _, room := range []int{0, 3, n} {
				dst := make([]byte, before, before+room)
				copy(dst, strings.Repeat("y", before))
				src := pattern(n)
				want := append(slices.Clone(dst), src...)
				if got := AppendString(slices.Clone(dst), string(src)); !bytes.Equal(got, want) {
					t.Errorf("%d bytes of a string behind %d: %d bytes that differ", n, before, len(got))
				}
				if got := Append(dst, src); !bytes.Equal(got, want) {
					t.Errorf("%d bytes behind %d with room for %d: %d bytes that differ", n, before, room, len(got))
				}
			}
		}
	}
}

func TestGrow(t *testing.T) {
	for _, n := range lengths {
		s := pattern(n)
		for _, more := range []int{0, 1, Piece} {
			g := Grow(s, more)
			if !bytes.Equal(g, s) || cap(g)-len(g) < more {
				t.Errorf("%d bytes with room for %d more: %d bytes, room %d", n, more, len(g), cap(g)-len(g))
			}
		}
	}
	s := make([]int, 3, 9)
	if g := Grow(s, 6); &g[0] != &s[0] {
		t.Error("a slice with room was copied")
	}
	// What grows by little again and again is not copied every time.
	copies, grown := 0, []int32{}
	for i := range int32(10_000) {
		before := cap(grown)
		if grown = append(Grow(grown, 1), i); cap(grown) != before {
			copies++
		}
	}
	if copies > 60 {
		t.Errorf("%d copies for 10,000 elements", copies)
	}
}

func Example() {
	text := Append([]byte("a long "), []byte("text"))
	fmt.Println(String(text))
	// Output: a long text
}
