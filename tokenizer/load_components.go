package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

func unsupported(kind string, c *component, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	if detail != "" {
		detail = ": " + detail
	}
	return fmt.Errorf("%w: %s %q%s", ErrUnsupported, kind, c.Type, detail)
}

// flatten appends c to dst. A Sequence is replaced by what it holds, at any depth.
func flatten(dst []component, c *component, children func(*component) []component) []component {
	if c == nil {
		return dst
	}
	if c.Type != "Sequence" {
		return append(dst, *c)
	}
	list := children(c)
	for i := range list {
		dst = flatten(dst, &list[i], children)
	}
	return dst
}

func (t *Tokenizer) loadNormalizers(f *file) error {
	for _, c := range flatten(nil, f.Normalizer, func(c *component) []component { return c.Normalizers }) {
		switch c.Type {
		case "NFC":
			t.normalizers = append(t.normalizers, nfc)
		case "Prepend":
			t.normalizers = append(t.normalizers, prepend(c.Prepend))
		case "Replace":
			if c.Pattern.String == nil || *c.Pattern.String == "" {
				return unsupported("normalizer", &c, "a pattern that is not a string")
			}
			t.normalizers = append(t.normalizers, replace(*c.Pattern.String, c.Content))
		default:
			return unsupported("normalizer", &c, "")
		}
	}
	return nil
}

func (t *Tokenizer) loadPreTokenizers(f *file) error {
	for _, c := range flatten(nil, f.PreTokenizer, func(c *component) []component { return c.PreTokenizers }) {
		if t.byteLevel {
			return unsupported("pre-tokenizer", &c, "ByteLevel has to be the last one")
		}
		t.byteLevel = c.Type == "ByteLevel"
		st, err := c.stage()
		if err != nil {
			return err
		}
		if st.rewrite != nil || st.split != nil {
			t.stages = append(t.stages, st)
		}
	}
	return nil
}

// stage returns the stage that a pre-tokenizer stands for.
func (c *component) stage() (st stage, err error) {
	switch c.Type {
	case "ByteLevel":
		if c.AddPrefixSpace != nil && *c.AddPrefixSpace {
			st.rewrite = prefixSpace
		}
		if c.UseRegex == nil || *c.UseRegex {
			st.split = &splitter{matcher: knownPattern(gpt2Pattern)}
		}
	case "Digits":
		st.split = &splitter{matcher: classRun{number, 0}}
		if c.IndividualDigits {
			st.split.matcher = classRun{number, 1}
		}
	case "Split":
		m, err := splitPattern(c)
		if err != nil {
			return st, err
		}
		b, ok := behaviours[c.Behavior]
		if !ok {
			return st, unsupported("pre-tokenizer", c, "behavior %q", c.Behavior)
		}
		st.split = &splitter{m, b, c.Invert}
	case "Metaspace":
		meta, err := c.metaspace("pre-tokenizer")
		if err != nil {
			return st, err
		}
		st.rewrite = meta.rewrite
		if c.Split == nil || *c.Split {
			st.split = &splitter{matcher: literal(meta.mark), behaviour: mergedWithNext}
		}
	default:
		return st, unsupported("pre-tokenizer", c, "")
	}
	return st, nil
}

func splitPattern(c *component) (matcher, error) {
	switch {
	case c.Pattern.String != nil && *c.Pattern.String != "":
		return literal(*c.Pattern.String), nil
	case c.Pattern.Regex == nil:
		return nil, unsupported("pre-tokenizer", c, "an empty pattern")
	}
	if m := knownPattern(*c.Pattern.Regex); m != nil {
		if _, between := m.(digitSplits); between && (c.Behavior != "Isolated" || c.Invert) {
			return nil, unsupported("pre-tokenizer", c, "behavior %q of a pattern that matches between characters", c.Behavior)
		}
		return m, nil
	}
	re, err := compileRegex(*c.Pattern.Regex)
	if err != nil {
		return nil, unsupported("pre-tokenizer", c, "regular expression %v", err)
	}
	return re, nil
}

// metaspace reads the fields of a Metaspace; add_prefix_space is their older form.
func (c *component) metaspace(kind string) (metaspace, error) {
	m := metaspace{c.Replacement, c.PrependScheme}
	if m.scheme == "" {
		m.scheme = "always"
		if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
			m.scheme = "never"
		}
	} else if c.AddPrefixSpace != nil && !*c.AddPrefixSpace && m.scheme != "never" {
		return m, unsupported(kind, c, "add_prefix_space does not match prepend_scheme")
	}
	known := m.scheme == "always" || m.scheme == "first" || m.scheme == "never"
	if utf8.RuneCountInString(m.mark) != 1 || !known {
		return m, unsupported(kind, c, "replacement %q, prepend_scheme %q", m.mark, m.scheme)
	}
	return m, nil
}

