package tokenizer

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/longcopy"
)

// DecodeOptions says what decoding does with added tokens.
type DecodeOptions struct {
	// SkipSpecial leaves special tokens out, except those in Show.
	SkipSpecial bool
	// Show lists special tokens that are not left out, because the reader of the text
	// needs them.
	Show []int32
	// JoinSpecial suppresses what the file's decoder puts between two added
	// tokens in a row, as spaces_between_special_tokens=false does. It has no
	// effect with SkipSpecial.
	JoinSpecial bool
}

// decoding is the file's decoder chain in a form that can be applied token by token. It
// is ByteLevel, or
//
//	Replace or Metaspace, and ByteFallback, in either order; Fuse; Strip
//
// of which each may be missing.
type decoding struct {
	byteLevel bool
	fallback  bool   // <0xNN> tokens in a row are the bytes of text
	from, to  string // replaced in each token, unless from is ""
	inRuns    bool   // also in the text of <0xNN> tokens, because Replace comes after ByteFallback
	dropFirst bool   // in the first token, from is left out instead of replaced
	strip     string // is left out at the start of the whole text
}

// setText appends what a token that is spelled s decodes to, and notes in e where it is.
func (d *decoding) setText(e *entry, text []byte, s string) []byte {
	e.start = uint32(len(text))
	e.flags &^= alphabet | isByte
	if d.byteLevel {
		var ok bool
		if text, ok = appendUnspelled(text, s); ok {
			e.flags |= alphabet
		} else {
			text = append(text, s...)
		}
	} else {
		if d.from != "" && !d.inRuns {
			s = strings.ReplaceAll(s, d.from, d.to)
		}
		if b, ok := byteToken(s); ok && d.fallback {
			e.flags |= isByte
			text = append(text, b)
		} else if d.from != "" && d.inRuns {
			text = append(text, strings.ReplaceAll(s, d.from, d.to)...)
		} else {
			text = append(text, s...)
		}
	}
	e.end = uint32(len(text))
	return text
}

// Decode returns the text of ids, as Hugging Face's library decodes them, with one
// difference: SkipSpecial also skips special tokens that a normalizer changes.
// Bytes that are not UTF-8 become U+FFFD, and unknown ids are ignored.
func (t *Tokenizer) Decode(ids []int32, opt DecodeOptions) string {
	d := t.newDecoder(opt)
	d.held = make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		if len(d.held) > longcopy.Piece {
			d.held = longcopy.Grow(d.held, t.MaxTokenBytes())
		}
		d.push(id)
	}
	d.endRun()
	if !utf8.Valid(d.held) {
		return longcopy.String(appendLossy(make([]byte, 0, len(d.held)+16), d.held))
	}
	return longcopy.String(d.held)
}

// Decoder decodes the tokens of one sequence as they come. Text is released once
// it is final: a token's text waits while the text decoded so far ends in a part
// of a character or in U+FFFD. What waits at the end is never released.
//
// The pieces together are what Decode adds for these ids to the text of the prompt, less
// the text that waits, with one exception: a run of <0xNN> tokens that begins with whole
// characters and goes on with bytes that are not UTF-8. Decode then replaces the whole
// run by U+FFFD, as Hugging Face's library does, but a Decoder has released the
// characters by then.
//
// A Decoder belongs to one goroutine and must not be copied after the first Append.
type Decoder struct {
	t    *Tokenizer
	held []byte // decoded but not final
	// held[run:] are bytes of <0xNN> tokens that are not text yet.
	run    int
	broken bool // they never will be text, because they are not UTF-8
	place  place
	strip  bool // no text is decoded yet, so decoding.strip may still have to be left out
	added  bool // the token before was an added token
	opt    DecodeOptions
}

// place says whether the next token is the first, for decoding.dropFirst.
type place uint8

const (
	atStart    place = iota
	inFirstRun       // in a run of <0xNN> tokens, which counts as one token
	later
)

func (t *Tokenizer) newDecoder(opt DecodeOptions) Decoder {
	opt.JoinSpecial = opt.JoinSpecial && !opt.SkipSpecial
	d := Decoder{t: t, opt: opt, strip: t.decoding.strip != "", place: later}
	if t.decoding.dropFirst {
		d.place = atStart
	}
	return d
}

