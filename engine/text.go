package engine

import (
	"bytes"
	"unicode/utf8"

	"weir/tokenizer"
)

// text turns the tokens of a choice into text, finds stop strings in it, and holds back
// what may become part of one (docs/interface/chat-completions.md, sections 5.4 and 6).
//
//	buf   0 ......... given ................. len(buf)
//	      | given out | not given out, or held back |
//
// Of the text that was given out, buf keeps as much as may be the beginning of a stop
// string. As in vLLM, the last characters are always held back, as many as may be a part
// of the longest stop string, and not only if they are.
type text struct {
	dec     tokenizer.Decoder
	decodes bool // there is a tokenizer
	buf     []byte
	given   int // bytes of buf that were given out
	stops   [][]byte
	longest int // bytes of the longest stop string
	hold    int // characters that are held back until the choice ends
}

func newText(tok *tokenizer.Tokenizer, r *Request) text {
	var t text
	if tok != nil {
		t.dec = tok.NewDecoder(r.Tokens, tokenizer.DecodeOptions{SkipSpecial: !r.KeepSpecial, Show: r.Show, JoinSpecial: r.JoinSpecial})
		t.decodes = true
	}
	for _, s := range r.Stop {
		t.stops = append(t.stops, []byte(s))
		t.longest = max(t.longest, len(s))
		if !r.IncludeStop {
			t.hold = max(t.hold, utf8.RuneCountInString(s)-1)
		}
	}
	return t
}

// add appends the text of a token. With check it then looks for stop strings that the new
// text completes. It returns the index of the one that ends first, or -1; of several that
// end at the same place, the first in the list counts. The text is cut before the stop
// string, or after it with include.
func (t *text) add(tok int32, check, include bool) int {
	if !t.decodes {
		return -1
	}
	old := len(t.buf)
	t.buf = t.dec.Append(t.buf, tok)
	return t.search(old, check, include)
}

// search looks for stop strings that end in buf[old:]. It is the second half of add.
func (t *text) search(old int, check, include bool) int {
	if !check || len(t.buf) == old {
		return -1
	}
	hit, start, end := -1, 0, 0
	for i, s := range t.stops {
		from := max(0, old-len(s)+1)
		if at := bytes.Index(t.buf[from:], s); at >= 0 && (hit < 0 || from+at+len(s) < end) {
			hit, start, end = i, from+at, from+at+len(s)
		}
	}
	switch {
	case hit < 0:
	case include:
		t.buf = t.buf[:end]
	default:
		t.buf = t.buf[:start]
	}
	return hit
}

// take gives out the text that is due: all of it if final is set, else all but what is held
// back. The result is valid until the next add.
func (t *text) take(final bool) []byte {
	end := len(t.buf)
	if !final {
		for n := t.hold; n > 0 && end > t.given; n-- {
			_, size := utf8.DecodeLastRune(t.buf[:end])
			end -= size
		}
	}
	from := t.given
	if end <= from {
		return nil
	}
	t.given = end
	return t.buf[from:end]
}

// trim forgets text that was given out and cannot be part of a stop string any more.
func (t *text) trim() {
	const slack = 1024 // bytes, so that the rest is not moved for every token
	if drop := min(t.given, len(t.buf)-t.longest); drop > slack {
		t.buf = t.buf[:copy(t.buf, t.buf[drop:])]
		t.given -= drop
	}
}
