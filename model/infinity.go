package model

import "bytes"

// finite replaces what Python writes for numbers that JSON does not have: Infinity by a number
// that is greater than any that a network can make use of, and NaN by null. Strings stay as they
// are. b itself is returned if there is nothing to replace, as in nearly every file.
func finite(b []byte) []byte {
	if !bytes.Contains(b, []byte("Infinity")) && !bytes.Contains(b, []byte("NaN")) {
		return b
	}
	var out []byte
	inString := false
	for i := 0; i < len(b); i++ {
		switch {
		case inString && b[i] == '\\' && i+1 < len(b):
			out = append(out, b[i], b[i+1])
			i++
			continue
		case b[i] == '"':
			inString = !inString
		case !inString && bytes.HasPrefix(b[i:], []byte("Infinity")):
			out = append(out, "1e300"...)
			i += len("Infinity") - 1
			continue
		case !inString && bytes.HasPrefix(b[i:], []byte("NaN")):
			out = append(out, "null"...)
			i += len("NaN") - 1
			continue
		}
		out = append(out, b[i])
	}
	return out
}
