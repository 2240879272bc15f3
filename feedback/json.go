package feedback

import "weir/internal/jsontext"

// member is the value of the last property of an object with that name, or nil.
func member(object jsontext.Value, name string) (v jsontext.Value) {
	for key, val := range object.Members() {
		if string(key) == name {
			v = val
		}
	}
	return v
}

// size is the length of a compact text after its escapes have become UTF-8, so that the
// bound is the same for clients that escape everything but ASCII.
func size(v jsontext.Value) int {
	n := len(v)
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		if i++; v[i] == 'u' {
			switch r := hex4(v[i+1:]); {
			case r < 0x20 || r == '"' || r == '\\': // it remains an escape
			case r < 0x80:
				n -= 5
			case r < 0x800:
				n -= 4
			case r >= 0xD800 && r < 0xE000: // half of a character of 4 bytes
				n -= 4
			default:
				n -= 3
			}
			i += 4
		}
	}
	return n
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}
