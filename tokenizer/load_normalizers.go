package tokenizer

import (
	"encoding/base64"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func (t *Tokenizer) loadNormalizers(f *file) error {
	if n := f.normalize; n != nil {
		t.normalizers, t.shrinks = append(t.normalizers, n.normalize), n.merge || n.charsmap != nil
	}
	for _, c := range flatten(nil, f.Normalizer, func(c *component) []component { return c.Normalizers }) {
		if t.byteLevel {
			return unsupported("normalizer", &c, "ByteLevel has to be the last one")
		}
		if c.Type == "ByteLevel" { // as if it were a pre-tokenizer that cuts nothing
			if f.PreTokenizer != nil {
				return unsupported("normalizer", &c, "beside a pre-tokenizer")
			}
			t.byteLevel = true
			continue
		}
		list, err := c.normalizers()
		if err != nil {
			return err
		}
		t.normalizers = append(t.normalizers, list...)
		switch c.Type {
		case "NFC", "Prepend", "Lowercase": // a token still stands for a third of its bytes or more
		case "Replace":
			t.shrinks = t.shrinks || c.Pattern.String == nil || len(c.Content) < len(*c.Pattern.String)
		default:
			t.shrinks = true
		}
	}
	return nil
}

// normalizers returns the functions that a normalizer stands for.
func (c *component) normalizers() ([]normalizer, error) {
	switch c.Type {
	case "NFC":
		return []normalizer{nfc}, nil
	case "NFD":
		return []normalizer{normalForm(norm.NFD)}, nil
	case "NFKC":
		return []normalizer{normalForm(norm.NFKC)}, nil
	case "NFKD":
		return []normalizer{normalForm(norm.NFKD)}, nil
	case "Lowercase":
		return []normalizer{mapped(appendLower)}, nil
	case "StripAccents":
		return []normalizer{dropping(func(r rune) bool { return unicode.Is(unicode.M, r) })}, nil
	case "Strip":
		return []normalizer{strip(orTrue(c.StripLeft), orTrue(c.StripRight))}, nil
	case "Nmt":
		return []normalizer{mapped(appendNmt)}, nil
	case "Prepend":
		if len(c.Prepend) > maxReplacement {
			return nil, unsupported("normalizer", c, "a text of %d bytes", len(c.Prepend))
		}
		return []normalizer{prepend(c.Prepend)}, nil
	case "Replace":
		n, err := c.replace()
		return []normalizer{n}, err
	case "Precompiled":
		blob, err := base64.StdEncoding.DecodeString(c.Charsmap)
		if err != nil {
			return nil, unsupported("normalizer", c, "precompiled_charsmap: %v", err)
		}
		m, err := parseCharsmap(blob)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, nil
		}
		return []normalizer{m.byCluster}, nil
	case "BertNormalizer":
		return c.bert(), nil
	}
	return nil, unsupported("normalizer", c, "")
}

// bert returns the steps of BERT's normalizer.
func (c *component) bert() (list []normalizer) {
	lower := orTrue(c.Lowercase)
	accents := lower
	if c.StripAccents != nil {
		accents = *c.StripAccents
	}
	if orTrue(c.CleanText) {
		list = append(list, mapped(appendClean))
	}
	if orTrue(c.HandleChinese) {
		list = append(list, mapped(appendChinese))
	}
	if accents {
		list = append(list, normalForm(norm.NFD), dropping(func(r rune) bool { return unicode.Is(unicode.Mn, r) }))
	}
	if lower {
		list = append(list, mapped(appendLower))
	}
	return list
}

// replace returns the function of a Replace.
func (c *component) replace() (normalizer, error) {
	if len(c.Content) > maxReplacement {
		return nil, unsupported("normalizer", c, "a replacement of %d bytes", len(c.Content))
	}
	switch p := c.Pattern; {
	case p.String != nil && *p.String != "":
		return replace(*p.String, c.Content), nil
	case p.Regex == nil:
		return nil, unsupported("normalizer", c, "an empty pattern")
	}
	re, err := compileRegex(*c.Pattern.Regex)
	if err != nil {
		return nil, unsupported("normalizer", c, "regular expression %v", err)
	}
	return replaceMatches(re, c.Content), nil
}

// replaceMatches replaces all matches of a regular expression.
func replaceMatches(re *regex, to string) normalizer {
	return func(allow *allowance, s string) string {
		if allow == nil { // of the content of an added token
			allow = &allowance{rest: stepsPerText}
		}
		allow.add(stepsPerByte * len(s))
		var b strings.Builder
		kept := 0
		swell := swelling{allow: allow}
		for i := 0; i < len(s) && !allow.spent() && swell.ok(b.Len(), kept); {
			start := i
			end := re.match(s, i, allow)
			if end == i {
				if start = re.find(s, i+1, allow); start == len(s) {
					break
				}
				end = re.match(s, start, allow)
			}
			b.WriteString(s[kept:start])
			b.WriteString(to)
			i, kept = max(end, start+1), end
		}
		if kept == 0 {
			return s
		}
		b.WriteString(s[kept:])
		return b.String()
	}
}
