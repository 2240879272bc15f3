package api

import (
	"math"
	"strconv"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
)

// AppendString appends s as a JSON string (jsontext.AppendString).
func AppendString(dst []byte, s string) []byte { return jsontext.AppendString(dst, s) }

// withRoom returns dst with room for what an element of a list usually takes, if dst is long.
// It keeps append from making room, which holds up the whole process where many megabytes have
// to be copied (see [weir/internal/longcopy]).
func withRoom(dst []byte) []byte {
	const usual = 8 << 10
	if len(dst) > longcopy.Piece {
		return longcopy.Grow(dst, usual)
	}
	return dst
}

func appendStringOrNull(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, *s)
}

// minLogprob is written for everything below it, minus infinity included, and for what is
// not a log-probability at all, because JSON has no word for infinity
// (docs/interface/chat-completions.md, section 7.2).
const minLogprob = -9999

// AppendLogprob appends the shortest digits that read back as the same float32.
// A point or an exponent is always there, so that typed readers see a float;
// exponents (only below 1e-6) are spelt as encoding/json spells them.
func AppendLogprob(dst []byte, x float32) []byte {
	if !(x >= minLogprob && x <= math.MaxFloat32) {
		x = minLogprob
	}
	if x == 0 {
		return append(dst, "0.0"...) // -0 too
	}
	if a := max(x, -x); a < 1e-6 || a >= 1e21 {
		dst = strconv.AppendFloat(dst, float64(x), 'e', -1, 32)
		if n := len(dst); dst[n-2] == '0' { // e-09 becomes e-9
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, float64(x), 'f', -1, 32)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
