package tokenizer

import (
	"bytes"
	"slices"
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
//	decoders of single tokens; ByteFallback; decoders of single tokens; Fuse; Strip
//
// of which each may be missing. BPEDecoder and CTC stand alone.
type decoding struct {
	byteLevel bool
	before    []decodeStep // of each token
	fallback  bool         // <0xNN> tokens in a row are the bytes of text
	after     []decodeStep // of each token, and of the text of <0xNN> tokens in a row
	byFirst   bool         // some step does something else with the first token
	byLast    bool         // some step does something else with the last token
	dedup     bool         // of equal tokens in a row the first counts
	strip     string       // is left out of the whole text:
	start     int          // so often at its start
	stop      int          // and at its end
}

// text returns what a token that is spelled s decodes to.
func (d *decoding) text(s string, at decodePlace) (text string, value byte, isByte bool) {
	s = applySteps(d.before, s, at)
	if b, ok := byteToken(s); ok && d.fallback {
		return "", b, true
	}
	return applySteps(d.after, s, at), 0, false
}

// setText appends what a token that is spelled s decodes to, unless it is the first or the
// last, and notes in e where it is.
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
	} else if decoded, b, ok := d.text(s, decodePlace{}); ok {
		e.flags |= isByte
		text = append(text, b)
	} else {
		text = append(text, decoded...)
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
			d.held = longcopy.Grow(d.held, t.maxBytes)
		}
		d.push(id)
	}
	d.endRun()
	d.held = append(d.held, d.ending...)
	if dec := &t.decoding; dec.stop > 0 {
		d.held = d.held[:len(d.held)-dec.trailing(d.held)]
	}
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
	strip  int  // so often decoding.strip may still have to be left out at the start
	added  bool // the token before was an added token
	quick  bool // nothing but its text has to be known of the next token
	opt    DecodeOptions

	last   int32  // the token before, for decoding.dedup
	tail   string // what the token before ends in unless it is the last one,
	ending string // and if it is
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
	d := Decoder{t: t, opt: opt, strip: t.decoding.start, place: later, last: -1}
	if t.decoding.byFirst {
		d.place = atStart
	}
	d.setQuick()
	return d
}

func (d *Decoder) setQuick() {
	dec := &d.t.decoding
	d.quick = d.place == later && d.strip == 0 && !dec.dedup && !dec.byLast && dec.stop == 0
}

// trailing returns the length of what is left out at the end of a text.
func (d *decoding) trailing(text []byte) (n int) {
	for i := 0; i < d.stop && bytes.HasSuffix(text[:len(text)-n], []byte(d.strip)); i++ {
		n += len(d.strip)
	}
	return n
}

// NewDecoder returns a decoder for what follows prompt. The text of the prompt is
// not released; it decides whether a leading space belongs to the text, and a
// character that it leaves unfinished is released when it is complete.
func (t *Tokenizer) NewDecoder(prompt []int32, opt DecodeOptions) Decoder {
	d := t.newDecoder(opt)
	if n := len(prompt); n > 0 {
		d.added = t.vocab.at(prompt[n-1]).flags&added != 0
	}
	if t.decoding.byLast || t.decoding.dedup {
		for _, id := range prompt {
			d.push(id)
		}
		d.held, d.run, d.ending = d.held[:0], 0, ""
		return d
	}
	// The prompt is read from its end until nothing further back can matter. That is
	// usually one token.
	var tail [utf8.UTFMax - 1]byte
	n, open := len(tail), true
	for i := len(prompt) - 1; i >= 0 && (open || d.strip > 0 || d.place != later); i-- {
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
		d.strip = t.stillStrips(d.strip, text)
	}
	d.setQuick()
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

// stillStrips returns how often the start of a text may still have to be left out if the
// prompt, which is read from its end, has this token.
func (t *Tokenizer) stillStrips(left int, text []byte) int {
	for left > 0 && len(text) > 0 {
		rest, ok := bytes.CutPrefix(text, []byte(t.decoding.strip))
		if !ok {
			return 0
		}
		text = rest
		left--
	}
	return left
}

func (d *Decoder) skips(id int32, e entry) bool {
	return e.flags&known == 0 || d.opt.SkipSpecial && e.flags&special != 0 && !slices.Contains(d.opt.Show, id)
}

// Append decodes one more token and appends the text that became final to dst.
// It allocates only if dst is full or the text that waits outgrows its buffer.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	if e := d.t.vocab.at(id); d.quick && len(d.held) == 0 && e.flags&(whole|isByte|added) == whole {
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
	n := len(d.held)
	if d.t.decoding.stop > 0 {
		n -= d.t.decoding.trailing(d.held)
	}
	dst = appendLossy(dst, d.held[:n])
	d.held = d.held[:copy(d.held, d.held[n:])]
	d.run = len(d.held)
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
	dec := &d.t.decoding
	switch {
	case dec.dedup || dec.byLast:
		d.pushAlone(id, e)
	case d.place == atStart:
		first, _, _ := dec.text(e.spelled, decodePlace{first: true})
		d.held = append(d.held, first...)
	case d.opt.JoinSpecial && before && d.added:
		d.held = append(d.held, e.spelled...)
	default:
		d.held = append(d.held, text...)
	}
	d.place = later
	d.settle()
}

// pushAlone appends the text of a token of BPEDecoder or CTC.
func (d *Decoder) pushAlone(id int32, e entry) {
	dec := &d.t.decoding
	repeated := dec.dedup && d.last == id
	if d.last = id; repeated {
		return
	}
	text, _, _ := dec.text(e.spelled, decodePlace{})
	if dec.byLast {
		last, _, _ := dec.text(e.spelled, decodePlace{last: true})
		n := commonPrefix(text, last)
		d.held = append(d.held, d.tail...)
		text, d.tail, d.ending = text[:n], text[n:], last[n:]
	}
	d.held = append(d.held, text...)
}

// endRun turns the bytes of a run of <0xNN> tokens into text.
func (d *Decoder) endRun() {
	run := d.held[d.run:]
	if len(run) == 0 || d.t.byteLevel {
		return
	}
	dec := &d.t.decoding
	first := d.place == inFirstRun
	if !utf8.Valid(run) {
		n := len(run)
		d.held = d.held[:d.run]
		for i := range n { // each of them is a token to the decoders that follow
			if unchanged(dec.after, "\uFFFD") {
				d.held = append(d.held, "\uFFFD"...)
			} else {
				d.held = append(d.held, applySteps(dec.after, "\uFFFD", decodePlace{first: first && i == 0})...)
			}
		}
	} else if !unchanged(dec.after, run) {
		d.held = append(d.held[:d.run], applySteps(dec.after, string(run), decodePlace{first: first})...)
	}
	d.broken = false
	d.settle()
}

// settle ends what was added at d.run as text.
func (d *Decoder) settle() {
	strip := []byte(d.t.decoding.strip)
	for d.strip > 0 && len(d.held) > d.run {
		if d.strip--; !bytes.HasPrefix(d.held[d.run:], strip) {
			d.strip = 0
			break
		}
		d.held = append(d.held[:d.run], d.held[d.run+len(strip):]...)
	}
	d.run = len(d.held)
	d.setQuick()
}
