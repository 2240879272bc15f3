package engine

import (
	"unicode/utf8"

	"weir/tokenizer"
)

// text turns the tokens of a choice into text, finds stop strings in it, and holds back
// what may become part of one (docs/interface/chat-completions.md, sections 5.4 and 6).
//
//	buf   0 ......... given ................. len(buf)
//	      | given out | not given out, or held back |
//
// As in vLLM, the last characters are always held back, as many as may be a part of the
// longest stop string, and not only if they are.
type text struct {
	dec     tokenizer.Decoder
	decodes bool // there is a tokenizer
	buf     []byte
	given   int          // bytes of buf that were given out
	held    int          // characters of buf that were not given out
	stops   *stopStrings // of the request; nil: there are none
	node    int32        // of stops, after buf
}

func newText(tok *tokenizer.Tokenizer, r *Request, stops *stopStrings) text {
	t := text{stops: stops}
	if tok != nil {
		t.dec = tok.NewDecoder(r.Tokens, tokenizer.DecodeOptions{SkipSpecial: !r.KeepSpecial, Show: r.Show, JoinSpecial: r.JoinSpecial})
		t.decodes = true
		room := textSlack + 256
		if stops != nil {
			room += min(stops.hold, textSlack)
		}
		t.buf = make([]byte, 0, min(room, 16*r.Limits.MaxTokens)) // most never need more
	}
	return t
}

// textSlack is the number of bytes that were given out and are kept, so that the rest is not
// moved for every token.
const textSlack = 1024

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

// search looks for stop strings that end in buf[old:]. It is the second half of add, and
// reads text without check, too, because a stop string may begin there and end later.
func (t *text) search(old int, check, include bool) int {
	if t.stops == nil {
		return -1
	}
	if t.stops.hold > 0 {
		t.held += utf8.RuneCount(t.buf[old:])
	}
	node, hit, end := t.stops.search(t.node, t.buf[old:], check)
	t.node = node
	if hit == noStop {
		return -1
	}
	end += old
	if !include {
		end -= t.stops.lengths[hit]
	}
	t.buf = t.buf[:end]
	return int(hit)
}

// take gives out the text that is due: all of it if final is set, else all but what is held
// back. The result is valid until the next add.
func (t *text) take(final bool) []byte {
	from, end := t.given, len(t.buf)
	if !final && t.stops != nil && t.stops.hold > 0 {
		for end = from; t.held > t.stops.hold; t.held-- {
			_, size := utf8.DecodeRune(t.buf[end:])
			end += size
		}
	}
	if end <= from {
		return nil
	}
	t.given = end
	return t.buf[from:end]
}

// trim forgets text that was given out. It cannot be part of a stop string that is cut out
// later.
func (t *text) trim() {
	if t.given > max(textSlack, len(t.buf)/2) {
		t.buf = t.buf[:copy(t.buf, t.buf[t.given:])]
		t.given = 0
	}
}
