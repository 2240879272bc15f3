package grammar

// charState is where a text is in a character of UTF-8, after the bytes of a token: which
// bytes can be next (Unicode Standard, table 3-7).
type charState uint8

const (
	betweenChars charState = iota
	oneByteLeft
	twoBytesLeft
	threeBytesLeft
	afterE0 // the next of two bytes must be from A0 on, or there would be a shorter encoding
	afterED // the next of two bytes must be before A0, or it would be a surrogate
	afterF0 // the next of three bytes must be from 90 on, or there would be a shorter encoding
	afterF4 // the next of three bytes must be before 90, or it would be beyond U+10FFFF
	noChar  // the bytes are no characters
	charStates
)

// next is the state after b.
func (c charState) next(b byte) charState {
	lo, hi, to := byte(0x80), byte(0xBF), noChar
	switch c {
	case betweenChars:
		return firstByte(b)
	case oneByteLeft:
		to = betweenChars
	case twoBytesLeft:
		to = oneByteLeft
	case threeBytesLeft:
		to = twoBytesLeft
	case afterE0:
		lo, to = 0xA0, oneByteLeft
	case afterED:
		hi, to = 0x9F, oneByteLeft
	case afterF0:
		lo, to = 0x90, twoBytesLeft
	case afterF4:
		hi, to = 0x8F, twoBytesLeft
	}
	if b < lo || b > hi {
		return noChar
	}
	return to
}

// firstByte is the state after the first byte of a character.
func firstByte(b byte) charState {
	switch {
	case b < 0x80:
		return betweenChars
	case b < 0xC2 || b > 0xF4:
		return noChar
	case b < 0xE0:
		return oneByteLeft
	case b == 0xE0:
		return afterE0
	case b == 0xED:
		return afterED
	case b < 0xF0:
		return twoBytesLeft
	case b == 0xF0:
		return afterF0
	case b == 0xF4:
		return afterF4
	}
	return threeBytesLeft
}