// NewDecoder returns a decoder for what follows prompt. The text of the prompt is
// not released; it decides whether a leading space belongs to the text, and a
// character that it leaves unfinished is released when it is complete.
func (t *Tokenizer) NewDecoder(prompt []int32, opt DecodeOptions) Decoder {
	d := t.newDecoder(opt)
	if n := len(prompt); n > 0 {
		d.added = t.vocab.at(prompt[n-1]).flags&added != 0
	}
	// The prompt is read from its end until nothing further back can matter. That is
	// usually one token.
	var tail [utf8.UTFMax - 1]byte
	n, open := len(tail), true
	for i := len(prompt) - 1; i >= 0 && (open || d.strip || d.place != later); i-- {
		e := t.vocab.at(prompt[i])
		if d.skips(prompt[i], e) {
			continue
		}
		text := t.vocab.textOf(e)
		open = open && (t.byteLevel || e.flags&isByte != 0)
		for k := len(text) - 1; open && k >= 0; k-- {
			n--
			tail[n] = text[k]
			open = n > 0
		}
		if e.flags&isByte == 0 {
			d.place = later
		} else if d.place == atStart {
			d.place = inFirstRun
		}
		d.strip = d.strip && len(text) == 0
	}
	for k := len(tail) - 1; k >= n; k-- {
		if utf8.RuneStart(tail[k]) {
			if !utf8.FullRune(tail[k:]) {
				d.held = append(d.held, tail[k:]...)
			}
			break
		}
	}
	return d
}

func (d *Decoder) skips(id int32, e entry) bool {
	return e.flags&known == 0 || d.opt.SkipSpecial && e.flags&special != 0 && !slices.Contains(d.opt.Show, id)
}

// Append decodes one more token and appends the text that became final to dst.
// It allocates only if dst is full or the text that waits outgrows its buffer.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	if e := d.t.vocab.at(id); len(d.held) == 0 && e.flags&(whole|isByte|added) == whole && d.place == later && !d.strip {
		d.added = false
		return append(dst, d.t.vocab.textOf(e)...)
	}
	d.push(id)
	if !d.t.byteLevel && d.run < len(d.held) && !d.broken {
		if bytes := d.held[d.run:]; utf8.Valid(bytes) {
			d.endRun()
		} else {
			d.broken = utf8.FullRune(bytes)
		}
	}
	if d.run < len(d.held) && !d.t.byteLevel {
		return dst
	}
	if r, _ := utf8.DecodeLastRune(d.held); r == utf8.RuneError { // also if held is empty
		return dst
	}
	dst = appendLossy(dst, d.held)
	d.held, d.run = d.held[:0], 0
	return dst
}

// push appends the text of a token to held.
func (d *Decoder) push(id int32) {
	e := d.t.vocab.at(id)
	before := d.added
	d.added = e.flags&added != 0
	if d.skips(id, e) {
		return
	}
	text := d.t.vocab.textOf(e)
	if d.t.byteLevel {
		if d.opt.JoinSpecial && before && d.added {
			d.held = append(d.held, e.spelled...)
		} else {
			d.held = append(d.held, text...)
		}
		return
	}
	if e.flags&isByte != 0 {
		if d.place == atStart {
			d.place = inFirstRun
		}
		d.held = append(d.held, text...)
		return
	}
	d.endRun()
	switch {
	case d.place == atStart:
		d.held = append(d.held, strings.ReplaceAll(e.spelled, d.t.decoding.from, "")...)
	case d.opt.JoinSpecial && before && d.added:
		d.held = append(d.held, e.spelled...)
	default:
		d.held = append(d.held, text...)
	}
	d.place = later
	d.settle()
}

// endRun turns the bytes of a run of <0xNN> tokens into text.
func (d *Decoder) endRun() {
	run := d.held[d.run:]
	if len(run) == 0 || d.t.byteLevel {
		return
	}
	dec := &d.t.decoding
	if !utf8.Valid(run) {
		n := len(run)
		d.held = d.held[:d.run]
		for range n {
			d.held = append(d.held, "\uFFFD"...)
		}
	} else if dec.inRuns && dec.from != "" && bytes.Contains(run, []byte(dec.from)) {
		to := dec.to
		if d.place == inFirstRun {
			to = ""
		}
		d.held = append(d.held[:d.run], bytes.ReplaceAll(run, []byte(dec.from), []byte(to))...)
	}
	d.broken = false
	d.settle()
}

// settle ends what was added at d.run as text.
func (d *Decoder) settle() {
	if d.strip && len(d.held) > d.run {
		d.strip = false
		if s := d.t.decoding.strip; bytes.HasPrefix(d.held[d.run:], []byte(s)) {
			d.held = append(d.held[:d.run], d.held[d.run+len(s):]...)
		}
	}
	d.run = len(d.held)
}
