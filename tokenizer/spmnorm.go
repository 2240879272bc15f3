package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// pieceNormalizer normalizes a text as a SentencePiece model says. (sentencepiece,
// src/normalizer.cc.)
type pieceNormalizer struct {
	charsmap *charsmap   // nil: none
	user     *userPieces // nil: none
	prefix   bool        // add_dummy_prefix: a space in front
	suffix   bool        // treat_whitespace_as_suffix: and not in front, but behind
	merge    bool        // remove_extra_whitespaces: at the ends, and between others
	escape   bool        // escape_whitespaces: a space becomes ▁
}

func (p *pieceNormalizer) normalize(allow *allowance, s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2 + 3)
	space := " "
	if p.escape {
		space = string(spaceMark)
	}
	begun := p.begin(&b, space, !p.merge && s != "") // what is left out at the start is over
	before := p.merge
	whole, swell := len(s), swelling{allow: allow}
	for len(s) > 0 {
		if !allow.work(4) || !swell.ok(b.Len(), whole-len(s)) {
			return ""
		}
		part, n := p.next(s)
		s = s[n:]
		if !begun {
			begun = p.begin(&b, space, part != " ")
		}
		if before {
			part = strings.TrimLeft(part, " ")
		}
		if part == "" {
			continue
		}
		before = p.merge && part[len(part)-1] == ' '
		if p.escape {
			part = strings.ReplaceAll(part, " ", space)
		}
		b.WriteString(part)
	}
	out := b.String()
	for p.merge && strings.HasSuffix(out, space) {
		out = out[:len(out)-len(space)]
	}
	if begun && p.prefix && p.suffix {
		out += space
	}
	return out
}

// begin writes the space in front of a text if the text begins now, and returns whether it does.
func (p *pieceNormalizer) begin(b *strings.Builder, space string, now bool) bool {
	if now && p.prefix && !p.suffix {
		b.WriteString(space)
	}
	return now
}

// next returns what the sequence at the start of s becomes, and its length.
func (p *pieceNormalizer) next(s string) (part string, length int) {
	if p.user != nil {
		if n := p.user.match(s, 0, nil); n > 0 {
			return s[:n], n
		}
	}
	if p.charsmap != nil {
		if to, n := p.charsmap.find(s, true); n > 0 {
			return to, n
		}
	}
	_, w := utf8.DecodeRuneInString(s)
	return s[:w], w
}
