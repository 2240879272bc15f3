package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// mapped returns a normalizer that replaces each character by what appendTo appends for it.
func mapped(appendTo func(dst []byte, r rune) []byte) normalizer {
	return func(allow *allowance, s string) string {
		var out []byte
		kept := 0 // s[:kept] is in out
		swell := swelling{allow: allow}
		for i, r := range s {
			if !allow.work(1) || !swell.ok(len(out), kept) {
				return s
			}
			w := utf8.RuneLen(r)
			var room [16]byte
			to := appendTo(room[:0], r)
			if string(to) == s[i:i+w] {
				continue
			}
			if out == nil {
				out = make([]byte, 0, len(s)+len(s)/4)
			}
			out = append(append(out, s[kept:i]...), to...)
			kept = i + w
		}
		if kept == 0 {
			return s
		}
		return string(append(out, s[kept:]...))
	}
}

// dropping returns a normalizer that leaves characters out.
func dropping(drop func(rune) bool) normalizer {
	return mapped(func(dst []byte, r rune) []byte {
		if r >= utf8.RuneSelf && drop(r) {
			return dst
		}
		return utf8.AppendRune(dst, r)
	})
}

// appendLower is the lower case of one character, whatever is around it, as Rust has it: İ
// becomes i with a dot above, and Σ is always σ.
func appendLower(dst []byte, r rune) []byte {
	if r == 'İ' {
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// appendNmt is what sentencepiece's rule nmt does with control characters and spaces.
func appendNmt(dst []byte, r rune) []byte {
	switch {
	case 1 <= r && r <= 8, r == 0xB, 0xE <= r && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		return dst
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200B <= r && r <= 0x200F, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// appendClean is the option clean_text of BERT: control characters are left out, and white
// space becomes a space.
func appendClean(dst []byte, r rune) []byte {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return append(dst, ' ')
	case r == 0, r == 0xFFFD, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
		return dst
	case unicode.IsSpace(r):
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// appendChinese is the option handle_chinese_chars of BERT: a space on both sides of each
// ideograph. The blocks are those of Hugging Face's library.
func appendChinese(dst []byte, r rune) []byte {
	switch {
	case 0x4E00 <= r && r <= 0x9FFF, 0x3400 <= r && r <= 0x4DBF, 0x20000 <= r && r <= 0x2A6DF, 0x2A700 <= r && r <= 0x2B73F,
		0x2B740 <= r && r <= 0x2B81F, 0x2B920 <= r && r <= 0x2CEAF, 0xF900 <= r && r <= 0xFAFF, 0x2F800 <= r && r <= 0x2FA1F:
		return append(utf8.AppendRune(append(dst, ' '), r), ' ')
	}
	return utf8.AppendRune(dst, r)
}

// strip takes white space away from the ends.
func strip(left, right bool) normalizer {
	return func(_ *allowance, s string) string {
		if left {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}
}

// normalForm returns the normalizer of a normalization form of Unicode; see nfc.
func normalForm(form norm.Form) normalizer {
	return func(allow *allowance, s string) string {
		var b strings.Builder
		kept := 0 // s[:kept] is in b
		swell := swelling{allow: allow}
		for i := 0; i < len(s); {
			end := boundary(form, s, i+workSlice)
			part := s[i:end]
			if !allow.work(len(part)) || !swell.ok(b.Len(), kept) {
				return s
			}
			if n := form.QuickSpanString(part); n < len(part) {
				b.WriteString(s[kept:i])
				if manyMarks(part) {
					b.WriteString(composeMarks(allow, form, part))
				} else {
					b.WriteString(form.String(part))
				}
				kept = end
			}
			i = end
		}
		if kept == 0 {
			return s
		}
		b.WriteString(s[kept:])
		return b.String()
	}
}
