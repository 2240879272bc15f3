package engine

import (
	"bytes"
	"unicode/utf8"

	"weir/tokenizer"
)

// text turns a choice's tokens into text, looks for stop strings in it and
// holds back what might become part of one (spec chat-completions 5.4, 6).
//
//	buf   0 ......... out ............. len(buf)
//	      | given out | not yet given out |
//
// What was given out stays only as far back as a stop string could begin.
type text struct {
	dec     tokenizer.Decoder
	decodes bool // false: no tokenizer, so no text
	buf     []byte
	out     int
	stops   [][]byte
	longest int // bytes of the longest stop string
	hold    int // characters that are held back until the end
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

// add appends a token's text. With check it then looks for stop strings that
// the new text completes and returns the index of the one that ends first
// (ties: the first in the list), having cut the text before it, or behind it
// with include; else -1.
func (t *text) add(tok int32, check, include bool) int {
	if !t.decodes {
		return -1
	}
	old := len(t.buf)
	t.buf = t.dec.Append(t.buf, tok)
	return t.search(old, check, include)
}

// search looks for stop strings that end in buf[old:].
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

// take gives out the text that is due: all of it at the end, else all but what
// is held back. It is valid until the next add.
func (t *text) take(final bool) []byte {
	end := len(t.buf)
	if !final {
		for n := t.hold; n > 0 && end > t.out; n-- {
			_, size := utf8.DecodeLastRune(t.buf[:end])
			end -= size
		}
	}
	from := t.out
	if end <= from {
		return nil
	}
	t.out = end
	return t.buf[from:end]
}

// trim forgets text that was given out and that no stop string can reach.
func (t *text) trim() {
	const slack = 1024 // bytes; moving the rest down each time would cost more than it saves
	if drop := min(t.out, len(t.buf)-t.longest); drop > slack {
		t.buf = t.buf[:copy(t.buf, t.buf[drop:])]
		t.out -= drop
	}
}
