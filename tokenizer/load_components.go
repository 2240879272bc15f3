package tokenizer

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"weir/internal/jsontext"
)

func unsupported(kind string, c *component, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	if detail != "" {
		detail = ": " + detail
	}
	return fmt.Errorf("%w: %s %.200q%s", ErrUnsupported, kind, c.Type, detail)
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

func (t *Tokenizer) loadPreTokenizers(f *file) error {
	for _, c := range flatten(nil, f.PreTokenizer, func(c *component) []component { return c.PreTokenizers }) {
		if t.byteLevel {
			return unsupported("pre-tokenizer", &c, "ByteLevel has to be the last one")
		}
		t.byteLevel = c.Type == "ByteLevel"
		if c.Type == "BertPreTokenizer" {
			t.stages = append(t.stages, stage{split: &splitter{spaces, removed, false}}, stage{split: &splitter{punctuation, isolated, false}})
			t.shrinks = true
			continue
		}
		st, err := c.stage()
		if err != nil {
			return err
		}
		if st.split != nil && st.split.behaviour == removed {
			t.shrinks = true
		}
		if st.rewrite != nil || st.split != nil {
			t.stages = append(t.stages, st)
		}
	}
	if f.userPieces != nil {
		t.userWords = f.userPieces.ids
		t.stages = append(t.stages, stage{split: &splitter{matcher: f.userPieces}})
	}
	if mark := f.wordMark; mark != "" {
		t.stages = append(t.stages, stage{rewrite: func(s string, _ bool) string { return mark + s }})
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
			return st, unsupported("pre-tokenizer", c, "behavior %.200q", c.Behavior)
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
		st.split, err = c.splitter()
	}
	return st, err
}

// splitter returns the splitter that a pre-tokenizer without a pattern stands for.
func (c *component) splitter() (*splitter, error) {
	switch c.Type {
	case "Whitespace":
		return &splitter{wordRuns{}, removed, true}, nil
	case "WhitespaceSplit":
		return &splitter{spaces, removed, false}, nil
	case "Punctuation":
		b, ok := behaviours[cmp.Or(c.Behavior, "Isolated")]
		if !ok {
			return nil, unsupported("pre-tokenizer", c, "behavior %.200q", c.Behavior)
		}
		return &splitter{punctuation, b, false}, nil
	case "CharDelimiterSplit":
		if utf8.RuneCountInString(c.Delimiter) != 1 {
			return nil, unsupported("pre-tokenizer", c, "delimiter %.200q", c.Delimiter)
		}
		return &splitter{literal(c.Delimiter), removed, false}, nil
	case "FixedLength":
		length := 5
		if c.Length != nil {
			length = *c.Length
		}
		if length < 1 {
			return nil, unsupported("pre-tokenizer", c, "length %d", length)
		}
		return &splitter{matcher: fixedLength(length)}, nil
	case "UnicodeScripts":
		return &splitter{scriptRuns{}, removed, true}, nil
	}
	return nil, unsupported("pre-tokenizer", c, "")
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
			return nil, unsupported("pre-tokenizer", c, "behavior %.200q of a pattern that matches between characters", c.Behavior)
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
		return m, unsupported(kind, c, "replacement %.200q, prepend_scheme %.200q", m.mark, m.scheme)
	}
	return m, nil
}

func (t *Tokenizer) loadPostProcessor(f *file) error {
	templates := 0
	for _, c := range flatten(nil, f.PostProcessor, func(c *component) []component { return c.Processors }) {
		switch c.Type {
		case "ByteLevel": // it trims offsets into the text, which Encode does not return
		case "BertProcessing", "RobertaProcessing":
			if templates++; templates > 1 {
				return unsupported("post-processor", &c, "more than one")
			}
			if err := t.loadPair(&c); err != nil {
				return err
			}
			if t.pair.joined = true; c.Type == "RobertaProcessing" {
				t.pair.pieces = t.robertaPair()
			}
		case "TemplateProcessing":
			if templates++; templates > 1 {
				return unsupported("post-processor", &c, "more than one")
			}
			if err := t.loadTemplate(&c); err != nil {
				return err
			}
			t.loadPairTemplate(&c)
		default:
			return unsupported("post-processor", &c, "")
		}
	}
	return nil
}

// loadPair reads the two tokens that BERT puts around a text: ["[CLS]", 101] and ["[SEP]", 102].
func (t *Tokenizer) loadPair(c *component) error {
	for _, part := range []struct {
		name  string
		token []jsontext.RawMessage
		to    *[]int32
	}{{"cls", c.Cls, &t.prefix}, {"sep", c.Sep, &t.suffix}} {
		var name string
		id := int32(-1)
		if len(part.token) == 2 {
			if jsontext.Decode(part.token[0], &name) != nil || jsontext.Decode(part.token[1], &id) != nil {
				id = -1
			}
		}
		if t.vocab.at(id).flags&known == 0 {
			return fmt.Errorf("%w: %s of the post-processor %.200q is not a token and its id", ErrInvalid, part.name, c.Type)
		}
		*part.to = append(*part.to, id)
	}
	return nil
}

// maxAround bounds the tokens that a template puts around each text. Published ones have two or
// three, and a few bytes of a file can name thousands.
const maxAround = 1 << 10

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
			if len(ids) > maxAround-len(t.prefix)-len(t.suffix) {
				return unsupported("post-processor", c, "a template with more than %d tokens around the text", maxAround)
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
		return nil, fmt.Errorf("%w: the template's token %.200q is not listed", ErrInvalid, name)
	}
	for _, id := range tok.IDs {
		if t.vocab.at(id).flags&known == 0 {
			return nil, fmt.Errorf("%w: the template's token %.200q has the unknown id %d", ErrInvalid, name, id)
		}
	}
	return tok.IDs, nil
}
