package tokenizer

import "unicode/utf8"

// vocabulary holds every token of a file, added tokens included.
type vocabulary struct {
	entries []entry // by id; ids may have holes
	// ids maps what merging works on to tokens: bytes in a byte-level vocabulary, in any
	// other the entry as the file spells it. Added tokens that the model's own vocabulary
	// lacks are not in it.
	ids map[string]int32
	// other has the entries of a byte-level vocabulary that are not spelled in the byte
	// alphabet. They are special tokens, which no merge makes.
	other map[string]int32
	added map[string]int32
	// text has the texts of all tokens, one after the other. bytes is a copy of it.
	text  string
	bytes []byte
}

// entry is one token.
type entry struct {
	spelled    string // as the file spells it
	start, end uint32 // its text: [start, end) of vocabulary.text
	flags      flags
}

type flags uint8

const (
	known    flags = 1 << iota
	added          // is listed in added_tokens
	special        // is an added token that decoding may skip
	isByte         // is <0xNN>, and the decoder has ByteFallback; the text is that byte
	alphabet       // is spelled in the byte alphabet, in a byte-level vocabulary
	whole          // the text is valid UTF-8 and does not end in U+FFFD, so it can be released at once
)

// at returns the entry of an id, or an empty one.
func (v *vocabulary) at(id int32) entry {
	if id < 0 || int(id) >= len(v.entries) {
		return entry{}
	}
	return v.entries[id]
}

func (v *vocabulary) textOf(e entry) []byte { return v.bytes[e.start:e.end:e.end] }

// The byte alphabet (GPT-2's encoder.py, bytes_to_unicode) spells each byte as a
// printable character: as the character that it is in Latin-1 if that is printable,
// otherwise as the next one from U+0100 on.
var (
	byteSpelling  [256]rune
	spellingBytes [256 + 68]int16 // -1 where the alphabet has no such character
)

func init() {
	for i := range spellingBytes {
		spellingBytes[i] = -1
	}
	other := rune(256)
	for b := range byteSpelling {
		r := rune(b)
		if b <= ' ' || 0x7F <= b && b <= 0xA0 || b == 0xAD {
			r = other
			other++
		}
		byteSpelling[b], spellingBytes[r] = r, int16(b)
	}
}

// appendUnspelled appends the bytes that s spells in the byte alphabet, and
// reports whether s is written in it.
func appendUnspelled[S string | []byte](dst []byte, s S) ([]byte, bool) {
	n := len(dst)
	for i := 0; i < len(s); {
		c := s[i]
		if c > ' ' && c < 0x7F { // spells itself
			dst = append(dst, c)
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if int(r) >= len(spellingBytes) || spellingBytes[r] < 0 {
			return dst[:n], false
		}
		dst = append(dst, byte(spellingBytes[r]))
		i += w
	}
	return dst, true
}

// byteToken returns the byte that <0xNN> stands for.
func byteToken(spelled string) (byte, bool) {
	if len(spelled) != 6 || spelled[:3] != "<0x" || spelled[5] != '>' {
		return 0, false
	}
	var v byte
	for _, c := range []byte(spelled[3:5]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case isASCIILetter(c) && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | c
	}
	return v, true
}
