package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// decodeStep is a decoder that changes the text of each token on its own.
type decodeStep struct {
	kind     stepKind
	from, to string // see the kinds
	cleanup  bool
	start    int // of stripping
	stop     int
	re       *regex
}

type stepKind uint8

const (
	stepReplace   stepKind = iota // from becomes to
	stepMatches                   // matches of re become to
	stepMetaspace                 // from becomes a space, or nothing in the first token
	stepStrip                     // up to start characters from, and stop at the end, are left out
	stepWordPiece                 // a space before each token but the first, or the prefix from away
	stepJoin                      // a space before each token but the first
	stepSuffix                    // from becomes a space, or nothing in the last token
	stepCTC                       // from becomes nothing, and to a space
)

// decodePlace says which token a text belongs to.
type decodePlace struct{ first, last bool }

func (st *decodeStep) apply(s string, at decodePlace) string {
	switch st.kind {
	case stepReplace:
		return strings.ReplaceAll(s, st.from, st.to)
	case stepMatches:
		return replaceMatches(st.re, st.to)(nil, s)
	case stepMetaspace:
		if at.first {
			return strings.ReplaceAll(s, st.from, "")
		}
		return strings.ReplaceAll(s, st.from, " ")
	case stepStrip:
		for i := 0; i < st.start && strings.HasPrefix(s, st.from); i++ {
			s = s[len(st.from):]
		}
		for i := 0; i < st.stop && strings.HasSuffix(s, st.from); i++ {
			s = s[:len(s)-len(st.from)]
		}
	case stepWordPiece:
		if rest, ok := strings.CutPrefix(s, st.from); ok && !at.first {
			s = rest
		} else if !at.first {
			s = " " + s
		}
		if st.cleanup {
			s = cleanUp(s)
		}
	case stepJoin:
		if !at.first {
			s = " " + s
		}
	case stepSuffix:
		if at.last {
			return strings.ReplaceAll(s, st.from, "")
		}
		return strings.ReplaceAll(s, st.from, " ")
	case stepCTC:
		s = strings.ReplaceAll(s, st.from, "")
		if st.cleanup {
			s = strings.ReplaceAll(cleanUp(s), st.to, " ")
		}
	}
	return s
}

// unchanged reports whether the steps certainly do not change the text. It allocates nothing.
func unchanged[T string | []byte](steps []decodeStep, text T) bool {
	for i := range steps {
		st := &steps[i]
		if st.kind != stepReplace && st.kind != stepMetaspace || contains(text, st.from) {
			return false
		}
	}
	return true
}

func contains[T string | []byte](text T, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if string(text[i:i+len(part)]) == part {
			return true
		}
	}
	return false
}

func applySteps(steps []decodeStep, s string, at decodePlace) string {
	for i := range steps {
		s = steps[i].apply(s, at)
	}
	return s
}

// cleanUp takes spaces away before punctuation and English contractions. (Hugging Face
// tokenizers, decoders/wordpiece.)
func cleanUp(s string) string {
	for _, c := range [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
		{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}} {
		s = strings.ReplaceAll(s, c[0], c[1])
	}
	return s
}

// commonPrefix returns the length of what two texts have in common at the start, in whole
// characters.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) {
		r, w := utf8.DecodeRuneInString(a[n:])
		if other, _ := utf8.DecodeRuneInString(b[n:]); other != r {
			break
		}
		n += w
	}
	return n
}
