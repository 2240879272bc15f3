package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// loadDecoder brings the decoder chain into the form of decoding. Chains that cannot
// be decoded token by token are refused.
func (t *Tokenizer) loadDecoder(f *file) error {
	list := flatten(nil, f.Decoder, func(c *component) []component { return c.Decoders })
	chain := decoderChain{decoding: &t.decoding}
	for i := range list {
		if err := chain.add(&list[i]); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		t.decoding.after, t.decoding.byFirst = []decodeStep{{kind: stepJoin}}, true
	}
	if t.decoding.byteLevel != t.byteLevel {
		return fmt.Errorf("%w: a ByteLevel pre-tokenizer or decoder without the other", ErrUnsupported)
	}
	return nil
}

// decoderChain collects the decoders of a file, one after the other.
type decoderChain struct {
	*decoding
	length int
	fused  bool // a Fuse has been added
	alone  bool // a decoder that has to be the only one
}

func (d *decoderChain) add(c *component) error {
	refuse := func(why string) error { return unsupported("decoder", c, "%s", why) }
	if d.length++; d.alone && c.Type != "Fuse" {
		return refuse("after a decoder that has to be the only one")
	}
	switch c.Type {
	case "ByteLevel", "BPEDecoder", "CTC":
		if d.alone = true; d.length > 1 {
			return refuse("not the only one")
		}
		d.addAlone(c)
		return nil
	case "Fuse":
		d.fused = true
		return nil
	case "ByteFallback":
		return d.addFallback(c)
	case "Strip":
		if d.fused {
			return d.addStrip(c)
		}
	case "Replace":
		if s := c.Pattern.String; d.fused && (s == nil || utf8.RuneCountInString(*s) != 1 || d.strip != "") {
			return refuse("after Fuse, of more than one character, or after Strip")
		}
	default:
		if d.fused {
			return refuse("after Fuse")
		}
	}
	step, err := c.step()
	if err != nil {
		return err
	}
	if d.fallback {
		// The text of several bytes may come in parts, which must not matter.
		if step.kind != stepMetaspace && (step.kind != stepReplace || utf8.RuneCountInString(step.from) != 1) {
			return refuse("after ByteFallback, other than of single characters")
		}
		d.after = append(d.after, step)
	} else {
		d.before = append(d.before, step)
	}
	d.byFirst = d.byFirst || step.kind == stepMetaspace || step.kind == stepWordPiece
	return nil
}

// addFallback adds a ByteFallback.
func (d *decoderChain) addFallback(c *component) error {
	if d.fused || d.fallback {
		return unsupported("decoder", c, "twice or after Fuse")
	}
	if slices.ContainsFunc(d.before, func(st decodeStep) bool { return st.kind == stepWordPiece }) {
		return unsupported("decoder", c, "after WordPiece")
	}
	d.fallback = true
	return nil
}

// addAlone adds a decoder that has to be the only one.
func (d *decoderChain) addAlone(c *component) {
	switch c.Type {
	case "ByteLevel":
		d.byteLevel = true
	case "BPEDecoder":
		d.byLast = true
		d.after = []decodeStep{{kind: stepSuffix, from: orText(c.Suffix, "</w>")}}
	case "CTC":
		d.dedup = true
		d.after = []decodeStep{{kind: stepCTC, from: orText(c.PadToken, "<pad>"), to: orText(c.WordDelimiter, "|"), cleanup: orTrue(c.Cleanup)}}
	}
}

// addStrip adds a Strip of the whole text.
func (d *decoderChain) addStrip(c *component) error {
	if d.strip != "" || c.Start < 0 || c.Stop < 0 || utf8.RuneCountInString(c.Content) != 1 {
		return unsupported("decoder", c, "twice, or of other than one character")
	}
	d.strip, d.start, d.stop = c.Content, c.Start, c.Stop
	return nil
}

// step returns the step that a decoder of single tokens stands for.
func (c *component) step() (decodeStep, error) {
	switch c.Type {
	case "Replace":
		return c.replaceStep()
	case "Metaspace":
		m, err := c.metaspace("decoder")
		st := decodeStep{kind: stepReplace, from: m.mark, to: " "}
		if m.scheme != "never" {
			st.kind = stepMetaspace
		}
		return st, err
	case "Strip":
		if utf8.RuneCountInString(c.Content) != 1 || c.Start < 0 || c.Stop < 0 {
			return decodeStep{}, unsupported("decoder", c, "of other than one character")
		}
		return decodeStep{kind: stepStrip, from: c.Content, start: c.Start, stop: c.Stop}, nil
	case "WordPiece":
		return decodeStep{kind: stepWordPiece, from: orText(c.Prefix, "##"), cleanup: orTrue(c.Cleanup)}, nil
	}
	return decodeStep{}, unsupported("decoder", c, "")
}

// maxReplacement bounds what a Replace puts in the place of a character, in bytes.
const maxReplacement = 256

func (c *component) replaceStep() (decodeStep, error) {
	if len(c.Content) > maxReplacement {
		return decodeStep{}, unsupported("decoder", c, "a replacement of %d bytes", len(c.Content))
	}
	switch p := c.Pattern; {
	case p.String != nil && *p.String != "":
		return decodeStep{kind: stepReplace, from: *p.String, to: c.Content}, nil
	case p.Regex == nil:
		return decodeStep{}, unsupported("decoder", c, "an empty pattern")
	}
	re, err := compileRegex(*c.Pattern.Regex)
	if err != nil {
		return decodeStep{}, unsupported("decoder", c, "regular expression %v", err)
	}
	return decodeStep{kind: stepMatches, re: re, to: c.Content}, nil
}