func (t *Tokenizer) loadPostProcessor(f *file) error {
	templates := 0
	for _, c := range flatten(nil, f.PostProcessor, func(c *component) []component { return c.Processors }) {
		switch c.Type {
		case "ByteLevel": // it trims offsets into the text, which Encode does not return
		case "TemplateProcessing":
			if templates++; templates > 1 {
				return unsupported("post-processor", &c, "more than one")
			}
			if err := t.loadTemplate(&c); err != nil {
				return err
			}
		default:
			return unsupported("post-processor", &c, "")
		}
	}
	return nil
}

// loadTemplate reads a template such as [BOS] $A [EOS]: what is before the text $A is
// the prefix, what is after it the suffix.
func (t *Tokenizer) loadTemplate(c *component) error {
	texts := 0
	for _, p := range c.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A":
			texts++
		case p.SpecialToken != nil:
			ids, err := t.templateToken(c, p.SpecialToken.ID)
			if err != nil {
				return err
			}
			if texts == 0 {
				t.prefix = append(t.prefix, ids...)
			} else {
				t.suffix = append(t.suffix, ids...)
			}
		default:
			return unsupported("post-processor", c, "a template piece that is neither $A nor a token")
		}
	}
	if texts != 1 {
		return unsupported("post-processor", c, "a template with the text %d times", texts)
	}
	return nil
}

// templateToken returns the ids of a token that a template names.
func (t *Tokenizer) templateToken(c *component, name string) ([]int32, error) {
	tok, ok := c.SpecialTokens[name]
	if !ok {
		return nil, fmt.Errorf("%w: the template's token %q is not listed", ErrInvalid, name)
	}
	for _, id := range tok.IDs {
		if t.vocab.at(id).flags&known == 0 {
			return nil, fmt.Errorf("%w: the template's token %q has the unknown id %d", ErrInvalid, name, id)
		}
	}
	return tok.IDs, nil
}

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
	switch {
	case len(list) == 0:
		return fmt.Errorf("%w: a file without a decoder", ErrUnsupported)
	case t.decoding.byteLevel != t.byteLevel:
		return fmt.Errorf("%w: a ByteLevel pre-tokenizer or decoder without the other", ErrUnsupported)
	}
	return nil
}

// decoderChain collects the decoders of a file, one after the other.
type decoderChain struct {
	*decoding
	length int
	fused  bool // a Fuse has been added
}

func (d *decoderChain) add(c *component) error {
	refuse := func(why string) error { return unsupported("decoder", c, "%s", why) }
	if d.length++; d.byteLevel && c.Type != "Fuse" {
		return refuse("after ByteLevel")
	}
	switch c.Type {
	case "ByteLevel":
		if d.length > 1 {
			return refuse("not the only one")
		}
		d.byteLevel = true
	case "ByteFallback":
		if d.fused || d.fallback {
			return refuse("twice or after Fuse")
		}
		d.fallback = true
	case "Replace":
		if c.Pattern.String == nil || *c.Pattern.String == "" {
			return refuse("a pattern that is not a string")
		}
		if d.fused || d.from != "" {
			return refuse("twice or after Fuse")
		}
		d.from, d.to, d.inRuns = *c.Pattern.String, c.Content, d.fallback
	case "Metaspace":
		m, err := c.metaspace("decoder")
		if err != nil {
			return err
		}
		if d.fused || d.from != "" {
			return refuse("beside Replace or after Fuse")
		}
		d.from, d.to, d.inRuns, d.dropFirst = m.mark, " ", d.fallback, m.scheme != "never"
	case "Fuse":
		d.fused = true
	case "Strip":
		if !d.fused || d.strip != "" || !c.stripsOneAtStart() {
			return refuse("other than of one character at the start of the whole text")
		}
		if c.Start == 1 {
			d.strip = c.Content
		}
	default:
		return unsupported("decoder", c, "")
	}
	return nil
}

// stripsOneAtStart reports whether a Strip takes away at most one character, and only
// from the start.
func (c *component) stripsOneAtStart() bool {
	return 0 <= c.Start && c.Start <= 1 && c.Stop == 0 && utf8.RuneCountInString(c.Content) == 1
}
