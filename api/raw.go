package api

import "iter"

// What other rooms need to read raw JSON. As everywhere behind Scan, the methods
// trust the syntax: they are for values that Scan has accepted, without white
// space around them.

// Types of JSON values, as Raw.Type names them.
const (
	TypeString = '"'
	TypeNumber = '0'
	TypeBool   = 't'
	TypeNull   = 'n'
	TypeArray  = '['
	TypeObject = '{'
)

// Type is the type of a value.
func (v Raw) Type() byte {
	switch c := v[0]; c {
	case '"', '{', '[', 't', 'n':
		return c
	case 'f':
		return TypeBool
	}
	return TypeNumber
}

// Trim cuts the white space around a text that Scan has accepted.
func Trim(data []byte) Raw { return trim(data) }

// Members goes over the properties of an object, in order and with repeated names
// as they come. The key is valid until the next one.
func (v Raw) Members() iter.Seq2[[]byte, Raw] { return v.members() }

// Spelt goes over the properties of an object with their names as JSON strings, as
// they were sent.
func (v Raw) Spelt() iter.Seq2[Raw, Raw] {
	return func(yield func(name, val Raw) bool) {
		for i := skipSpace(v, 1); v[i] != '}'; {
			end := skipString(v, i)
			name := v[i:end:end]
			i = skipSpace(v, skipSpace(v, end)+1) // ':'
			end = skipValue(v, i)
			if !yield(name, v[i:end:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i = skipSpace(v, i+1)
			}
		}
	}
}

// Elements goes over the elements of an array, with their indexes.
func (v Raw) Elements() iter.Seq2[int, Raw] { return v.elements() }

// Text is what a string stands for; a surrogate escape without its partner is U+FFFD.
func (v Raw) Text() string { return v.text() }

// AppendCompact appends v without the white space between its tokens. Everything
// else stays as it was spelt: numbers, escapes, the order of properties.
func AppendCompact(dst []byte, v Raw) []byte {
	for i := 0; i < len(v); {
		switch {
		case v[i] == '"':
			end := skipString(v, i)
			dst = append(dst, v[i:end]...)
			i = end
		case isSpace(v[i]):
			i++
		default:
			dst = append(dst, v[i])
			i++
		}
	}
	return dst
}
